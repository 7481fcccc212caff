/** The prices of the models that run inside a call of chat beside the requested one: fallbacks, summaries, and advisors. */

import type { ChatRequest, NativeRequest } from "../../model/chat-request.ts";
import { isJsonObject } from "../../model/json.ts";
import { besideSteps, NO_USAGE, TOKEN_COUNTS, type Usage } from "../../model/usage.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { isCount } from "../meter.ts";
import { priceAmong, priceOfOther, toolsIn } from "../other-models.ts";
import { costOr, type Price } from "./price.ts";

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
 * Returns the price of an answer: the sum of its steps, each at the price of its own model. A step of a model without a price costs its uses
 * of tools, or as the dearest model of the request where they have no price: the model is then noted in `ran`.
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
    serverToolUses?: ToolUses,
  ): number => {
    if (name === undefined) return usual(usage, model, kind, upstream);
    if (name === (upstream?.model ?? model)) return price(usage, model, kind, upstream);
    try {
      return priceOfOther(price, usage, name, kind, upstream);
    } catch {
      const byUse = serverToolUses ? usual({ ...NO_USAGE, serverToolUses }, model, kind, upstream) : 0;
      if (byUse > 0) return byUse;
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
    for (const { model: name, serverToolUses, ...counts } of steps) {
      const step = { ...NO_USAGE, ...(name === undefined && wordsOf(whole)), ...counts };
      units += Math.ceil(priceOf(step, name ?? fallback, model, kind, upstream, serverToolUses));
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
    const { model, max_uses, max_tokens, max_completion_tokens } = settingsOf(tool);
    if (typeof model !== "string") return [];
    const limit = max_tokens ?? max_completion_tokens;
    return {
      model,
      uses: isCount(max_uses) ? Math.min(max_uses, MAX_ADVICES) : MAX_ADVICES,
      outputTokens: isCount(limit) ? limit : ADVICE_TOKENS,
    };
  });
}

