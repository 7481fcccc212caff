/** One process that serves a gateway: it dies in the middle of whatever it does, and nothing of it goes on after that. */

import type { Cancel, Clock, Gateway } from "../../../src/index.ts";
import type { Timeline } from "./timeline.ts";

/** When a process crashes: at its nth effect, and whether that still takes place. */
export interface Crash {
  readonly atEffect: number;
  readonly after: boolean;
}

export class Process {
  readonly name: string;
  /** How far its clock is ahead of the others', in milliseconds. */
  readonly skewMs: number;
  readonly clock: Clock;
  /** Whether no connection of its breaks. */
  readonly reliable: boolean;
  gateway: Gateway | undefined = undefined;
  alive = true;
  /** Whether it takes no new calls. */
  closing = false;
  /** How often it has done something that others can see. */
  effects = 0;
  /** How many timers of its gateway wait. */
  timers = 0;
  readonly #timeline: Timeline;
  readonly #crash: Crash | undefined;
  readonly #died: ((process: Process) => void) | undefined;

  constructor(name: string, timeline: Timeline, options: ProcessOptions) {
    this.name = name;
    this.skewMs = options.skewMs;
    this.reliable = options.reliable ?? false;
    this.#crash = options.crash;
    this.#died = options.died;
    this.#timeline = timeline;
    this.clock = {
      now: () => timeline.now + this.skewMs,
      after: (ms, callback) => this.#timer(ms, false, callback),
      every: (ms, callback) => this.#timer(Math.max(1, ms), true, callback),
    };
  }

  /**
   * Counts something that others can see: a message that leaves, an answer that arrives, a frame that is written. Between two of
   * them a crash makes no difference to anybody, so that to crash at any of them is to crash at every await. False where the
   * process is dead by now, and the effect does not take place.
   */
  effect(): boolean {
    if (!this.alive) return false;
    if (++this.effects !== this.#crash?.atEffect) return true;
    this.crash();
    return this.#crash.after;
  }

  crash(): void {
    if (!this.alive) return;
    this.alive = false;
    this.#died?.(this);
  }

  /** Has the process do something in `ms` milliseconds, if it still lives. */
  later(ms: number, run: () => unknown): Cancel {
    return this.#timeline.after(ms, () => (this.alive ? run() : undefined));
  }

  #timer(ms: number, repeated: boolean, callback: () => void): Cancel {
    this.timers++;
    let waiting = true;
    const stop = (): void => {
      if (waiting) this.timers--;
      waiting = false;
    };
    let cancel: Cancel;
    const set = (): void => {
      cancel = this.later(ms, () => {
        if (repeated) set();
        else stop();
        callback();
      });
    };
    set();
    return () => {
      stop();
      cancel();
    };
  }
}

export interface ProcessOptions {
  readonly skewMs: number;
  readonly crash?: Crash | undefined;
  readonly reliable?: boolean;
  /** Told when it crashes. */
  readonly died?: (process: Process) => void;
}
