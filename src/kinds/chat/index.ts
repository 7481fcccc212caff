/** Chat as a kind of generation: a request in messages, an answer in text, tool calls and media, counted in tokens. */

import { type FieldPath, GatewayError } from "../../errors.ts";
import type { AnswerEvent, ChatEvent } from "../../model/chat-event.ts";
import { CHAT, type ChatRequest, type ConversationCompaction } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, type JsonBudget, JsonLimitError, parseJson, valueAt } from "../../model/json.ts";
import type { HookToolCall } from "../../ports/hook.ts";
import { compactsItself, type ModelInfo } from "../../ports/model-backend.ts";
import type { ContentCollector, Cost, HookContent, InputCounter, KindCall, KindModule } from "../kind.ts";
import type { inTwoSteps } from "./compaction.ts";
import { countInputTokens, estimateInputTokens } from "./input-tokens.ts";
import { ChatMeter, HIDDEN_INPUT_TOKENS, isTooMuchInput } from "./meter.ts";
import { type HeldPrices, pricesOfHold } from "./model-prices.ts";
import { affordable, chatAmounts, hasFreeModels, tokenPrice } from "./price.ts";
import { limitBeside } from "./reasoning.ts";
import { assertSearchable, endAtStopSequences } from "./stop-sequences.ts";

/** The fields of an endpoint of chat, beside its codec. */
export interface ChatNeeds {
  /** The name of the format. */
  readonly format: string;
  /** The paths of the output limit in this format, one for each spelling, for errors. */
  readonly maxOutputTokensPaths: readonly FieldPath[];
  /** Lists the conversions of one event: of each field that the format cannot express exactly. */
  conversionsOfEvent(event: AnswerEvent): readonly Conversion[];
  /** As `conversionsOfEvent`, for the events of one answer in order. For a format in which the request or earlier events decide. */
  conversionsOf?(request: ChatRequest): (event: AnswerEvent) => readonly Conversion[];
  /** Answers in two steps. Missing for a format whose callers cannot have a conversation compacted. */
  readonly inTwoSteps?: typeof inTwoSteps;
}

/** Chat, whose callers may also ask for the count of the input alone. */
export interface ChatKind extends KindModule<ChatNeeds, ChatRequest, ChatEvent | string, AnswerEvent> {
  readonly input: InputCounter<ChatRequest>;
}

/** Chat as a kind of generation. */
export const chat: ChatKind = {
  name: CHAT,
  verb: "chat",
  counts: ["maxOutputTokens", "candidateCount"],

  input: {
    byBackend: (backend, request, context) => backend.countInputTokens?.(request, context),
    estimate: countInputTokens,
  },

  isPricedByUpstream: ({ price = tokenPrice }) => price !== tokenPrice,
  hasFreeModels: ({ price }) => hasFreeModels(price),

  fit({ maxOutputTokensPaths: paths }, request, model) {
    const most = model?.maxOutputTokens;
    const { reasoning, maxOutputTokens } = request;
    if (request.limitedByDefault) {
      // Default to the model's own output limit. If the limit is unknown, reasoning is not taken from the answer's tokens.
      if (most !== undefined) return { ...request, maxOutputTokens: most };
      const raised = limitBeside(maxOutputTokens, reasoning);
      return raised === maxOutputTokens
        ? request
        : { ...request, maxOutputTokens: raised, maxAnswerTokens: maxOutputTokens };
    }
    if (most === undefined || maxOutputTokens <= most) return request;
    const path = paths.find((each) => valueAt(request.native?.body, each) != null) ?? paths[0] ?? [];
    throw new GatewayError(
      "invalid_request",
      `${path.join(".")}: must be at most ${most} for the model "${request.model}"`,
      { path },
    );
  },

  cost(call, request, { model, countedInput }) {
    const { countTokens, limits } = call;
    if (request.stopSequences.length > 0) assertSearchable(request.stopSequences, limits);
    const inputTokens =
      believed(call, request, countedInput) ?? withinWindow(estimateInputTokens(request, countTokens), model);
    const compaction = request.native?.compaction;
    const inTwoSteps = compaction && twoStepCost(call, request, compaction, inputTokens, model);
    return inTwoSteps ?? costOf(call, request, inputTokens);
  },

  afford(call, request, { inputTokens, steps }, granted) {
    const [tokens, left] = steps
      ? [steps.lastCost.inputTokens, granted - steps.firstCost.atMost]
      : [inputTokens, granted];
    const afforded = affordable(
      request,
      tokens,
      heldPrices(call, request).least,
      left,
      call.upstreamsOf(request.model),
    );
    if (afforded !== request) call.noteAffordedOutput(afforded.maxOutputTokens);
    return afforded;
  },

  mayRunCode: ({ tools }) => tools.some(({ type }) => type === "code-execution"),

  ask(backend, request, context) {
    const compaction = request.native?.compaction;
    const asked = compaction && !compactsItself(backend, request.model) ? compaction.without(request) : request;
    return backend.chat?.(asked, context);
  },

  generation(call, endpoint, request, { cost }) {
    const { stopSequences, candidateCount = 1 } = request;
    const { steps } = cost;
    const twoSteps = steps && endpoint.inTwoSteps?.(call, request, steps, lastUnits(call, request, steps));
    const meter = twoSteps?.meter ?? new ChatMeter(call, request, cost.inputTokens);
    const { format } = endpoint;
    const isOwnBody = request.native?.format === format;
    const stop = { candidateCount, format, isOwnBody, onCut: () => meter.cut() };
    return {
      meter,
      ...(twoSteps && { ask: twoSteps.ask }),
      ...(stopSequences.length > 0 && { shape: (events) => endAtStopSequences(events, stopSequences, stop) }),
      ...(call.isRecorded && { onEvent: noteConversions(call, endpoint, request) }),
    };
  },

  collector: () => new ChatContent(),
};

