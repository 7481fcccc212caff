/** Reads the body of a generate-content request in one go, where the format lets the event loop serve others between two steps. */

import { inCamelCase, validRequest } from "../../../src/formats/generate-content/request.ts";
import type { GenerateContentRequest } from "../../../src/formats/generate-content/schema.ts";

export const readBody = (raw: unknown, isCount = false): GenerateContentRequest =>
  validRequest(raw, inCamelCase(raw, isCount), isCount);
