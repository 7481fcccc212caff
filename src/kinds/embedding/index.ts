/**
 * Embeddings as a kind of generation: a vector for each input, charged by the tokens of the inputs. The meter checks the vectors, and uses the
 * backend's count, or an estimate without one.
 */

import { backendFailed } from "../../errors.ts";
import {
  EMBEDDING,
  type EmbeddingAnswerEvent,
  type EmbeddingEvent,
  type EmbeddingInput,
  type EmbeddingRequest,
  type EmbeddingVector,
  MAX_DIMENSIONS,
} from "../../model/embedding.ts";
import { type Certainty, type ModalityCount, type NativeUsage, NO_USAGE, type Usage } from "../../model/usage.ts";
import { shown } from "../../options.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { partsTokens } from "../chat/input-tokens.ts";
import { charge, hasFreeModels, tokenPrice } from "../chat/price.ts";
import { assertTokens, type CountTokens } from "../count-tokens.ts";
import type { KindCall, KindModule } from "../kind.ts";
import {
  wrongBackend,
  type EventShapes,
  countFault,
  isCount,
  isTooHigh,
  noCount,
  tooMany,
  type Meter,
  type MeterReport,
  wrongEvent,
} from "../meter.ts";
import { priceAmong } from "../other-models.ts";

/** Embeddings as a kind of generation. */
export const embedding: KindModule<object, EmbeddingRequest, EmbeddingEvent, EmbeddingAnswerEvent> = {
  name: EMBEDDING,
  verb: "embed",

  isPricedByUpstream: ({ price = tokenPrice }) => price !== tokenPrice,
  hasFreeModels: ({ price }) => hasFreeModels(price),

  cost(call, request, { model }) {
    const inputTokens = estimateTokens(request, call.countTokens, model?.maxInputTokens);
    const usage = { ...NO_USAGE, inputTokens };
    const upstreams = call.upstreamsOf(request.model);
    const units = Math.max(
      ...(upstreams.length === 0 ? [undefined] : upstreams).map((upstream) =>
        highestUnits(call, usage, request, upstream),
      ),
    );
    return { atLeast: units, atMost: units, inputTokens, maxOutputTokens: 0 };
  },

  ask: (backend, request, context) => backend.embed?.(request, context),

  generation: (call, _endpoint, request, { cost }) => ({ meter: new EmbeddingMeter(call, request, cost.inputTokens) }),
};

/** The kinds of content whose tokens may have prices of their own. */
const KINDS = ["image", "audio", "video", "document"] as const satisfies ModalityCount["modality"][];

/** Returns the highest cost of a request: the input of a request with files may be counted as each kind of content. */
function highestUnits(
  call: KindCall,
  usage: Usage,
  request: EmbeddingRequest,
  upstream: UpstreamModel | undefined,
): number {
  let units = unitsOf(call, usage, request, upstream);
  if (!request.inputs.some((input) => typeof input === "object" && "parts" in input)) return units;
  for (const modality of KINDS)
    try {
      const details = { input: [{ modality, tokens: usage.inputTokens }] };
      units = Math.max(units, unitsOf(call, { ...usage, details }, request, upstream));
    } catch {
      // The host has no price for this kind of content: the model takes none.
    }
  return units;
}

const unitsOf = (
  call: KindCall,
  usage: Usage,
  { model, native }: EmbeddingRequest,
  upstream: UpstreamModel | undefined,
): number => {
  const { price = tokenPrice } = call.prices;
  return charge(
    priceAmong(price, native, (field) => call.leavesOut(field)),
    usage,
    model,
    EMBEDDING,
    upstream,
  );
};

/** The most numbers of all vectors of an answer: 2,048 vectors of 4,096 numbers. */
const MAX_NUMBERS = 2 ** 23;

/** Writing so many numbers takes milliseconds. */
const HEAVY_NUMBERS = 16_384;

/**
 * Estimates the tokens of a request's whole input, at least 1.
 *
 * @param maxInputTokens The most tokens that the model reads of each input.
 */
function estimateTokens(
  { inputs, titles = [] }: EmbeddingRequest,
  countTokens: CountTokens,
  maxInputTokens: number = Number.POSITIVE_INFINITY,
): number {
  let tokens = 0;
  for (const [index, input] of inputs.entries()) {
    const title = titles[index];
    const count = tokensOf(input, countTokens) + (title === undefined ? 0 : countTokens(title));
    tokens += Math.min(maxInputTokens, assertTokens(count));
  }
  return Math.max(1, Math.ceil(tokens));
}

