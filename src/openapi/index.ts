/** polygate/openapi: describes a gateway's routes to tools that read OpenAPI. It needs the optional peer `@valibot/to-json-schema`. */

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
} from "./types.ts";
