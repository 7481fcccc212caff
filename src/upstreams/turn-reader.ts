/** Reads the events of an answer for the signatures and the reasoning of its tool calls. */

import type { ChatEvent } from "../kinds/chat/event.ts";
import type { ReasoningPart, RedactedReasoningPart, ToolCallPart } from "../kinds/chat/request.ts";
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from "../model/json.ts";

/** Reasoning that stands before a call, and after the previous call of its answer; or inside the last call, as seals that come late do. */
export interface RememberedReasoning {
  readonly part: ReasoningPart | RedactedReasoningPart;
  /** True when a text stands between the previous call and this reasoning. */
  readonly isAfterText: boolean;
}

/** The signature of a call. */
type CallSignature = Pick<ToolCallPart, "signature" | "maker">;

export interface RememberedCall extends CallSignature {
  readonly reasoning: readonly RememberedReasoning[];
}

/** The memory of an entry, or of a part of reasoning, beside its texts, counted as characters. */
export const ENTRY_CHARS = 256;

/** The name of a call in the memory. */
export interface CallName {
  readonly name: string;
  /** True when other answers may have the same id for another call: some servers count the calls of an answer. */
  readonly mayRepeat: boolean;
}

/** The longest id with its tool's name, and the longest arguments that are compared, in characters. */
const MAX_ID_CHARS = 1_024;
const MAX_ARGUMENTS_CHARS = 16_384;

/** An id with this many characters beside the tool's name is random, so no other answer repeats it. */
const UNIQUE_CHARS = 20;

/** Tells whether a call can be remembered, and whether its arguments are compared. */
function kindOfId(id: string, name: string): "unique" | "repeatable" | "too long" {
  if (id.length + name.length > MAX_ID_CHARS) return "too long";
  return id.length - (id.includes(name) ? name.length : 0) < UNIQUE_CHARS ? "repeatable" : "unique";
}

/** Returns undefined for a call that is too long to be remembered. */
export function nameOf({ id, name, input }: Pick<ToolCallPart, "id" | "name" | "input">): CallName | undefined {
  const kind = kindOfId(id, name);
  if (kind === "too long") return undefined;
  if (kind === "unique") return { name: JSON.stringify([id, name]), mayRepeat: false };
  const json = JSON.stringify([id, name, input], withSortedKeys);
  return json.length > MAX_ARGUMENTS_CHARS ? undefined : { name: json, mayRepeat: true };
}

