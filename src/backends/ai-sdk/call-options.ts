/** The options of a call as the providers' interface has them, in the versions 2 to 4 of it. */

import type { JsonObject, JsonValue } from "../../model/json.ts";
import type { ProviderOptions } from "./options.ts";

/** What is asked of a language model. */
export interface CallOptions {
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
  /** Version 4 alone. */
  readonly reasoning?: string;
  readonly abortSignal: AbortSignal;
  readonly providerOptions?: ProviderOptions;
}

interface WithOptions {
  readonly providerOptions?: ProviderOptions;
}

export interface FunctionToolOption extends WithOptions {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly strict?: boolean;
}

export type PromptMessage = WithOptions &
  (
    | { readonly role: "system"; readonly content: string }
    | { readonly role: "user" | "assistant" | "tool"; readonly content: readonly PromptPart[] }
  );

export type PromptPart = WithOptions &
  (
    | { readonly type: "text" | "reasoning"; readonly text: string }
    | FileOption
    | {
        readonly type: "tool-call";
        readonly toolCallId: string;
        readonly toolName: string;
        readonly input: JsonObject;
      }
    | {
        readonly type: "tool-result";
        readonly toolCallId: string;
        readonly toolName: string;
        readonly output: ToolOutput;
      }
  );

/** A file in a turn: version 4 says what its data is, those before take bytes in base64 or an address. */
export interface FileOption extends WithOptions {
  readonly type: "file" | "reasoning-file";
  readonly mediaType: string;
  readonly filename?: string;
  readonly data: string | URL | FileData;
}

export type FileData =
  | { readonly type: "data"; readonly data: string }
  | { readonly type: "url"; readonly url: URL }
  | { readonly type: "text"; readonly text: string };

export type ToolOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "json" | "error-json"; readonly value: JsonValue }
  | { readonly type: "content"; readonly value: readonly ToolOutputPart[] };

/** Each version of the interface has a shape of its own for files. */
export type ToolOutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "file"; readonly mediaType: string; readonly data: FileData }
  | { readonly type: "image-data" | "file-data" | "media"; readonly mediaType: string; readonly data: string }
  | { readonly type: "image-url" | "file-url"; readonly url: string };
