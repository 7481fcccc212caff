/**
 * Remembers signatures and reasoning of answers by the ids of their tool calls. Many clients send an earlier answer back without its
 * signatures and reasoning, but all of them send back the ids. Upstreams refuse or forget such a conversation.
 */

import type { ChatEvent } from "../kinds/chat/event.ts";
import type { ChatMessage, ChatRequest, Part, RememberedTurn, ToolCallPart } from "../kinds/chat/request.ts";
import type { Clock } from "../ports/clock.ts";
import { type CallName, CandidateReader, ENTRY_CHARS, nameOf, type RememberedCall } from "./turn-reader.ts";

/** The limits of a memory of turns. */
export interface TurnMemoryLimits {
  /** Most characters that are remembered for all keys together. 0 turns the memory off. */
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

/** One call takes at most this share of the memory. */
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
