/** The rule for each field's conversion between formats, and the list of fields that a request or an answer cannot convert exactly. */

import {
  type Annotation,
  type AnswerEvent,
  citationsIn,
  type ContentEvent,
  type FinishReason,
} from "../../model/chat-event.ts";
import type { ChatRequest, JsonPart, Part, ProviderPart, Tool, ToolChoice } from "../../model/chat-request.ts";
import type { Conversion, ConversionKind } from "../../model/conversion.ts";
import type { Usage } from "../../model/usage.ts";
import { hasLateResults, isHosted, isWebSearch } from "./tools.ts";

/** A conversion that changes or loses something, with the reason as a short sentence. */
interface Unsupported {
  readonly conversion: Exclude<ConversionKind, "exact">;
  readonly why: string;
}

export type ConversionRule = { readonly conversion: "exact" } | Unsupported;

export const EXACT: ConversionRule = { conversion: "exact" };
export const approximated = (why: string): Unsupported => ({ conversion: "approximated", why });
export const emulated = (why: string): Unsupported => ({ conversion: "emulated", why });
export const dropped = (why: string): Unsupported => ({ conversion: "dropped", why });
export const rejected = (why: string): Unsupported => ({ conversion: "rejected", why });

/** A property or a part of a field that has a conversion rule of its own. */
type Detail =
  /** The whole conversation, if no part of it can be converted. */
  | "messages.none"
  | "messages.name"
  | "messages.role.system"
  /** An assistant's turn at the end of the conversation, which the answer continues. */
  | "messages.prefill"
  /** A cache hint on any part, instruction or tool. */
  | "messages.cache"
  /** A signature on a part other than reasoning. */
  | "messages.signature"
  | "messages.thought"
  /** Media whose kind, type or source the format does not accept: a sound, a video, or the address of a picture. */
  | "messages.media.audio"
  | "messages.media.video"
  | "messages.media.url"
  | "messages.media.detail"
  /** Files of the assistant that are sent as the user's. */
  | "messages.media.moved"
  | "messages.document.url"
  | "messages.document.text"
  | "messages.document.citations"
  | "messages.document.title"
  | "messages.document.context"
  | "messages.reasoning.unsealed"
  /** Reasoning whose maker is not the upstream's format. */
  | "messages.reasoning.foreign"
  /** A signature on a part other than reasoning, whose maker is not the upstream's format. */
  | "messages.signature.foreign"
  /** The id that a tool call and its result share, if the format does not accept this id. */
  /** An encrypted compaction of a provider. It stands for all turns before it. */
  | "messages.compaction"
  | "messages.tool-call.id"
  /** A tool call that stands before other parts of its turn. */
  | "messages.tool-call.order"
  /** A tool result that stands after a text or a file since its call. */
  | "messages.tool-result.order"
  /** The tool's name in a result, if it differs from the name in the call. */
  | "messages.tool-result.name"
  /** A tool result whose call is not in the conversation. */
  | "messages.tool-result.unasked"
  | "messages.tool-result.media"
  | "messages.tool-result.isError"
  | "messages.tool-result.text"
  | "messages.tool-result.json"
  | "tools.function.name"
  | "tools.function.strict"
  /** The schema of a tool's arguments, if its root is a union. */
  | "tools.function.schema"
  /** The grammar of a tool whose input is a text. */
  | "tools.function.custom"
  /** A tool of Responses that its provider runs itself. */
  | "tools.hosted"
  /** The web search of Responses. */
  | "tools.web-search"
  /** A choice that demands a tool which is not offered to the model. */
  | "toolChoice.unmet"
  | "toolChoice.names"
  | "toolChoice.parallel"
  | "reasoning.adaptive"
  | "reasoning.budgetTokens"
  | "reasoning.effort"
  | "reasoning.visible"
  | "responseFormat.enum"
  | "responseFormat.name"
  | "responseFormat.schema"
  | "responseFormat.strict";

export type ConvertedField = keyof ChatRequest | `messages.${Part["type"]}` | `tools.${Tool["type"]}` | Detail;

export type ConvertedFields = Set<ConvertedField>;

/** A rule for each field of the neutral request, each kind of part and each kind of tool. */
export type ConversionTable = Readonly<Record<ConvertedField, ConversionRule>>;

