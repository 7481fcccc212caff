/** polygate/openapi: describes a gateway to tools that read OpenAPI. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export { openApiDocument, type OpenApiOptions } from "./document.ts";
export type {
  ApiResponse,
  ErrorCause,
  Example,
  FormatDescription,
  FormatOperation,
  JsonSchema,
  MediaType,
  OpenApiDocument,
  Operation,
  Parameter,
  Reference,
  Server,
  SharedModels,
  Tag,
} from "../formats/shared/openapi.ts";
