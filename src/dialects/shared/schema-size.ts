/** Holds the tools and schemas of a request to a size, before a step walks over them: a schema's walks cost more than other JSON's. */

import { GatewayError } from "../../errors.ts";
import { assertJsonBounds, isJsonObject, JsonLimitError } from "../../model/json.ts";
import type { Incoming } from "../dialect.ts";

/**
 * Throws `invalid_request` where the named fields of a body hold more values together than `maxSchemaValues`.
 *
 * @param fields The fields that hold tools and schemas. The error names the first of them that the body has.
 */
export function assertSchemaSize(body: unknown, fields: readonly string[], { json, limits }: Incoming): void {
  // A body of no more values in all needs no count.
  if (json.values <= limits.maxSchemaValues || !isJsonObject(body)) return;
  const present = fields.filter((field) => body[field] != null);
  try {
    const held = present.map((field) => body[field]);
    assertJsonBounds(held, { ...limits, maxJsonValues: limits.maxSchemaValues, maxJsonDepth: limits.maxJsonDepth + 1 });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const [field = ""] = present;
    throw new GatewayError("invalid_request", `${field}: ${error.message}, with all tools and schemas of the request`, {
      path: [field],
    });
  }
}