function tokensOf(input: EmbeddingInput, countTokens: CountTokens): number {
  if (typeof input === "string") return countTokens(input);
  return "parts" in input ? partsTokens(input.parts, countTokens) : input.length;
}

/** Returns the size of an input, to divide the estimate of all inputs among them: characters, or four for each token or kilobyte of a file. */
function sizeOf(input: EmbeddingInput): number {
  if (typeof input === "string") return 1 + input.length;
  if (!("parts" in input)) return 1 + input.length * 4;
  let size = 1;
  for (const part of input.parts) {
    if (part.type === "text") size += part.text.length;
    else size += part.source.type === "base64" ? part.source.data.length / 256 : 4_096;
  }
  return size;
}

/** The most tokens that an upstream may add to each input, such as an instruction for its model. */
const ADDED_TOKENS = 1_024;

class EmbeddingMeter implements Meter<EmbeddingEvent, EmbeddingAnswerEvent> {
  readonly overrun = false;
  isHeavy = false;
  readonly #call: KindCall;
  readonly #request: EmbeddingRequest;
  readonly #estimate: number;
  /** The length of the first vector whose length the request does not choose. All such vectors must have this length. */
  #dimensions: number | undefined;
  #numbers = 0;
  #vectors = 0;
  /** The size of the inputs whose vectors have come. */
  #size = 0;
  /** The size of inputs whose vectors have come, but are not yielded. */
  #unreadSize = 0;
  /** The numbers since the event loop has served others. */
  #unyielded = 0;
  /** The backend's latest count, and its parts by kind of content. */
  #known: number | undefined;
  #details: readonly ModalityCount[] | undefined;
  #isDoubtful = false;
  #native: NativeUsage | undefined;

  constructor(call: KindCall, request: EmbeddingRequest, estimate: number) {
    this.#call = call;
    this.#request = request;
    this.#estimate = estimate;
  }

  start(): EmbeddingAnswerEvent {
    return { type: "start" };
  }

  observe(event: EmbeddingEvent): EmbeddingAnswerEvent | undefined {
    if (isVector(event)) return this.#add(event);
    this.isHeavy = false;
    if (typeof event !== "object" || event?.type !== "usage") throw wrongEvent(EMBEDDING, event, SHAPES, VECTORS);
    this.#native = event.native;
    const { inputTokens, details, vectors } = event.usage ?? {};
    if (vectors !== undefined) this.#addUnread(vectors);
    if (inputTokens !== undefined || vectors === undefined) this.#learn(inputTokens, details);
    return undefined;
  }

  /** Counts vectors that are not yielded: they are those of the next inputs. */
  #addUnread(vectors: number): void {
    const [from, { inputs }] = [this.#vectors, this.#request];
    const count = isCount(vectors) ? vectors : 0;
    this.#unreadSize = inputs.slice(from, from + count).reduce((sum, input) => sum + sizeOf(input), 0);
  }

