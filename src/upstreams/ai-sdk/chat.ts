/**
 * Calls a language model of an AI SDK provider: encodes the options of the call, fits the reasoning to the model, and reads the complete or the
 * streamed answer.
 */

import { backendError, backendFailed } from "../../errors.ts";
import { withoutPrefill } from "../../formats/shared/claude.ts";
import { approximated, type ConvertedFields, dropped, withLostResults } from "../../formats/shared/conversions.ts";
import { argumentsSchema, isHeld, isStrict } from "../../formats/shared/held-schema.ts";
import { enumSchema } from "../../formats/shared/schema.ts";
import { toolNamesFor } from "../../formats/shared/tool-names.ts";
import { answeredTier } from "../../formats/shared/usage.decode.ts";
import { budgetOf, effortOf, limitWithoutReasoning, loopStart, turnsOf } from "../../kinds/chat/reasoning.ts";
import type { ChatEvent } from "../../model/chat-event.ts";
import { CHAT, type ChatRequest, type Reasoning } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { given, isJsonObject, type JsonObject } from "../../model/json.ts";
import { EVENTS_A_SLICE, nextIteration } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { reportConversions } from "../relay/chat.ts";
import { decodeUsage, ModelAnswerDecoder } from "./answer.ts";
import {
  anthropicBudget,
  conversionsOf,
  conversionsOfWarnings,
  functionChoice,
  MIN_BUDGET,
  takesUser,
  type Traits,
  traitsOf,
} from "./conversions.ts";
import { decodeError, ModelCall } from "./model-call.ts";
import { type AiSdkChatModel, type ProviderOptions, rulesOf, type Settings } from "./options.ts";
import { encodePrompt, hintOf, type PromptMessage } from "./prompt.ts";
import { mergedMetadata } from "./seals.ts";

/** The methods of a language model that are called. Their answers are not trusted. */
interface CallableChatModel {
  doGenerate(options: CallOptions): PromiseLike<unknown>;
  doStream(options: CallOptions): PromiseLike<unknown>;
}

export async function* askChat(
  model: AiSdkChatModel,
  request: ChatRequest,
  context: CallContext,
  settings: Settings,
): AsyncGenerator<ChatEvent> {
  const { strict, showModel, providerOptions, timeouts, memory } = settings;
  const rules = rulesOf(settings, model.modelId, request.model);
  const call = new ModelCall(settings, context);
  /** The answer, or the part of a stream, that is being decoded. */
  let decoding: JsonObject = {};
  try {
    call.signal.throwIfAborted();
    // Read the addresses that the model supports only when the request contains an address.
    const urls = hasAddress(request) ? await call.wait(Promise.resolve(model.supportedUrls)) : undefined;
    const traits = traitsOf(model, urls, settings);
    const { maker } = traits.signer;
    const asked = memory.restored(context.key.id, withLostResults(request), maker);
    const names = toolNamesFor(asked, traits.toolNames);
    const encoded = encodeCall(names ? names.inRequest(asked) : asked, traits, providerOptions);
    const { options } = encoded;
    const conversions = names ? [...encoded.conversions, names.conversion] : encoded.conversions;
    // Report first: this may refuse the request, before the model is called.
    reportConversions(conversions, context, strict);
    const report = (warnings: unknown): void =>
      reportConversions([...conversions, ...conversionsOfWarnings(warnings)], context, strict);
    const remember = memory.recorder(context.key.id, maker);
    const tier = tierIn(options.providerOptions);
    const told = (events: readonly ChatEvent[]): readonly ChatEvent[] =>
      remembered(names ? events.map((event) => names.inAnswer(event)) : events, remember);
    const decoder = new ModelAnswerDecoder(traits, showModel ? undefined : request.model, rules, tier);
    let rest: Iterable<ChatEvent> = [];
    context.reportUnread?.(() => rest);
    const callable: CallableChatModel = model;
    const callOptions = { ...options, abortSignal: call.signal };
    call.asks(model, { kind: CHAT, stream: request.stream, modelListed: settings.listed });
    if (!request.stream) {
      call.exchange.enter({ name: "complete answer", limitMs: timeouts.completeMs });
      const answer = await call.wait(callable.doGenerate(callOptions));
      if (!isJsonObject(answer)) throw backendFailed("The model backend's answer is none.");
      report(answer["warnings"]);
      decoding = answer;
      rest = told(decoder.answer(answer)).values();
      yield* rest;
      return;
    }
    call.exchange.enter({ name: "first event", limitMs: timeouts.firstEventMs });
    const reader = readerOf(await call.wait(callable.doStream(callOptions)));
    call.release = () => void Promise.resolve(reader.cancel()).catch(() => {});
    for (let count = 1; !decoder.isFinished; count++) {
      const { done, value } = await call.wait(reader.read());
      if (done) throw backendError("brokeOff", undefined);
      if (!isJsonObject(value)) throw backendFailed("The model backend's answer has a part that is none.");
      if (count === 1) call.exchange.enter({ name: "next event", limitMs: timeouts.betweenEventsMs });
      else call.exchange.touch();
      if (value["type"] === "stream-start") report(value["warnings"]);
      else yield* (rest = told(decoder.part((decoding = value))).values());
      if (count % EVENTS_A_SLICE === 0) await nextIteration();
    }
  } catch (error) {
    // The provider bills a broken answer by its counts, too.
    const usage = decodeUsage(decoding["usage"], decoding["providerMetadata"]);
    if (Object.keys(usage).length > 0) yield { type: "usage", usage };
    throw call.failed(decodeError(error, rules));
  } finally {
    call.end();
  }
}

