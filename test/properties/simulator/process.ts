/** A simulated process with a gateway. It dies at any of its effects, and does nothing afterwards. */

import type { Cancel, Clock, Gateway } from "../../../src/index.ts";
import type { Timeline } from "./timeline.ts";

/** The crash of a process: the number of the effect, and true when that effect still takes place. */
export interface Crash {
  readonly atEffect: number;
  readonly after: boolean;
}

/** The directions in which the messages of a process are lost. */
export interface Cut {
  readonly out: boolean;
  readonly in: boolean;
  /** True when the process is told. It waits for ever otherwise. */
  readonly isTold: boolean;
}

export class Process {
  readonly name: string;
  /** The lead of its clock over the other clocks, in milliseconds. */
  skewMs: number;
  readonly clock: Clock;
  /** True when no connection of the process breaks. */
  readonly reliable: boolean;
  gateway: Gateway | undefined = undefined;
  alive = true;
  /** The true time of its end. */
  endedAt: number | undefined = undefined;
  /** True when the process accepts no new calls. */
  closing = false;
  /** Set while the process cannot reach the store. */
  cut: Cut | undefined = undefined;
  /** The number of effects that others can see. */
  effects = 0;
  /** The number of set timers of the gateway. */
  timers = 0;
  readonly #timeline: Timeline;
  #crash: Crash | undefined;
  readonly #died: ((process: Process) => void) | undefined;
  /** The process stands still until then. */
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(name: string, timeline: Timeline, options: ProcessOptions) {
    this.name = name;
    this.skewMs = options.skewMs;
    const { rate = 1 } = options;
    const begin = timeline.now;
    this.reliable = options.reliable ?? false;
    this.#crash = options.crash;
    this.#died = options.died;
    this.#timeline = timeline;
    this.clock = {
      now: () => begin + (timeline.now - begin) * rate + this.skewMs,
      after: (ms, callback) => this.#timer(ms / rate, false, callback),
      every: (ms, callback) => this.#timer(Math.max(1, ms / rate), true, callback),
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

  /** Keeps the process alive from now on, and connected. */
  heal(): void {
    this.#crash = undefined;
    this.cut = undefined;
  }

  crash(): void {
    if (!this.alive) return;
    this.alive = false;
    this.endedAt = this.#timeline.now;
    this.#died?.(this);
  }

  /** Runs a function of the process in `ms` milliseconds, if the process still lives. */
  later(ms: number, run: () => unknown): Cancel {
    let cancel = this.#timeline.after(ms, () => {
      if (!this.alive) return undefined;
      if (this.#pauseLeftMs <= 0) return run();
      cancel = this.later(this.#pauseLeftMs, run);
      return undefined;
    });
    return () => cancel();
  }

  /** Stops the process for `ms` milliseconds: its timers and the answers to it wait. */
  pause(ms: number): void {
    this.#pausedUntil = this.#timeline.now + ms;
  }

  /** Runs a function at once, or after a pause of the process. */
  whenAwake(run: () => void): void {
    if (this.#pauseLeftMs > 0) this.later(this.#pauseLeftMs, run);
    else run();
  }

  get #pauseLeftMs(): number {
    return this.#pausedUntil - this.#timeline.now;
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
  /** The speed of its clock. Default: 1. */
  readonly rate?: number;
  readonly crash?: Crash | undefined;
  readonly reliable?: boolean;
  /** Receives the process when it crashes. */
  readonly died?: (process: Process) => void;
}
