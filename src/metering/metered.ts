/** The stage between reserve and settle: passes a backend's events on, one start first and one finish last, and charges for them. */

import { toGatewayError } from "../errors.ts";
import type { AnswerEvent, ChatEvent } from "../model/event.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hold } from "./hold.ts";
import { Interruptible } from "./interruptible.ts";
import type { Meter } from "./meter.ts";

export interface MeteredOptions {
  readonly hold: Hold;
  readonly meter: Meter;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /**
   * How long the first event may take before the answer begins without it, in milliseconds; undefined waits for ever. Until
   * the answer begins, a failure can still choose its status.
   */
  readonly quietMs: number | undefined;
}

/**
 * Runs a backend under its hold. The hold is settled before the finish is handed on, so a caller that has seen the end of
 * its answer sees the charge in its balance. However the iteration ends, the hold is settled.
 */
export async function* metered(
  answer: () => AsyncIterable<ChatEvent | string>,
  { hold, meter, clock, signal, quietMs }: MeteredOptions,
): AsyncGenerator<AnswerEvent, void, undefined> {
  const release = hold.keepAlive(() => meter.charged);
  let source: Interruptible<ChatEvent | string> | undefined;
  try {
    source = new Interruptible(answer(), signal);
    const first = source.next();
    const opening = await (quietMs === undefined ? first : withinQuiet(first, quietMs, clock));
    const start =
      opening && !opening.done && typeof opening.value !== "string" && opening.value.type === "start"
        ? opening.value
        : undefined;
    if (start) meter.observe(start);
    yield {
      type: "start",
      id: start?.id,
      model: start?.model ?? hold.request.model,
      usage: { ...meter.usage, outputTokens: 0 },
    };

    for (let step = await first; !step.done; step = await source.next()) {
      const event = typeof step.value === "string" ? ({ type: "text-delta", text: step.value } as const) : step.value;
      if (event === start) continue;
      meter.observe(event);
      if (event.type !== "start" && event.type !== "usage" && event.type !== "finish") yield event;
    }

    meter.complete();
    await hold.settle(meter.charged, meter.certainty);
    yield { type: "finish", reason: meter.reason, stopSequence: meter.stopSequence, usage: meter.usage };
  } catch (error) {
    throw toGatewayError(error, "backend_failed");
  } finally {
    // Reached too when the backend fails or the client hangs up: what was generated is charged.
    release();
    source?.stop();
    await hold.settle(meter.charged, meter.certainty);
  }
}

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