/** Returns the service tier that the host's options ask for, in the fields of the providers; undefined where the provider chooses. */
function tierIn(options: ProviderOptions = {}): string | undefined {
  const words = Object.values(options).flatMap((own) => [own["serviceTier"], own["sharedRequestType"]]);
  return answeredTier(words.find((word) => typeof word === "string"));
}

/** Passes events on, and lets the memory read them. */
function remembered(
  events: readonly ChatEvent[],
  remember: ((event: ChatEvent) => void) | undefined,
): readonly ChatEvent[] {
  if (remember) for (const event of events) remember(event);
  return events;
}

const hasAddress = ({ messages }: ChatRequest): boolean =>
  messages.some(({ parts }) =>
    parts.some((part) => [part, ...(part.type === "tool-result" ? part.parts : [])].some(isAddressed)),
  );

const isAddressed = (part: { readonly type: string; readonly source?: { readonly type: string } }): boolean =>
  part.source?.type === "url" || part.source?.type === "parts";

/** Recognizes a stream by its methods: a provider may use a stream of another realm or of its own. */
function readerOf(answer: unknown): ReadableStreamDefaultReader<unknown> {
  const { stream } = (answer ?? {}) as { readonly stream?: Partial<ReadableStream<unknown>> | null };
  if (typeof stream?.getReader !== "function") throw backendFailed("The model backend's answer is no stream.");
  return (stream as ReadableStream<unknown>).getReader();
}

/** The options of a call in versions 2 to 4 of the providers' interface. */
interface CallOptions {
  readonly prompt: readonly PromptMessage[];
  readonly maxOutputTokens: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly seed?: number;
  readonly stopSequences?: readonly string[];
  readonly responseFormat?: { readonly type: "json"; readonly schema?: JsonObject; readonly name?: string };
  readonly tools?: readonly FunctionToolOption[];
  readonly toolChoice?:
    | { readonly type: "auto" | "none" | "required" }
    | { readonly type: "tool"; readonly toolName: string };
  /** Only in version 4. */
  readonly reasoning?: string;
  readonly abortSignal: AbortSignal;
  readonly providerOptions?: ProviderOptions;
}

