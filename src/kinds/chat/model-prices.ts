/** The prices of the models that run inside a call of chat beside the requested one: fallbacks, summaries, and advisors. */

import type { NativeRequest } from "../../model/chat-request.ts";
import { isJsonObject } from "../../model/json.ts";
import { besideSteps, NO_USAGE, TOKEN_COUNTS, type Usage } from "../../model/usage.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { isCount } from "../meter.ts";
import { priceAmong, priceOfOther, toolsIn } from "../other-models.ts";
import type { Price } from "./price.ts";

/** The models that have run, by the upstream's names. */
export interface RanModels {
  /** The model that has answered, if known. */
  answered: string | undefined;
  /** The same model, if the upstream has told that this is another model than the requested one. */
  fallback: string | undefined;
  /** The last model without a price. */
  unpriced: string | undefined;
}

/**
 * Returns the price of an answer: the sum of its steps, each at the price of its own model. A model without a price costs as the dearest
 * model of the request, and is noted in `ran`.
 *
 * @param leavesOut As in `priceAmong`.
 */
export function priceOfSteps(
  price: Price,
  native: NativeRequest | undefined,
  ran: RanModels,
  leavesOut: (field: string) => boolean,
): Price {
  const usual = priceAmong(price, native, leavesOut, () => ran.answered);
  const priceOf = (
    usage: Usage,
    name: string | undefined,
    model: string,
    kind: ModelKind,
    upstream: UpstreamModel | undefined,
  ): number => {
    if (name === undefined) return usual(usage, model, kind, upstream);
    if (name === (upstream?.model ?? model)) return price(usage, model, kind, upstream);
    try {
      return priceOfOther(price, usage, name, kind, upstream);
    } catch {
      ran.unpriced = name;
      const advisors = advisorsIn(native).map((one) => priceOfOther(price, usage, one.model, kind, upstream));
      return Math.max(priceAmong(price, native)(usage, model, kind, upstream), ...advisors);
    }
  };
  return (usage, model, kind, upstream) => {
    const { fallback } = ran;
    if (!usage.steps && fallback === undefined) return usual(usage, model, kind, upstream);
    const { steps, ...whole } = usage;
    const rest = steps && besideSteps(usage);
    if (!steps || !rest) return priceOf(whole, fallback, model, kind, upstream);
    let units = isNothing(rest) ? 0 : priceOf(rest, fallback, model, kind, upstream);
    for (const { model: name, ...counts } of steps) {
      const step = { ...NO_USAGE, ...(name === undefined && wordsOf(whole)), ...counts };
      units += Math.ceil(priceOf(step, name ?? fallback, model, kind, upstream));
    }
    return units;
  };
}

const wordsOf = ({ serviceTier, speed, inferenceGeo }: Usage): Partial<Usage> => ({
  ...(serviceTier !== undefined && { serviceTier }),
  ...(speed !== undefined && { speed }),
  ...(inferenceGeo !== undefined && { inferenceGeo }),
});

const isNothing = ({ serverToolUses, ...usage }: Usage): boolean =>
  TOKEN_COUNTS.every((name) => !usage[name]) && Object.values(serverToolUses ?? {}).every((uses) => !uses);

/** A tool that is another model: the answering model asks it for advice, and the upstream bills each advice by itself. */
interface Advisor {
  readonly model: string;
  /** The most advices in a call, as far as they are held. */
  readonly uses: number;
  /** The most tokens of an advice. */
  readonly outputTokens: number;
}

/** The most advices that are held. The counts of an upstream are believed up to the input of as many windows. */
const MAX_ADVICES = 4;

/** The tokens of an advice of a tool that names no limit: twice the 1,400 to 1,800 tokens that the maker of the tool calls usual. */
const ADVICE_TOKENS = 4_096;

/** The types of tools that are advisors, such as `advisor_20260301` and `openrouter:advisor`. */
const ADVISOR = /^(?:[\w-]+:)?advisor(?:_|$)/;

function advisorsIn(native: NativeRequest | undefined): readonly Advisor[] {
  return toolsIn(native).flatMap((tool) => {
    if (typeof tool["type"] !== "string" || !ADVISOR.test(tool["type"])) return [];
    const settings = isJsonObject(tool["parameters"]) ? { ...tool, ...tool["parameters"] } : tool;
    const { model, max_uses, max_tokens, max_completion_tokens } = settings;
    if (typeof model !== "string") return [];
    const limit = max_tokens ?? max_completion_tokens;
    return {
      model,
      uses: isCount(max_uses) ? Math.min(max_uses, MAX_ADVICES) : MAX_ADVICES,
      outputTokens: isCount(limit) ? limit : ADVICE_TOKENS,
    };
  });
}

/** The prices of a request before the call. */
export interface HeldPrices {
  /** With one advice of each advisor: a key that can pay for so much is served. */
  readonly least: Price;
  /** With all advices that are held. */
  readonly most: Price;
}

/**
 * Returns the prices of a request before the call: of the dearest model that may answer, and of the advices. An advisor reads the input and
 * what the answering model has written.
 */
export function pricesOfHold(price: Price, native: NativeRequest | undefined): HeldPrices {
  const among = priceAmong(price, native);
  const advisors = advisorsIn(native);
  if (advisors.length === 0) return { least: among, most: among };
  const withAdvices =
    (most: number): Price =>
    (usage, model, kind, upstream) => {
      let units = among(usage, model, kind, upstream);
      if (typeof units !== "number") return units;
      const inputTokens = usage.inputTokens + usage.outputTokens;
      for (const { model: advisor, uses, outputTokens } of advisors) {
        const reasoningTokens = Math.min(usage.reasoningTokens, outputTokens);
        const advice = { ...usage, inputTokens, outputTokens, reasoningTokens };
        units += Math.min(uses, most) * Math.ceil(priceOfOther(price, advice, advisor, kind, upstream));
      }
      return units;
    };
  return { least: withAdvices(1), most: withAdvices(MAX_ADVICES) };
}