/** The fields that have no common rule, because the formats differ too much. */
type OwnField =
  | "messages.signature"
  | "messages.thought"
  | "messages.media"
  | "messages.media.audio"
  | "messages.media.video"
  | "messages.document"
  | "messages.document.url"
  | "reasoning.budgetTokens"
  | "reasoning.effort"
  | "modalities"
  | "serviceTier";

/** The rule for a tool whose name the upstream does not accept. */
export const RENAMED_TOOL: Unsupported = emulated(
  "The gateway replaces a name that the upstream does not accept, and restores it in the answer.",
);

/** The rules that most formats share. A format's own table overrides the rules that differ in that format. */
const COMMON: Readonly<Record<Exclude<ConvertedField, OwnField>, ConversionRule>> = {
  model: EXACT,
  messages: EXACT,
  "messages.none": EXACT,
  "messages.name": dropped("Only one participant of each role is possible."),
  "messages.role.system": approximated("Instructions inside the conversation are sent as the user's."),
  "messages.prefill": approximated("The model may start a new answer instead of continuing the last turn."),
  "messages.cache": dropped("Prompts are cached without hints."),
  "messages.text": EXACT,
  "messages.media.url": EXACT,
  "messages.media.detail": dropped("The detail of a picture cannot be chosen."),
  "messages.media.moved": approximated("Pictures and files of the assistant are sent with the user's next turn."),
  "messages.document.text": approximated("A text document is sent as plain text."),
  "messages.document.citations": dropped("Citations cannot be requested."),
  "messages.document.title": EXACT,
  "messages.document.context": dropped("A document has no context."),
  "messages.tool-call": EXACT,
  "messages.tool-call.id": EXACT,
  "messages.tool-call.order": EXACT,
  "messages.tool-result": EXACT,
  "messages.tool-result.order": approximated("Tool results precede the other parts of their turn."),
  "messages.tool-result.name": dropped("Only the call names its tool."),
  "messages.tool-result.unasked": rejected("A tool result needs its call in the conversation."),
  "messages.tool-result.media": EXACT,
  "messages.tool-result.isError": approximated("A tool's failure is sent as text."),
  "messages.tool-result.text": EXACT,
  "messages.tool-result.json": approximated("Structured data is sent as JSON text."),
  "messages.reasoning": EXACT,
  "messages.reasoning.unsealed": EXACT,
  "messages.reasoning.foreign": dropped("Only the provider that made this reasoning accepts it."),
  "messages.signature.foreign": dropped("Only the provider that made this signature accepts it."),
  "messages.redacted-reasoning": dropped("Only the provider that encrypted this reasoning can read it."),
  "messages.refusal": approximated("A refusal is sent as text."),
  "messages.code": approximated("Code is sent as text."),
  "messages.code-result": approximated("The output of code is sent as text."),
  "messages.compaction": rejected("Only the provider that made this compaction can read it."),
  "messages.provider": dropped("Only another format has this part."),
  system: EXACT,
  tools: EXACT,
  "tools.function": EXACT,
  "tools.function.name": RENAMED_TOOL,
  "tools.function.strict": EXACT,
  "tools.function.schema": approximated("The properties of all alternatives are offered as those of one object."),
  "tools.function.custom": approximated("The input of the tool is an argument, and follows no grammar."),
  "tools.hosted": dropped("No upstream of this format runs the tool."),
  "tools.web-search": dropped("No upstream of this format runs the tool."),
  "tools.code-execution": dropped("The model cannot be given a tool that runs code."),
  "tools.provider": dropped("Only another format has this tool."),
  toolChoice: dropped("Not all tools are left to choose."),
  "toolChoice.unmet": rejected("The tool that the model must call is left out."),
  "toolChoice.names": emulated("Only the tools that may be called are offered."),
  "toolChoice.parallel": EXACT,
  maxOutputTokens: EXACT,
  limitedByDefault: EXACT,
  maxAnswerTokens: EXACT,
  temperature: EXACT,
  topP: EXACT,
  topK: EXACT,
  stopSequences: EXACT,
  reasoning: EXACT,
  "reasoning.adaptive": approximated("The model decides whether and how much it reasons."),
  "reasoning.visible": emulated("The answer has its reasoning, and the gateway leaves it out."),
  responseFormat: EXACT,
  "responseFormat.enum": emulated("JSON with one of the texts is requested, and the text is taken out of it."),
  "responseFormat.name": dropped("Schemas have no name."),
  "responseFormat.schema": EXACT,
  "responseFormat.strict": approximated("Answers always follow their schema."),
  candidateCount: dropped("There is only one answer."),
  seed: EXACT,
  presencePenalty: EXACT,
  frequencyPenalty: EXACT,
  logprobs: dropped("Probabilities are not available."),
  speech: dropped("Answers are not spoken."),
  mediaResolution: dropped("The resolution of media cannot be chosen."),
  safety: dropped("Safety filters cannot be set."),
  cachedContent: rejected("Only the provider that holds this part of the prompt can read it."),
  enhancedCivicAnswers: dropped("Enhanced answers do not exist."),
  endUser: EXACT,
  stream: EXACT,
  native: dropped("Only the caller's own format has this field."),
};