interface FunctionToolOption {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly strict?: boolean;
  readonly providerOptions?: ProviderOptions;
}

interface EncodedCall {
  readonly options: Omit<CallOptions, "abortSignal">;
  readonly conversions: readonly Conversion[];
}

/** @param own The host's provider options. They replace the options that are made from the request. */
export function encodeCall(caller: ChatRequest, traits: Traits, own: ProviderOptions): EncodedCall {
  const lost: ConvertedFields = new Set();
  const asked = traits.family === "anthropic" ? fitAnthropic(caller, traits, lost) : caller;
  const { prompt, conversions } = encodePrompt(asked, traits, lost);
  const { request, conversions: changes } = fitReasoning(asked, prompt, traits);
  const { temperature, topP, topK, seed, presencePenalty, frequencyPenalty, stopSequences } = request;
  const providerOptions = mergedMetadata(providerOptionsOf(request, traits), own);
  // Subtract the reasoning budget: the Anthropic provider adds it to the output limit, but the request's limit includes it.
  const budgetTokens = traits.family === "anthropic" ? anthropicBudget(request) : 0;
  const options = {
    prompt,
    maxOutputTokens: Math.max(1, request.maxOutputTokens - budgetTokens),
    ...given({ temperature, topP, topK, seed, presencePenalty, frequencyPenalty }),
    ...(stopSequences.length > 0 && { stopSequences }),
    ...formatOf(request),
    ...toolsOf(request, traits, lost),
    ...reasoningField(request, traits),
    ...(Object.keys(providerOptions).length > 0 && { providerOptions }),
  };
  return { options, conversions: [...conversionsOf(request, traits, lost), ...conversions, ...changes] };
}

/** Returns the request without stop sequences of white space, and without a prefill where the model refuses it. */
function fitAnthropic(request: ChatRequest, { modelId }: Traits, lost: ConvertedFields): ChatRequest {
  const stopSequences = request.stopSequences.filter((stop) => /\S/.test(stop));
  if (stopSequences.length < request.stopSequences.length) lost.add("stopSequences");
  return withoutPrefill({ ...request, stopSequences }, lost, modelId);
}

function formatOf({ responseFormat }: ChatRequest): Pick<CallOptions, "responseFormat"> {
  if (!responseFormat) return {};
  if (responseFormat.type === "enum")
    return { responseFormat: { type: "json", schema: enumSchema(responseFormat.values) } };
  const { schema, name } = responseFormat;
  return { responseFormat: { type: "json", ...(schema && { schema }), ...(name !== undefined && { name }) } };
}

/** Tells whether a provider takes `strict` beside a schema of arguments. Of other providers, nothing is known. */
const TAKES_STRICT: Readonly<Partial<Record<NonNullable<Traits["family"]>, (schema: JsonObject) => boolean>>> = {
  anthropic: isHeld,
  openai: isStrict,
};

function toolsOf(
  request: ChatRequest,
  { family, supports }: Traits,
  lost: ConvertedFields,
): Pick<CallOptions, "tools" | "toolChoice"> {
  const takesStrict = (family && TAKES_STRICT[family]) ?? (() => true);
  const choice = functionChoice(request);
  const names = choice && "names" in choice ? choice.names : undefined;
  const tools: FunctionToolOption[] = [];
  for (const tool of request.tools) {
    if (tool.type !== "function" || names?.includes(tool.name) === false) continue;
    const { name, description, strict, cache } = tool;
    const inputSchema = family === "google" ? tool.inputSchema : argumentsSchema(tool.inputSchema, lost);
    const isLax = strict === true && !takesStrict(inputSchema);
    if (isLax) lost.add("tools.function.strict");
    tools.push({
      type: "function",
      name,
      ...(description !== undefined && { description }),
      inputSchema,
      ...(strict !== undefined && !isLax && supports.has("tools.function.strict") && { strict }),
      ...(cache && family === "anthropic" && { providerOptions: hintOf(cache) }),
    });
  }
  if (tools.length === 0) return {};
  if (!choice) return { tools };
  const { type } = choice;
  return { tools, toolChoice: type === "tool" ? { type, toolName: choice.name } : { type } };
}

