/** Virtual time: events in the order of their moments. Each event is one step. */

import type { Cancel } from "../../../src/index.ts";
import type { Random } from "../../trial/random.ts";

interface Event {
  /** The moment in milliseconds, with a random fraction that orders the events of the same moment. */
  readonly at: number;
  readonly run: () => unknown;
  cancelled: boolean;
}

/** The first moment of every world, in milliseconds since the Unix epoch: a few seconds before midnight in UTC. */
const START = Date.UTC(2026, 0, 1) - 4_000;

export class Timeline {
  /** In milliseconds since the Unix epoch. */
  now: number = START;
  /** The number of events so far. */
  steps = 0;
  /** A heap with the next event first. */
  readonly #events: Event[] = [];
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Schedules an event in `ms` milliseconds. The next event waits for its promise. */
  after(ms: number, run: () => unknown): Cancel {
    const event = { at: this.now + Math.floor(ms) + this.#random.next(), run, cancelled: false };
    this.#push(event);
    return () => void (event.cancelled = true);
  }

  /** Runs all events until a moment, each with the promises that it starts. */
  async runUntil(end: number, stepped: () => void): Promise<void> {
    for (let event; (event = this.#events[0]) && event.at <= end;) {
      this.#pop();
      if (event.cancelled) continue;
      this.now = Math.floor(event.at);
      this.steps++;
      const running = event.run();
      if (running instanceof Promise) await running;
      await quiescence();
      stepped();
    }
    this.now = Math.max(this.now, end);
  }

  #push(event: Event): void {
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = events[above];
      if (!parent || parent.at <= event.at) break;
      events[index] = parent;
      index = above;
    }
    events[index] = event;
  }

  #pop(): void {
    const events = this.#events;
    const last = events.pop();
    if (!last || events.length === 0) return;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      const [left, right] = [events[below], events[below + 1]];
      if (!left) break;
      if (right && right.at < left.at) below++;
      const child = events[below];
      if (!child || child.at >= last.at) break;
      events[index] = child;
      index = below;
    }
    events[index] = last;
  }
}

/** Resolves when all chains of promises wait for an event. */
export const quiescence = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
