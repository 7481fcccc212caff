/** Decodes the errors of upstreams that speak chat completions. The upstream's own message stays in `cause`. */

import type { GatewayError } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";
import { decodeUpstreamError, retryAfterOf } from "../shared/errors.decode.ts";

/**
 * Decodes an error response of an upstream.
 *
 * @param body Parsed JSON, or a text.
 */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 without a JSON object comes from another kind of server, so it does not mean an unknown model.
  const isOtherServer = status === 404 && !isJsonObject(body);
  return decodeUpstreamError(isOtherServer ? 500 : status, body, retryAfterOf(headers));
}
