/** polygate/openapi: describes a gateway to tools that read OpenAPI. Needs the optional peer `@valibot/to-json-schema`. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export { openApiDocument, type OpenApiOptions } from "./document.ts";
export type {
  ApiResponse,
  Example,
  JsonSchema,
  MediaType,
  OpenApiDocument,
  Operation,
  Parameter,
  Reference,
  Server,
  Tag,
} from "../formats/shared/openapi.ts";
