/** The parts that all formats that embed share: the conversions of requests, batches, the relay to an upstream, and the JSON of vectors. */

import { GatewayError, backendFailed } from "../../errors.ts";
import { isCount } from "../../kinds/meter.ts";
import type { Conversion } from "../../model/conversion.ts";
import { EMBEDDING, type EmbeddingEvent, type EmbeddingRequest, type EmbeddingVector } from "../../model/embedding.ts";
import { given, type JsonLimits } from "../../model/json.ts";
import { type ModalityCount, type NativeUsage, sumOfModalities } from "../../model/usage.ts";
import { overridden } from "../../options.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import type { EmbeddingAnswer, EmbeddingCodec } from "../format.ts";
import type { EmbeddingVerbs, FormatUpstreamOptions, RelayedCall, RelayedContext, RelayTools } from "../module.ts";
import type { ConversionRule } from "./conversions.ts";
import { wholeOf, type LazyCodec } from "./lazy.ts";
import { parseAnswerObject } from "./upstream.ts";

/** The fields of a request that some format cannot express exactly. */
export type EmbeddingField =
  | Exclude<keyof EmbeddingRequest, "model" | "inputs" | "native">
  /** Inputs that are lists of tokens. */
  | "inputs.tokens"
  /** Inputs that hold files. */
  | "inputs.media";

/** A rule for each field, and for the fields that only the caller's own format has. */
export type EmbeddingConversions = Readonly<Record<EmbeddingField | "native", ConversionRule>>;

const IS_USED: Readonly<Record<EmbeddingField, (request: EmbeddingRequest) => boolean>> = {
  "inputs.tokens": ({ inputs }) => inputs.some((input) => typeof input === "object" && !("parts" in input)),
  "inputs.media": ({ inputs }) => inputs.some((input) => typeof input === "object" && "parts" in input),
  dimensions: ({ dimensions }) => dimensions !== undefined,
  inputDimensions: ({ inputDimensions }) => inputDimensions !== undefined,
  taskType: ({ taskType }) => taskType !== undefined,
  taskTypes: ({ taskTypes }) => taskTypes !== undefined,
  titles: ({ titles = [] }) => titles.some((title) => title !== undefined),
  endUser: ({ endUser }) => endUser !== undefined,
};

/** Lists the conversions of a request that are not exact. */
export function embeddingConversions(table: EmbeddingConversions, request: EmbeddingRequest): Conversion[] {
  const conversions: Conversion[] = [];
  for (const field of Object.keys(IS_USED) as EmbeddingField[]) {
    const rule = table[field];
    if (rule.conversion !== "exact" && IS_USED[field](request)) conversions.push({ field, ...rule });
  }
  const { native: rule } = table;
  if (rule.conversion !== "exact")
    for (const path of request.native?.unsupported?.() ?? []) conversions.push({ field: `native.${path}`, ...rule });
  return conversions;
}

export const vectorJson = (vector: EmbeddingVector): string =>
  JSON.stringify(Array.isArray(vector) ? vector : Array.from(vector));

/** The inputs of one batch: from `start` up to `end`. */
export interface Batch {
  readonly start: number;
  readonly end: number;
}

export function batchesOf(count: number, most: number): Batch[] {
  const batches: Batch[] = [];
  for (let start = 0; start < count; start += most) batches.push({ start, end: Math.min(count, start + most) });
  return batches;
}

/**
 * The wait for the batches in progress after one has failed, in milliseconds. Their upstream charges for them, so their usage should be known.
 */
const LINGER_MS = 5_000;

interface BatchAnswer {
  readonly vectors: readonly EmbeddingVector[];
  /** The upstream's count; undefined without one. */
  readonly inputTokens: number | undefined;
  /** The parts of the count by kind of content. */
  readonly details?: readonly ModalityCount[] | undefined;
  /** All that the upstream reported with the count. */
  readonly native?: NativeUsage | undefined;
  /** The error of an answer without a vector for each input. Its count is charged all the same. */
  readonly fault?: { readonly error: unknown };
}

/**
 * Asks for each batch, and yields the vectors in the order of the inputs, and the count of all batches. When a batch fails, yields the count of
 * the batches that were answered, also of those whose answer is broken, and throws the error.
 */
