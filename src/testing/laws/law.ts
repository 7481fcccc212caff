/** The frame of all laws: a promise of a port, which a host checks on an implementation of its own under any test runner. */

/** A promise of a port. */
export interface Law<Open> {
  /** The promise as a sentence, fit for a test's name. */
  readonly name: string;
  /**
   * Opens a store, checks the promise and closes the store. Rejects with an AssertionError that says how the promise was broken, or
   * with the store's own error.
   */
  verify(open: Open): Promise<void>;
}

/** Runs `body`, and closes the store. When the law is broken and the store cannot be closed, the broken law is reported. */
export async function closing(opened: { close?(): void | Promise<void> }, body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (broken) {
    await (async () => opened.close?.())().catch(() => {});
    throw broken;
  }
  await opened.close?.();
}

/**
 * Calls `work` for 0 to count - 1 without waiting in between. Waits for the end of all calls, also of failed ones, so that no call is
 * under way when the store is closed.
 */
export async function atOnce<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const outcomes = await Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}