/** Encodes the fields that only the provider's own options can express. */
function providerOptionsOf(request: ChatRequest, traits: Traits): ProviderOptions {
  const { family, provider, version } = traits;
  const { toolChoice } = request;
  const endUser = request.endUser !== undefined && takesUser(request.endUser, traits) ? request.endUser : undefined;
  const isSingle = toolChoice !== undefined && toolChoice.type !== "none" && !toolChoice.parallel;
  const options: Record<string, JsonObject> = {};
  switch (family) {
    case "anthropic":
      options["anthropic"] = {
        ...anthropicThinking(request, version),
        ...(isSingle && { disableParallelToolUse: true }),
        ...(endUser !== undefined && { metadata: { userId: endUser } }),
      };
      break;
    case "google":
      for (const name of /vertex/i.test(provider) ? ["googleVertex", "vertex"] : ["google"])
        options[name] = googleOptions(request, version);
      break;
    case "openai":
      options["openai"] = {
        ...(isSingle && { parallelToolCalls: false }),
        ...(endUser !== undefined && { user: endUser }),
        ...(version !== "v4" && openaiEffort(request)),
      };
      break;
    case undefined:
  }
  return Object.fromEntries(Object.entries(options).filter(([, own]) => Object.keys(own).length > 0));
}

function googleOptions(request: ChatRequest, version: Traits["version"]): JsonObject {
  const thinkingConfig = googleThinking(request, version);
  const responseModalities = (request.modalities ?? [])
    .filter((modality) => modality !== "audio")
    .map((modality) => modality.toUpperCase());
  return {
    ...(Object.keys(thinkingConfig).length > 0 && { thinkingConfig }),
    ...(responseModalities.length > 0 && { responseModalities }),
  };
}

/**
 * Returns the request with reasoning that the model accepts, and the conversions of what had to change. The provider itself leaves out the
 * sampling options that a reasoning model refuses, and warns of them.
 *
 * @param prompt The encoded conversation.
 */
function fitReasoning(
  request: ChatRequest,
  prompt: readonly PromptMessage[],
  traits: Traits,
): { readonly request: ChatRequest; readonly conversions: readonly Conversion[] } {
  const { reasoning: asked, ...rest } = request;
  if (!asked) return { request, conversions: [] };
  // An unknown model may refuse a limit with room for more than its answer.
  const mayExceed = traits.control === undefined ? asked.type === "enabled" : traits.control !== "none";
  const others = mayExceed ? rest : { ...rest, maxOutputTokens: limitWithoutReasoning(request) };
  const conversions: Conversion[] = [];
  const reasoning = controlled(asked, traits, conversions);
  const fitting = reasoning ? { ...others, reasoning } : others;
  const why = traits.family === "anthropic" ? obstacleTo(fitting, prompt) : undefined;
  if (why === undefined) return { request: fitting, conversions };
  // Models that take only an effort may refuse this word, and accept what stands beside reasoning. Others reason unless it is forbidden.
  const off = traits.control === "effort" ? {} : { reasoning: { type: "disabled" } as const };
  return { request: { ...others, ...off }, conversions: [{ field: "reasoning", ...dropped(why) }] };
}

