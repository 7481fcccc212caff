/** Iterates over what a backend yields, and stops waiting for it the moment a signal fires. */

import type { Keep } from "../ports/keep.ts";

/**
 * An iterator over `source` that rejects with the signal's reason as soon as it fires, even while a step is pending and the
 * source ignores the signal. The source is then told to return, and not waited for.
 */
export class Interruptible<T> {
  readonly #iterator: AsyncIterator<T>;
  readonly #signal: AbortSignal;
  readonly #keep: Keep;
  #interrupt: ((reason: unknown) => void) | undefined;
  #done = false;

  /** @param keep Is given the source's return, which is not waited for. */
  constructor(source: AsyncIterable<T>, signal: AbortSignal, keep: Keep) {
    this.#signal = signal;
    this.#keep = keep;
    this.#iterator = source[Symbol.asyncIterator]();
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  next(): Promise<IteratorResult<T, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#signal.aborted) return reject(this.#signal.reason);
      this.#interrupt = reject;
      this.#iterator.next().then((step) => {
        if (step.done) this.#done = true;
        resolve(step);
      }, reject);
    });
  }

  /** Lets go of the source; tells one that is not done to return. */
  stop(): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    if (this.#done) return;
    this.#done = true;
    // Not awaited: a source that hangs would hang its caller too. Its failure has no one left to hear it.
    this.#keep(this.#return());
  }

  async #return(): Promise<void> {
    try {
      await this.#iterator.return?.();
    } catch {
      // See above.
    }
  }

  readonly #onAbort = (): void => {
    this.#interrupt?.(this.#signal.reason);
    this.stop();
  };
}
