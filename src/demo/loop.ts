/** Lets the event loop serve others between the pieces of long work. */

import { setImmediate as nextTurn } from "node:timers/promises";

/** How long work may go on before others have their turn, in milliseconds. */
const TURN_MS = 10;

/** One long piece of work, which asks now and then whether others wait. */
export class Loop {
  #since = performance.now();

  /** Lets others have their turn, where this work has had its own; cheap where it has not. */
  async yield(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await nextTurn();
    this.#since = performance.now();
  }
}