  #add(vector: EmbeddingVector): EmbeddingAnswerEvent {
    const { inputs, dimensions, inputDimensions = [] } = this.#request;
    const input = inputs[this.#vectors];
    if (input === undefined) throw backendFailed("The model backend yielded more vectors than there are inputs.");
    const { length } = vector;
    if (length === 0 || length > MAX_DIMENSIONS)
      throw backendFailed(`The model backend yielded a vector of ${length} numbers.`);
    const wanted = inputDimensions[this.#vectors];
    if (length !== (wanted ?? this.#dimensions ?? length))
      throw backendFailed("The model backend yielded vectors of different lengths.");
    this.#numbers += length;
    if (this.#numbers > MAX_NUMBERS) throw backendFailed("The model backend's answer is too large.");
    for (let at = 0; at < length; at++)
      if (!isFloat(vector[at]))
        throw wrongBackend(
          "The model backend yielded a vector of something that is no number.",
          `embedding: the vector ${this.#vectors} must have at ${at} a number that 32 bits can hold, not ${typeof vector[at] === "number" ? vector[at] : shown(vector[at])}.`,
        );
    if (wanted === undefined) this.#dimensions = length;
    if (length !== (dimensions ?? length)) {
      const why = `The vectors have ${length} numbers in place of ${dimensions}.`;
      this.#call.noteConversion({ field: "dimensions", conversion: "dropped", why });
    }
    this.#vectors++;
    this.#size += sizeOf(input);
    this.#unyielded += length;
    this.isHeavy = this.#unyielded >= HEAVY_NUMBERS;
    if (this.isHeavy) this.#unyielded = 0;
    return { type: "embedding", vector };
  }

  /** Keeps a count. Drops a count that cannot be true, so that the estimate is used instead: no text has zero tokens. */
  #learn(count: unknown, details: unknown): void {
    const wrong =
      (isCount(count) && count > 0
        ? this.#wrongIn("input tokens", count)
        : noCount(countFault("inputTokens", count, 1))) ??
      (details === undefined ? undefined : this.#wrongIn("input tokens in details", sumOf(details)));
    if (wrong === undefined) {
      // The casts are safe: the count and the sum of the details are counts.
      this.#known = count as number;
      this.#details = details as readonly ModalityCount[] | undefined;
    } else if (!this.#isDoubtful) this.#call.doubt(wrong);
    this.#isDoubtful ||= wrong !== undefined;
  }

  /** Returns the fault of a count, for the host; undefined for a count that may be true. */
  #wrongIn(name: string, count: number | undefined): string | undefined {
    if (count === undefined) return noCount("details");
    const added = this.#request.inputs.length * ADDED_TOKENS;
    if (!isTooHigh(count, this.#estimate, added)) return undefined;
    return tooMany(name, count, this.#estimate, added);
  }

  complete(): void {
    if (this.#isWhole) return;
    throw wrongBackend(
      "The model backend yielded fewer vectors than there are inputs.",
      `embedding: yield a vector for each of the ${this.#request.inputs.length} inputs; there were ${this.#vectors}.`,
    );
  }

  finish(): EmbeddingAnswerEvent {
    const usage = { inputTokens: this.#inputTokens };
    return { type: "finish", usage, ...(this.#native && { native: this.#native }) };
  }

  get #isWhole(): boolean {
    return this.#vectors === this.#request.inputs.length;
  }

  /** The tokens so far: the backend's count, or at least the estimate for the inputs whose vectors have come. */
  get #inputTokens(): number {
    const inputTokens = this.#estimate;
    if (this.#isWhole) return this.#known ?? inputTokens;
    const size = this.#request.inputs.reduce((sum, input) => sum + sizeOf(input), 0);
    const share = Math.min(1, (this.#size + this.#unreadSize) / size);
    return Math.max(this.#known ?? 0, Math.ceil(inputTokens * share));
  }

  /** Undefined until the backend has sent a vector or a count. Until then, the call is free. */
  get #usage(): Usage | undefined {
    if (this.#vectors === 0 && this.#unreadSize === 0 && this.#known === undefined) return undefined;
    const details = this.#details && { details: { input: this.#details } };
    return { ...NO_USAGE, inputTokens: this.#inputTokens, ...details };
  }

  get units(): number {
    const usage = this.#usage;
    return usage ? unitsOf(this.#call, usage, this.#request, this.#call.answeringUpstream()) : 0;
  }

  assertPrice(upstream: UpstreamModel): void {
    unitsOf(this.#call, { ...NO_USAGE, inputTokens: this.#estimate }, this.#request, upstream);
  }

  get report(): MeterReport {
    const usage = this.#usage;
    return { usage, tokens: usage?.inputTokens ?? 0 };
  }

  get certainty(): Certainty {
    if (!this.#usage) return "exact";
    return this.#isWhole && this.#known !== undefined && !this.#isDoubtful ? "exact" : "estimated";
  }
}

/** Returns the tokens of all kinds of content together; undefined for a value that is no list of counts. */
function sumOf(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined;
  let sum = 0;
  for (const count of details as readonly (ModalityCount | null)[]) {
    if (!isCount(count?.tokens)) return undefined;
    sum += count.tokens;
  }
  return sum;
}

const SHAPES: EventShapes = { usage: { usage: "object", native: "any?" } };
const VECTORS = "a list of numbers, a Float32Array or a Float64Array, or ";

const isVector = (event: EmbeddingEvent): event is EmbeddingVector =>
  Array.isArray(event) || event instanceof Float32Array || event instanceof Float64Array;

/** Tells whether a value is a number that 32 bits can hold: callers may ask for vectors of such floats. */
const isFloat = (value: unknown): boolean => typeof value === "number" && Number.isFinite(Math.fround(value));
