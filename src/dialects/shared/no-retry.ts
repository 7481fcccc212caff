/** Which errors tell the official SDKs not to ask again, by the header `x-should-retry`. */

import type { GatewayErrorCode } from "../../errors.ts";

/**
 * The errors that no retry helps with: waiting does not refill a quota, free a key that is used up, or make a wrong credential
 * right. The official SDKs would retry a 429 or a 409 three times, and agents that are built on them a 401 ten times.
 */
export const NO_RETRY: ReadonlySet<GatewayErrorCode> = new Set([
  "missing_api_key",
  "malformed_credential",
  "invalid_api_key",
  "expired_api_key",
  "quota_exhausted",
  "quota_insufficient",
  "idempotency_key_reused",
]);
