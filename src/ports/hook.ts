/** The port for hooks: the host's own functions around each generated answer, for guardrails, rewriting, logs and evaluation. */

import type { FinishReason } from "../model/chat-event.ts";
import type { JsonObject } from "../model/json.ts";
import type { ModelKind } from "./call-info.ts";
import type { ModelBackend, VERB_OF } from "./model-backend.ts";
import type { CallRecord } from "./observer.ts";
import type { ApiKey } from "./quota-store.ts";

/** A request of any kind. Only a chat request has `messages`, only an image request `prompt`, only an embedding request `inputs`. */
export type HookRequest = Parameters<NonNullable<ModelBackend[(typeof VERB_OF)[ModelKind]]>>[0];

/**
 * Functions around each generated answer. The hooks of a gateway run in their order, each after the one before it has finished. Neither
 * function receives a secret.
 *
 * @example
 * const noCards: Hook = {
 *   before(request) {
 *     if (/\b\d{16}\b/.test(JSON.stringify(request))) throw new GatewayError("invalid_request", "Do not send card numbers.");
 *   },
 * };
 */
export interface Hook<Context = unknown> {
  /**
   * Runs when the key and its model are known, before quota is held and the backend is asked. Returns the request to go on with, or
   * nothing to keep the request. Also runs for a request whose tokens are only counted. A change of `request` in
   * place is a failure of the hook. A GatewayError that it throws refuses the call with its code and message, at no charge.
   *
   * A changed request is sent to the backend in the neutral form, so fields that only the caller's own format has are dropped; a change of
   * `model` alone keeps them. The key's permission is checked for the model that the caller named, not for a model that a hook chooses.
   */
  before?(
    request: HookRequest,
    call: HookCall<Context>,
  ): HookRequest | undefined | void | Promise<HookRequest | undefined | void>;
  /**
   * Runs once after the end of each call that has reached `before`, also of a call that failed. Cannot change the answer, which is sent
   * already. Its errors reach `onFailure`.
   */
  after?(answer: HookAnswer<Context>, call: HookCall<Context>): unknown;
  /** The longest time for `before` and for `after`, in milliseconds, from 1 up. Default: 5,000. */
  readonly timeoutMs?: number;
  /**
   * The behaviour when `before` fails without a GatewayError, or takes longer than `timeoutMs`: `closed` (default) refuses the call with
   * 503, `open` goes on with the request as it was. `onFailure` hears of the failure either way.
   */
  readonly down?: "closed" | "open";
}

/** The call that a hook belongs to. */
export interface HookCall<Context = unknown> {
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** The caller's key, without its secret. */
  readonly key: ApiKey;
  readonly kind: ModelKind;
  /** The caller's wire format, such as `messages`. */
  readonly format: string;
  /** The model that the caller named. */
  readonly model: string;
  /** The host's own context. */
  readonly context: Context;
}

/** An answer after its end. */
export interface HookAnswer<Context = unknown> {
  /** The record of the call, as `onCall` receives it: usage, units, status, times. */
  readonly record: CallRecord<Context>;
  /** The text of the first candidate, without reasoning. */
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly HookToolCall[];
  /** The reason of the end; undefined when the answer broke off, and for kinds other than chat. */
  readonly finishReason: FinishReason | undefined;
  /** True when the answer was longer than 262,144 characters: the rest is left out. */
  readonly isCut: boolean;
}

/** A tool call of an answer. */
export interface HookToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments: an object, or the text that the model wrote when it is no JSON object. */
  readonly input: JsonObject | string;
}
