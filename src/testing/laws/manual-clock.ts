/** A clock that a test winds by hand, so that leases, deadlines and retries are tested without waiting. */

import { setImmediate } from "node:timers/promises";
import type { Cancel, Clock } from "../../index.ts";

/** A Clock on which time passes only when it is told to. */
export interface ManualClock extends Clock {
  /**
   * Lets `ms` milliseconds pass: fires the timers that come due, in the order of their times, and lets promises run on after each.
   * `advance(0)` lets promises run on without any time passing.
   */
  advance(ms: number): Promise<void>;
  /** The number of timers that wait to be fired: 0 when nothing was left behind. */
  readonly pending: number;
}

interface Timer {
  readonly callback: () => void;
  readonly everyMs: number | undefined;
  due: number;
}

/**
 * A clock that stands still until it is advanced.
 *
 * @param start Its first moment, in milliseconds since the Unix epoch; a day in 2026 unless told.
 * @example
 * const clock = manualClock();
 * clock.after(500, retry);
 * await clock.advance(500); // retry has run, and so have the promises that it resolved
 */
export function manualClock(start: number = Date.UTC(2026, 0, 1)): ManualClock {
  // The timers, in the order of their setting, which decides between timers of one moment.
  const timers = new Set<Timer>();
  let now = start;

  const set = (timer: Timer): Cancel => {
    timers.add(timer);
    return () => void timers.delete(timer);
  };

  function fireNext(until: number): boolean {
    let next: Timer | undefined;
    for (const timer of timers) if (timer.due <= until && (!next || timer.due < next.due)) next = timer;
    if (!next) return false;
    now = Math.max(now, next.due);
    timers.delete(next);
    if (next.everyMs !== undefined) timers.add(next);
    next.due += next.everyMs ?? 0;
    next.callback();
    return true;
  }

  return {
    now: () => now,
    after: (ms, callback) => set({ callback, everyMs: undefined, due: now + ms }),
    // A machine's interval has a shortest period too; without one, time would never pass.
    every: (ms, callback) => set({ callback, everyMs: Math.max(1, ms), due: now + Math.max(1, ms) }),
    async advance(ms) {
      const until = now + ms;
      do await runOn();
      while (fireNext(until));
      now = until;
    },
    get pending() {
      return timers.size;
    },
  };
}

/** The turns of the event loop that a chain of promises and streams may take between two timers. */
const TURNS = 4;

async function runOn(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await setImmediate();
}
