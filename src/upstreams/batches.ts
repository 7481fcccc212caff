/** Divides the inputs of an embedding request into batches, and asks for several batches at once. */

import { GatewayError } from "../errors.ts";
import type { EmbeddingEvent, EmbeddingVector } from "../kinds/embedding/request.ts";
import type { NativeUsage } from "../model/usage.ts";
import type { Clock } from "../ports/clock.ts";

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

/** The time for which the other batches may still answer after one has failed, in milliseconds: their upstream counts what it has begun. */
const LINGER_MS = 5_000;

/** The answer for one batch. */
interface BatchAnswer {
  readonly vectors: readonly EmbeddingVector[];
  /** The upstream's count; undefined without one. */
  readonly inputTokens: number | undefined;
  /** All that the upstream reported with the count. */
  readonly native?: NativeUsage | undefined;
}

/**
 * Asks for each batch, and yields the vectors in the order of the inputs, and the count of all batches. When a batch fails, yields the count of
 * the batches that were answered, because their upstream charges them, and throws the error.
 */
export async function* embedded(
  batches: readonly Batch[],
  concurrency: number,
  context: { readonly signal: AbortSignal; readonly clock: Clock },
  ask: (batch: Batch, signal: AbortSignal) => Promise<BatchAnswer>,
): AsyncGenerator<EmbeddingEvent> {
  let tokens = 0;
  let areAllCounted = true;
  let native: NativeUsage | undefined;
  const counted = async (batch: Batch, signal: AbortSignal): Promise<BatchAnswer> => {
    const answer = await ask(batch, signal);
    tokens += answer.inputTokens ?? 0;
    areAllCounted &&= answer.inputTokens !== undefined;
    native = native && answer.native ? added(native, answer.native) : (native ?? answer.native);
    return answer;
  };
  try {
    for await (const { vectors } of inOrder(batches, concurrency, context, counted)) yield* vectors;
  } catch (error) {
    if (tokens !== 0) yield { type: "usage", usage: { inputTokens: tokens } };
    throw error;
  }
  // Report the count only when all batches have one, so that a part is never taken for the whole.
  if (areAllCounted) yield { type: "usage", usage: { inputTokens: tokens }, ...(native && { native }) };
}

/** Adds the numbers of two reports, such as their costs. Keeps the first report's other fields. */
function added(first: NativeUsage, second: NativeUsage): NativeUsage {
  const fields = { ...second.fields, ...first.fields };
  for (const [name, value] of Object.entries(second.fields)) {
    const known = first.fields[name];
    if (typeof known === "number" && typeof value === "number") fields[name] = known + value;
  }
  return { ...first, fields };
}

/**
 * Asks for each batch, at most `concurrency` at once, and yields the answers in the order of the batches. When one fails, or nobody reads
 * on, the signal of the others fires.
 *
 * @param signal The signal of the call. It ends all batches.
 */
async function* inOrder<Answer>(
  batches: readonly Batch[],
  concurrency: number,
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
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
  const asked: Promise<Answer>[] = [];
  try {
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
  } catch (error) {
    // When the call ends, its signal ends all batches.
    await new Promise<void>((resolve) => {
      const cancel = clock.after(LINGER_MS, resolve);
      void Promise.allSettled(asked).then(() => resolve(cancel()));
    });
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
    end.abort(ABANDONED);
  }
}

const ABANDONED = new GatewayError("client_closed", "The other batches of the request are not needed any more.");
