/** The errors of upstreams that speak the images format, as errors of the gateway's. Their own words stay in `cause`. */

import { GatewayError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { statusOf } from "../shared/openai-errors.ts";
import { emptyAccount, retryAfterOf, upstreamError } from "../shared/upstream.ts";
import { ImageFields } from "./schema.ts";

/** The error that an upstream answered with, by its status, headers and body (parsed JSON, or a text). */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // An answer in no known form tells of another server than a model's.
  const meant = status === 404 && !isJsonObject(wireError(body)) ? 500 : status;
  return decode(meant, body, retryAfterOf(headers));
}

/** The error that an upstream told of in the middle of its answer. */
export const decodeErrorBody = (body: JsonObject): GatewayError =>
  decode(statusOf(wireError(body) ?? {}), body, undefined);

function decode(status: number, body: unknown, retryAfterMs: number | undefined): GatewayError {
  const wire = wireError(body) ?? {};
  if ([wire["code"], wire["type"]].includes("insufficient_quota")) return emptyAccount(body);
  const error = upstreamError(status, body, retryAfterMs);
  const path = pathOf(wire["param"]);
  if (error.code !== "invalid_request" || !path) return error;
  const message = `${path.join(".")}: the model backend does not take this.`;
  return new GatewayError(error.code, message, { path, cause: body, port: "model-backend" });
}

function wireError(body: unknown): JsonObject | undefined {
  const error = isJsonObject(body) ? body["error"] : undefined;
  return isJsonObject(error) ? error : undefined;
}

const FIELDS: ReadonlySet<string> = new Set([...Object.keys(ImageFields.entries), "image", "mask"]);

/** The field that an upstream names, where callers know it too: `size`, `image.1`. */
function pathOf(param: unknown): (string | number)[] | undefined {
  const [, field = "", index] = /^(\w+)(?:\[\])?(?:\.(\d{1,3}))?$/.exec(typeof param === "string" ? param : "") ?? [];
  if (!FIELDS.has(field)) return undefined;
  return index === undefined ? [field] : [field, Number(index)];
}