function costOf(call: KindCall, request: ChatRequest, inputTokens: number): Cost {
  const maxOutputTokens = request.maxOutputTokens * (request.candidateCount ?? 1);
  const { least, most } = heldPrices(call, request);
  const amounts = chatAmounts(request, inputTokens, least, call.upstreamsOf(request.model), most);
  return { ...amounts, inputTokens, maxOutputTokens };
}

/** The default price is the same for all models, and is recognised as such. */
const DEFAULT_PRICES: HeldPrices = { least: tokenPrice, most: tokenPrice };

const heldPrices = ({ prices: { price = tokenPrice } }: KindCall, request: ChatRequest): HeldPrices =>
  price === tokenPrice ? DEFAULT_PRICES : pricesOfHold(price, request);

/** The part of a model's window above which a conversation is compacted, for a caller who names no threshold. */
const WINDOW_SHARE = 4 / 5;

/** Returns the cost of a summary and an answer; undefined for a conversation that is not compacted. */
function twoStepCost(
  call: KindCall,
  request: ChatRequest,
  compaction: ConversationCompaction,
  inputTokens: number,
  model: ModelInfo | undefined,
): Cost | undefined {
  const { threshold = (model?.maxInputTokens ?? Infinity) * WINDOW_SHARE } = compaction;
  if (inputTokens <= threshold || call.compactsItself(request.model)) return undefined;
  const asked = compaction.summaryOf(request);
  if (!asked) return undefined;
  const first =
    chat.fit?.({ format: CHAT, maxOutputTokensPaths: [], conversionsOfEvent: () => [] }, asked, model) ?? asked;
  const firstCost = costOf(call, first, withinWindow(estimateInputTokens(first, call.countTokens), model));
  const behind = estimateInputTokens(compaction.replaced(request, ""), call.countTokens) + first.maxOutputTokens;
  const lastCost = costOf(call, request, behind);
  return {
    // The summary is never shortened: half a summary loses the conversation.
    atLeast: firstCost.atMost + lastCost.atLeast,
    atMost: firstCost.atMost + lastCost.atMost,
    inputTokens: firstCost.inputTokens + lastCost.inputTokens,
    maxOutputTokens: firstCost.maxOutputTokens + lastCost.maxOutputTokens,
    steps: { first, firstCost, lastCost },
  };
}

/** Returns the highest cost of the second step, whose output limit may have been lowered. */
const lastUnits = (call: KindCall, request: ChatRequest, { lastCost }: NonNullable<Cost["steps"]>): number =>
  costOf(call, request, lastCost.inputTokens).atMost;

