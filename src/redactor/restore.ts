/** Restores the values of replacements in texts that come in pieces, also inside the strings of JSON. */

/** The replacements, by their UTF-16 units. */
export interface TrieNode {
  readonly next: Map<number, TrieNode>;
  /** The value of the replacement that ends here. */
  value: string | undefined;
}

export const newTrie = (): TrieNode => ({ next: new Map(), value: undefined });

/** Adds a replacement. Returns false if it is there already. */
export function addToTrie(root: TrieNode, replacement: string, value: string): boolean {
  let node = root;
  for (let at = 0; at < replacement.length; at++) {
    const unit = replacement.charCodeAt(at);
    let next = node.next.get(unit);
    if (!next) node.next.set(unit, (next = newTrie()));
    node = next;
  }
  if (node.value !== undefined) return false;
  node.value = value;
  return true;
}

/** Restores one complete text. */
export const restoredIn = (text: string, trie: TrieNode): string => {
  const restorer = new Restorer(trie, false);
  return restorer.push(text) + restorer.flush();
};

const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
const U = 0x75;

const ESCAPED: ReadonlyMap<string, number> = new Map(
  Object.entries({ b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }).map(([letter, char]) => [letter, char.charCodeAt(0)]),
);

/** Reads a unit of the string of a JSON text, which may be escaped. */
export function escapedAt(source: string, at: number): { readonly code: number; readonly end: number } | undefined {
  if (at + 1 >= source.length) return undefined;
  const letter = source.charCodeAt(at + 1);
  if (letter !== U) return { code: ESCAPED.get(source.charAt(at + 1)) ?? letter, end: at + 2 };
  if (at + 6 > source.length) return undefined;
  // An escape that is none has a code that no replacement has.
  return { code: Number.parseInt(source.slice(at + 2, at + 6), 16), end: at + 6 };
}

const hex = (unit: number): string => String.raw`\u${unit.toString(16).padStart(4, "0")}`;

/**
 * Restores values in one text, piece by piece. Holds back the end of a piece that may begin a replacement: never more than the longest
 * replacement, six characters for each unit of it in JSON. The work is linear in the text, times the longest replacement at worst.
 */
export class Restorer {
  readonly #trie: TrieNode;
  readonly #isJson: boolean;
  readonly #offsets: readonly Offsets[];
  /** Matches the units at which the work begins: those that may begin a replacement; in JSON, the ends of strings and escapes too. */
  readonly #stops: RegExp;
  /** True inside a string of JSON. */
  #isInString = false;
  #tail = "";

  /**
   * @param isJson True for a text that is JSON: values are restored in its strings alone, and escaped.
   * @param offsets Learn what was restored where.
   */
  constructor(trie: TrieNode, isJson: boolean, offsets: readonly Offsets[] = []) {
    this.#trie = trie;
    this.#isJson = isJson;
    this.#offsets = offsets;
    const first = Array.from(trie.next.keys(), hex);
    this.#stops = new RegExp(`[${first.join("")}${isJson ? String.raw`"\\` : ""}]`, "g");
  }

  /** True while the end of the text waits for its next piece. */
  get isHolding(): boolean {
    return this.#tail !== "";
  }

  /** Returns what can be shown with the next piece. */
  push(piece: string): string {
    return this.#read(this.#tail + piece, false);
  }

  /** Returns what was held back: the text ends, or something else follows it. */
  flush(): string {
    return this.#tail === "" ? "" : this.#read(this.#tail, true);
  }

