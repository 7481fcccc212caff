/** Holds the tools and schemas of a request to a size, before a step walks over them: a schema's walks cost more than other JSON's. */

import { GatewayError } from "../../errors.ts";
import { assertJsonBounds, isJsonObject, JsonLimitError } from "../../model/json.ts";
import type { Incoming } from "../dialect.ts";

/**
 * Throws `invalid_request` where the named fields of a body hold more values together than `maxSchemaValues`, or more characters than
 * `maxSchemaChars`.
 *
 * @param fields The paths of the fields that hold tools and schemas, such as `tools`. The error names the first that the body has.
 */
export function assertSchemaSize(body: unknown, fields: readonly string[], { json, limits }: Incoming): void {
  const { maxSchemaValues, maxSchemaChars } = limits;
  // A body that holds no more in all needs no count.
  if (json.values <= maxSchemaValues && json.chars <= maxSchemaChars) return;
  const present = fields.map((field) => field.split(".")).filter((path) => valueAt(body, path) != null);
  try {
    const held = present.map((path) => valueAt(body, path));
    const maxJsonDepth = limits.maxJsonDepth + 1;
    assertJsonBounds(held, { ...limits, maxJsonDepth, maxJsonValues: maxSchemaValues, maxJsonBytes: maxSchemaChars });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const [path = []] = present;
    const message = `${path.join(".")}: ${error.message}, with all tools and schemas of the request`;
    throw new GatewayError("invalid_request", message, { path });
  }
}

function valueAt(body: unknown, path: readonly string[]): unknown {
  let value = body;
  for (const name of path) value = isJsonObject(value) ? value[name] : undefined;
  return value;
}
