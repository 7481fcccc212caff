/** Cuts long work into slices, between which the event loop serves others. */

/** How much is done in one go, in bytes looked at: a few milliseconds. */
const BYTES_A_TURN = 2 * 1024 * 1024;

export interface TurnOptions {
  /** Ends the work at its next turn, with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Resolves when others had their turn. */
  readonly pause?: () => Promise<void>;
}

export class Turns {
  readonly #signal: AbortSignal | undefined;
  readonly #pause: () => Promise<void>;
  #bytes = 0;

  constructor({ signal, pause = nextTurn }: TurnOptions = {}) {
    this.#signal = signal;
    this.#pause = pause;
  }

  /** Notes work that was done; whether it is time to let others work. Apart from `next`, because most work is not followed by it. */
  due(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes >= BYTES_A_TURN;
  }

  /** Lets others work; rejects with the signal's reason when that has fired. */
  async next(): Promise<void> {
    this.#bytes = 0;
    await this.#pause();
    this.#signal?.throwIfAborted();
  }
}

// A timer, because it is the one way to the next turn of the event loop that every runtime has.
const nextTurn = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve));
