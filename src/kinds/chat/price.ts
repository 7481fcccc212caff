/**
 * The cost of a call that is counted in tokens, in quota units: the highest possible cost before the call, and the charge after it. Also the
 * checks of a host's prices, for all kinds.
 */

import { named } from "../../errors.ts";
import { CHAT, type ChatRequest, type OutputModality } from "../../model/chat-request.ts";
import { isJsonObject } from "../../model/json.ts";
import { NO_USAGE, type Usage } from "../../model/usage.ts";
import { abandon, quoted } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import type { Amounts } from "../meter.ts";

/**
 * Returns the price of a usage for a model, in quota units; fractions are rounded up. The price must not fall as the input or the output
 * grows. `model` is the caller's name of the model, and `upstream` has the upstream's own: `upstream?.model ?? model` is the model that costs.
 * `upstream` is undefined when the backend does not tell its upstreams. `kind` is `chat` or `embedding`; an embedding has no output.
 *
 * Before a call of chat, the gateway holds the highest possible price. It calls this function for each upstream that may answer, with the
 * input and the output counted in each possible way (read from a cache, written to a cache for 5 minutes or an hour, as reasoning, at each
 * service tier, at the speed and in the region that the body asks for), and again to find the most output that the quota covers. A way for
 * which this function throws is skipped. The charge is the price for the upstream that answers: the last that was asked, unless a route has
 * chosen one that was asked before.
 *
 * An answer with `steps` is priced step by step: this function is called for each step, and never gets `steps`. For a step of another model,
 * `model` and `upstream.model` are the upstream's name of this model. Where the function throws for
 * it, the step costs as the dearest model of the request.
 */
export interface Price {
  (usage: Usage, model: string, kind: ModelKind, upstream?: UpstreamModel): number;
  /** The models that have a price by name: telemetry may use the names as labels of metrics. Default: none. */
  readonly models?: readonly string[];
  /**
   * The currency, such as `usd`, if a quota unit is a millionth of it: refusals then tell their callers amounts in the currency. Default:
   * amounts are units.
   */
  readonly currency?: string;
  /**
   * True if some models cost nothing: a key or a budget that is used up may call them, with a body of any size. False if every call costs
   * something: such a key is refused before its body is read or parsed. Default: unknown, so that such a key is refused early only with a
   * body of more than `limits.largeBodyBytes`.
   */
  readonly hasFreeModels?: boolean;
}

/** The default price: one unit for each input token and each output token. */
export const tokenPrice: Price = (usage) => usage.inputTokens + usage.outputTokens;

/**
 * Returns a host's price that throws a RangeError for anything but a number: in a sum and in a comparison, null would be a price of nothing.
 * An error of the price gets its name.
 *
 * @param name The option, such as `price`.
 * @param nameOf Returns the priced thing, such as `a call to "m"`.
 */
export const checkedPrice = <HostPrice extends (...asked: never[]) => number>(
  name: string,
  price: HostPrice,
  nameOf: (...asked: Parameters<HostPrice>) => string,
): HostPrice =>
  // A proxy has the fields of the price, too.
  new Proxy(price, {
    apply(target, self, asked: Parameters<HostPrice>) {
      const cost: unknown = named(name, () => Reflect.apply(target, self, asked));
      if (typeof cost === "number") return cost;
      abandon(cost);
      throw wrongPrice(cost, nameOf(...asked));
    },
  });

/** Returns a price in whole units, rounded up. Throws a RangeError for anything but a finite number from 0 up. */
export function wholeUnits(cost: number, priced: string): number {
  const units = Math.ceil(cost);
  if (Number.isSafeInteger(units) && cost >= 0) return units;
  throw wrongPrice(cost, priced);
}

const wrongPrice = (cost: unknown, priced: string): RangeError =>
  new RangeError(`The price of ${priced} must be a number from 0 up, not ${quoted(cost)}`);

/** Returns a host's own price that throws for anything but a number. */
export const checkedTokenPrice = (price: Price): Price =>
  price === tokenPrice ? price : checkedPrice("price", price, (_usage: Usage, model: string) => priced(model));

/** Tells whether a price has models that cost nothing; undefined where the host does not say so. */
export const hasFreeModels = (price: Price = tokenPrice): boolean | undefined =>
  price === tokenPrice ? false : price.hasFreeModels;

/** Returns the units of a usage, rounded up. Throws a RangeError when a host's price is not a finite number from 0 up. */
export const charge = (price: Price, usage: Usage, model: string, kind: ModelKind, upstream?: UpstreamModel): number =>
  wholeUnits(price(usage, model, kind, upstream), priced(model));

const priced = (model: string): string => `a call to "${model}"`;

/** The lowest output limit. A backend lowers the budget for reasoning to what a low limit has room for. */
const MIN_OUTPUT_TOKENS = 1;

/** The upstreams that may answer a call. An empty list means that they are unknown. */
type Upstreams = readonly UpstreamModel[];

/**
 * Returns the units that a call may cost: at least its input and the shortest answer, at most the input and the longest answer.
 *
 * @param dearest The price of the longest answer. Default: `price`.
 */
export function chatAmounts(
  request: ChatRequest,
  inputTokens: number,
  price: Price,
  upstreams: Upstreams = [],
  dearest: Price = price,
): Amounts {
  const { maxOutputTokens } = request;
  const atLeast = highestCost(request, inputTokens, MIN_OUTPUT_TOKENS, price, upstreams);
  return { atLeast, atMost: Math.max(atLeast, highestCost(request, inputTokens, maxOutputTokens, dearest, upstreams)) };
}