/** Returns the backend's count of the input; undefined without one, and for a count that cannot be true. */
function believed(call: KindCall, request: ChatRequest, counted: number | undefined): number | undefined {
  if (counted === undefined || (counted > 0 && counted <= HIDDEN_INPUT_TOKENS)) return counted;
  const isTrue = counted > 0 && !isTooMuchInput(counted, estimateInputTokens(request, call.countTokens), request);
  if (isTrue) return counted;
  call.doubt(`The model backend counted ${counted} input tokens before the call.`);
  return undefined;
}

/** Lowers an estimate to the listed window of the model: no model takes more. */
const withinWindow = (tokens: number, { maxInputTokens: most = tokens }: Partial<ModelInfo> = {}): number =>
  most >= 1 && most < tokens ? Math.ceil(most) : tokens;

/** Notes the conversions of the answer for the record. The headers are sent before the answer. */
function noteConversions(call: KindCall, endpoint: ChatNeeds, request: ChatRequest): (event: AnswerEvent) => void {
  const conversions = new Map<string, Conversion>();
  const conversionsOfEvent = endpoint.conversionsOf?.(request) ?? ((event) => endpoint.conversionsOfEvent(event));
  return (event) => {
    for (const conversion of conversionsOfEvent(event)) {
      if (conversions.has(conversion.field)) continue;
      conversions.set(conversion.field, conversion);
      call.noteAnswerConversions([...conversions.values()]);
    }
  };
}

/** The most characters of an answer that hooks see. */
const MAX_CHARS = 262_144;

/** Collects the text, the reasoning and the tool calls of the first candidate. */
class ChatContent implements ContentCollector<AnswerEvent> {
  readonly #calls = new Map<string, { readonly name: string; json: string }>();
  #text = "";
  #reasoning = "";
  #finishReason: HookContent["finishReason"] = undefined;
  #chars = 0;

  onEvent(event: AnswerEvent): void {
    if (event.type === "native") {
      for (const known of event.events) this.onEvent(known);
      return;
    }
    if ("candidate" in event && (event.candidate ?? 0) > 0) return;
    switch (event.type) {
      case "text-delta":
      case "refusal-delta":
        this.#text += this.#fitting(event.text);
        break;
      case "reasoning-delta":
        this.#reasoning += this.#fitting(event.text);
        break;
      case "tool-call":
        this.#begin(event.id, event.name, JSON.stringify(event.input));
        break;
      case "tool-call-start":
        this.#begin(event.id, event.name);
        break;
      case "tool-call-delta": {
        const known = this.#calls.get(event.id);
        if (known) known.json += this.#fitting(event.json);
        break;
      }
      case "finish":
        this.#finishReason = event.endings?.[0].reason;
        break;
      default:
    }
  }

  #begin(id: string, name: string, json = ""): void {
    // A call counts by its name, its id and some characters more, so that many empty calls are bounded too.
    this.#chars += 64 + id.length + name.length + json.length;
    if (this.#chars <= MAX_CHARS) this.#calls.set(id, { name, json });
  }

  #fitting(text: string): string {
    const room = Math.max(0, MAX_CHARS - this.#chars);
    this.#chars += text.length;
    return text.length <= room ? text : text.slice(0, room);
  }

  get bytes(): number {
    return 2 * Math.min(this.#chars, MAX_CHARS);
  }

  content(budget: JsonBudget): HookContent {
    return {
      text: this.#text,
      reasoning: this.#reasoning,
      toolCalls: Array.from(this.#calls, ([id, { name, json }]) => ({ id, name, input: inputOf(json, budget) })),
      finishReason: this.#finishReason,
      isCut: this.#chars > MAX_CHARS,
    };
  }
}

/** Returns the arguments of a call as an object, or as the model wrote them. Throws the errors of the budget's booking. */
function inputOf(json: string, budget: JsonBudget): HookToolCall["input"] {
  try {
    const input = json === "" ? {} : parseJson(json, budget);
    return isJsonObject(input) ? input : json;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonLimitError) return json;
    throw error;
  }
}
