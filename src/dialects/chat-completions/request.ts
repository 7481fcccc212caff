/** A chat-completions request to the neutral request and back; both directions of a field stand side by side. */

import type { ChatRequest, OutputModality, Reasoning, ResponseFormat } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
import { JsonBudget } from "../../model/json.ts";
import { enumSchema } from "../shared/enumerated.ts";
import { choosesNothing, type Losses, reported } from "../shared/fates.ts";
import { FATES, fieldLosses } from "./fates.ts";
import { decodeMessages, MessagesEncoder } from "./request.messages.ts";
import { decodeTool, decodeToolChoice, encodeTool, encodeToolChoice } from "./request.tools.ts";
import { type ChatCompletionsRequest, MAX_STOPS, type ResponseFormat as WireFormat, unsaidIn } from "./schema.ts";
import { DIALECT } from "./schema.base.ts";

/**
 * Returns the neutral request. Unknown fields stay in `native`. Throws `invalid_request` for the arguments of a tool call that go
 * beyond the budget.
 *
 * @param json Counts the values of the body, and of the arguments in it.
 */
export function decodeRequest(
  body: ChatCompletionsRequest,
  defaultMaxOutputTokens: number,
  json: JsonBudget = new JsonBudget(),
): ChatRequest {
  const { temperature, top_p, presence_penalty, frequency_penalty, seed, n } = body;
  const { tool_choice, parallel_tool_calls, response_format, reasoning_effort, modalities, audio, service_tier } = body;
  const limit = body.max_completion_tokens ?? body.max_tokens;
  const toolChoice = decodeToolChoice(tool_choice, parallel_tool_calls);
  const responseFormat = decodeResponseFormat(response_format);
  const { user, safety_identifier } = body;
  const endUser = safety_identifier ?? user;
  const stops = typeof body.stop === "string" ? [body.stop] : (body.stop ?? []);
  const voice = typeof audio?.voice === "string" ? audio.voice : undefined;
  return {
    model: body.model,
    ...decodeMessages(body.messages, json),
    tools: (body.tools ?? []).map(decodeTool),
    maxOutputTokens: limit ?? defaultMaxOutputTokens,
    ...(limit == null && { limitedByDefault: true }),
    // An empty text ends nothing.
    stopSequences: stops.filter((stop) => stop !== ""),
    stream: body.stream ?? false,
    ...(toolChoice && { toolChoice }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { topP: top_p }),
    ...(presence_penalty != null && { presencePenalty: presence_penalty }),
    ...(frequency_penalty != null && { frequencyPenalty: frequency_penalty }),
    ...(seed != null && { seed }),
    ...(n != null && { candidateCount: n }),
    ...(body.logprobs && { logprobs: { top: body.top_logprobs ?? 0 } }),
    ...(responseFormat && { responseFormat }),
    ...(reasoning_effort != null && { reasoning: decodeReasoning(reasoning_effort) }),
    ...(modalities != null && { modalities }),
    ...(voice !== undefined && { speech: { voice } }),
    ...(service_tier != null && { serviceTier: service_tier }),
    ...(endUser != null && { endUser }),
    native: {
      dialect: DIALECT,
      body,
      betas: [],
      // The neutral request knows one end user.
      unsaid: () => [...unsaidIn(body), ...(user != null && user !== endUser ? ["user"] : [])],
    },
  };
}

export interface Encoded {
  readonly body: ChatCompletionsRequest;
  readonly fates: readonly FieldFate[];
}