/** Returns the request. Lowers its output limit to the most tokens that `units` can pay for. */
export function affordable(
  request: ChatRequest,
  inputTokens: number,
  price: Price,
  units: number,
  upstreams: Upstreams = [],
): ChatRequest {
  const { maxOutputTokens } = request;
  const costOf = (outputTokens: number): number => highestCost(request, inputTokens, outputTokens, price, upstreams);
  if (costOf(maxOutputTokens) <= units) return request;
  let [within, tooDear] = [MIN_OUTPUT_TOKENS, maxOutputTokens];
  while (tooDear - within > 1) {
    const middle = within + Math.floor((tooDear - within) / 2);
    if (costOf(middle) <= units) within = middle;
    else tooDear = middle;
  }
  return { ...request, maxOutputTokens: within };
}

/** Counts the tokens of a usage in another way. Returns the fields that change; undefined for a way that the request does not permit. */
type Way = (usage: Usage, request: ChatRequest) => Partial<Usage> | undefined;

/** The service tiers that vendors document. A request may name a different tier. */
const TIERS = ["priority", "standard", "default", "flex", "scale", "batch"] as const;

/**
 * The ways in which a backend may count a request, in groups. Only one way of a group can apply at a time. The most expensive way of a
 * group is kept while the next groups are tried. This finds the highest cost if the price is a sum over parts, times a factor for the tier.
 */
const WAYS: readonly (readonly Way[])[] = [
  [
    ({ inputTokens }) => ({ cacheReadTokens: inputTokens }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: {} }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: { "5m": inputTokens } }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: { "1h": inputTokens } }),
    ({ inputTokens }) => ({ toolUseTokens: inputTokens }),
  ],
  [({ outputTokens }) => ({ reasoningTokens: outputTokens })],
  (["text", "image", "audio", "video", "document"] as const).map((modality): Way => ({ inputTokens, details }) => ({
    details: { ...details, input: [{ modality, tokens: inputTokens }] },
  })),
  (["text", "image", "audio"] as const).map(
    (modality): Way =>
      ({ outputTokens, details }, request) =>
        mayAnswerIn(modality, request)
          ? { details: { ...details, output: [{ modality, tokens: outputTokens }] } }
          : undefined,
  ),
  [
    ...TIERS.map((serviceTier): Way => () => ({ serviceTier })),
    (_usage, { serviceTier }) => (serviceTier === undefined ? undefined : { serviceTier }),
  ],
  [
    (_usage, { native }) => wordIn("speed", native?.body["speed"]),
    // The caller's own fallbacks may have another speed.
    ...[0, 1, 2].map(
      (index): Way =>
        (_usage, { native }) =>
          wordIn("speed", speedOfFallback(native, index)),
    ),
  ],
  [(_usage, { native }) => wordIn("inferenceGeo", native?.body["inference_geo"])],
];

/** Returns a word that the caller's body asks for, in a format that has words for the speed and the region. */
const wordIn = (field: "speed" | "inferenceGeo", word: unknown): Partial<Usage> | undefined =>
  typeof word === "string" ? { [field]: word } : undefined;

/** The speed of one of the three models that a body of messages may name as fallbacks. */
function speedOfFallback(native: ChatRequest["native"], index: number): unknown {
  const fallbacks = native?.body["fallbacks"];
  const fallback: unknown = Array.isArray(fallbacks) ? fallbacks[index] : undefined;
  return isJsonObject(fallback) ? fallback["speed"] : undefined;
}

/** Tells whether an answer may have a modality. A request without modalities may get any, because some models draw pictures unasked. */
const mayAnswerIn = (modality: OutputModality, { modalities = [] }: ChatRequest): boolean =>
  modality === "text" || modalities.length === 0 || modalities.includes(modality);

/**
 * Returns the cost of a request at the dearest upstream in the most expensive way of counting, if each candidate has `limit` tokens.
 */
function highestCost(
  request: ChatRequest,
  inputTokens: number,
  limit: number,
  price: Price,
  upstreams: Upstreams,
): number {
  const outputTokens = limit * (request.candidateCount ?? 1);
  // The default price is the same for all ways of counting.
  if (price === tokenPrice) return Math.min(Number.MAX_SAFE_INTEGER, inputTokens + outputTokens);
  const usage = { ...NO_USAGE, inputTokens, outputTokens };
  if (upstreams.length === 0) return costAt(undefined, request, usage, price);
  return Math.max(...upstreams.map((upstream) => costAt(upstream, request, usage, price)));
}

/** Returns the cost of a usage at one upstream in the most expensive way of counting. */
function costAt(upstream: UpstreamModel | undefined, request: ChatRequest, plainUsage: Usage, price: Price): number {
  const { model } = request;
  const priceOf = (usage: Usage): number => price(usage, model, CHAT, upstream);
  let dearest = plainUsage;
  let units = priceOf(dearest);
  for (const ways of WAYS) {
    const plain = dearest;
    for (const way of ways) {
      const fields = way(plain, request);
      if (!fields) continue;
      const usage = { ...plain, ...fields };
      const cost = costOr(units, priceOf, usage);
      if (cost > units) [dearest, units] = [usage, cost];
    }
  }
  // Cap the price: no balance covers a price above the largest safe integer. Only the final charge is not capped.
  return wholeUnits(Math.min(Number.MAX_SAFE_INTEGER, units), priced(model));
}

/**
 * Returns the price of a usage, or `otherwise` if the host's price throws or is not a finite number. The backend may never count in this
 * way.
 */
export function costOr(otherwise: number, priceOf: (usage: Usage) => number, usage: Usage): number {
  try {
    const cost = priceOf(usage);
    return Number.isFinite(cost) ? cost : otherwise;
  } catch {
    return otherwise;
  }
}
