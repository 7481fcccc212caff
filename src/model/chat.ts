/** A chat request in words that belong to no wire format: what every dialect decodes to and every backend reads. */

import type { JsonObject } from "./json.ts";

/** One request for the next assistant message. Absent means that the caller left it to the backend. */
export interface ChatRequest {
  readonly model: string;
  /** Turns in order; neighbours never share a role. An assistant turn at the end is a prefill: the answer continues it. */
  readonly messages: readonly ChatMessage[];
  /** Instructions that stand before the conversation. */
  readonly system: readonly TextPart[];
  readonly tools: readonly Tool[];
  readonly toolChoice?: ToolChoice;
  /** The most tokens the answer may have, reasoning included. The gateway may lower it to what the quota affords. */
  readonly maxOutputTokens: number;
  /** Whether that is the gateway's own default, because the caller named none. */
  readonly limitedByDefault?: true;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  /** Texts at which the answer ends; none is part of the answer. */
  readonly stopSequences: readonly string[];
  readonly reasoning?: Reasoning;
  readonly responseFormat?: ResponseFormat;
  /** How many answers are wanted, from 1. Events of all but the first name theirs by `candidate`. */
  readonly candidateCount?: number;
  /** The same seed asks for the same answer, as far as the model can give it. */
  readonly seed?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  /** Asks for log probabilities: of the chosen tokens, and of the `top` most likely ones at each step. */
  readonly logprobs?: { readonly top: number };
  /** What the answer may be made of. */
  readonly modalities?: readonly OutputModality[];
  readonly speech?: Speech;
  /** How closely the model looks at media; it decides what they cost. */
  readonly mediaResolution?: "low" | "medium" | "high";
  readonly safety?: readonly SafetySetting[];
  /** The name of content that the provider has cached before. */
  readonly cachedContent?: string;
  /** Whether questions about civic matters get the provider's enhanced answers. */
  readonly enhancedCivicAnswers?: boolean;
  /** The service tier that is asked for, in the caller's own word. */
  readonly serviceTier?: string;
  /** An opaque identifier of the end user, for abuse monitoring. */
  readonly endUser?: string;
  /** Whether the caller wants the answer as it is made. */
  readonly stream: boolean;
  /** The request as it came, for a backend that speaks the caller's format. */
  readonly native?: NativeRequest;
}

/** An object of some wire format, as it came. */
export type WireObject = Readonly<Record<string, unknown>>;

/** A request in its own wire format, whole: unknown fields included. */
export interface NativeRequest {
  /** The dialect that decoded it, such as `messages`. */
  readonly dialect: string;
  readonly body: WireObject;
  /** The version of the format that the caller named. */
  readonly version?: string;
  /** The beta features that the caller named, in order, without repeats. */
  readonly betas: readonly string[];
  /** Tells the fields of the body that the neutral request has no words for, as keys with dots between: only `body` has what they say. */
  readonly unsaid?: () => readonly string[];
}

/** Who speaks. */
export type Role = "system" | "user" | "assistant";

/** One turn of the conversation. */
export interface ChatMessage {
  readonly role: Role;
  /** Tells apart several participants of one role. */
  readonly name?: string;
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

/** A hint that the prompt up to here is worth caching, and for how long if the caller said (`5m`, `1h`). */
export interface CacheHint {
  readonly ttl?: string;
}

interface Cacheable {
  readonly cache?: CacheHint;
}

/** What an earlier answer marked a part with, and wants back unchanged. */
interface Marked {
  /** Opaque; seals the reasoning that led to the part. */
  readonly signature?: string;
  /** Whether the part belongs to the reasoning rather than to the answer. */
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
  /** How closely the model looks at a picture. */
  readonly detail?: "low" | "high" | "auto";
}

/** Where a medium is: in the request itself, at an address, or in the provider's own store of files. */
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
  /** Whether the answer should cite it. */
  readonly citations?: boolean;
}

