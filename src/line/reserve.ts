/** The step that sets quota aside before anything is spent. */

import { GatewayError, toGatewayError } from "../errors.ts";
import type { Amounts } from "../metering/price.ts";
import type { ApiKey, Refusal, Reservation } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { Hold } from "./hold.ts";

/** When a caller may come back for whom other calls hold what is left, in milliseconds. */
const HELD_RETRY_MS = 1_000;

/**
 * Holds as much of `atMost` as the key has, and `atLeast` that; the call's end settles the hold. Throws `quota_exhausted`,
 * `quota_insufficient` or `quota_held`, by what the store saw.
 */
export async function reserve(call: Call, key: ApiKey, amounts: Amounts): Promise<Hold> {
  const { quotas, limits } = call.services;
  const request = { id: call.id, keyId: key.id, ...amounts, leaseMs: limits.leaseMs };
  const ask = (): Promise<Reservation> => quotas.reserve(request, call.details);
  // A hold that comes when nobody waits for it any more is void.
  const reservation = await askStore(call, "quota-store", "reserve", ask, (late) =>
    late.refused ? undefined : new Hold(call, key.id, late.granted).settle(),
  );
  if (reservation?.refused) {
    call.services.exhausted.note(key.id, reservation.available);
    throw refusalOf(reservation, amounts.atLeast);
  }
  const granted = reservation?.granted;
  const hold = new Hold(call, key.id, granted);
  call.defer(() => hold.release());
  call.assertLive();
  assertGrant(granted, amounts);
  call.granted = granted;
  return hold;
}

/** Throws where a store grants what nobody has asked for: a call that ran on it could cost more than its key has. */
function assertGrant(granted: number, { atLeast, atMost }: Amounts): void {
  if (!Number.isSafeInteger(granted) || granted < atLeast || granted > atMost)
    throw toGatewayError(
      new RangeError(`The store granted ${granted} units, asked for ${atLeast} to ${atMost}.`),
      "quota-store",
    );
}

/** The error for a key that lacks `atLeast` units: what live holds may give back is not used up. */
export function refusalOf({ available, held }: Pick<Refusal, "available" | "held">, atLeast: number): GatewayError {
  if (available + held >= atLeast)
    return new GatewayError("quota_held", "The quota that is left of this API key is held by other calls of it.", {
      retryAfterMs: HELD_RETRY_MS,
    });
  return available + held > 0
    ? new GatewayError("quota_insufficient", "The remaining quota of this API key is too small for this request.")
    : new GatewayError("quota_exhausted", "The quota of this API key is used up.");
}
