/** Cuts long work into slices, between which the event loop serves others. */

/** How much is done in one slice, in bytes looked at: a few milliseconds. */
const SLICE_BYTES = 2 * 1024 * 1024;

export interface YieldOptions {
  /** Ends the work at the next pause, with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Resolves when the event loop has served others. Default: at its next iteration. */
  readonly pause?: () => Promise<void>;
}

/** Counts the work of one job, and pauses it after each slice. */
export class EventLoopYielder {
  readonly #signal: AbortSignal | undefined;
  readonly #pause: () => Promise<void>;
  #bytes = 0;

  constructor({ signal, pause = nextIteration }: YieldOptions = {}) {
    this.#signal = signal;
    this.#pause = pause;
  }

  /** Counts work that was done; whether to pause now. Apart from `pause`, because most work is followed by none. */
  isDue(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes >= SLICE_BYTES;
  }

  /** Lets the event loop serve others; rejects with the signal's reason when that has fired. */
  async pause(): Promise<void> {
    this.#bytes = 0;
    await this.#pause();
    this.#signal?.throwIfAborted();
  }
}

/** Resolves at the event loop's next iteration. A timer, because that is the one way to it that every runtime has. */
export const nextIteration = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve));