  #read(source: string, isLast: boolean): string {
    let [written, copied, at] = ["", 0, 0];
    const copy = (end: number): void => {
      const text = source.slice(copied, end);
      for (const offsets of this.#offsets) offsets.same(text);
      written += text;
      copied = end;
    };
    while ((at = this.#nextStop(source, at)) < source.length) {
      const found = this.#match(source, at, isLast);
      if (found === "unfinished") break;
      if (typeof found === "number") {
        at = found;
        continue;
      }
      copy(at);
      const { end, value } = found;
      const shown = this.#isJson ? JSON.stringify(value).slice(1, -1) : value;
      for (const offsets of this.#offsets) offsets.replaced(source.slice(at, end), shown);
      written += shown;
      at = copied = end;
    }
    copy(at);
    this.#tail = source.slice(at);
    return written;
  }

  /** Returns the index of the next unit at which something may begin. */
  #nextStop(source: string, from: number): number {
    let at = from;
    if (this.#isJson && !this.#isInString) {
      const quote = source.indexOf('"', at);
      if (quote < 0) return source.length;
      this.#isInString = true;
      at = quote + 1;
    }
    this.#stops.lastIndex = at;
    return this.#stops.exec(source)?.index ?? source.length;
  }

  /** Returns the longest replacement at an index, or the index to go on at, or `unfinished` where the text ends too early to tell. */
  #match(source: string, from: number, isLast: boolean): { end: number; value: string } | number | "unfinished" {
    if (this.#isJson && source.charCodeAt(from) === QUOTE) {
      this.#isInString = false;
      return from + 1;
    }
    let node = this.#trie;
    let found: { end: number; value: string } | undefined;
    let second = from + 1;
    for (let at = from; node.next.size > 0;) {
      if (at >= source.length) {
        if (!isLast) return "unfinished";
        break;
      }
      let code = source.charCodeAt(at);
      let end = at + 1;
      if (this.#isJson && code === QUOTE) break;
      if (this.#isJson && code === BACKSLASH) {
        const unit = escapedAt(source, at);
        if (!unit && !isLast) return "unfinished";
        if (!unit) break;
        ({ code, end } = unit);
      }
      if (at === from) second = end;
      const next = node.next.get(code);
      if (!next) break;
      node = next;
      at = end;
      if (node.value !== undefined) found = { end, value: node.value };
    }
    return found ?? second;
  }
}

/** The places in a text at which values were restored: an annotation of the text may lie behind them. */
export class Offsets {
  readonly #length: (text: string) => number;
  /** For each value, the places of its replacement and of the value: the starts and the ends. */
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #shownStarts: number[] = [];
  readonly #shownEnds: number[] = [];
  #came = 0;
  #shown = 0;
  /** The place at which the current block begins. */
  #blockStart = 0;
  #shownBlockStart = 0;

  /** @param length Returns the length of a text, in the unit of the indices. */
  constructor(length: (text: string) => number) {
    this.#length = length;
  }

  /** Begins a block of the text. The indices of some formats count from here. */
  beginBlock(): void {
    this.#blockStart = this.#came;
    this.#shownBlockStart = this.#shown;
  }

  /** Notes a text that is shown as it came. */
  same(text: string): void {
    const length = this.#length(text);
    this.#came += length;
    this.#shown += length;
  }

  replaced(replacement: string, value: string): void {
    this.#starts.push(this.#came);
    this.#shownStarts.push(this.#shown);
    this.#came += this.#length(replacement);
    this.#shown += this.#length(value);
    this.#ends.push(this.#came);
    this.#shownEnds.push(this.#shown);
  }

  /** Returns the shown index for one of the model. An index inside a replacement becomes the border of the value. */
  shift(index: number, border: "start" | "end"): number {
    let [low, high] = [0, this.#starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#starts[middle] ?? 0) < index) low = middle + 1;
      else high = middle;
    }
    const last = low - 1;
    if (last < 0) return index;
    const [end, shownEnd] = [this.#ends[last] ?? 0, this.#shownEnds[last] ?? 0];
    if (index >= end) return index + shownEnd - end;
    return border === "start" ? (this.#shownStarts[last] ?? 0) : shownEnd;
  }

  /** Shifts an index in the current block. */
  shiftInBlock(index: number, border: "start" | "end"): number {
    return this.shift(this.#blockStart + index, border) - this.#shownBlockStart;
  }
}

export const codePoints = (text: string): number =>
  text.length - (text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0);