/** Returns the settings of a tool. OpenRouter's have a field of their own. */
const settingsOf = (tool: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  isJsonObject(tool["parameters"]) ? { ...tool, ...tool["parameters"] } : tool;

/** A tool that draws. The upstream bills its pictures by the tokens of the model that draws. */
interface Drawing {
  /** The model that draws; undefined where the upstream chooses it. */
  readonly model: string | undefined;
  /** The most pictures of a call, as far as they are held. */
  readonly uses: number;
  /** The most tokens of a picture. */
  readonly outputTokens: number;
}

/** The name under which pictures are priced by their number. */
export const DRAWING = "image_generation";

/** The most tokens of a picture by its quality, of the sizes that OpenAI calls usual. */
const PICTURE_TOKENS: ReadonlyMap<unknown, number> = new Map([
  ["low", 408],
  ["medium", 1_584],
]);
const MOST_PICTURE_TOKENS = 6_240;

/** Returns the tokens of a picture that a tool has drawn or may draw. */
export const pictureTokens = (quality: unknown): number => PICTURE_TOKENS.get(quality) ?? MOST_PICTURE_TOKENS;

function drawingsIn(request: ChatRequest): readonly Drawing[] {
  return definitionsIn(request).flatMap((definition) => {
    if (!billedNames(definition).includes(DRAWING)) return [];
    const { model, quality, max_uses } = settingsOf(definition);
    return {
      model: typeof model === "string" ? model : undefined,
      uses: heldUses(max_uses ?? request.native?.body["max_tool_calls"]),
      outputTokens: pictureTokens(quality),
    };
  });
}

/** The uses of a tool that are held, where the request does not limit them, and the most of those that it permits. */
const HELD_USES = { usual: 4, most: 64 };

/** The names of Google's tools. Its models are billed by the query or by the prompt. */
const GOOGLE_TOOLS: readonly (readonly [key: RegExp, names: readonly string[]])[] = [
  [/^(?:google_?search(?:_?retrieval)?|enterprise_?web_?search)$/i, ["web_search", "web_search_prompt"]],
  [/^google_?maps$/i, ["maps", "maps_prompt"]],
  [/^(?:file_?search|retrieval)$/i, ["file_search"]],
];

/** The tools that an answer is charged for once. */
const USED_ONCE: ReadonlySet<string> = new Set(["web_search_prompt", "maps_prompt", "code_interpreter"]);

/** The types of tools that the caller runs. */
const OF_CALLER: ReadonlySet<string> = new Set(["function", "custom"]);

/** Returns the names under which the uses of a provider's tool are priced. */
function billedNames(definition: Readonly<Record<string, unknown>>): readonly string[] {
  const { type } = definition;
  // Types have a vendor before their name, and a version behind it, such as `web_search_20250305` and `openrouter:web_search`.
  if (typeof type === "string")
    return OF_CALLER.has(type) ? [] : [type.replace(/^[\w-]+:/, "").replace(/_(?:preview(?:_|$)|\d)[^]*$/, "")];
  const keys = Object.keys(definition);
  return GOOGLE_TOOLS.flatMap(([key, names]) => (keys.some((one) => key.test(one)) ? names : []));
}

type ToolUses = NonNullable<Usage["serverToolUses"]>;

/** Returns the definitions of the tools that the provider runs, and of others; none where no tool may be called. */
function definitionsIn({ tools, toolChoice, native }: ChatRequest): readonly Readonly<Record<string, unknown>>[] {
  if (toolChoice?.type === "none") return [];
  const definitions = new Set<Readonly<Record<string, unknown>>>(toolsIn(native));
  for (const tool of tools) if (tool.type === "provider") definitions.add(tool.definition);
  return [...definitions];
}

const heldUses = (limit: unknown): number => (isCount(limit) ? Math.min(limit, HELD_USES.most) : HELD_USES.usual);

/**
 * Returns the uses of the provider's tools that a request is held for, but for pictures: the most, and one of each tool; undefined without such
 * a tool.
 */
function usesIn(request: ChatRequest): { readonly most: ToolUses; readonly least: ToolUses } | undefined {
  const { tools, toolChoice, native } = request;
  if (toolChoice?.type === "none") return undefined;
  const most = new Map<string, number>();
  const add = (name: string, limit: unknown): void => {
    const permitted = heldUses(limit);
    most.set(name, Math.max(most.get(name) ?? 0, USED_ONCE.has(name) ? Math.min(1, permitted) : permitted));
  };
  const { max_tool_calls: limit, web_search_options: search } = native?.body ?? {};
  for (const definition of definitionsIn(request))
    for (const name of billedNames(definition)) if (name !== DRAWING) add(name, definition["max_uses"] ?? limit);
  if (tools.some(({ type }) => type === "code-execution")) add("code_interpreter", limit);
  // Models of OpenAI that search are charged for one search.
  if (isJsonObject(search)) add("web_search", 1);
  if (most.size === 0) return undefined;
  const least = Array.from(most, ([name, uses]) => [name, Math.min(1, uses)] as const);
  return { most: Object.fromEntries(most), least: Object.fromEntries(least) };
}

/** Returns a price with the uses of tools. A price that has none for them is asked without. */
const withUses =
  (price: Price, uses: ToolUses): Price =>
  (usage, model, kind, upstream) => {
    const plain = price(usage, model, kind, upstream);
    const priceOf = (counts: Usage): number => price(counts, model, kind, upstream);
    return Math.max(plain, costOr(plain, priceOf, { ...usage, serverToolUses: uses }));
  };

/** The prices of a request before the call. */
export interface HeldPrices {
  /** With one advice of each advisor, one picture, and one use of each tool of the provider: a key that can pay for so much is served. */
  readonly least: Price;
  /** With all advices, pictures and uses that are held. */
  readonly most: Price;
}

/**
 * Returns the prices of a request before the call: of the dearest model that may answer, of the provider's tools, of the advices and of the
 * pictures. An advisor reads the input and what the answering model has written, and a model that draws reads the input.
 */
export function pricesOfHold(price: Price, request: ChatRequest): HeldPrices {
  const { native } = request;
  const among = priceAmong(price, native);
  const uses = usesIn(request);
  const [advisors, drawings] = [advisorsIn(native), drawingsIn(request)];
  const [least, most] = uses ? [withUses(among, uses.least), withUses(among, uses.most)] : [among, among];
  if (advisors.length === 0 && drawings.length === 0) return { least, most };
  const withModels =
    (priceOf: Price, most: number): Price =>
    (usage, model, kind, upstream) => {
      let units = priceOf(usage, model, kind, upstream);
      const inputTokens = usage.inputTokens + usage.outputTokens;
      for (const { model: advisor, uses, outputTokens } of advisors) {
        const reasoningTokens = Math.min(usage.reasoningTokens, outputTokens);
        const advice = { ...usage, inputTokens, outputTokens, reasoningTokens };
        units += Math.min(uses, MAX_ADVICES, most) * Math.ceil(priceOfOther(price, advice, advisor, kind, upstream));
      }
      for (const { model: drawer, uses, outputTokens } of drawings) {
        const output = [{ modality: "image", tokens: outputTokens }] as const;
        const picture = { ...usage, outputTokens, reasoningTokens: 0, details: { ...usage.details, output } };
        const byOther = (counts: Usage): number => priceOfOther(price, counts, drawer ?? model, kind, upstream);
        const own = among(picture, model, kind, upstream);
        const byToken = drawer === undefined ? own : costOr(own, byOther, picture);
        const byNumber = (counts: Usage): number => among(counts, model, kind, upstream);
        const byUse = costOr(0, byNumber, { ...NO_USAGE, serverToolUses: { [DRAWING]: 1 } });
        units += Math.min(uses, most) * Math.ceil(Math.max(byToken, byUse));
      }
      return units;
    };
  return { least: withModels(least, 1), most: withModels(most, Infinity) };
}
