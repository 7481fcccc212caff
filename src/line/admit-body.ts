/** The step before a body is read: room for it, and no large one for a key that cannot pay. */

import type { BodyIntake } from "../http/body-chunks.ts";
import type { BodyLease } from "../http/body-room.ts";
import type { Clock } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { refusalOf } from "./reserve.ts";

/**
 * The terms under which the call's body is taken in; what it books is given back when the call ends. Throws `quota_exhausted` or
 * `quota_held` for a large body, or one of unknown length, of a key with nothing left.
 */
export function admitBody(call: Call, key: ApiKey): BodyIntake | Promise<BodyIntake> {
  if (key.unlimited || !isLarge(call.request, call.limits.largeBodyBytes)) return intakeOf(call, key);
  return assertSolvent(call, key).then(() => intakeOf(call, key));
}

function intakeOf(call: Call, key: ApiKey): BodyIntake {
  const lease = call.services.bodies.lease(key.id);
  call.defer(() => lease[Symbol.dispose]());
  return new Intake(call, lease);
}

function isLarge({ headers }: Request, largeBodyBytes: number): boolean {
  const declared = headers.get("content-length");
  return declared === null || !(Number(declared) <= largeBodyBytes);
}

async function assertSolvent(call: Call, key: ApiKey): Promise<void> {
  const balance = await askStore(call, "quota-store", "balance", () =>
    call.services.quotas.balance(key.id, call.details),
  );
  call.assertLive();
  // A key that is gone by now is refused when it reserves.
  if (balance && balance.available <= 0) throw refusalOf(balance, 1);
}

/** Asks for the call's signal only where it is needed: few bodies are large. */
class Intake implements BodyIntake {
  readonly lease: BodyLease;
  readonly clock: Clock;
  readonly stallMs: number;
  readonly minBytesPerSecond: number;
  readonly #call: Call;

  constructor(call: Call, lease: BodyLease) {
    const { clock, limits } = call.services;
    this.lease = lease;
    this.clock = clock;
    this.stallMs = limits.bodyStallMs;
    this.minBytesPerSecond = limits.minBodyBytesPerSecond;
    this.#call = call;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  defer(release: () => void): void {
    this.#call.defer(release);
  }
}
