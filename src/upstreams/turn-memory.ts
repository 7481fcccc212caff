/**
 * Remembers signatures and reasoning of answers by the ids of their tool calls. Many clients send an earlier answer back without its
 * signatures and reasoning, but all of them send back the ids. Upstreams refuse or forget such a conversation.
 */

import type { ChatEvent } from "../model/chat-event.ts";
import type {
  ChatMessage,
  ChatRequest,
  Part,
  ReasoningPart,
  RedactedReasoningPart,
  RememberedTurn,
  ToolCallPart,
} from "../model/chat-request.ts";
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from "../model/json.ts";
import type { Clock } from "../ports/clock.ts";

export interface TurnMemoryLimits {
  /** The most characters that are remembered for all keys together. 0 turns the memory off. */
  readonly maxRememberedChars: number;
  /** The time after which a call is forgotten, counted from its last use, in milliseconds. 0 turns the memory off. */
  readonly rememberedMs: number;
}

/** A remembered call, and the time of its last use. */
interface MemoryEntry {
  /** Undefined when two answers had the same call: a conversation may mean either of them. */
  readonly call: RememberedCall | undefined;
  readonly chars: number;
  readonly usedAt: number;
}

/** The calls of one API key by their names. The least recently used call is first. */
interface KeyCalls {
  readonly calls: Map<string, MemoryEntry>;
  chars: number;
}

/** A call takes at most this share of the memory. */
const MAX_SHARE = 1 / 8;

/**
 * The memory of one upstream, shared by all keys. A call is found by its key, its id and its tool's name. An id that other answers may
 * repeat also needs the same arguments. Each operation takes constant time for each call, beside the time to read its texts.
 */
export class TurnMemory {
  readonly #limits: TurnMemoryLimits;
  readonly #clock: Clock;
  readonly #byKey: Map<string, KeyCalls> = new Map();
  #chars = 0;
  /** The time of the next search for expired calls, in milliseconds since the Unix epoch. */
  #sweepAt = 0;

  constructor(limits: TurnMemoryLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /**
   * Returns a function that reads the events of one answer in order, and remembers each call when it ends. Returns undefined when the
   * memory is off.
   *
   * @param keyId The id of the caller's API key. No other key gets what is remembered here.
   * @param maker The maker of signatures and reasoning whose events name none.
   */
  recorder(keyId: string, maker: string): ((event: ChatEvent) => void) | undefined {
    const { maxRememberedChars, rememberedMs } = this.#limits;
    if (maxRememberedChars === 0 || rememberedMs === 0) return undefined;
    const maxChars = Math.floor(maxRememberedChars * MAX_SHARE);
    const candidates = new Map<number, CandidateReader>();
    const read = (event: ChatEvent): void => {
      if (event.type === "native") for (const known of event.events) read(known);
      else {
        const candidate = ("candidate" in event && event.candidate) || 0;
        let reader = candidates.get(candidate);
        if (!reader) {
          reader = new CandidateReader(maker, maxChars, (id, call) => this.#remember(keyId, id, call));
          candidates.set(candidate, reader);
        }
        reader.read(event);
      }
    };
    return read;
  }

  /**
   * Adds to a request what its client has not sent back: the signature of each call that has none, and the reasoning before the calls of
   * each turn that has no reasoning of this maker. Adds a remembered call once, because a hostile client may repeat its id.
   */
  restored(keyId: string, request: ChatRequest, maker: string): ChatRequest {
    const known = this.#byKey.get(keyId);
    if (!known) return request;
    const taken = new Set<string>();
    const take = (part: ToolCallPart): RememberedCall | undefined => {
      const { name } = nameOf(part) ?? {};
      if (name === undefined || taken.has(name)) return undefined;
      taken.add(name);
      return this.#use(known, name);
    };
    const messages = request.messages.map((message) =>
      message.role === "assistant" ? restoredTurn(message, maker, take) : message,
    );
    return { ...request, messages };
  }

  /** Returns what is remembered of the calls in a request, by their ids. Leaves out an id that stands for several calls. */
  recalled(keyId: string, { messages }: ChatRequest): ReadonlyMap<string, RememberedTurn> {
    const found = new Map<string, RememberedTurn>();
    const known = this.#byKey.get(keyId);
    const ids = new Set<string>();
    for (const { parts } of known ? messages : [])
      for (const part of parts) {
        if (part.type !== "tool-call") continue;
        const { name } = (ids.has(part.id) ? undefined : nameOf(part)) ?? {};
        const call = known && name !== undefined ? this.#use(known, name) : undefined;
        if (ids.has(part.id)) found.delete(part.id);
        else if (call) found.set(part.id, { ...call, reasoning: call.reasoning.map(({ part: one }) => one) });
        ids.add(part.id);
      }
    return found;
  }

  /** Returns a remembered call, and makes it the most recently used. */
  #use(known: KeyCalls, name: string): RememberedCall | undefined {
    const entry = known.calls.get(name);
    if (!entry) return undefined;
    const now = this.#clock.now();
    this.#forget(known, name, entry);
    if (now - entry.usedAt >= this.#limits.rememberedMs) return undefined;
    this.#keep(known, name, { ...entry, usedAt: now });
    return entry.call;
  }

  #remember(keyId: string, { name, mayRepeat }: CallName, call: RememberedCall): void {
    const usedAt = this.#clock.now();
    if (usedAt >= this.#sweepAt) this.#sweep(usedAt);
    let known = this.#byKey.get(keyId);
    const earlier = known?.calls.get(name);
    // Remember a repeatable id without content too: the same call of a later answer is then known to be another one.
    if (!earlier && !mayRepeat && call.signature === undefined && call.reasoning.length === 0) return;
    if (!known) this.#byKey.set(keyId, (known = { calls: new Map(), chars: 0 }));
    if (earlier) this.#forget(known, name, earlier);
    const isOther = earlier && JSON.stringify(earlier.call) !== JSON.stringify(call);
    const chars = ENTRY_CHARS + name.length + (isOther ? 0 : charsOf(call));
    this.#keep(known, name, { call: isOther ? undefined : call, chars, usedAt });
    if (this.#chars > this.#limits.maxRememberedChars) this.#makeRoom();
  }

  /**
   * Halves the memory of each key that holds at least half of the mean. These keys hold at least half of everything, so a quarter becomes
   * free, and this walk over the keys is rare. A key that holds little loses nothing to keys that hold much.
   */
  #makeRoom(): void {
    const enough = this.#chars / this.#byKey.size / 2;
    for (const known of this.#byKey.values()) {
      if (known.chars < enough) continue;
      const half = known.chars / 2;
      for (const [name, entry] of known.calls) {
        if (known.chars <= half) break;
        this.#forget(known, name, entry);
      }
    }
  }

  #sweep(now: number): void {
    const { rememberedMs } = this.#limits;
    this.#sweepAt = now + rememberedMs / 4;
    for (const [keyId, known] of this.#byKey) {
      for (const [name, entry] of known.calls) {
        if (now - entry.usedAt < rememberedMs) break;
        this.#forget(known, name, entry);
      }
      if (known.calls.size === 0) this.#byKey.delete(keyId);
    }
  }

  #keep(known: KeyCalls, name: string, entry: MemoryEntry): void {
    known.calls.set(name, entry);
    known.chars += entry.chars;
    this.#chars += entry.chars;
  }