/** The request as this format says it, of its neutral fields alone. */
export function encodeRequest(request: ChatRequest): Encoded {
  const losses: Losses = new Set(fieldLosses(request));
  const { temperature, topP, presencePenalty, frequencyPenalty, seed, candidateCount, logprobs } = request;
  const { toolChoice, responseFormat, reasoning, serviceTier, endUser } = request;
  const tools = request.tools.flatMap((tool) => encodeTool(tool, losses));
  const body: ChatCompletionsRequest = {
    model: request.model,
    messages: withDetail(new MessagesEncoder(losses).encode(request.system, request.messages), request.mediaResolution),
    max_completion_tokens: request.maxOutputTokens,
    ...(request.stream && { stream: true, stream_options: { include_usage: true } }),
    ...(request.stopSequences.length > 0 && { stop: encodeStops(request.stopSequences, losses) }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(presencePenalty !== undefined && { presence_penalty: presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequency_penalty: frequencyPenalty }),
    ...(seed !== undefined && { seed }),
    ...(candidateCount !== undefined && { n: candidateCount }),
    ...(logprobs && { logprobs: true, ...(logprobs.top > 0 && { top_logprobs: logprobs.top }) }),
    ...(tools.length > 0 && { tools }),
    ...(toolChoice && !choosesNothing(request) && encodeToolChoice(toolChoice, tools, losses)),
    ...(responseFormat && { response_format: encodeResponseFormat(responseFormat, losses) }),
    ...(reasoning && encodeReasoning(reasoning, losses)),
    ...(request.modalities && encodeModalities(request.modalities, request, losses)),
    ...(serviceTier !== undefined && { service_tier: serviceTier }),
    ...(endUser !== undefined && { user: endUser }),
  };
  return { body, fates: reported(FATES, losses, request) };
}

function encodeStops(stops: readonly string[], losses: Losses): string[] {
  if (stops.length > MAX_STOPS) losses.add("stopSequences");
  return stops.slice(0, MAX_STOPS);
}

function decodeResponseFormat(format: WireFormat | null | undefined): ResponseFormat | undefined {
  if (format == null || format.type === "text") return undefined;
  if (format.type === "json_object") return { type: "json" };
  const { name, schema, strict } = format.json_schema;
  return { type: "json", name, ...(schema != null && { schema }), ...(strict != null && { strict }) };
}

function encodeResponseFormat(format: ResponseFormat, losses: Losses): WireFormat {
  if (format.type === "enum") {
    losses.add("responseFormat.enum");
    return {
      type: "json_schema",
      json_schema: { name: DEFAULT_NAME, schema: enumSchema(format.values), strict: true },
    };
  }
  const { schema, name, strict } = format;
  if (!schema && name === undefined) return { type: "json_object" };
  if (name === undefined) losses.add("responseFormat.name");
  const json_schema = {
    name: name ?? DEFAULT_NAME,
    ...(schema && { schema }),
    ...(strict !== undefined && { strict }),
  };
  return { type: "json_schema", json_schema };
}

const DEFAULT_NAME = "answer";

type WireEffort = NonNullable<ChatCompletionsRequest["reasoning_effort"]>;

function decodeReasoning(effort: WireEffort): Reasoning {
  if (effort === "none") return { type: "disabled" };
  return { type: "adaptive", effort };
}

/** Up to how many tokens of reasoning an effort is meant. */
const BUDGETS = [
  [2_048, "low"],
  [8_192, "medium"],
] as const;

function encodeReasoning(reasoning: Reasoning, losses: Losses): { reasoning_effort?: WireEffort } {
  if (reasoning.type === "disabled") return { reasoning_effort: "none" };
  if (reasoning.visible === false) losses.add("reasoning.visible");
  if (reasoning.type === "enabled") {
    losses.add("reasoning.budgetTokens");
    const [, effort = "high"] = BUDGETS.find(([most]) => reasoning.budgetTokens <= most) ?? [];
    return { reasoning_effort: effort };
  }
  if (reasoning.effort) return { reasoning_effort: reasoning.effort };
  losses.add("reasoning.adaptive");
  return {};
}

const DEFAULT_VOICE = "alloy";

/** Sound needs a voice and a form: of the forms, only bare samples can be streamed. */
function encodeModalities(
  modalities: readonly OutputModality[],
  { speech, stream }: ChatRequest,
  losses: Losses,
): Pick<ChatCompletionsRequest, "modalities" | "audio"> {
  if (modalities.includes("image")) losses.add("modalities");
  const said = modalities.filter((modality) => modality !== "image");
  if (!said.includes("audio")) return { modalities: said };
  return { modalities: said, audio: { voice: speech?.voice ?? DEFAULT_VOICE, format: stream ? "pcm16" : "wav" } };
}

const DETAIL = { low: "low", medium: "auto", high: "high" } as const;

/** A resolution for all media is the detail of each picture that has none of its own. */
function withDetail(
  messages: ChatCompletionsRequest["messages"],
  resolution: ChatRequest["mediaResolution"],
): ChatCompletionsRequest["messages"] {
  if (!resolution) return messages;
  for (const { content } of messages)
    for (const part of Array.isArray(content) ? content : [])
      if (part.type === "image_url") part.image_url.detail ??= DETAIL[resolution];
  return messages;
}
