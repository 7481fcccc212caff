/** Admits and reads a request's body: books room for the body, refuses a large body of a key that cannot pay, and reads it. */

import { GatewayError } from "../errors.ts";
import type { BodyLease } from "../http/body-room.ts";
import { type BodyIntake, declaredBytes, parseJsonText, readJsonText } from "../http/body.ts";
import type { Clock } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { refusalOf } from "./reserve.ts";

/**
 * Reads the body into `call.rawBody`: a JSON text or a form.
 *
 * A large body, or a body of unknown length, is read only for a key that has quota left: throws `quota_exhausted` or `quota_held`. For a
 * medium body, and for any body of a key that had no quota left a moment ago, the store is asked while the body is read.
 *
 * @returns A promise that must resolve before the body is parsed, with the same errors; undefined for a key that need not be asked for.
 */
export async function readBody(call: Call, key: ApiKey): Promise<{ readonly solvency: Promise<void> | undefined }> {
  const { endpoint, limits, request, services } = call;
  let solvency: Promise<void> | undefined;
  if (!key.unlimited) {
    const bytes = declaredBytes(request.headers) ?? Number.POSITIVE_INFINITY;
    if (bytes > limits.largeBodyBytes) await assertSolvent(call, key);
    // Token counts are free, also for a key with no quota left, as long as they are little work.
    else if (bytes > limits.mediumBodyBytes || (endpoint.kind !== "query" && services.exhausted.has(key.id))) {
      solvency = assertSolvent(call, key);
      // The failure is met after the body was read.
      solvency.catch(() => {});
    }
  }
  const lease = services.bodies.lease(key.id);
  call.defer(() => lease[Symbol.dispose]());
  call.json.booking = lease;
  const intake = new Intake(call, lease);
  call.rawBody =
    endpoint.kind === "image" && endpoint.readForm
      ? await endpoint.readForm(request, intake)
      : await readJsonText(request, call.json.limits.maxJsonBytes, intake);
  call.assertLive();
  return { solvency };
}

/** Returns the parsed body, or the form, once: the text is dropped. Throws as `parseJsonText` does. */
export function parseBody(call: Call): unknown {
  const { rawBody } = call;
  call.rawBody = undefined;
  return typeof rawBody === "string" ? parseJsonText(rawBody, call.json) : rawBody;
}

/** The first and the longest pause before a read for which the bodies of a key leave no room is refused, in milliseconds. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 400;

/** Books room for a read that takes some milliseconds, as those of a burst do. Throws `busy` when there is none for most of a second. */
export async function takeSoon(call: Call, lease: BodyLease, bytes: number): Promise<void> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
    try {
      return lease.take(bytes);
    } catch (error) {
      if (pauseMs > LAST_PAUSE_MS || !(error instanceof GatewayError && error.code === "busy")) throw error;
      await call.pause(pauseMs);
      call.assertLive();
    }
  }
}

/** Throws `quota_exhausted` or `quota_held` when a key has no quota left. */
export async function assertSolvent(call: Call, key: ApiKey): Promise<void> {
  const { quotas, exhausted } = call.services;
  const balance = await askStore(call, "quota-store", "balance", () => quotas.balance(key.id, call.details));
  call.assertLive();
  // A key that was deleted meanwhile is refused when quota is reserved.
  if (!balance) return;
  exhausted.note(key.id, balance.available);
  if (balance.available <= 0) throw refusalOf(key, balance, 1);
}

/** The terms under which a body is read. A class, because an object with a getter of its own is slow to make. */
class Intake implements BodyIntake {
  readonly lease: BodyLease;
  readonly clock: Clock;
  readonly stallMs: number;
  readonly minBytesPerSecond: number;
  readonly #call: Call;

  constructor(call: Call, lease: BodyLease) {
    this.lease = lease;
    this.clock = call.clock;
    this.stallMs = call.limits.bodyStallMs;
    this.minBytesPerSecond = call.limits.minBodyBytesPerSecond;
    this.#call = call;
  }

  /** Created only when it is read: few bodies are large. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  defer(release: () => void): void {
    this.#call.defer(release);
  }
}