/** Adds the common rules to a format's own rules. The compiler demands a rule for each field without a common rule. */
export const conversionTable = (
  own: Readonly<Record<OwnField, ConversionRule>> & Partial<ConversionTable>,
): ConversionTable => ({ ...COMMON, ...own });

/** Fields that some formats lack entirely. */
const RARE = [
  "topK",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "logprobs",
  "mediaResolution",
  "cachedContent",
  "enhancedCivicAnswers",
  "serviceTier",
  "endUser",
] as const satisfies (keyof ChatRequest)[];

/**
 * Collects the fields of a request that at least one format cannot convert exactly. Each format then removes the fields whose value it
 * supports, adds the fields that it checks itself, and looks up the rule for each field in its table.
 *
 * @param format The format that the request is encoded in. Provider parts and tools of this format need no conversion.
 */
export function convertedFields(request: ChatRequest, format?: string): ConvertedFields {
  const { candidateCount = 1, modalities = [], safety = [], speech = {} } = request;
  const { system, messages, tools, toolChoice, responseFormat } = request;
  const fields: ConvertedFields = new Set();
  for (const field of RARE) if (request[field] !== undefined) fields.add(field);
  if (candidateCount > 1) fields.add("candidateCount");
  if (modalities.some((modality) => modality !== "text")) fields.add("modalities");
  if (safety.length > 0) fields.add("safety");
  if (Object.keys(speech).length > 0) fields.add("speech");
  if (responseFormat?.type === "enum") fields.add("responseFormat.enum");
  else if (responseFormat?.strict !== undefined) fields.add("responseFormat.strict");
  for (const tool of tools) {
    if (tool.type !== "provider" || tool.format !== format) fields.add(toolField(tool));
    if (tool.type === "function" && tool.strict !== undefined) fields.add("tools.function.strict");
    if (tool.type === "function" && tool.custom?.format?.["type"] === "grammar") fields.add("tools.function.custom");
    if ("cache" in tool && tool.cache) fields.add("messages.cache");
  }
  if (toolChoice && toolChoice.type !== "none") {
    if ("names" in toolChoice && toolChoice.names) fields.add("toolChoice.names");
    if (!toolChoice.parallel) fields.add("toolChoice.parallel");
  }
  for (const part of system) addPart(part, format, fields);
  const calls = new Map<string, string | undefined>();
  for (const { role, name, parts } of messages) {
    if (role === "system") fields.add("messages.role.system");
    if (name !== undefined) fields.add("messages.name");
    for (const part of parts) {
      addPart(part, format, fields);
      if (part.type === "tool-call") calls.set(part.id, part.name);
      // A provider part of this format may be a tool call too.
      else if (part.type === "provider" && part.format === format && typeof part.value["id"] === "string")
        calls.set(part.value["id"], undefined);
      else if (part.type === "tool-result") {
        const called = calls.get(part.callId);
        if (!calls.has(part.callId)) fields.add("messages.tool-result.unasked");
        else if (called !== undefined && part.name !== undefined && part.name !== called)
          fields.add("messages.tool-result.name");
      }
    }
  }
  if (hasLateResults(messages)) fields.add("messages.tool-result.order");
  if (messages.at(-1)?.role === "assistant") fields.add("messages.prefill");
  return fields;
}

/**
 * Returns the request with the results of calls that only another format has as provider parts of that format, so that a result is left out,
 * and reported, like its call.
 *
 * @param format The format that the request is encoded in, if it has provider parts.
 */