/** Sorts the members of an object: some clients do not keep their order. */
const withSortedKeys = (_key: string, value: JsonValue): JsonValue =>
  isJsonObject(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value;

/** The most calls of one answer that are remembered. Models call tens of tools at once, not hundreds. */
const MAX_CALLS = 128;

/** A call that has begun and not ended. */
interface OpenCall extends RememberedCall {
  readonly name: string;
  /** The pieces of the arguments; undefined when the arguments are not compared. */
  readonly json: string[] | undefined;
  /** The characters that are held until the call ends. */
  chars: number;
}

/** Reads one candidate of an answer. Stops when it holds too many characters for calls that have not ended. */
export class CandidateReader {
  readonly #maker: string;
  readonly #maxChars: number;
  readonly #remember: (name: CallName, call: RememberedCall) => void;
  readonly #open: Map<string, OpenCall> = new Map();
  /** The id of the call that began last. */
  #newest: string | undefined;
  /** The reasoning since the last call began, and the text since then. */
  #reasoning: RememberedReasoning[] = [];
  #hasText = false;
  /** The reasoning that is growing. Its pieces are joined at its end: a text that grows by each piece takes many times its memory. */
  #growing: { readonly pieces: string[]; readonly block: string | undefined } | undefined;
  /** The characters of the reasoning since the last call began. */
  #chars = 0;
  /** These characters, and those of all open calls. */
  #heldChars = 0;
  #calls = 0;
  #isStopped = false;

  constructor(maker: string, maxChars: number, remember: (name: CallName, call: RememberedCall) => void) {
    this.#maker = maker;
    this.#maxChars = maxChars;
    this.#remember = remember;
  }

  read(event: ChatEvent): void {
    if (this.#isStopped) return;
    switch (event.type) {
      case "text-delta":
        this.#endReasoning();
        this.#hasText = true;
        break;
      case "reasoning-delta":
        this.#addReasoning(event.text, event.block);
        break;
      case "reasoning-signature":
        this.#endReasoning(event);
        break;
      case "redacted-reasoning": {
        this.#endReasoning();
        const { type, data, maker = this.#maker } = event;
        this.#reasoning.push({ part: { type, data, maker }, isAfterText: this.#hasText });
        this.#hold(ENTRY_CHARS + data.length);
        break;
      }
      case "tool-call":
      case "tool-call-start":
        this.#begin(event);
        if (event.type === "tool-call") this.#end(event, event.input);
        break;
      case "tool-call-delta": {
        const open = this.#open.get(event.id);
        if (!open?.json) break;
        open.json.push(event.json);
        open.chars += ENTRY_CHARS + event.json.length;
        this.#holdMore(ENTRY_CHARS + event.json.length);
        break;
      }
      case "tool-call-end":
        this.#end(event);
        break;
      default:
    }
  }

  #addReasoning(text: string, block: string | undefined): void {
    if (text === "") return;
    if (this.#growing?.block !== block) this.#endReasoning();
    this.#growing ??= { pieces: [], block };
    this.#growing.pieces.push(text);
    this.#hold(text.length);
  }

  #endReasoning({ signature = "", maker = this.#maker }: CallSignature = {}): void {
    const text = this.#growing?.pieces.join("") ?? "";
    this.#growing = undefined;
    if (text === "" && signature === "") return;
    const part = { type: "reasoning", text, ...(signature !== "" && { signature }), maker } as const;
    this.#reasoning.push({ part, isAfterText: this.#hasText });
    this.#hold(ENTRY_CHARS + signature.length);
  }

  #begin({ id, name, signature, maker }: CallSignature & { readonly id: string; readonly name: string }): void {
    this.#endReasoning();
    if (++this.#calls > MAX_CALLS) return;
    this.#newest = id;
    const kind = kindOfId(id, name);
    const seal = signature ? { signature, maker: maker ?? this.#maker } : {};
    const chars = ENTRY_CHARS + this.#chars;
    const json = kind === "repeatable" ? [] : undefined;
    if (kind !== "too long") this.#open.set(id, { name, json, chars, reasoning: this.#reasoning, ...seal });
    this.#holdMore(kind === "too long" ? -this.#chars : ENTRY_CHARS);
    this.#reasoning = [];
    this.#hasText = false;
    this.#chars = 0;
  }

  /** @param whole The arguments, if they did not come in pieces. */
  #end({ id, signature, maker }: CallSignature & { readonly id: string }, whole?: JsonObject): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    this.#heldChars -= open.chars;
    const { name, json, chars: _chars, ...call } = open;
    const reasoning = id === this.#newest ? [...call.reasoning, ...this.#takeReasoning()] : call.reasoning;
    const input = whole ?? (json ? argumentsOf(json) : {});
    const named = input && nameOf({ id, name, input });
    const seal = signature ? { signature, maker: maker ?? this.#maker } : {};
    if (named) this.#remember(named, { ...call, reasoning, ...seal });
  }

  #takeReasoning(): RememberedReasoning[] {
    this.#endReasoning();
    const reasoning = this.#reasoning;
    this.#reasoning = [];
    this.#heldChars -= this.#chars;
    this.#chars = 0;
    return reasoning;
  }

  #hold(chars: number): void {
    this.#chars += chars;
    this.#holdMore(chars);
  }

  #holdMore(chars: number): void {
    this.#heldChars += chars;
    if (this.#heldChars <= this.#maxChars) return;
    this.#isStopped = true;
    this.#open.clear();
    this.#reasoning = [];
    this.#growing = undefined;
  }
}

/** Returns undefined for a text that is no JSON object. An empty text means an empty object. */
function argumentsOf(pieces: readonly string[]): JsonObject | undefined {
  try {
    const parsed = parseJson(pieces.join("").trim() || "{}");
    return isJsonObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