/** The assistant asks its caller to run a tool. */
export interface ToolCallPart extends Cacheable, Marked {
  readonly type: "tool-call";
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The caller's answer to a tool call of an earlier assistant turn. */
export interface ToolResultPart extends Cacheable, Marked {
  readonly type: "tool-result";
  readonly callId: string;
  /** The tool's name, where the format says it. */
  readonly name?: string;
  readonly parts: readonly (TextPart | MediaPart | DocumentPart | JsonPart | ProviderPart)[];
  readonly isError?: boolean;
}

/** A tool's answer as structured data. */
export interface JsonPart {
  readonly type: "json";
  readonly value: JsonObject;
}

/** Reasoning that an earlier answer showed. Its signature must come back unchanged. */
export interface ReasoningPart {
  readonly type: "reasoning";
  readonly text: string;
  readonly signature?: string;
}

/** Reasoning that an earlier answer kept encrypted. */
export interface RedactedReasoningPart {
  readonly type: "redacted-reasoning";
  readonly data: string;
}

/** The words with which an earlier answer declined. */
export interface RefusalPart {
  readonly type: "refusal";
  readonly text: string;
}

/** Code that the model wrote to be run on its own side. */
export interface CodePart extends Marked {
  readonly type: "code";
  readonly id?: string;
  readonly language: CodeLanguage;
  readonly code: string;
}

/** The language of code that a model wrote. */
export type CodeLanguage = "python" | "unspecified";

/** What came of the code part before it. */
export interface CodeResultPart extends Marked {
  readonly type: "code-result";
  readonly id?: string;
  readonly outcome: CodeOutcome;
  /** What the code printed, or why it failed. */
  readonly output?: string;
}

/** How code that a model wrote has ended. */
export type CodeOutcome = "ok" | "failed" | "deadline-exceeded" | "unspecified";

/** A part that only one provider's format knows, carried whole. */
export interface ProviderPart {
  readonly type: "provider";
  readonly dialect: string;
  readonly value: WireObject;
}

/** Something that the model may call. */
export type Tool = FunctionTool | CodeExecutionTool | ProviderTool;

/** A tool that the caller runs. */
export interface FunctionTool extends Cacheable {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  /** A JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
  /** Whether the arguments must satisfy the schema to the letter. */
  readonly strict?: boolean;
}

/** Lets the model run code on its own side; a backend that cannot may have `CallContext.runCode` do it. */
export interface CodeExecutionTool {
  readonly type: "code-execution";
}

/** A tool that one provider defines, such as a dated computer or bash tool, carried whole. */
export interface ProviderTool {
  readonly type: "provider";
  readonly dialect: string;
  /** The name by which a call or a choice refers to it, where it has one. */
  readonly name?: string;
  readonly definition: WireObject;
}

/**
 * `required`: some tool must be called. `tool`: the named one must. `parallel: false`: at most one call an answer. `names`: only
 * these tools may be called.
 */
export type ToolChoice =
  | { readonly type: "auto" | "required"; readonly parallel: boolean; readonly names?: readonly string[] }
  | { readonly type: "tool"; readonly name: string; readonly parallel: boolean }
  | { readonly type: "none" };

/**
 * `enabled` spends at most `budgetTokens` of the output on reasoning; `adaptive` leaves the amount to the model, as far as an
 * effort guides it. `visible: false` asks the answer not to show it; absent, the answer shows it.
 */
export type Reasoning =
  | { readonly type: "enabled"; readonly budgetTokens: number; readonly visible?: boolean }
  | { readonly type: "adaptive"; readonly effort?: ReasoningEffort; readonly visible?: boolean }
  | { readonly type: "disabled" };

/** How much reasoning is wanted, from least to most. */
export type ReasoningEffort = "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/** The answer's text must be JSON, of this JSON Schema if one is given; or one of the values, and nothing else. */
export type ResponseFormat =
  | { readonly type: "json"; readonly schema?: JsonObject; readonly name?: string; readonly strict?: boolean }
  | { readonly type: "enum"; readonly values: readonly string[] };

/** What an answer may be made of. */
export type OutputModality = "text" | "image" | "audio";

/** How the answer is spoken. */
export interface Speech {
  /** A BCP 47 tag, such as `en-US`. */
  readonly language?: string;
  /** The name of a voice. */
  readonly voice?: string;
  /** The voices of several speakers, by the names that the text gives them. */
  readonly speakers?: readonly { readonly speaker: string; readonly voice?: string }[];
}

/** Kinds of harm that answers are rated for. The second row are older categories, which can be rated but not set. */
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

/** From which probability on content of a category is blocked. */
export interface SafetySetting {
  readonly category: HarmCategory;
  readonly threshold: "unspecified" | "low" | "medium" | "high" | "none" | "off";
}
