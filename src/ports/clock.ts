/** Time, injected: what the gateway knows of now and later. */

/** Where the gateway takes its time from. Tests inject one that they wind by hand. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Calls back once, after `ms` milliseconds, unless cancelled. */
  after(ms: number, callback: () => void): Cancel;
  /** Calls back every `ms` milliseconds until cancelled. */
  every(ms: number, callback: () => void): Cancel;
}

/** Cancels what it was returned for; more than once is harmless. */
export type Cancel = () => void;

/** The machine's own clock. Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    unref(timer);
    return () => clearTimeout(timer);
  },
  every(ms, callback) {
    const timer = setInterval(callback, ms);
    unref(timer);
    return () => clearInterval(timer);
  },
};

// Node, Bun and Deno's Node layer hand out objects that can be unreferenced; browsers and Workers hand out numbers.
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}
