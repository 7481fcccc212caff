/** Waits for a stranger's promises, one at a time, and no longer than it may. */

/** The one thing that is waited for at a time. It fails at once when it is told to, whatever the other side does. */
export class Pending {
  #reject: ((error: unknown) => void) | undefined;
  #failed: { readonly error: unknown } | undefined;

  of<Value>(promise: PromiseLike<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#failed) reject(this.#failed.error);
      promise.then(resolve, reject);
    });
  }

  fail(error: unknown): void {
    this.#failed = { error };
    this.#reject?.(error);
  }
}
