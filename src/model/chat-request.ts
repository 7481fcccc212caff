/** A chat request, independent of wire formats: every format decodes to it, and every backend reads it. */

import type { JsonObject } from "./json.ts";

/** The name of this kind. */
export const CHAT = "chat";

/** A request for the next assistant message. The backend chooses the value of an absent field. */
export interface ChatRequest {
  /** The model that the caller asked for, or that a hook or a route chose. */
  readonly model: string;
  /**
   * The turns, in order. Two turns in sequence never have the same role. An assistant turn at the end is a prefill: the answer continues
   * it.
   */
  readonly messages: readonly ChatMessage[];
  /** Instructions before the conversation. */
  readonly system: readonly TextPart[];
  /** The tools that the model may call; empty without tools. */
  readonly tools: readonly Tool[];
  /** Limits the choice of tools. */
  readonly toolChoice?: ToolChoice;
  /** The most tokens of the answer, reasoning included. The gateway lowers this limit if the key's quota does not cover it. */
  readonly maxOutputTokens: number;
  /** Set when `maxOutputTokens` is the gateway's default, because the caller named no limit. */
  readonly limitedByDefault?: true;
  /**
   * Set when the gateway's default limit was raised for the reasoning that the caller asks for: the limit without this room. A model that
   * does not reason may refuse the higher limit.
   */
  readonly maxAnswerTokens?: number;
  /** The randomness of the choice of tokens, from 0. */
  readonly temperature?: number;
  /** Chooses only among the likeliest tokens whose probabilities add up to this, from 0 to 1. */
  readonly topP?: number;
  /** Chooses only among this many likeliest tokens. */
  readonly topK?: number;
  /** Texts at which the answer ends. They are not part of the answer. */
  readonly stopSequences: readonly string[];
  /** The wanted reasoning. */
  readonly reasoning?: Reasoning;
  /** The required form of the answer. Default: text. */
  readonly responseFormat?: ResponseFormat;
  /** The number of answers, from 1. The events of an answer name it by `candidate`; absent means the first. */
  readonly candidateCount?: number;
  /** The seed of the random choices. Requests with the same seed get the same answer, as far as the model can repeat it. */
  readonly seed?: number;
  /** Lowers the probability of tokens that have occurred, when above 0. */
  readonly presencePenalty?: number;
  /** Lowers the probability of tokens by how often they have occurred, when above 0. */
  readonly frequencyPenalty?: number;
  /** Asks for the log probabilities of the chosen tokens, and of the `top` most likely tokens at each step. */
  readonly logprobs?: { readonly top: number };
  /** The allowed modalities of the answer. */
  readonly modalities?: readonly OutputModality[];
  /** The voice of a spoken answer. */
  readonly speech?: Speech;
  /** The resolution at which the model reads media. A higher resolution costs more tokens. */
  readonly mediaResolution?: "low" | "medium" | "high";
  /** The thresholds of harm, by category. */
  readonly safety?: readonly SafetySetting[];
  /** The name of content in the provider's cache. */
  readonly cachedContent?: string;
  /** Asks for the provider's enhanced answers to questions about civic matters. */
  readonly enhancedCivicAnswers?: boolean;
  /** The requested service tier, in the caller's own word. */
  readonly serviceTier?: string;
  /** An opaque identifier of the end user, for abuse monitoring. */
  readonly endUser?: string;
  /** True when the caller wants a stream. */
  readonly stream: boolean;
  /** The request as it arrived, for a backend that speaks the caller's format. */
  readonly native?: NativeRequest;
}

/** A JSON object of a wire format, as it arrived. */
export type WireObject = Readonly<Record<string, unknown>>;

/** A complete request in the caller's wire format, including fields that the gateway does not know. */
export interface NativeRequest {
  /** The name of the format, such as `messages`. */
  readonly format: string;
  /** The body. Do not change it in place: a relay may send the caller's text of each member that is still the same value. */
  readonly body: WireObject;
  /** The version of the format that the caller named. */
  readonly version?: string;
  /** The beta features that the caller named, in order, without duplicates. */
  readonly betas: readonly string[];
  /** Returns the fields of `body` that the neutral request cannot express, as keys joined by dots. */
  readonly unsupported?: () => readonly string[];
  /**
   * Throws `invalid_request` for the first type or word in `body` that the gateway does not know. Undefined when there is none. The gateway
   * calls it before it asks a backend that does not set `takesUnknown`.
   */
  readonly assertKnown?: (() => void) | undefined;
  /** True when the caller wants no answer, and only that the provider prepares its cache of the prompt. */
  readonly preparesCache?: boolean;
  /** Set when the caller wants a long conversation compacted before it is answered. */
  readonly compaction?: ConversationCompaction;
  /** Asks for the rest of an answer that another upstream has begun. Missing where no upstream of this format can give it. */
  readonly continuation?: BodyContinuation;
  /** The parts that earlier answers had beside their tool calls, by the ids of the calls: a relay keeps them, because callers may not send them back. */
  readonly remembered?: ReadonlyMap<string, RememberedTurn>;
}