export async function* embedded(
  batches: readonly Batch[],
  concurrency: number,
  context: Pick<RelayedContext<EmbeddingEvent>, "signal" | "reportUnread"> & { readonly clock: Clock },
  ask: (batch: Batch, signal: AbortSignal) => Promise<BatchAnswer>,
): AsyncGenerator<EmbeddingEvent> {
  let tokens = 0;
  let areAllCounted = true;
  let answered = 0;
  /** The vectors that have come and are not yielded yet. */
  let unread = 0;
  /** A batch's count that cannot be true: no text has zero tokens. */
  let wrong: number | undefined;
  let native: NativeUsage | undefined;
  let details: readonly ModalityCount[] | undefined;
  const counted = async (batch: Batch, signal: AbortSignal): Promise<readonly EmbeddingVector[]> => {
    const answer = await ask(batch, signal);
    const { vectors, inputTokens, fault } = answer;
    const isCounted = isCount(inputTokens) && inputTokens > 0;
    if (isCounted) {
      tokens += inputTokens;
      details = details && answer.details ? sumOfModalities(details, answer.details) : (details ?? answer.details);
    }
    if (fault) throw fault.error;
    answered++;
    unread += vectors.length;
    if (!isCounted) {
      areAllCounted = false;
      wrong ??= inputTokens;
    }
    native = native && answer.native ? added(native, answer.native) : (native ?? answer.native);
    return vectors;
  };
  /** Returns the count of the batches that were answered, for a call that ends early: their upstream charges them. */
  const countSoFar = (): EmbeddingEvent[] => {
    // A part of the count must not be taken for the whole.
    const couldSeemWhole = !areAllCounted && answered === batches.length;
    const isKnown = tokens > 0 && !couldSeemWhole;
    const usage = given({
      inputTokens: isKnown ? tokens : undefined,
      details: isKnown ? details : undefined,
      vectors: areAllCounted || unread === 0 ? undefined : unread,
    });

    return Object.keys(usage).length > 0 ? [{ type: "usage", usage }] : [];
  };
  context.reportUnread?.(countSoFar);
  try {
    for await (const vectors of inOrder(batches, concurrency, context, counted)) {
      for (const vector of vectors) {
        unread--;
        yield vector;
      }
    }
  } catch (error) {
    yield* countSoFar();
    throw error;
  }
  const inputTokens = wrong ?? (areAllCounted ? tokens : undefined);
  if (inputTokens !== undefined)
    yield { type: "usage", usage: { inputTokens, ...(details && { details }) }, ...(native && { native }) };
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

/** The number of batches of one call that are asked for at once, by default. */
const CONCURRENCY = 4;

/** Makes the function of a relay to an upstream that embeds. Throws a RangeError for a wrong number in `options.embeddings`. */
export function embeddingRelay(
  relay: RelayTools,
  given: EmbeddingCodec | LazyCodec<EmbeddingCodec>,
  { embeddings = {} }: FormatUpstreamOptions,
): EmbeddingVerbs {
  // The default of `maxInputs` depends on the request, so only its own value is checked here.
  const { concurrency, maxInputs } = overridden(
    "relay: embeddings",
    { concurrency: CONCURRENCY, maxInputs: Number.MAX_SAFE_INTEGER },
    embeddings,
  );
  const most = (codec: EmbeddingCodec, request: EmbeddingRequest): number =>
    embeddings.maxInputs === undefined ? codec.maxInputs(request) : maxInputs;
  return {
    async *embed(request, context) {
      const codec = await wholeOf(given);
      const asked = { ...request, model: relay.modelName(request.model) };
      relay.reportConversions(codec.conversionsOf(asked), context);
      const batches = batchesOf(request.inputs.length, most(codec, asked));
      const { signal, observeUpstream, reportUnread } = context;
      yield* embedded(batches, concurrency, { signal, reportUnread, clock: relay.clock }, (batch, signal) =>
        relayedBatch(relay, codec, asked, request.model, batch, { signal, observeUpstream }),
      );
    },
  };
}

async function relayedBatch(
  relay: RelayTools,
  codec: EmbeddingCodec,
  request: EmbeddingRequest,
  callerModel: string,
  { start, end }: Batch,
  context: Pick<CallContext, "signal" | "observeUpstream">,
): Promise<BatchAnswer> {
  const call = (): RelayedCall<EmbeddingAnswer, EmbeddingAnswer> => {
    const { body, path, headers } = codec.encodeRequest(request, start, end);
    return {
      kind: EMBEDDING,
      model: request.model,
      callerModel,
      path,
      headers,
      body: JSON.stringify(body),
      stream: false,
      codec,
      decoder: {
        answer: (text) => [codec.decodeAnswer(text, end - start, relay.json)],
        lost: (text) => lostCounts(text, codec, relay.json),
      },
      handOn(answers, _exchange, observation) {
        for (const { model, inputTokens } of answers) observation?.onUsage(model, inputTokens);
        return answers;
      },
    };
  };
  let answer: EmbeddingAnswer | undefined;
  try {
    for await (const decoded of relay.relayed(context, call)) answer = decoded;
  } catch (error) {
    if (!answer) throw error;
    return { ...answer, fault: { error } };
  }
  if (answer) return answer;
  throw backendFailed("The model backend's answer is empty.");
}

/** Returns the counts of an answer that could not be decoded, without vectors; an empty list for an answer that is no JSON object. */
function lostCounts(text: string, codec: EmbeddingCodec, limits: JsonLimits): EmbeddingAnswer[] {
  try {
    return [{ vectors: [], ...codec.decodeCounts(parseAnswerObject(text, limits)) }];
  } catch {
    return [];
  }
}
