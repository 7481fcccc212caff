/** Lets only so many runs go on at a time; the others wait in the order in which they came. */

export interface Turns {
  /** Waits for a turn, and hands out what ends it. Rejects with the signal's reason when that fires first. */
  take(signal: AbortSignal): Promise<() => void>;
}

/** Turns of which `max` are held at a time. */
export function turns(max: number): Turns {
  const waiting = new Set<() => void>();
  let held = 0;

  function release(): void {
    held -= 1;
    const [next] = waiting;
    next?.();
  }

  return {
    async take(signal) {
      signal.throwIfAborted();
      if (held < max) {
        held += 1;
        return release;
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const goOn = (): void => {
        held += 1;
        waiting.delete(goOn);
        resolve();
      };
      const giveUp = (): void => {
        waiting.delete(goOn);
        reject(signal.reason as Error);
      };
      waiting.add(goOn);
      signal.addEventListener("abort", giveUp);
      await promise.finally(() => signal.removeEventListener("abort", giveUp));
      return release;
    },
  };
}
