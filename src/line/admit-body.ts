/** The step before a body is read: books room for the body, and refuses a large one of a key that cannot pay. */

import { type BodyIntake, declaredBytes } from "../http/body-chunks.ts";
import type { BodyLease } from "../http/body-room.ts";
import type { Clock } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { refusalOf } from "./reserve.ts";

/** The terms under which a body is admitted. */
export interface Admission {
  /** The terms under which it is taken in; what it books is given back when the call ends. */
  readonly intake: BodyIntake;
  /**
   * Resolves when the store has told that the key has something left, before which the body must not be parsed; rejects with
   * `quota_exhausted` or `quota_held`. Undefined for a key that need not be asked for.
   */
  readonly solvency: Promise<void> | undefined;
}

/**
 * Lets a body in. A large body, or one of unknown length, is read only for a key that has something left: throws `quota_exhausted`
 * or `quota_held`. For one of middle size, and for any body of a key that had nothing left when it was last asked, the store is asked
 * while the body is read.
 */
export function admitBody(call: Call, key: ApiKey): Admission | Promise<Admission> {
  if (key.unlimited) return admit(call, key);
  const bytes = declaredBytes(call.request.headers) ?? Number.POSITIVE_INFINITY;
  const { largeBodyBytes, mediumBodyBytes } = call.limits;
  if (bytes > largeBodyBytes) return assertSolvent(call, key).then(() => admit(call, key));
  // Counting tokens is free, also for a key with nothing left, as long as it is little work.
  const isKnownExhausted = call.endpoint.kind !== "query" && call.services.exhausted.has(key.id);
  if (bytes <= mediumBodyBytes && !isKnownExhausted) return admit(call, key);
  const solvency = assertSolvent(call, key);
  // Its failure is met when the body has been read.
  solvency.catch(() => {});
  return admit(call, key, solvency);
}

function admit(call: Call, key: ApiKey, solvency?: Promise<void>): Admission {
  const lease = call.services.bodies.lease(key.id);
  call.defer(() => lease[Symbol.dispose]());
  return { intake: new Intake(call, lease), solvency };
}

async function assertSolvent(call: Call, key: ApiKey): Promise<void> {
  const { quotas, exhausted } = call.services;
  const balance = await askStore(call, "quota-store", "balance", () => quotas.balance(key.id, call.details));
  call.assertLive();
  // A key that is gone by now is refused when it reserves.
  if (!balance) return;
  exhausted.note(key.id, balance.available);
  if (balance.available <= 0) throw refusalOf(balance, 1);
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