/** The way in which a body asks for the rest of an answer whose beginning is there. */
interface BodyContinuation {
  /** True when the answer continues an assistant turn at the end of this body. */
  readonly prefills: boolean;
  /** Returns the body with more turns behind its conversation. */
  body(turns: readonly TextTurn[]): WireObject;
}

/** A turn of one text. */
export interface TextTurn {
  readonly role: "assistant" | "user";
  readonly content: string;
}

/** Puts a summary in the place of a long conversation. The gateway does this for backends that do not do it themselves. */
export interface ConversationCompaction {
  /** The input tokens above which the conversation is compacted. Default: four fifths of the listed window of the model. */
  readonly threshold: number | undefined;
  /** Returns the request for the summary; undefined when nothing stands before the newest turn. */
  summaryOf(request: ChatRequest): ChatRequest | undefined;
  /** Returns the request with the summary in place of the turns before the newest. */
  replaced(request: ChatRequest, summary: string): ChatRequest;
  /** Returns the item that the caller sends back in place of everything before it. */
  itemOf(request: ChatRequest, summary: string): Promise<ProviderPart>;
  /** Returns the request without the wish for a compaction. */
  without(request: ChatRequest): ChatRequest;
}

/** The signature of a tool call, and the reasoning before it. */
export interface RememberedTurn extends Sealed {
  readonly reasoning: readonly (ReasoningPart | RedactedReasoningPart)[];
}

/** The speaker of a turn. */
export type Role = "system" | "user" | "assistant";

/** A turn of the conversation. */
export interface ChatMessage {
  /** The speaker. */
  readonly role: Role;
  /** Distinguishes participants that have the same role. */
  readonly name?: string;
  /** The content, in order. */
  readonly parts: readonly Part[];
}

/** A piece of a turn. */
export type Part =
  | TextPart
  | MediaPart
  | DocumentPart
  | ToolCallPart
  | ToolResultPart
  | ReasoningPart
  | RedactedReasoningPart
  | RefusalPart
  | CodePart
  | CodeResultPart
  | ProviderPart;

/** A hint to cache the prompt up to here, for the lifetime that the caller named (`5m`, `1h`). */
export interface CacheHint {
  readonly ttl?: string;
}

interface Cacheable {
  readonly cache?: CacheHint;
}

/** A signature of an earlier answer. Only its maker accepts it, and it must come back unchanged. */
interface Sealed {
  /** An opaque signature of the reasoning that led to the part. */
  readonly signature?: string;
  /** The maker of the signature: the wire format of its upstream, or the name of a provider. Absent when nobody is known. */
  readonly maker?: string;
}

/** Marks of an earlier answer. The caller must send them back unchanged. */
interface Marked extends Sealed {
  /** True for a part of the reasoning, not of the answer. */
  readonly thought?: boolean;
}

/** A text. */
export interface TextPart extends Cacheable, Marked {
  readonly type: "text";
  readonly text: string;
}

/** An image, a sound or a film. */
export interface MediaPart extends Cacheable, Marked {
  readonly type: "media";
  readonly kind: "image" | "audio" | "video";
  readonly source: MediaSource;
  /** The level of detail at which the model reads a picture. */
  readonly detail?: "low" | "high" | "auto";
}

/** The location of a file: in the request itself, at a URL, or in the provider's own store of files. */
export type MediaSource =
  | { readonly type: "base64"; readonly mediaType: string; readonly data: string }
  | { readonly type: "url"; readonly url: string }
  | { readonly type: "file"; readonly id: string };

/** A document: a PDF, a text, or a list of parts. */
export interface DocumentPart extends Cacheable, Marked {
  readonly type: "document";
  readonly source:
    | MediaSource
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "parts"; readonly parts: readonly (TextPart | MediaPart)[] };
  readonly title?: string;
  readonly context?: string;
  /** True when the answer should cite the document. */
  readonly citations?: boolean;
}

