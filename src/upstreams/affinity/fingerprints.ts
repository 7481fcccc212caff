/** Fingerprints of the prefixes of a chat request: its tools, its system prompt, its turns, and the caller's own cache marks. */

import type { CacheHint, ChatRequest } from "../../model/chat-request.ts";
import type { EventLoopYielder } from "../../ports/clock.ts";

interface Prefix {
  /** An integer from 0 to 2⁵³ − 1. Equal prefixes of one tenant have equal fingerprints, in every process. */
  readonly id: number;
  /** The share of the request's input that the prefix has, by characters: from 0 to 1. */
  readonly share: number;
  /** True for a prefix that reaches into the turns, behind the tools and the system prompt. */
  readonly isTurn: boolean;
  /** True for a prefix that is noted when an upstream answers: others are only looked up. */
  readonly isNoted: boolean;
  /** The lifetime that the caller's own mark names, such as `1h`. */
  readonly ttl: string | undefined;
}

export interface Fingerprints {
  /** The prefixes that are looked up, the shortest first. The last is the whole request. */
  readonly prefixes: readonly Prefix[];
  /** Stays the same for all turns of a conversation: the caller's own cache key, or else the fingerprint of the first turn. */
  readonly conversation: number;
  /** The size of the input in characters. A file in base64 counts as a few thousand. */
  readonly chars: number;
  /** The number of answers in the conversation. */
  readonly answers: number;
  /** True when the caller has marked what the vendor should cache. */
  readonly isMarked: boolean;
}

/** The most cache marks, ends of turns and ends of parts that are looked up: the last of each. Vendors take four marks. */
const [MAX_MARKS, MAX_TURNS, MAX_PARTS] = [4, 16, 32];
/** A longer text without spaces is a file in base64. It counts as this many characters: pictures cost about a thousand tokens. */
const MAX_FILE_CHARS = 4_096;
/** The pieces in which a long text is hashed, in characters: the event loop may serve other work between them. */
const PIECE_CHARS = 1_048_576;

/**
 * Returns the fingerprints of a request. The work is linear in the size of the request.
 *
 * @param tenant Whose caches the prefixes are in. Fingerprints of different tenants differ.
 */
export async function fingerprintsOf(
  tenant: string,
  request: ChatRequest,
  yielder: EventLoopYielder,
): Promise<Fingerprints> {
  const { model, cachedContent, tools, system, messages, native } = request;
  const hash = new Hash();
  hash.text(tenant);
  hash.text(model);
  if (cachedContent !== undefined) hash.text(cachedContent);
  const cacheKey = native?.body["prompt_cache_key"] ?? cachedContent;
  let conversation: number | undefined;
  if (typeof cacheKey === "string") {
    const keyed = hash.copy();
    keyed.text(cacheKey);
    conversation = keyed.id;
  }
  const ends: End[] = [];
  let [chars, answers, isTurn] = [0, 0, false];
  const add = async (block: object): Promise<void> => {
    chars += await hash.value(block, yielder);
    const { cache } = block as { readonly cache?: CacheHint };
    ends.push({ id: hash.id, chars, isTurn, kind: "part", mark: cache });
  };
  for (const tool of tools) await add(tool);
  endAs("section", ends);
  hash.text("system");
  for (const part of system) await add(part);
  endAs("section", ends);
  isTurn = true;
  for (const { role, name, parts } of messages) {
    hash.text(role);
    if (name !== undefined) hash.text(name);
    for (const part of parts) await add(part);
    endAs("turn", ends);
    if (role === "assistant") answers++;
    conversation ??= hash.id;
  }
  const prefixes = lookedUp(ends).map(({ id, chars: upTo, kind, mark, isTurn }, at, all): Prefix => {
    const isNoted = kind === "section" || mark !== undefined || at === all.length - 1;
    return { id, share: upTo / Math.max(1, chars), isTurn, isNoted, ttl: mark?.ttl };
  });
  const isMarked = ends.some(({ mark }) => mark !== undefined);
  return { prefixes, conversation: conversation ?? hash.id, chars, answers, isMarked };
}

/** The end of a block: a place up to which a vendor may have cached the prompt. */
interface End {
  readonly id: number;
  /** The characters up to here. */
  readonly chars: number;
  readonly isTurn: boolean;
  kind: "section" | "turn" | "part";
  readonly mark: CacheHint | undefined;
}

