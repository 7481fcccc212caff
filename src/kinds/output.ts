/** The answer of a kind as the `during` of hooks sees it: in neutral pieces alone, and checked where a hook has changed it. */

import type { FinishReason } from "../model/chat-event.ts";
import type { JsonLimits } from "../model/json.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { HookEvent } from "../ports/hook.ts";

/** A kind whose answers hooks may change. */
export interface OutputKind<Answered = unknown> {
  readonly kind: ModelKind;
  /**
   * Begins one answer.
   *
   * @param format The caller's wire format.
   */
  begin(format: string, limits: JsonLimits): Output<Answered>;
}

/** The last event of an answer. */
export type HookFinish = Extract<HookEvent, { type: "finish" }>;

/** An answer, between its meter and its encoder. */
export interface Output<Answered> {
  /** Returns the neutral events of an event: the start, the finish, and what hooks see between them. */
  plain(event: Answered): readonly (Answered & (HookEvent | { readonly type: "start" }))[];
  /** Returns an event for the listeners of the record that tells which fields `plain` has lost; undefined if there are none. */
  lost?(event: Answered): Answered | undefined;
  /** Returns the finish as hooks see it. */
  finishFor(finish: HookFinish): HookFinish;
  /** Returns what is wrong with an event that a hook has returned, which is not a finish; undefined for a right one. */
  wrong(event: HookEvent): string | undefined;
  /** Returns the finish with the end that a hook has returned; a text that says what is wrong with it. */
  finished(finish: HookFinish, returned: HookFinish): HookFinish | string;
  /** Returns the finish with another reason. Missing for a kind whose answers have none. */
  ended?(finish: HookFinish, reason: FinishReason): HookFinish | string;
  /** Returns the event to hand on to the encoder; undefined to leave it out. */
  shown(event: HookEvent): HookEvent | undefined;
}