  #forget(known: KeyCalls, name: string, { chars }: MemoryEntry): void {
    known.calls.delete(name);
    known.chars -= chars;
    this.#chars -= chars;
  }
}

function charsOf({ signature = "", reasoning }: RememberedCall): number {
  let chars = signature.length;
  for (const { part } of reasoning) {
    const content = part.type === "reasoning" ? part.text.length + (part.signature?.length ?? 0) : part.data.length;
    chars += ENTRY_CHARS + content;
  }
  return chars;
}

/** Returns a turn with the remembered parts at their places: before the text of the call, or between the text and the call. */
function restoredTurn(
  message: ChatMessage,
  maker: string,
  take: (part: ToolCallPart) => RememberedCall | undefined,
): ChatMessage {
  const hasOwn = message.parts.some((part) => isReasoningOf(part, maker));
  let hasRestored = false;
  let hasChanged = false;
  const parts: Part[] = [];
  /** The parts since the last call. */
  let latest: Part[] = [];
  for (const part of message.parts) {
    if (part.type !== "tool-call") {
      latest.push(part);
      continue;
    }
    const call = take(part);
    hasChanged ||= call !== undefined;
    const { reasoning = [], ...seal } = call ?? {};
    const missing = hasOwn ? [] : reasoning;
    hasRestored ||= missing.length > 0;
    for (const { part, isAfterText } of missing) if (!isAfterText) parts.push(part);
    for (const part of latest) parts.push(part);
    for (const { part, isAfterText } of missing) if (isAfterText) parts.push(part);
    parts.push(part.signature === undefined ? { ...part, ...seal } : part);
    latest = [];
  }
  if (!hasChanged) return message;
  for (const part of latest) parts.push(part);
  // The client may have sent the text of the restored reasoning back.
  return { ...message, parts: hasRestored ? parts.filter((part) => !isBareReasoning(part)) : parts };
}

/** Tells whether a part is reasoning that its maker takes back. A signature without a maker is taken for the upstream's own. */
const isReasoningOf = (part: Part, maker: string): boolean =>
  (part.type === "redacted-reasoning" || (part.type === "reasoning" && !isBareReasoning(part))) &&
  (part.maker ?? maker) === maker;

const isBareReasoning = (part: Part): boolean =>
  part.type === "reasoning" && part.signature === undefined && part.maker === undefined;

/** Reasoning that stands before a call, and after the previous call of its answer; or inside the last call, as seals that come late do. */
interface RememberedReasoning {
  readonly part: ReasoningPart | RedactedReasoningPart;
  /** True when a text stands between the previous call and this reasoning. */
  readonly isAfterText: boolean;
}

type CallSignature = Pick<ToolCallPart, "signature" | "maker">;

interface RememberedCall extends CallSignature {
  readonly reasoning: readonly RememberedReasoning[];
}

/** The memory of an entry, or of a part of reasoning, beside its texts, counted as characters. */
const ENTRY_CHARS = 256;

/** The name of a call in the memory. */
interface CallName {
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
function nameOf({ id, name, input }: Pick<ToolCallPart, "id" | "name" | "input">): CallName | undefined {
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
class CandidateReader {
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