/** A tool call of the assistant. The caller runs the tool. */
export interface ToolCallPart extends Cacheable, Marked {
  readonly type: "tool-call";
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The result of a tool call of an earlier assistant turn. The caller sends it. */
export interface ToolResultPart extends Cacheable, Marked {
  readonly type: "tool-result";
  readonly callId: string;
  /** The tool's name, in formats that repeat the name. */
  readonly name?: string;
  readonly parts: readonly (TextPart | MediaPart | DocumentPart | JsonPart | ProviderPart)[];
  readonly isError?: boolean;
}

/** A tool's result as structured data. */
export interface JsonPart {
  readonly type: "json";
  readonly value: JsonObject;
}

/**
 * Visible reasoning of an earlier answer. With a maker and no signature, the maker signs nothing, but may want the reasoning back.
 */
export interface ReasoningPart extends Sealed {
  readonly type: "reasoning";
  readonly text: string;
}

/** Encrypted reasoning of an earlier answer. */
export interface RedactedReasoningPart {
  readonly type: "redacted-reasoning";
  readonly data: string;
  /** The maker, as of a signature. */
  readonly maker?: string;
}

/** The text of an earlier refusal. */
interface RefusalPart {
  readonly type: "refusal";
  readonly text: string;
}

/** Code that the model wrote. The backend or the provider runs it, not the caller. */
export interface CodePart extends Marked {
  readonly type: "code";
  readonly id?: string;
  readonly language: CodeLanguage;
  readonly code: string;
}

/** The language of code that a model wrote. */
export type CodeLanguage = "python" | "unspecified";

/** The result of the code part before it. */
export interface CodeResultPart extends Marked {
  readonly type: "code-result";
  readonly id?: string;
  readonly outcome: CodeOutcome;
  /** The text that the code printed, or the reason why it failed. */
  readonly output?: string;
}

/** The outcome of code that a model wrote. */
export type CodeOutcome = "ok" | "failed" | "deadline-exceeded" | "unspecified";

/** A part that exists in only one provider's format. Its value is unchanged. */
export interface ProviderPart {
  readonly type: "provider";
  readonly format: string;
  readonly value: WireObject;
  /** True for a part of a message's content. Default: an item or a message of its own, or a call. */
  readonly isContent?: boolean;
}

/** A tool that the model may call. */
export type Tool = FunctionTool | CodeExecutionTool | ProviderTool;

/** A tool that the caller runs. */
export interface FunctionTool extends Cacheable {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  /** A JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
  /** True when the arguments must match the schema exactly. */
  readonly strict?: boolean;
  /**
   * Set for a tool whose input is one text instead of arguments. Its calls have the text in the argument `input`, and its schema demands
   * only this argument. `format` is the grammar of the text, in the caller's own words.
   */
  readonly custom?: { readonly format?: JsonObject };
}

/** Lets the model run code. A backend without a sandbox can use `CallContext.runCode`. */
export interface CodeExecutionTool {
  readonly type: "code-execution";
}

/** A tool that one provider defines, such as a dated version of a bash tool. Its definition is unchanged. */
export interface ProviderTool {
  readonly type: "provider";
  readonly format: string;
  /** The tool's name in calls and in `toolChoice`, if it has a name. */
  readonly name?: string;
  readonly definition: WireObject;
}

/**
 * Limits the model's choice of tools. `required`: the model must call a tool. `tool`: the model must call the named tool. With
 * `parallel` false, an answer has at most one call. `names`: the model may call only these tools. The name of the tool that runs code is
 * `code_interpreter`.
 */
export type ToolChoice =
  | { readonly type: "auto" | "required"; readonly parallel: boolean; readonly names?: readonly string[] }
  | { readonly type: "tool"; readonly name: string; readonly parallel: boolean }
  | { readonly type: "none" };

/** The name of the tool that runs code, in a tool choice. The neutral tool has no name. */
export const CODE_TOOL = "code_interpreter";

/**
 * The amount of reasoning. `enabled`: reasoning takes at most `budgetTokens` of the output. `adaptive`: the model chooses the amount,
 * guided by `effort`. The answer shows the reasoning unless `visible` is false.
 */
export type Reasoning =
  | { readonly type: "enabled"; readonly budgetTokens: number; readonly visible?: boolean }
  | { readonly type: "adaptive"; readonly effort?: ReasoningEffort; readonly visible?: boolean }
  | { readonly type: "disabled" };

/**
 * The control that a request has over a model's reasoning. `none`: it does not reason, and refuses a request that asks for it. `budget`: a number of tokens. `effort`:
 * a word, such as `high`. `any`: both.
 */
export type ReasoningControl = "none" | "budget" | "effort" | "any";

/** The wanted amount of reasoning, from least to most. */
export type ReasoningEffort = "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/** The required form of the answer's text. `json`: JSON that matches the JSON Schema `schema`, if set. `enum`: exactly one of `values`. */
export type ResponseFormat =
  | { readonly type: "json"; readonly schema?: JsonObject; readonly name?: string; readonly strict?: boolean }
  | { readonly type: "enum"; readonly values: readonly string[] };

/** A modality of an answer. */
export type OutputModality = "text" | "image" | "audio";

/** The voice of a spoken answer. */
export interface Speech {
  /** A BCP 47 tag, such as `en-US`. */
  readonly language?: string;
  /** The name of a voice. */
  readonly voice?: string;
  /** The voices of several speakers, by the speakers' names in the text. */
  readonly speakers?: readonly { readonly speaker: string; readonly voice?: string }[];
}

/** A category of harm. The categories from `derogatory` on are older: answers can be rated for them, but no threshold can be set. */
export type HarmCategory =
  | "harassment"
  | "hate-speech"
  | "sexually-explicit"
  | "dangerous-content"
  | "civic-integrity"
  | "derogatory"
  | "toxicity"
  | "violence"
  | "sexual"
  | "medical"
  | "dangerous"
  | "unspecified";

/** The threshold of one category: content is blocked when its probability of harm is at least this high. */
export interface SafetySetting {
  readonly category: HarmCategory;
  readonly threshold: "unspecified" | "low" | "medium" | "high" | "none" | "off";
}
