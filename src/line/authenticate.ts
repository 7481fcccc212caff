/** The step that finds out whose call it is (spec 5). */

import { GatewayError } from "../errors.ts";
import { withoutPrefix } from "../http/credential.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";

/**
 * The caller's key, for which the call is counted from now on. Throws `missing_api_key`, `malformed_credential`, `invalid_api_key`,
 * `expired_api_key`, or `busy` where the key has as many calls in flight as it may.
 */
export async function authenticate(call: Call, expiredKeysMayAsk = false): Promise<ApiKey> {
  const { quotas, clock, inFlight } = call.services;
  const credential = call.endpoint.credential(call.request);
  if (!credential) throw new GatewayError("missing_api_key", "No API key was given.");
  call.secret = credential;
  const key = await askStore(call, "quota-store", "find", () => quotas.find(withoutPrefix(credential), call.details));
  call.assertLive();
  if (!key) throw new GatewayError("invalid_api_key", "The API key is not valid.");
  if (!expiredKeysMayAsk && key.expiresAt > 0 && key.expiresAt * 1000 <= clock.now())
    throw new GatewayError("expired_api_key", "The API key has expired.");
  call.key = key;
  if (call.place) inFlight.admit(call.place, key.id);
  return key;
}
