/** What a host hears of its gateway's calls. */

import type { GatewayError, GatewayErrorCode, Port } from "../errors.ts";
import type { FieldFate } from "../model/fate.ts";
import type { ImageUsage } from "../model/image.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { ApiKey, Outcome } from "./quota-store.ts";

/** A failure that the caller is told only the outline of, or nothing at all. */
export interface Failure {
  /** With what was thrown underneath as its `cause`. */
  readonly error: GatewayError;
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** What of the host's failed; undefined where it was the gateway itself. */
  readonly port: Port | undefined;
  /**
   * What the key was not charged: the quota store has not confirmed the settlement of this call, and it is retried no more. Book it by
   * hand, or settle the call by its id. Undefined for every other failure.
   */
  readonly unsettled?: UnsettledCharge;
  /** The error with its causes and stacks, for a log; the caller's api key is blotted out wherever it stood. */
  readonly text: string;
}

/** The charge of a call that is not in the ledger. */
export interface UnsettledCharge extends Outcome {
  /** The `ApiKey.id` of the key that owes it. */
  readonly keyId: string;
}

/** Is told of a failure. What it throws, or rejects with, is dropped. */
export type OnFailure = (failure: Failure) => unknown;

/**
 * How a call ended.
 * - `completed`: its answer was made to its last byte.
 * - `refused`: it ended before the backend was asked, for what the caller sent, may do or has left, or because the gateway was full.
 * - `failed`: the backend, a store or the gateway itself failed, or the backend threw an error of its choice; part of a stream may
 *   have been sent by then.
 * - `client-closed`: the client was gone before the end. Where the backend was allowed to drain, the count may be exact all the same.
 * - `deadline`: the call took longer than `limits.deadlineMs`.
 * - `shutdown`: `gateway.close` cut it.
 */
export type CallOutcome = "completed" | "refused" | "failed" | "client-closed" | "deadline" | "shutdown";

/** One finished call: what a bill, a metric or a log needs, and neither prompt, answer nor secret. */
export interface CallRecord<Context = unknown> {
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** The host's own, as the mount's `context` option made it for this request. */
  readonly context: Context | undefined;
  /** Whose call it was; undefined where it ended before that was known, or its route needs no key. */
  readonly key: Pick<ApiKey, "id" | "name"> | undefined;
  /** The wire format: `messages`, `generate-content`, `chat-completions`, `images` or `token-usage`. */
  readonly dialect: string;
  readonly method: string;
  /** The route's pattern below the gateway's mount, such as `/v1beta/models/**`: never an address, which may hold a key. */
  readonly route: string;
  /**
   * The model that was asked for, an image model under its own name where it was asked for by an alias; undefined where the call
   * ended before that was read, or names none.
   */
  readonly modelAsked: string | undefined;
  /** Whether the backend lists the model that was asked for. Where not, its name is the caller's own text: no label for a metric. */
  readonly modelListed: boolean;
  /** The model that the backend says has answered; undefined where it says none. */
  readonly modelAnswered: string | undefined;
  /** Whether a streamed answer was asked for. */
  readonly stream: boolean;
  /** Tokens by kind, completed by estimates; undefined where no chat backend has done anything. */
  readonly usage: Usage | undefined;
  /** How many pictures came, and the tokens that they took; undefined where no image backend was asked. */
  readonly images: { readonly count: number; readonly usage: ImageUsage } | undefined;
  /**
   * What the call cost, in quota units. Where the key had less left, its `used` grew by what was left, and its `overdraft` by the
   * rest. A store that could not be told of it in time is told again beside the call; where that comes to nothing, `onFailure` is
   * told which call is not settled.
   */
  readonly units: number;
  /** Whether the units rest on the backend's own counts. */
  readonly certainty: Certainty;
  /**
   * The `requestId` of the call whose recorded answer this one was given, under the same `Idempotency-Key`; undefined for a call
   * that was answered on its own. A repetition costs nothing and has neither model nor usage: those stand in the first record.
   */
  readonly replayOf: string | undefined;
  readonly outcome: CallOutcome;
  /** The HTTP status; that of a stream that broke off is 200. 499 where a client was gone before it got one. */
  readonly status: number;
  /** Why the call did not complete; undefined where nothing went wrong. */
  readonly errorCode: GatewayErrorCode | undefined;
  /** When it began, in milliseconds since the Unix epoch, by the gateway's clock. */
  readonly beganAt: number;
  /** How long after `beganAt` the backend's first event came, in milliseconds; undefined where none came. */
  readonly firstEventMs: number | undefined;
  /** How long after `beganAt` the call ended, in milliseconds. */
  readonly endMs: number;
  /** The fields of the request that the backend could not be told. */
  readonly dropped: readonly FieldFate[];
  /** What of the backend's answer the caller's format cannot say as it is; `answer.` stands before each field. */
  readonly droppedFromAnswer: readonly FieldFate[];
}

/** Is told of a call that has ended and is settled. What it throws, or rejects with, is dropped, and no answer waits for it. */
export type OnCall<Context = unknown> = (record: CallRecord<Context>) => unknown;
