/** The port for hooks: the host's own functions around each generated answer, for guardrails, rewriting, logs and evaluation. */

import type { AnswerEvent, FinishReason } from "../model/chat-event.ts";
import type { ImageAnswerEvent } from "../model/image.ts";
import type { JsonObject } from "../model/json.ts";
import type { ModelKind } from "./call-info.ts";
import type { ModelBackend, VERB_OF } from "./model-backend.ts";
import type { CallRecord } from "./observer.ts";
import type { ApiKey } from "./quota-store.ts";

/** A request of any kind. Only a chat request has `messages`, only an image request `prompt`, only an embedding request `inputs`. */
export type HookRequest = Parameters<NonNullable<ModelBackend[(typeof VERB_OF)[ModelKind]]>>[0];

/**
 * A piece of an answer, as `during` sees it: the same pieces for streamed and complete answers, whatever format the upstream speaks. The last
 * piece is always `finish`. Only an image answer has `image` and `partial-image`.
 */
export type HookEvent = Exclude<AnswerEvent | ImageAnswerEvent, { type: "native" | "start" }>;

/**
 * The decision of `during` on a piece of an answer:
 * - nothing: the held pieces are sent, and then this piece.
 * - a piece, or a list of pieces: they are sent in place of the held pieces and this piece. An empty list drops them all.
 * - `"hold"`: this piece is held after those that are held already. The caller sees nothing of them until a later decision.
 * - a `HookStep`: any of these together, and the end of the answer.
 */
export type HookDecision = HookEvent | readonly HookEvent[] | HookStep | "hold" | undefined | void;

/** A decision in full. Its pieces replace the held pieces and this piece. */
export interface HookStep {
  /** The pieces that are sent. Default: none. */
  readonly show?: readonly HookEvent[];
  /** The pieces that are held from now on. Default: none. Nothing can be held at the `finish`. */
  readonly hold?: readonly HookEvent[];
  /**
   * Ends a chat answer here, with this reason, after `show`. The backend is stopped, and the caller is charged for all that the model has made.
   * While a tool call is open, only a reason for an incomplete answer fits, such as `content-filter` or `refusal`.
   */
  readonly end?: FinishReason;
}

/**
 * Functions around each generated answer. The `before` and the `after` of the hooks of a gateway run in the order of the hooks, and their
 * `during` in the opposite order: a hook sees the answer in the words of the request that it has returned. No function receives a secret.
 *
 * @example
 * const noCards: Hook = {
 *   before(request) {
 *     if (/\b\d{16}\b/.test(JSON.stringify(request)))
 *       throw new GatewayError("invalid_request", "Do not send card numbers.");
 *   },
 * };
 */
export interface Hook<Context = unknown> {
  /**
   * Runs when the key and its model are known, before quota is held and the backend is asked. Returns a changed request, or nothing to keep
   * the request. Also runs for a request whose tokens are only counted. A change of `request` in place is a failure of the hook. A thrown
   * GatewayError refuses the call with its code and message, at no charge.
   *
   * A changed request is sent to the backend in the neutral form, so fields that only the caller's own format has are dropped; a change of
   * `model` alone keeps them. The key's permission is checked for the model that the caller named, not for a model that a hook chooses.
   */
  before?(
    request: HookRequest,
    call: HookCall<Context>,
  ): HookRequest | undefined | void | Promise<HookRequest | undefined | void>;
  /**
   * Decides on each piece of a chat or image answer, after the piece is counted and before the caller sees it. Needs `withDuring` of
   * `polygate/hooks`. The next piece, and the backend, wait for the decision. A change of `event` in place changes nothing.
   *
   * The caller is charged for all that the model has made. The shown pieces are also those of `after`, of a repeated request and of a kept
   * response. Usage cannot be changed, and the `finish` is always sent. A changed text of reasoning loses its signature, which its maker
   * would refuse.
   *
   * A thrown GatewayError ends the answer with its code and message: as its status, or as an error in a stream that has begun.
   *
   * The answer is written anew from its pieces, also in the upstream's own format. Fields that only this format has are dropped, and noted
   * in the record.
   *
   * @param held The pieces that this hook holds, the oldest first.
   */
  during?(event: HookEvent, call: HookCall<Context>, held: readonly HookEvent[]): HookDecision | Promise<HookDecision>;
  /** The code that runs `during`, which not every gateway needs: `withDuring` of `polygate/hooks` adds it to a hook. */
  readonly code?: DuringCode;
  /**
   * Tells whether `during` is to run for a call. Asked once, when each `before` has run. Without any such hook, the answer passes as cheaply
   * as without hooks. Default: yes.
   */
  needsDuring?(call: HookCall<Context>): boolean;
  /**
   * Runs once after the end of each call that has reached `before`, also of a call that failed. Cannot change the answer, which is sent
   * already. Its errors reach `onFailure`.
   */
  after?(answer: HookAnswer<Context>, call: HookCall<Context>): unknown;
  /** The longest time for `before`, for `after` and for each `during`, in milliseconds, from 1 up. Default: 5,000. */
  readonly timeoutMs?: number;
  /**
   * The most memory of the pieces that `during` holds in one answer, in bytes, from 1 up: two for each character. To hold more is a failure.
   * Default: 262,144.
   */
  readonly maxHoldBytes?: number;
  /**
   * The longest time for which the answer waits for its next piece while `during` holds some, in milliseconds, from 1 up. To hold longer is a
   * failure. Default: 30,000.
   */
  readonly maxHoldMs?: number;
  /**
   * The behaviour when `before` or `during` fails without a GatewayError, or takes longer than `timeoutMs`. `closed` (default) refuses the call
   * with 503, or ends its answer with this error. `open` goes on with the request as it was, or shows the rest of the answer as it is. A
   * wrong value that `before` or `during` returns refuses the call with 500, or ends its answer, with `open`, too.
   * `onFailure` receives the failure either way.
   */
  readonly down?: "closed" | "open";
}

/** The code that runs `during`. Its fields are for the gateway alone. */
export interface DuringCode {
  readonly open: (...given: never[]) => unknown;
}

/** The call that a hook belongs to. All functions of all hooks get the same object for a call, so a WeakMap can hold what a hook knows of it. */
export interface HookCall<Context = unknown> {
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** The caller's key, without its secret. */
  readonly key: ApiKey;
  /** The kind of the request: `chat`, `image` or `embedding`. */
  readonly kind: ModelKind;
  /** The caller's wire format, such as `messages`. */
  readonly format: string;
  /** The model that the caller named. */
  readonly model: string;
  /** The host's own context; undefined without the option `context` of the mount. */
  readonly context: Context | undefined;
}

/** An answer after its end. */
export interface HookAnswer<Context = unknown> {
  /** The record of the call, as `onCall` receives it: usage, units, status, times. */
  readonly record: CallRecord<Context>;
  /** The text of the first candidate, without reasoning. */
  readonly text: string;
  /** The text of the reasoning. */
  readonly reasoning: string;
  /** The tool calls of the answer. */
  readonly toolCalls: readonly HookToolCall[];
  /** The reason of the end; undefined when the answer broke off, and for kinds other than chat. */
  readonly finishReason: FinishReason | undefined;
  /** True when the answer was longer than 262,144 characters: the rest is left out. */
  readonly isCut: boolean;
}

/** A tool call of an answer. */
export interface HookToolCall {
  /** The id of the call. */
  readonly id: string;
  /** The name of the tool. */
  readonly name: string;
  /** The arguments: an object, or the text that the model wrote when it is no JSON object. */
  readonly input: JsonObject | string;
}
