/** The port behind which models answer. */

import type { ChatRequest } from "../model/chat.ts";
import type { ChatEvent } from "../model/event.ts";
import type { CodeResult, CodeToRun } from "./code-runner.ts";
import type { ImageEvent, ImageRequest } from "../model/image.ts";
import type { ApiKeyRecord } from "./quota-store.ts";

/**
 * What answers. A backend implements what it can do; the gateway owns no route that its backend cannot serve.
 *
 * @example
 * const backend: ModelBackend = {
 *   async *chat(request) {
 *     yield `You said ${request.messages.length} things.`;
 *   },
 * };
 */
export interface ModelBackend {
  /**
   * What a client that hangs up does to its call. `cancel` (default) fires the call's signal at once, and charges what was
   * generated until then. With `drainMs`, the backend may go on for so many milliseconds, unread, so that it can report its
   * exact usage; then the signal fires.
   */
  readonly hangUp?: "cancel" | { readonly drainMs: number };
  /** The models on offer. Where it is missing, every model name is let through. Called once a request: cache in here. */
  models?(): readonly ModelInfo[] | Promise<readonly ModelInfo[]>;
  /**
   * Answers one chat request. A yielded string is a piece of the answer's text. Honour `request.maxOutputTokens`, and stop
   * when `call.signal` fires. Throw a GatewayError to choose what the caller sees; anything else becomes a server error.
   */
  chat?(request: ChatRequest, call: CallContext): AsyncIterable<ChatEvent | string>;
  /**
   * Draws, edits or varies pictures: yields one `image` for each of `request.count`, as each is done. Pictures that come are
   * charged, also where the call fails or is cut short after them.
   */
  image?(request: ImageRequest, call: CallContext): AsyncIterable<ImageEvent>;
}

export interface ModelInfo {
  readonly id: string;
  /** The most output tokens a request for this model may ask for. */
  readonly maxOutputTokens?: number;
}

/** What a backend is told about the call beside the request itself. */
export interface CallContext {
  /** Fires when the client is gone, the deadline has passed or the gateway closes; its reason is a GatewayError. Never fires on a normal end. */
  readonly signal: AbortSignal;
  /** The id that the caller receives as `request-id`. */
  readonly requestId: string;
  /** The api key's record, without its secret. */
  readonly key: ApiKeyRecord;
  /**
   * Runs code that the model wrote, for a backend that cannot: there where the host has injected a code runner and the request
   * has the `code-execution` tool. The backend yields the code and what came of it as events. Rejects when the signal fires.
   */
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
}
