/** Reads a request's body chunk by chunk: books what comes, and stops at once when it stalls, crawls or is not waited for. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { BodyLease } from "./body-room.ts";
import { Wait } from "./within.ts";

/** Under which terms a body is taken in. */
export interface BodyIntake {
  /** Where its bytes are booked as they come. */
  readonly lease: BodyLease;
  /** Ends the reading with its reason, even while the client sends nothing. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How long a body may be silent, in milliseconds. */
  readonly stallMs: number;
  /** How many bytes must come for each second, measured over windows of ten seconds and more. */
  readonly minBytesPerSecond: number;
  /** Has something let go of when nobody waits for the body any more. */
  defer(release: () => void): void;
}

/** The shortest time over which a body's rate is measured, in milliseconds: a connection has to get going, and may pause. */
const WINDOW_MS = 10_000;

/**
 * A body's chunks as they arrive. Throws the signal's reason as soon as it fires; `deadline_exceeded` when nothing comes for too
 * long, or too little; `busy` or `body_too_large` when there is no room; `client_closed` or `malformed_body` when the body breaks
 * off. However it ends, the body is let go of.
 */
export async function* chunksOf(request: Request, intake: BodyIntake): AsyncGenerator<Uint8Array> {
  if (request.body === null) return;
  const { signal, clock, stallMs, lease } = intake;
  const reader = request.body.getReader();
  let wait: Wait<ReadableStreamReadResult<Uint8Array>> | undefined;
  const onAbort = (): void => wait?.reject(signal.reason);
  signal.addEventListener("abort", onAbort);
  // Not Promise.race with one lasting promise: that would hold on to every chunk until the end.
  const next = (): Promise<ReadableStreamReadResult<Uint8Array>> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const waiting = (wait = new Wait(resolve, reject));
      waiting.whenOver(clock.after(stallMs, () => waiting.reject(stalled(stallMs))));
      waiting.for(reader.read());
    });
  const assertRate = rateOf(intake);
  try {
    for (let step = await next(); !step.done; step = await next()) {
      lease.take(step.value.length);
      assertRate(step.value.length);
      yield step.value;
    }
  } catch (cause) {
    throw signal.aborted ? signal.reason : brokenOff(request, cause);
  } finally {
    signal.removeEventListener("abort", onAbort);
    letGo(reader);
  }
}

/** Holds a body to its least rate, window by window: what came fast before does not excuse a body that crawls now. */
function rateOf({ clock, minBytesPerSecond }: BodyIntake): (bytes: number) => void {
  let begin = clock.now();
  let received = 0;
  return (bytes) => {
    received += bytes;
    const now = clock.now();
    // A clock may be set back.
    if (now < begin) begin = now;
    const elapsedMs = now - begin;
    if (elapsedMs <= WINDOW_MS) return;
    if (received * 1000 < minBytesPerSecond * elapsedMs)
      throw new GatewayError(
        "deadline_exceeded",
        `The request body comes too slowly: fewer than ${minBytesPerSecond} bytes a second.`,
      );
    begin = now;
    received = 0;
  };
}

/** The length that a request declares, in bytes; undefined where it declares none, or no number of HTTP's, which a host may let pass. */
export function declaredBytes(headers: Headers): number | undefined {
  const declared = headers.get("content-length");
  return declared !== null && /^\d+$/.test(declared) ? Number(declared) : undefined;
}

/** What a body that could not be read to its end is to its caller. */
export function brokenOff(request: Request, cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause;
  return request.signal.aborted
    ? new GatewayError("client_closed", "The client closed the connection.", { cause })
    : new GatewayError("malformed_body", "The request body could not be read to its end.", { cause });
}

/** Let go of, not cancelled: on Node that would close the connection before the caller is told. */
function letGo(reader: ReadableStreamDefaultReader): void {
  try {
    reader.releaseLock();
  } catch {
    // workerd does not part them while a read is under way; there the request ends all of it.
  }
}

/** The error of a body of which nothing comes any more. */
export const stalled = (stallMs: number): GatewayError =>
  new GatewayError("deadline_exceeded", `Nothing of the request body came for ${Math.ceil(stallMs / 1000)} seconds.`);
