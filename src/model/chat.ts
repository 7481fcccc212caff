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
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  /** Texts at which the answer ends; none is part of the answer. */
  readonly stopSequences: readonly string[];
  readonly reasoning?: Reasoning;
  readonly responseFormat?: ResponseFormat;
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
}

export type Role = "system" | "user" | "assistant";

/** One turn of the conversation. */
export interface ChatMessage {
  readonly role: Role;
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
  | ProviderPart;

/** A hint that the prompt up to here is worth caching, and for how long if the caller said (`5m`, `1h`). */
export interface CacheHint {
  readonly ttl?: string;
}

interface Cacheable {
  readonly cache?: CacheHint;
}

export interface TextPart extends Cacheable {
  readonly type: "text";
  readonly text: string;
}

/** An image, a sound or a film. */
export interface MediaPart extends Cacheable {
  readonly type: "media";
  readonly kind: "image" | "audio" | "video";
  readonly source: MediaSource;
}

export type MediaSource =
  | { readonly type: "base64"; readonly mediaType: string; readonly data: string }
  | { readonly type: "url"; readonly url: string }
  | { readonly type: "file"; readonly id: string };

export interface DocumentPart extends Cacheable {
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
export interface ToolCallPart extends Cacheable {
  readonly type: "tool-call";
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The caller's answer to a tool call of an earlier assistant turn. */
export interface ToolResultPart extends Cacheable {
  readonly type: "tool-result";
  readonly callId: string;
  readonly parts: readonly (TextPart | MediaPart | DocumentPart | ProviderPart)[];
  readonly isError?: boolean;
}

/** Reasoning that an earlier answer showed. Its signature must come back unchanged. */
export interface ReasoningPart {
  readonly type: "reasoning";
  readonly text: string;
  readonly signature: string;
}

/** Reasoning that an earlier answer kept encrypted. */
export interface RedactedReasoningPart {
  readonly type: "redacted-reasoning";
  readonly data: string;
}

/** A part that only one provider's format knows, carried whole. */
export interface ProviderPart {
  readonly type: "provider";
  readonly dialect: string;
  readonly value: WireObject;
}

export type Tool = FunctionTool | ProviderTool;

/** A tool that the caller runs. */
export interface FunctionTool extends Cacheable {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  /** A JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
}

/** A tool that one provider defines, such as a dated computer or bash tool, carried whole. */
export interface ProviderTool {
  readonly type: "provider";
  readonly dialect: string;
  /** The name by which a call or a choice refers to it, where it has one. */
  readonly name?: string;
  readonly definition: WireObject;
}

/** `required`: some tool must be called. `tool`: the named one must. `parallel: false`: at most one call an answer. */
export type ToolChoice =
  | { readonly type: "auto" | "required"; readonly parallel: boolean }
  | { readonly type: "tool"; readonly name: string; readonly parallel: boolean }
  | { readonly type: "none" };

/** `enabled` spends at most `budgetTokens` of the output on reasoning; `adaptive` leaves the amount to the model. */
export type Reasoning =
  | { readonly type: "enabled"; readonly budgetTokens: number }
  | { readonly type: "adaptive" }
  | { readonly type: "disabled" };

/** The answer's text must be JSON, of this schema. */
export interface ResponseFormat {
  readonly type: "json";
  readonly schema: JsonObject;
}
