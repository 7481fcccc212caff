/** A simulated process with a gateway. It dies at any of its effects, and does nothing afterwards. */

import type { Cancel, Clock, Gateway } from "../../../src/index.ts";
import type { Timeline } from "./timeline.ts";

/** The crash of a process: the number of the effect, and true when that effect still takes place. */
export interface Crash {
  readonly atEffect: number;
  readonly after: boolean;
}

export class Process {
  readonly name: string;
  /** The lead of its clock over the other clocks, in milliseconds. */
  readonly skewMs: number;
  readonly clock: Clock;
  /** True when no connection of the process breaks. */
  readonly reliable: boolean;
  gateway: Gateway | undefined = undefined;
  alive = true;
  /** True when the process accepts no new calls. */
  closing = false;
  /** The number of effects that others can see. */
  effects = 0;
  /** The number of set timers of the gateway. */
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
   * Counts an effect that others can see: a sent message, a received answer, a written frame. Crashes between two effects look the same
   * to others, so a crash at each effect covers a crash at each await. Returns false when the process is dead, and the effect must not
   * take place.
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

  /** Runs a function of the process in `ms` milliseconds, if the process still lives. */
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
  /** Receives the process when it crashes. */
  readonly died?: (process: Process) => void;
}
