/** A chat answer as the `during` of hooks sees it. */

import type { AnswerEvent, Ending, FinishReason } from "../../model/chat-event.ts";
import { CHAT } from "../../model/chat-request.ts";
import type { JsonLimits } from "../../model/json.ts";
import type { HookEvent } from "../../ports/hook.ts";
import type { HookFinish, Output, OutputKind } from "../kind.ts";
import { assertChatEvent, FINISH_REASONS } from "./check-event.ts";

/** Chat, whose answers hooks may change. */
export const chatOutput: OutputKind<AnswerEvent> = {
  kind: CHAT,
  begin: (format, limits) => new ChatOutput(format, limits),
};

type ChatFinish = Extract<AnswerEvent, { type: "finish" }>;
type Plain = Exclude<AnswerEvent, { type: "native" }>;

/** The events of a backend that are no content, and that no hook can return. */
const NO_CONTENT: ReadonlySet<string> = new Set(["start", "usage", "native", "finish"]);

/** Without a signature, so much reasoning that hooks have not shown counts as changed, in characters. */
const MAX_UNSHOWN = 1024 ** 2;

/** The reasoning of one candidate since its last signature. */
interface Reasoning {
  /** The text of the model that hooks have not shown yet. */
  unshown: string;
  isChanged: boolean;
}

class ChatOutput implements Output<AnswerEvent> {
  readonly #format: string;
  readonly #limits: JsonLimits;
  readonly #reasoning = new Map<number, Reasoning>();
  /** The highest number of a candidate that has come. */
  #lastCandidate = 0;

  constructor(format: string, limits: JsonLimits) {
    this.#format = format;
    this.#limits = limits;
  }

  plain(event: AnswerEvent): readonly Plain[] {
    if (event.type === "start") {
      const { native, ...start } = event;
      // The frames of the upstream do not follow. The id of an upstream of another format stays marked as such.
      return [native === this.#format ? start : event];
    }
    if (event.type === "finish") return [this.#unframed(event)];
    const events = event.type === "native" ? event.events : [event];
    for (const one of events) if ("candidate" in one || one.type === "reasoning-delta") this.#note(one);
    return events;
  }

  lost(event: AnswerEvent): AnswerEvent | undefined {
    if (event.type !== "native" || !event.unsupported) return undefined;
    // The name tells that the piece is not passed on in its own format.
    return { type: "native", format: `${event.format} (rewritten)`, events: [], unsupported: event.unsupported };
  }

  /** Returns the finish without the last frames of its upstream. Its format may have words of its own for the end. */
  #unframed({ native, ...finish }: ChatFinish): ChatFinish {
    return native ? { ...finish, native: { format: native.format, frames: [], body: undefined } } : finish;
  }

  #note(event: Exclude<Plain, { type: "start" | "finish" }>): void {
    const candidate = candidateOf(event);
    this.#lastCandidate = Math.max(this.#lastCandidate, candidate);
    if (event.type !== "reasoning-delta") return;
    const reasoning = this.#reasoningOf(candidate);
    if (reasoning.isChanged) return;
    reasoning.unshown += event.text;
    if (reasoning.unshown.length > MAX_UNSHOWN) change(reasoning);
  }

  #reasoningOf(candidate: number): Reasoning {
    let reasoning = this.#reasoning.get(candidate);
    if (!reasoning) this.#reasoning.set(candidate, (reasoning = { unshown: "", isChanged: false }));
    return reasoning;
  }

  finishFor(finish: HookFinish): HookFinish {
    const { native: _native, ...told } = finish as ChatFinish;
    return told;
  }

  wrong(event: HookEvent): string | undefined {
    if (NO_CONTENT.has(event.type)) return `no ${event.type} can stand here`;
    try {
      assertChatEvent(event as never, this.#limits);
    } catch (error) {
      return ((error as Error).cause as Error | undefined)?.message ?? (error as Error).message;
    }
    const candidate = candidateOf(event);
    if (Number.isInteger(candidate) && candidate >= 0 && candidate <= this.#lastCandidate) return undefined;
    return "its candidate is none of the answer";
  }

  finished(finish: HookFinish, returned: HookFinish): HookFinish | string {
    const own = finish as ChatFinish;
    const endings = (returned as Partial<ChatFinish>).endings as readonly (Ending | null)[] | undefined;
    const areRight =
      Array.isArray(endings) &&
      endings.length === own.endings.length &&
      endings.every(
        (ending: Ending | null, at) => ending?.candidate === own.endings[at]?.candidate && isReason(ending?.reason),
      );
    if (!areRight) return "the endings of the finish must be those of the answer, each with a known reason";
    return { ...own, endings: (endings as [Ending, ...Ending[]]).map(endingOf) as [Ending, ...Ending[]] };
  }

  ended(finish: HookFinish, reason: FinishReason): HookFinish | string {
    if (!isReason(reason)) return "end must be a known reason";
    const own = finish as ChatFinish;
    const [first, ...others] = own.endings;
    const ended = ({ candidate }: Ending): Ending => ({ candidate, reason, stopSequence: undefined });
    return { ...own, endings: [ended(first), ...others.map(ended)] };
  }

  shown(event: HookEvent): HookEvent | undefined {
    if (event.type !== "reasoning-delta" && event.type !== "reasoning-signature") return event;
    const reasoning = this.#reasoningOf(candidateOf(event));
    const { unshown, isChanged } = reasoning;
    if (event.type === "reasoning-delta") {
      if (unshown.startsWith(event.text)) reasoning.unshown = unshown.slice(event.text.length);
      else change(reasoning);
      return event;
    }
    // The maker of a signature accepts it only with the very text that it has signed.
    reasoning.unshown = "";
    reasoning.isChanged = false;
    return isChanged || unshown !== "" ? undefined : event;
  }
}

function change(reasoning: Reasoning): void {
  reasoning.isChanged = true;
  reasoning.unshown = "";
}

const candidateOf = (event: object): number => (event as { readonly candidate?: number }).candidate ?? 0;

const isReason = (reason: unknown): reason is FinishReason => FINISH_REASONS.has(reason as string);

const endingOf = ({ candidate, reason, stopSequence }: Ending): Ending => ({
  candidate,
  reason,
  stopSequence: reason === "stop-sequence" && typeof stopSequence === "string" ? stopSequence : undefined,
});
