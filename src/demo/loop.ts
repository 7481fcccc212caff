/** Lets the event loop do other work between the pieces of long work. */

import { setImmediate as nextTurn } from "node:timers/promises";

/** The time that work may block the event loop, in milliseconds. */
const TURN_MS = 10;

/** A long piece of work that yields to the event loop at intervals. */
export class Loop {
  #since = performance.now();

  /** Lets other work run after `TURN_MS`. Before that, returns at once, so that frequent calls are cheap. */
  async yield(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await nextTurn();
    this.#since = performance.now();
  }
}
