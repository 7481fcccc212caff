/** The port for backends, which pass requests to models and yield their answers. */

import type { ChatEvent } from "../model/chat-event.ts";
import type { ChatRequest } from "../model/chat-request.ts";
import type { Conversion } from "../model/conversion.ts";
import type { EmbeddingEvent, EmbeddingRequest } from "../model/embedding.ts";
import type { ImageEvent, ImageRequest } from "../model/image.ts";
import { listOf, type Shapes, shown } from "../options.ts";
import type { CallInfo, ModelKind } from "./call-info.ts";
import type { CodeResult, CodeToRun } from "./code-runner.ts";
import type { AskedUpstream, UpstreamObserver, UpstreamStatus } from "./observer.ts";
import type { ApiKey } from "./quota-store.ts";

/**
 * Answers requests. A backend implements the methods that it supports. The gateway has only the routes of those methods.
 *
 * @example
 * const backend: ModelBackend = {
 *   async *chat(request) {
 *     yield `You said ${request.messages.length} things.`;
 *   },
 * };
 */
export interface ModelBackend<Context = unknown> {
  /** The name of the upstream for records, metrics and failures. Default: none. */
  readonly name?: string;
  /**
   * The end of a call after its client has disconnected. `cancel` (default) fires the call's signal at once, and charges the answer so far, or nothing when none has come. With `drainMs`, the backend may continue for that many milliseconds, to report its exact
   * usage. Then the signal fires. A function chooses by the requested model.
   */
  readonly hangUp?: HangUp | ((model: string) => HangUp);
  /**
   * True for a backend that takes requests with types and words that the gateway does not know, such as new content blocks: it passes them
   * on to an upstream of the caller's format, and reports their loss before any other. `relay`, `aiSdk` and `route` set it; a wrapper of
   * them should, too. A function tells by the requested model. Default: the gateway refuses such requests, because a backend that does not
   * know them would ignore them.
   */
  readonly takesUnknown?: boolean | ((model: string) => boolean);
  /**
   * True for a backend that compacts long conversations itself where a request of Responses asks for it (`context_management`). A function
   * tells by the requested model. `relay` sets it by its option `compaction`. Default: the gateway does it, if the host has given it a secret.
   */
  readonly compacts?: boolean | ((model: string) => boolean);
  /** Loads code that the backend otherwise loads with its first calls. `gateway.load()` calls it. It may reject, and be called again. */
  load?(): unknown;
  /** Returns the models on offer. Without it, every model name is allowed. Called once for each request, so cache the list. */
  models?(): readonly ModelInfo[] | Promise<readonly ModelInfo[]>;
  /**
   * True for a backend that may also answer models that `models()` does not list. A function tells by the requested model. `route` sets it
   * for patterns whose upstreams list no models. Default: the backend answers only the listed models.
   */
  readonly takesUnlisted?: boolean | ((model: string) => boolean);
  /**
   * Returns the upstreams that may answer a call of a model, so that quota is held for the most expensive. Default: unknown; the price is
   * then asked for the caller's model before the call.
   */
  upstreamsOf?(model: string, kind: ModelKind): readonly UpstreamModel[];
  /** Returns the state of each upstream, for health checks and metrics. Must not block. */
  status?(): readonly UpstreamStatus[];
  /**
   * Answers a chat request. A yielded string is a piece of the answer's text. Respect `request.maxOutputTokens`, and stop when
   * `call.signal` fires. Throw a GatewayError to choose the caller's error. Any other error becomes a server error.
   */
  chat?(request: ChatRequest, call: CallContext<Context>): AsyncIterable<ChatEvent | string>;
  /**
   * Counts the input tokens of a chat request, without an answer and without a charge. Resolves with undefined when it cannot count. Errors
   * are handled as in `chat`. Default: the gateway estimates the count with `countTokens`.
   */
  countInputTokens?(request: ChatRequest, call: CallContext<Context>): Promise<number | undefined>;
  /**
   * Draws, edits or varies images. Yields each finished image, up to `request.count`. Yielded images are charged, even when the call fails
   * or is cut later.
   */
  image?(request: ImageRequest, call: CallContext<Context>): AsyncIterable<ImageEvent>;
  /**
   * Yields the vector of each input, in the order of `request.inputs`; all vectors have the same length. The inputs whose vectors were
   * yielded are charged, and at least the tokens that were counted, even when the call fails or is cut later. A backend that counts the tokens
   * yields them as usage, at the latest after the last vector. Default: the gateway estimates the tokens with `countTokens`.
   *
   * @example
   * async *embed({ inputs }) {
   *   for (const input of inputs) {
   *     if (typeof input !== "string") throw new GatewayError("failed_precondition", "This model embeds only text.");
   *     yield await vectorOf(input);
   *   }
   * }
   */
  embed?(request: EmbeddingRequest, call: CallContext<Context>): AsyncIterable<EmbeddingEvent>;
}

/** The function of a backend that answers each kind of request: the registry of the kinds of the package. */
export const VERB_OF: { readonly chat: "chat"; readonly image: "image"; readonly embedding: "embed" } = {
  chat: "chat",
  image: "image",
  embedding: "embed",
} satisfies Record<ModelKind, keyof ModelBackend>;

/** The function of a backend that counts input, and the kind of its requests. */
export const INPUT_COUNT: { readonly kind: ModelKind; readonly verb: "countInputTokens" } = {
  kind: "chat",
  verb: "countInputTokens",
};
/** Tells whether a backend takes types and words that the gateway does not know, in a request for this model. */
export const takesUnknown = (backend: ModelBackend, model: string): boolean => tells(backend, "takesUnknown", model);

