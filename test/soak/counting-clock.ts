/** The machine's clock, with a count of the timers that are set: no runtime lists those that keep no process alive. */

import { type Cancel, type Clock, systemClock } from "../../src/index.ts";

export interface CountingClock extends Clock {
  /** How many timers are set. */
  readonly pending: number;
}

/** @param set Told of each timer that is to fire once, by its milliseconds. */
export function countingClock(set: (ms: number) => void): CountingClock {
  const timers = new Set<symbol>();
  const counted = (start: (timer: symbol) => Cancel): Cancel => {
    const timer = Symbol("timer");
    timers.add(timer);
    const cancel = start(timer);
    return () => {
      timers.delete(timer);
      cancel();
    };
  };
  return {
    now: () => systemClock.now(),
    after: (ms, callback) => {
      set(ms);
      return counted((timer) =>
        systemClock.after(ms, () => {
          timers.delete(timer);
          callback();
        }),
      );
    },
    every: (ms, callback) => counted(() => systemClock.every(ms, callback)),
    get pending() {
      return timers.size;
    },
  };
}
