/** The stage between reserve and settle: passes a backend's events on, one start first and one finish last, and charges for them. */

import { toGatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keep } from "../ports/keep.ts";
import type { Hold } from "./hold.ts";
import { Interruptible } from "./interruptible.ts";
import type { Meter } from "./meter.ts";

export interface MeteredOptions<Event, Answered> {
  readonly hold: Hold;
  readonly meter: Meter<Event, Answered>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Told when the backend is done and its hold is settled, before the finish is handed on. */
  readonly complete: () => void;
  /** Is given what a backend still does when nobody waits for it any more. */
  readonly keep: Keep;
  /**
   * How long the first event may take before the answer begins without it, in milliseconds; undefined waits for ever. Until
   * the answer begins, a failure can still choose its status.
   */
  readonly quietMs: number | undefined;
}

/** After how many events the event loop has its turn, so that a backend that never waits cannot keep a hang-up from being seen. */
const EVENTS_A_TURN = 256;

/**
 * Runs a backend under its hold. The hold is settled before the finish is handed on, so a caller that has seen the end of
 * its answer sees the charge in its balance. However the iteration ends, the hold is settled.
 */
export async function* metered<Event, Answered>(
  answer: () => AsyncIterable<Event>,
  { hold, meter, clock, signal, complete, keep, quietMs }: MeteredOptions<Event, Answered>,
): AsyncGenerator<Answered, void, undefined> {
  const release = hold.keepAlive(() => meter.units);
  let source: Interruptible<Event> | undefined;
  try {
    source = new Interruptible(answer(), signal, keep);
    const first = source.next();
    const opening = await (quietMs === undefined ? first : withinQuiet(first, quietMs, clock));
    yield meter.start(opening?.done === false ? opening.value : undefined);

    let count = 0;
    for (let step = await first; !step.done; step = await source.next()) {
      const passed = meter.observe(step.value);
      if (passed !== undefined) yield passed;
      if (meter.overrun) break;
      if (++count % EVENTS_A_TURN === 0) await nextTurn();
    }

    meter.complete();
    await hold.settle(meter.units, meter.certainty);
    complete();
    yield meter.finish();
  } catch (error) {
    throw toGatewayError(error, "backend_failed");
  } finally {
    // Reached too when the backend fails or the client hangs up: what was generated is charged.
    release();
    source?.stop();
    await hold.settle(meter.units, meter.certainty);
  }
}

// A timer, because it is the one way to the next turn of the event loop that every runtime has.
const nextTurn = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve));

/** The first step, or undefined when it takes longer than the quiet that is allowed. */
async function withinQuiet<T>(first: Promise<T>, quietMs: number, clock: Clock): Promise<T | undefined> {
  let cancel: (() => void) | undefined;
  const quiet = new Promise<undefined>((resolve) => {
    cancel = clock.after(quietMs, () => resolve(undefined));
  });
  try {
    return await Promise.race([first, quiet]);
  } finally {
    cancel?.();
  }
}