export function withLostResults(request: ChatRequest, format?: string): ChatRequest {
  const lost = new Map<unknown, string>();
  for (const { parts } of request.messages)
    for (const part of parts)
      if (part.type === "provider" && part.format !== format)
        for (const id of [part.value["id"], part.value["call_id"]]) if (id != null) lost.set(id, part.format);
  if (lost.size === 0) return request;
  for (const { parts } of request.messages)
    for (const part of parts) if (part.type === "tool-call") lost.delete(part.id);
  const replaced = (part: Part): Part => {
    const maker = part.type === "tool-result" ? lost.get(part.callId) : undefined;
    return maker === undefined ? part : { type: "provider", format: maker, value: {} };
  };
  return { ...request, messages: request.messages.map((turn) => ({ ...turn, parts: turn.parts.map(replaced) })) };
}

function toolField(tool: Tool): ConvertedField {
  if (tool.type !== "provider" || !isHosted(tool)) return `tools.${tool.type}`;
  return isWebSearch(tool) ? "tools.web-search" : "tools.hosted";
}

/** Adds the fields for the type and the properties of a part and of the parts inside it. Each format checks media and documents itself. */
function addPart(part: Part | JsonPart, format: string | undefined, fields: ConvertedFields): void {
  if ("cache" in part && part.cache) fields.add("messages.cache");
  const isForeign = "maker" in part && part.maker !== undefined && part.maker !== format;
  if ((part.type === "reasoning" || part.type === "redacted-reasoning") && isForeign)
    fields.add("messages.reasoning.foreign");
  if (part.type !== "reasoning" && "signature" in part && part.signature !== undefined)
    fields.add(isForeign ? "messages.signature.foreign" : "messages.signature");
  if ("thought" in part && part.thought) fields.add("messages.thought");
  switch (part.type) {
    case "text":
      return;
    case "json":
      fields.add("messages.tool-result.json");
      return;
    case "media":
      if (part.detail !== undefined) fields.add("messages.media.detail");
      return;
    case "document":
      if (part.title !== undefined) fields.add("messages.document.title");
      if (part.context !== undefined) fields.add("messages.document.context");
      if (part.citations) fields.add("messages.document.citations");
      if (part.source.type === "parts") for (const inner of part.source.parts) addPart(inner, format, fields);
      return;
    case "tool-result":
      if (part.isError) fields.add("messages.tool-result.isError");
      for (const inner of part.parts) addPart(inner, format, fields);
      return;
    case "provider":
      if (part.format === format) return;
      fields.add(isCompaction(part) ? "messages.compaction" : "messages.provider");
      return;
    default:
      fields.add(`messages.${part.type}`);
  }
}

const isCompaction = ({ value }: ProviderPart): boolean =>
  value["type"] === "compaction" && typeof value["encrypted_content"] === "string";

/** Lists the conversions of a request that are not exact. The list includes the fields that only the caller's format has. */
export function listConversions(
  table: ConversionTable,
  fields: Iterable<ConvertedField>,
  { native, tools = [], toolChoice }: Partial<Pick<ChatRequest, "native" | "tools" | "toolChoice">>,
): Conversion[] {
  const conversions: Conversion[] = [];
  for (const field of fields) {
    const rule = table[field];
    if (rule.conversion === "exact") continue;
    const lost = field === "toolChoice.unmet" ? demanded(toolChoice) : lostTools(tools, field);
    conversions.push({ field, ...rule, ...(lost.length > 0 && { why: `${rule.why} Tools: ${lost.join(", ")}.` }) });
  }
  if (native?.preparesCache) conversions.push(NO_ANSWER);
  const { native: rule } = table;
  if (rule.conversion !== "exact")
    for (const path of native?.unsupported?.() ?? []) conversions.push({ field: `native.${path}`, ...rule });
  return conversions;
}

const NO_ANSWER: Conversion = {
  field: "native.prompt_cache_options.prewarm",
  ...rejected("Only an upstream of the caller's format can prepare its cache without an answer."),
};

const demanded = (choice: ToolChoice | undefined): readonly string[] =>
  choice?.type === "tool" ? [choice.name] : (choice && "names" in choice && choice.names) || [];

/** Returns the names of the provider's tools to which a rule applies. */
const lostTools = (tools: readonly Tool[], field: ConvertedField): readonly string[] =>
  tools.flatMap((tool) => (tool.type === "provider" && toolField(tool) === field && tool.name) || []);

