/** Divides the inputs of an embedding request into batches, and asks for several batches at once. */

import { GatewayError } from "../errors.ts";

/** The inputs of one batch: from `start` up to `end`. */
export interface Batch {
  readonly start: number;
  readonly end: number;
}

/** Divides inputs into batches of at most `most`. */
export function batchesOf(count: number, most: number): Batch[] {
  const batches: Batch[] = [];
  for (let start = 0; start < count; start += most) batches.push({ start, end: Math.min(count, start + most) });
  return batches;
}

/**
 * Asks for each batch, at most `concurrency` at once, and yields the answers in the order of the batches. When one fails, or nobody reads
 * on, the signal of the others fires.
 *
 * @param signal The signal of the call. It ends all batches.
 */
export async function* inOrder<Answer>(
  batches: readonly Batch[],
  concurrency: number,
  signal: AbortSignal,
  ask: (batch: Batch, signal: AbortSignal) => Promise<Answer>,
): AsyncGenerator<Answer> {
  const [first] = batches;
  if (first && batches.length === 1) {
    yield await ask(first, signal);
    return;
  }
  const end = new AbortController();
  const onAbort = (): void => end.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const asked: Promise<Answer>[] = [];
    let next = 0;
    for (let read = 0; read < batches.length; read++) {
      for (; next < batches.length && next < read + concurrency; next++) {
        const answer = ask(batches[next] as Batch, end.signal);
        // A failure is met when its turn comes.
        answer.catch(() => {});
        asked.push(answer);
      }
      yield await (asked.shift() as Promise<Answer>);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    end.abort(ABANDONED);
  }
}

const ABANDONED = new GatewayError("client_closed", "The other batches of the request are not needed any more.");
