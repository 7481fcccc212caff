/** Lets a few works run at once, so that many requests of one user take neither all memory nor all connections of the store. */

import { type Clock, nextIteration, within } from "../../ports/clock.ts";
import { tooMany } from "./refusal.ts";

export interface LaneOptions {
  /** The works in the words of a refusal, such as `reports`. */
  readonly what: string;
  /** The most works that run at once, and the most that wait for them. */
  readonly atOnce: number;
  readonly waiting: number;
  /** The time after which a work that does not end makes room for others, in milliseconds. */
  readonly heldMs: number;
  readonly clock: Clock;
}

export class Lane {
  readonly #options: LaneOptions;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Runs a work once there is room. Throws when too many wait. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const { what, atOnce, waiting, heldMs, clock } = this.#options;
    if (this.#running >= atOnce) {
      if (this.#waiting.length >= waiting) throw tooMany(what);
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    } else this.#running++;
    const ended = work();
    void within(
      ended.catch(() => {}),
      heldMs,
      clock,
    ).then(() => this.#makeRoom());
    return ended;
  }

  /**
   * Gives the room of a work to the next one, after other work of the process. The answers of a database in the process are there at once: many
   * requests would be answered one behind the other, and nothing between them.
   */
  async #makeRoom(): Promise<void> {
    await nextIteration();
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }
}