/**
 * Returns the choice that is left among the offered tools, and adds the fields that this changes. A choice among tools that are all left
 * out becomes `none`. Returns undefined if nothing is left to choose.
 *
 * @param names The names of the offered tools that the format can choose.
 * @param hasTools True if any tool is offered.
 */
export function choiceAmong(
  choice: ToolChoice,
  names: ReadonlySet<string>,
  hasTools: boolean,
  fields: ConvertedFields,
): ToolChoice | undefined {
  if (choice.type === "none") return hasTools ? choice : undefined;
  if (choice.type === "tool") return names.has(choice.name) ? choice : void fields.add("toolChoice.unmet");
  const left = choice.names?.filter((name) => names.has(name));
  const isLeft = hasTools && left?.length !== 0;
  if (choice.type === "required" && !isLeft) return void fields.add("toolChoice.unmet");
  if (left?.length !== choice.names?.length) fields.add("toolChoice");
  if (!hasTools) return undefined;
  return isLeft ? { ...choice, ...(left && { names: left }) } : { type: "none" };
}

/** A field of an answer that some format cannot express exactly. */
export type AnswerField =
  | `answer.${Exclude<ContentEvent["type"], "annotation">}`
  | `answer.annotation.${Annotation["type"]}`
  | `answer.finish.${FinishReason}`
  | `answer.usage.${keyof Usage}`
  /** The upstream's own id of the answer. */
  | "answer.id"
  /** A candidate other than the first. */
  | "answer.candidate"
  /** A sound. */
  | "answer.media.audio"
  /** A signature on content other than reasoning. */
  | "answer.signature"
  /** A picture or a sound that is a part of the reasoning. */
  | "answer.thought"
  | "answer.prompt-feedback"
  /** A field that only the upstream's format has. */
  | "answer.native"
  /** The stop sequence that ended the answer. */
  | "answer.stopSequence";

/**
 * The fields of an answer that a format cannot express exactly; all other fields are exact. These conversions are reported in the record
 * of the call, and not to the caller.
 */
export type AnswerConversionTable = Readonly<Partial<Record<AnswerField, Unsupported>>>;

/** The rules that all formats share for answers. */
export const COMMON_ANSWERS: AnswerConversionTable = {
  "answer.id": emulated("The answer has the gateway's own id."),
  "answer.provider": dropped("Only another format has this part."),
  "answer.native": dropped("Only the upstream's own format has this field."),
  "answer.finish.context-window": approximated("The answer ends as at its output limit."),
  "answer.usage.steps": approximated("The answer has the sums of all steps."),
};

const NOTHING: readonly Conversion[] = [];

/** The content that carries no signature in formats that sign reasoning, texts and calls. */
const CARRIES_NONE: ReadonlySet<string> = new Set(["media", "code", "code-result"]);

/** Tells whether an event has a signature that is left out, because its content carries no signature or its maker is unknown. */
const losesSignature = (event: AnswerEvent): boolean =>
  event.type === "native"
    ? event.events.some(losesSignature)
    : "signature" in event &&
      event.signature !== undefined &&
      (CARRIES_NONE.has(event.type) || event.maker === undefined);

/** Lists the conversions of an event like `listAnswerConversions`, in a format that carries the signatures of reasoning, texts and calls. */
export function listSignedAnswerConversions(
  table: AnswerConversionTable,
  format: string,
  event: AnswerEvent,
): readonly Conversion[] {
  const conversions = listAnswerConversions(table, format, event);
  return conversions.length === 0 || losesSignature(event)
    ? conversions
    : conversions.filter(({ field }) => field !== "answer.signature");
}

/** Lists the conversions of one event of an answer. An event with frames of the same format passes unchanged, so it has none. */
export function listAnswerConversions(
  table: AnswerConversionTable,
  format: string,
  event: AnswerEvent,
): readonly Conversion[] {
  if (event.type === "native" ? event.format === format : isPlainText(event)) return NOTHING;
  const fields: AnswerField[] = [];
  if (event.type !== "native") addAnswerFields(event, format, fields);
  else for (const inner of event.events) if (!isPlainText(inner)) addAnswerFields(inner, format, fields);
  const conversions: Conversion[] = [];
  for (const field of fields) {
    const rule = table[field];
    if (rule) conversions.push({ field, ...rule });
  }
  const { "answer.native": rule } = table;
  if (event.type === "native" && rule)
    for (const path of event.unsupported?.() ?? []) conversions.push({ field: `answer.native.${path}`, ...rule });
  return conversions;
}