/** Tells whether a backend compacts the conversations of this model itself. */
export const compactsItself = (backend: ModelBackend, model: string): boolean => tells(backend, "compacts", model);

/** Tells whether a backend may answer a model that it does not list. */
export const takesUnlisted = (backend: ModelBackend, model: string): boolean => tells(backend, "takesUnlisted", model);

/** Throws a TypeError for an answer that is no boolean: a promise would always count as true. */
function tells(backend: ModelBackend, member: "takesUnknown" | "compacts" | "takesUnlisted", model: string): boolean {
  const trait = backend[member];
  const told: unknown = typeof trait === "function" ? trait.call(backend, model) : trait;
  if (typeof told === "boolean" || told === undefined) return told ?? false;
  // Catch the failure of a promise here, because no other code waits for it.
  Promise.resolve(told).catch(() => {});
  throw new TypeError(`${member} of a backend must be, or return, true or false, not ${shown(told)}.`);
}

/** The end of a call after its client has disconnected; the time is in milliseconds. */
export type HangUp = "cancel" | { readonly drainMs: number };

/** A model of an upstream, which may answer a call of the caller's model. */
export interface UpstreamModel {
  /** The upstream's name, as in the attempts of a call's record. */
  readonly name: string;
  /** The upstream's own name of the model. */
  readonly model: string;
}

/** A model on offer. */
export interface ModelInfo {
  /** The name that callers use. */
  readonly id: string;
  /** The kinds of requests that the model answers. For other kinds, callers are told that the model does not exist. Default: all kinds. */
  readonly kinds?: readonly ModelKind[];
  /** The displayed name. Default: the id. */
  readonly displayName?: string;
  /** The owner of the model in the list of OpenAI's formats. Default: `polygate`. */
  readonly ownedBy?: string;
  /** The date of the model, as Unix time in seconds. */
  readonly createdAt?: number;
  /** The most input tokens of a request. Callers can read the number, but only the backend enforces it. */
  readonly maxInputTokens?: number;
  /** The most output tokens that a request may ask for. */
  readonly maxOutputTokens?: number;
}

export const MODEL_SHAPES: Shapes<ModelInfo> = {
  id: "string",
  kinds: { optional: listOf(Object.keys(VERB_OF)) },
  displayName: "string?",
  ownedBy: "string?",
  createdAt: "number?",
  maxInputTokens: "number?",
  maxOutputTokens: "number?",
};

/** Returns the events that have come and were not yielded, in their order. */
export type UnreadEvents = () => Iterable<ChatEvent | ImageEvent | EmbeddingEvent | string>;

/**
 * The details of a call that a backend receives beside the request. `signal` is a getter of the class, so a copy by spread has no signal.
 * `observeUpstream`, `reportUnread` and `continueWith` are for a backend that asks an upstream.
 */
export interface CallContext<Context = unknown> extends CallInfo<Context> {
  /**
   * Fires when the client is gone, the deadline has passed or the gateway closes. Its reason is a GatewayError. Never fires on a normal
   * end.
   */
  readonly signal: AbortSignal;
  /** The caller's key, without its secret. */
  readonly key: ApiKey;
  /**
   * Runs code that the model wrote, for a backend without a sandbox. Present when the host has a code runner and the request has the
   * `code-execution` tool. The backend yields the code and its result as events. Rejects when the signal fires, and with `internal` when the
   * runner fails: let the error pass.
   */
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
  /**
   * Reports the fields of the request that the backend could not pass on unchanged. The caller receives dropped fields in the header
   * `polygate-dropped`, and approximated fields in `polygate-approximated`. Only reports before the first event reach the caller. A later
   * report replaces an earlier one.
   */
  reportConversions(conversions: readonly Conversion[]): void;
  /**
   * Tells the gateway about a request to an upstream: for the attempts of the call's record, for `onFailure`, for the price, and for the
   * observer. Send the returned headers with the request, and call `end` exactly once, however the exchange ends. `relay`, `aiSdk` and
   * `route` do this by themselves. Throws when the host's price has none for the upstream's model: let the error pass, and send nothing.
   * Missing only in a context that no gateway made.
   */
  readonly observeUpstream?: ((asked: AskedUpstream) => UpstreamObserver) | undefined;
  /**
   * Gives the gateway a function that returns the events which the backend has received and not yielded. The gateway calls it at most once,
   * when the call was cut, even after the backend was stopped. It charges these events, because their upstream does, up to the place where it
   * stops an answer that is too long. The function must return at once, and must not ask the upstream for more. A later report replaces an
   * earlier one. `relay`, `aiSdk` and `route` report by themselves. Missing only in a context that no gateway made.
   */
  readonly reportUnread?: ((unread: UnreadEvents) => void) | undefined;
  /**
   * Prepares a further request for the same answer: closes the counts and the charge of the request before, and holds quota for the next. The
   * events that follow are counted and priced for the next request alone, and the caller is told the sum. Resolves with the request, whose
   * output limit is lowered by the tokens so far and to what the quota covers; with undefined when no token is left. Rejects when the call
   * has ended.
   *
   * Without `isNextTurn`, an upstream has broken its answer off, and another goes on: the charge is then an estimate. Rejects when the quota
   * does not cover the request. With `isNextTurn`, a turn of the model has ended, whose events with its last counts were all yielded, but for
   * a finish, and the same upstream is asked again, such as with the results of code. Resolves with undefined also when the quota does not
   * cover the request, and when the store is away: end the answer with the reason `length`.
   *
   * `route` and `relay` do this by themselves. Missing in a context that no gateway made, and for other requests than chat.
   */
  readonly continueWith?:
    | ((request: ChatRequest, isNextTurn?: boolean) => Promise<ChatRequest | undefined>)
    | undefined;
}