/** Converts reasoning to the control that the model has, if that is known. */
function controlled(asked: Reasoning, { control }: Traits, conversions: Conversion[]): Reasoning | undefined {
  const visible = asked.type !== "disabled" && asked.visible !== undefined ? { visible: asked.visible } : {};
  if (control === "none") {
    if (asked.type !== "disabled") conversions.push({ field: "reasoning", ...dropped("The model does not reason.") });
    return undefined;
  }
  if (control === "budget" && asked.type === "adaptive") {
    const field = asked.effort === undefined ? "reasoning.adaptive" : "reasoning.effort";
    conversions.push({ field, ...approximated("The model takes a budget, so the usual budget is sent.") });
    return { type: "enabled", budgetTokens: budgetOf(asked.effort), ...visible };
  }
  if (control === "effort" && asked.type === "enabled") {
    const why = "The model takes an effort, so the nearest effort is sent.";
    conversions.push({ field: "reasoning.budgetTokens", ...approximated(why) });
    return { type: "adaptive", effort: effortOf(asked.budgetTokens), ...visible };
  }
  return asked;
}

/** Returns the reason why Anthropic would refuse the request because of its reasoning; undefined when there is none. */
function obstacleTo(request: ChatRequest, prompt: readonly PromptMessage[]): string | undefined {
  const { reasoning } = request;
  if (!reasoning || reasoning.type === "disabled") return undefined;
  const forced = functionChoice(request)?.type;
  if (forced === "required" || forced === "tool") return "A model that reasons cannot be forced to call a tool.";
  if (prompt.at(-1)?.role === "assistant") return "A model that reasons cannot continue a turn.";
  if (reasoning.type === "adaptive") return undefined;
  if (anthropicBudget(request) < MIN_BUDGET) return "The output limit has no room for reasoning.";
  const start = loopStart(prompt, ({ role }) => role === "tool");
  if (turnsOf(prompt.slice(start)).every(beginsWithReasoning)) return undefined;
  return "A turn of the tool calls that the results continue began without this provider's reasoning.";
}

const beginsWithReasoning = ({ content: [first] }: PromptMessage): boolean =>
  typeof first === "object" && first.type === "reasoning";

/**
 * Encodes the reasoning effort as the field of version 4. Leaves it out when the provider's own options express the reasoning more
 * exactly.
 */
function reasoningField({ reasoning }: ChatRequest, { version, supports, family }: Traits): { reasoning?: string } {
  if (!reasoning || version !== "v4") return {};
  if (reasoning.type === "adaptive") return reasoning.effort === undefined ? {} : { reasoning: reasoning.effort };
  if (reasoning.type === "disabled") return family === "anthropic" ? {} : { reasoning: "none" };
  return supports.has("reasoning.budgetTokens") ? {} : { reasoning: effortOf(reasoning.budgetTokens) };
}

function anthropicThinking(request: ChatRequest, version: Traits["version"]): JsonObject {
  const { reasoning } = request;
  if (!reasoning) return {};
  if (reasoning.type === "enabled") return { thinking: { type: "enabled", budgetTokens: anthropicBudget(request) } };
  const effort = reasoning.type === "adaptive" ? reasoning.effort : undefined;
  if (effort === undefined) return { thinking: { type: reasoning.type } };
  // In version 4, `reasoningField` sends the effort, and the provider translates it for its model.
  return version === "v4" ? {} : { thinking: { type: "adaptive" }, effort: effort === "minimal" ? "low" : effort };
}

function googleThinking({ reasoning }: ChatRequest, version: Traits["version"]): JsonObject {
  return {
    ...(reasoning?.type === "disabled" && version !== "v4" && { thinkingBudget: 0 }),
    ...(reasoning?.type === "enabled" && { thinkingBudget: reasoning.budgetTokens }),
    ...(reasoning && reasoning.type !== "disabled" && { includeThoughts: reasoning.visible ?? true }),
  };
}

function openaiEffort({ reasoning }: ChatRequest): JsonObject {
  if (reasoning?.type === "enabled") return { reasoningEffort: effortOf(reasoning.budgetTokens) };
  if (reasoning?.type === "disabled") return { reasoningEffort: "none" };
  return reasoning?.effort === undefined ? {} : { reasoningEffort: reasoning.effort };
}