/** Tells whether content is text that citations can stand at, or ends such a text. A format leaves out all other content. */
export type CitedContent = Readonly<Partial<Record<ContentEvent["type"], boolean>>>;

const CITED_CONTENT: CitedContent = {
  "text-delta": true,
  "reasoning-signature": false,
  "redacted-reasoning": false,
  "tool-call": false,
  "tool-call-start": false,
};

const UNPLACED: Conversion = {
  field: "answer.annotation.unplaced",
  ...dropped("Citations stand at a text, and these came behind other content."),
};

/**
 * Lists the conversions of the events of one answer in order, in a format whose citations stand at the newest text: behind other content,
 * citations are dropped.
 *
 * @param conversionsOf Lists the conversions of one event.
 */
export function citedAtText(
  format: string,
  content: CitedContent,
  conversionsOf: (event: AnswerEvent) => readonly Conversion[],
): (event: AnswerEvent) => readonly Conversion[] {
  const written: CitedContent = { ...CITED_CONTENT, ...content };
  let isAtText = false;
  const isUnplaced = (event: AnswerEvent): boolean => {
    if (event.type === "native") return event.format !== format && event.events.filter(isUnplaced).length > 0;
    if (!isContent(event) || event.candidate) return false;
    if (event.type === "annotation") return !isAtText && citationsIn(event.annotation).length > 0;
    if (event.type === "provider") isAtText &&= event.format !== format;
    const isEmpty = "text" in event && event.text === "";
    const isShown = event.type !== "media" || (!event.thought && event.mediaType.startsWith("image/"));
    if (!isEmpty && isShown) isAtText = written[event.type] ?? isAtText;
    return false;
  };
  return (event) => (isUnplaced(event) ? [...conversionsOf(event), UNPLACED] : conversionsOf(event));
}

const isContent = (event: Exclude<AnswerEvent, { type: "native" }>): event is ContentEvent =>
  event.type !== "start" && event.type !== "finish" && event.type !== "prompt-feedback";

/** Tells whether an event is plain text of the first candidate: by far the most frequent event, which every format supports. */
const isPlainText = (event: AnswerEvent): boolean =>
  event.type === "text-delta" && event.signature === undefined && !event.candidate;

function addAnswerFields(event: Exclude<AnswerEvent, { type: "native" }>, format: string, fields: AnswerField[]): void {
  switch (event.type) {
    case "start":
      if (event.id !== undefined && event.native !== undefined && event.native !== format) fields.push("answer.id");
      return;
    case "prompt-feedback":
      fields.push("answer.prompt-feedback");
      return;
    case "finish":
      if (event.native?.format === format) return;
      for (const { reason, stopSequence } of event.endings) {
        fields.push(`answer.finish.${reason}`);
        if (stopSequence !== undefined) fields.push("answer.stopSequence");
      }
      // A count of zero can be left out without a loss.
      for (const [field, value] of Object.entries(event.usage))
        if (value) fields.push(`answer.usage.${field as keyof Usage}`);
      return;
    default:
      if (event.candidate) fields.push("answer.candidate");
      if ("thought" in event && event.thought) fields.push("answer.thought");
      if (event.type === "media" && event.mediaType.startsWith("audio/")) fields.push("answer.media.audio");
      if (event.type !== "reasoning-signature" && "signature" in event && event.signature !== undefined)
        fields.push("answer.signature");
      if (event.type === "annotation") {
        const { annotation } = event;
        if (!("native" in annotation) || annotation.native?.format !== format)
          fields.push(`answer.annotation.${annotation.type}`);
      } else if (event.type !== "provider" || event.format !== format) fields.push(`answer.${event.type}`);
  }
}

export const isSame = (list: readonly unknown[], other: readonly unknown[]): boolean =>
  list.length === other.length && list.every((element, index) => element === other[index]);

/** Maps a list. Returns the list itself if no element changes, so that it need not be written again. */
export function mapped(list: readonly unknown[], map: (element: unknown) => unknown): readonly unknown[] {
  const changed = list.map(map);
  return isSame(changed, list) ? list : changed;
}
