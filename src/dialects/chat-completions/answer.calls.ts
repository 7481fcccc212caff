/** The tool calls of one choice of an upstream's answer, however loosely its server numbers and names them. */

import { GatewayError } from "../../errors.ts";
import type { ContentEvent } from "../../model/event.ts";
import type { AnsweredArguments } from "../shared/tool-calls.ts";
import type { HeldBack } from "../shared/upstream.ts";
import type { Message, ToolCall } from "./schema.answer.ts";
import { DIALECT } from "./schema.base.ts";

interface ReadCall {
  /** The id as the server wrote it. */
  readonly said: string | undefined;
  readonly id: string;
  readonly isCustom: boolean;
  /** Missing until the server has told it. */
  name: string | undefined;
  readonly fragments: string[];
  begun: boolean;
  ended: boolean;
}

/** What a piece of a call takes, whatever is in it. */
const FRAGMENT_CHARS = 64;

type Slot = number | "function_call";

/** The calls of every choice of one answer. */
export interface AnswerCalls {
  /** The ids of all calls so far: no two of them are the same. */
  readonly ids: Set<string>;
  /** The last number that was put behind an id which another call had already. */
  suffix: number;
  readonly inventId: () => string;
  /** Counts the parts of the answer that are held in memory. */
  readonly heldBack: HeldBack;
  readonly args: AnsweredArguments;
}

export class CallReader {
  readonly #calls: ReadCall[] = [];
  readonly #bySlot: Map<Slot, ReadCall> = new Map();
  readonly #bySaid: Map<string, ReadCall> = new Map();
  /** The call that began last. */
  #newest: ReadCall | undefined;
  readonly #answer: AnswerCalls;

  constructor(answer: AnswerCalls) {
    this.#answer = answer;
  }

  /** Whether there was a call. */
  get called(): boolean {
    return this.#calls.length > 0;
  }

  *read({ tool_calls, function_call }: Message): Generator<ContentEvent> {
    for (const call of tool_calls ?? []) yield* this.#read(this.#find(call), call);
    if (!function_call) return;
    const slot = "function_call";
    const known = this.#bySlot.get(slot) ?? this.#add(slot, {});
    yield* this.#read(known, { function: function_call });
  }

  /** Ends the calls. One of an answer that was cut short stays open where its arguments are no JSON yet. */
  *end(cutShort: boolean): Generator<ContentEvent> {
    for (const call of this.#calls) {
      if (call.ended) continue;
      if (call.isCustom) yield this.#custom(call);
      else if (!call.begun) throw new GatewayError("backend_failed", "The model backend called a tool without a name.");
      else if (!cutShort || this.#answer.args.find(call.fragments.join("")))
        yield { type: "tool-call-end", id: call.id };
      call.ended = true;
    }
  }

  *#read(call: ReadCall, { function: named, custom }: ToolCall): Generator<ContentEvent> {
    const name = (named ?? custom)?.name;
    if (call.name === undefined && name) call.name = name;
    const said = named ? named.arguments : custom?.input;
    const fragment = typeof said === "object" && said !== null ? JSON.stringify(said) : (said ?? "");
    if (call.ended && fragment.trim() !== "")
      throw new GatewayError("backend_failed", "The model backend went on with a tool call that had ended.");
    if (call.ended) return;
    if (fragment !== "") call.fragments.push(fragment);
    if (call.isCustom || call.name === undefined) return this.#answer.heldBack.take(FRAGMENT_CHARS + fragment.length);
    if (call.begun) {
      if (fragment !== "") yield { type: "tool-call-delta", id: call.id, json: fragment };
      return;
    }
    yield* this.#endNewest();
    this.#newest = call;
    call.begun = true;
    yield { type: "tool-call-start", id: call.id, name: call.name };
    for (const json of call.fragments) yield { type: "tool-call-delta", id: call.id, json };
  }

  /** Once a call begins, the one before it has ended if its arguments are whole: what follows need not wait for it. */
  *#endNewest(): Generator<ContentEvent> {
    const call = this.#newest;
    if (!call || call.ended || call.fragments.length === 0 || !this.#answer.args.find(call.fragments.join(""))) return;
    call.ended = true;
    yield { type: "tool-call-end", id: call.id };
  }

  #find(call: ToolCall): ReadCall {
    const { index, id } = call;
    const last = this.#calls.at(-1);
    const known = index == null ? (id ? this.#bySaid.get(id) : last) : this.#bySlot.get(index);
    // Some servers give every call the same index, or none at all: another id or another name is another call.
    const isAnother =
      known && ((id && known.said && id !== known.said) || (!id && index == null && call.function?.name));
    if (known && !isAnother) return known;
    return this.#add(index ?? this.#calls.length, call);
  }

  #add(slot: Slot, { id, custom }: ToolCall): ReadCall {
    this.#answer.heldBack.take(FRAGMENT_CHARS + (id?.length ?? 0));
    const call: ReadCall = {
      said: id || undefined,
      id: this.#unique(id || this.#answer.inventId()),
      isCustom: custom != null,
      name: undefined,
      fragments: [],
      begun: false,
      ended: false,
    };
    this.#calls.push(call);
    this.#bySlot.set(slot, call);
    if (call.said !== undefined) this.#bySaid.set(call.said, call);
    return call;
  }

  #unique(id: string): string {
    const answer = this.#answer;
    let unique = id;
    if (answer.ids.has(id)) {
      let count = Math.max(answer.suffix, answer.ids.size);
      // Never counts back: an upstream that has used the next numbers already makes each of them be tried once.
      do unique = `${id}_${++count}`;
      while (answer.ids.has(unique));
      answer.suffix = count;
    }
    answer.ids.add(unique);
    return unique;
  }

  #custom({ id, name = "", fragments }: ReadCall): ContentEvent {
    const value = { type: "custom", id, custom: { name, input: fragments.join("") } };
    return { type: "provider", dialect: DIALECT, value };
  }
}
