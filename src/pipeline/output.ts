/** An answer between its meter and its encoder: as its hooks and its encoder read it, and the errors of hooks. */

import { failedIn, GatewayError, STORE_RETRY_MS } from "../errors.ts";
import type { JsonLimits } from "../model/json.ts";
import type { Clock } from "../ports/clock.ts";
import type { DuringCode, Hook, HookCall } from "../ports/hook.ts";
import type { OnFailure } from "../ports/observer.ts";

export const DEFAULT_TIMEOUT_MS = 5_000;

/** The events of an answer: those of the backend under their hold, or those that the hooks show. */
export interface AnswerEvents<Answered> {
  /** True once the finish was handed on. */
  readonly isFinished: boolean;
  /** Keeps the answer before its finish is handed on. */
  keep: ((finish: Answered) => Promise<void> | undefined) | undefined;
  /** Hands on the events, up to the finish, until `hand` returns false. Resolves with whether more events follow. */
  each(hand: (event: Answered) => boolean): Promise<boolean>;
}

/** The events of a backend under their hold. */
export interface EndableEvents<Answered> extends AnswerEvents<Answered> {
  /** Ends the answer before its backend does. Only the finish follows. */
  end(): void;
}

/** The parts of a call that the hooks of its answer need. `Call` documents each field. */
export interface CallWithOutput {
  readonly id: string;
  readonly secret: string | undefined;
  readonly clock: Clock;
  readonly services: { readonly onFailure: OnFailure };
  assertLive(): void;
  wait<Value>(promise: Promise<Value>): Promise<Value>;
  defer(release: () => void): void;
}

/** The code of `during`, as the hooks of a gateway ask it. */
export interface OutputCode extends DuringCode {
  /**
   * Returns the answer of a call for its hooks; undefined when none is to run. Throws the error that refuses the call.
   *
   * @param hooks All hooks of the gateway, in their order.
   */
  readonly open: (
    call: { readonly endpoint: { readonly format: string }; readonly json: { readonly limits: JsonLimits } },
    told: HookCall,
    hooks: readonly Hook[],
  ) => HookedOutput | undefined;
}

/** The answer of a call, before its first event. */
export interface HookedOutput {
  /**
   * Returns the events of the answer as hooks show them.
   *
   * @param quietMs The time after which the answer begins without a first event, in milliseconds; undefined waits for ever.
   * @param onShown Receives each event of the answer, and the fields that are lost.
   */
  shown<Answered>(
    call: CallWithOutput,
    events: EndableEvents<Answered>,
    quietMs: number | undefined,
    onShown: ((event: unknown) => void) | undefined,
  ): Promise<AnswerEvents<Answered>>;
}

/** Returns the error for a hook whose function has failed. Only the host hears the cause, with the name of the function. */
export const hookFailed = (name: string, thrown: unknown): GatewayError =>
  new GatewayError("store_unavailable", "A check of this service is not available.", {
    cause: failedIn(name, thrown),
    port: "hook",
    retryAfterMs: STORE_RETRY_MS,
  });

/** Returns the error for a hook that has returned a wrong value. */
export const wrongReturn = (message: string): GatewayError =>
  new GatewayError("internal", "The gateway had an internal error.", { cause: new TypeError(message), port: "hook" });