/** Gives the last block a wider kind. */
function endAs(kind: "section" | "turn", ends: readonly End[]): void {
  const last = ends.at(-1);
  if (last?.kind === "part") last.kind = kind;
}

/** Returns the ends that are looked up: a bounded number, in their order. Forgets the oldest marks. */
function lookedUp(ends: readonly End[]): readonly End[] {
  let [marks, turns, parts] = [0, 0, 0];
  const chosen: End[] = [];
  for (const end of ends.toReversed()) {
    const isMark = end.mark !== undefined && ++marks <= MAX_MARKS;
    const isTurn = end.kind === "turn" && ++turns <= MAX_TURNS;
    if (!(end.kind === "section" || isMark || isTurn || ++parts <= MAX_PARTS)) continue;
    chosen.push(end.mark === undefined || isMark ? end : { ...end, mark: undefined });
  }
  return chosen.toReversed();
}

const rotated = (bits: number, by: number): number => (bits << by) | (bits >>> (32 - by));

/** Spreads every bit of a number over all bits (the end of MurmurHash3). */
export function mixed(bits: number): number {
  let hash = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/**
 * A running hash of 64 bits. It is fast and not cryptographic: whoever finds two prompts with equal fingerprints only sends his own calls to
 * the wrong upstream.
 */
export class Hash {
  #one = 0x9e3779b9;
  #two = 0x7f4a7c15;

  copy(): Hash {
    const copy = new Hash();
    copy.#one = this.#one;
    copy.#two = this.#two;
    return copy;
  }

  /** The hash so far, as an integer from 0 to 2⁵³ − 1. */
  get id(): number {
    const high = mixed(this.#two ^ rotated(this.#one, 7));
    return (high >>> 11) * 2 ** 32 + (mixed(this.#one ^ this.#two) >>> 0);
  }

  text(text: string): void {
    this.#number(text.length);
    this.#units(text, 0, text.length);
  }

  /** Hashes a value of JSON, without its cache marks. Returns its size in characters. */
  async value(value: unknown, yielder: EventLoopYielder): Promise<number> {
    const open: unknown[] = [value];
    let size = 0;
    while (open.length > 0) {
      const next = open.pop();
      if (typeof next === "string") {
        size += next.length > MAX_FILE_CHARS && isFile(next) ? MAX_FILE_CHARS : next.length;
        this.#number(next.length);
        for (let at = 0; at < next.length; at += PIECE_CHARS) {
          const end = Math.min(next.length, at + PIECE_CHARS);
          this.#units(next, at, end);
          if (yielder.isDue(end - at)) await yielder.pause();
        }
      } else if (Array.isArray(next)) {
        this.#number(-1 - next.length);
        for (let at = next.length - 1; at >= 0; at--) open.push(next[at]);
      } else if (typeof next === "object" && next !== null) {
        // The order of the members is the caller's, and so is the order in the prompt.
        let names = Object.keys(next);
        // Leave out the cache mark of a part or a tool: callers move their marks from turn to turn.
        if ("type" in next) names = names.filter((name) => name !== "cache");
        this.#number(2 ** 30 + names.length);
        for (const name of names.toReversed()) open.push((next as Readonly<Record<string, unknown>>)[name], name);
      } else {
        size++;
        this.text(String(next));
      }
      if (yielder.isDue(8)) await yielder.pause();
    }
    return size;
  }

  #number(bits: number): void {
    this.#one = Math.imul(rotated(this.#one, 5) ^ bits, 0x9e3779b1);
    this.#two = Math.imul(rotated(this.#two, 13) ^ bits, 0x85ebca77);
  }

  /** Hashes two UTF-16 units at a time. */
  #units(text: string, from: number, to: number): void {
    let [one, two] = [this.#one, this.#two];
    for (let at = from; at < to; at += 2) {
      const bits = text.charCodeAt(at) | (at + 1 < to ? text.charCodeAt(at + 1) << 16 : 0);
      one = Math.imul(((one << 5) | (one >>> 27)) ^ bits, 0x9e3779b1);
      two = Math.imul(((two << 13) | (two >>> 19)) ^ bits, 0x85ebca77);
    }
    [this.#one, this.#two] = [one, two];
  }
}

/** True for a long text that begins like base64. */
const isFile = (text: string): boolean => !/[^\w+/=-]/.test(text.slice(0, 256));
