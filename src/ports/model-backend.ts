/** The port behind which models answer. */

import type { ChatRequest } from "../model/chat.ts";
import type { ChatEvent } from "../model/event.ts";
import type { FieldFate } from "../model/fate.ts";
import type { CodeResult, CodeToRun } from "./code-runner.ts";
import type { ImageEvent, ImageRequest } from "../model/image.ts";
import type { CallInfo } from "./call-info.ts";
import type { AskedUpstream, UpstreamObserver } from "./call-observer.ts";
import type { ApiKey } from "./quota-store.ts";

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
export interface ModelBackend<Context = unknown> {
  /**
   * What a client that hangs up does to its call. `cancel` (default) fires the call's signal at once, and charges what was
   * generated until then. With `drainMs`, the backend may go on for so many milliseconds, unread, so that it can report its
   * exact usage; then the signal fires. A function decides by the model that is asked for.
   */
  readonly hangUp?: HangUp | ((model: string) => HangUp);
  /** The models on offer. Where it is missing, every model name is let through. Called once a request: cache in here. */
  models?(): readonly ModelInfo[] | Promise<readonly ModelInfo[]>;
  /**
   * Answers one chat request. A yielded string is a piece of the answer's text. Honour `request.maxOutputTokens`, and stop
   * when `call.signal` fires. Throw a GatewayError to choose what the caller sees; anything else becomes a server error.
   */
  chat?(request: ChatRequest, call: CallContext<Context>): AsyncIterable<ChatEvent | string>;
  /**
   * Counts the input tokens of a chat request that is not to be answered; costs no quota. Resolves with undefined where it cannot say,
   * and throws as `chat` does. Default: estimated by the gateway's `countTokens`.
   */
  countInputTokens?(request: ChatRequest, call: CallContext<Context>): Promise<number | undefined>;
  /**
   * Draws, edits or varies pictures: yields one `image` for each of `request.count`, as each is done. Pictures that come are
   * charged, also where the call fails or is cut short after them.
   */
  image?(request: ImageRequest, call: CallContext<Context>): AsyncIterable<ImageEvent>;
}

/** What a client that hangs up does to its call; the time in milliseconds. */
export type HangUp = "cancel" | { readonly drainMs: number };

/** A model on offer. */
export interface ModelInfo {
  readonly id: string;
  /** What it does; a caller who asks it for anything else is told that there is no such model. Absent: everything. */
  readonly kinds?: readonly ModelKind[];
  /** A name for people. Default: the id. */
  readonly displayName?: string;
  /** When it came, as Unix time in seconds. */
  readonly createdAt?: number;
  /** The most input tokens that a request for this model may have; told to callers, and left to the backend to hold. */
  readonly maxInputTokens?: number;
  /** The most output tokens a request for this model may ask for. */
  readonly maxOutputTokens?: number;
}

/** What a backend is told about the call beside the request itself. Its signal is made when it is read: a copy by spread lacks it. */
export interface CallContext<Context = unknown> extends CallInfo<Context> {
  /** Fires when the client is gone, the deadline has passed or the gateway closes; its reason is a GatewayError. Never fires on a normal end. */
  readonly signal: AbortSignal;
  /** Whose call it is, without the secret. */
  readonly key: ApiKey;
  /**
   * Runs code that the model wrote, for a backend that cannot: there where the host has injected a code runner and the request
   * has the `code-execution` tool. The backend yields the code and what came of it as events. Rejects when the signal fires.
   */
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
  /**
   * Tells the caller what became of fields that could not be passed on as they are: those that were dropped in the header
   * `polygate-dropped`, those that were approximated in `polygate-approximated`. Heard before the first event alone; a later report
   * replaces an earlier one.
   */
  reportFates(fates: readonly FieldFate[]): void;
  /**
   * Tells the gateway's observer that an upstream is asked, for a backend that asks one: there where the gateway has an observer. Send
   * the headers that it returns with the request, and call its `end` once, however the exchange ends. `relay` does so by itself.
   */
  readonly observeUpstream?: ((asked: AskedUpstream) => UpstreamObserver) | undefined;
}

/** `chat` answers conversations, `image` draws pictures. */
export type ModelKind = "chat" | "image";
