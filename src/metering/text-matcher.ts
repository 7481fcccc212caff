/** Finds the first of many words in a text that comes in pieces, in time linear in the text: an automaton after Aho and Corasick. */

/** The state in which nothing of a word has come. */
const ROOT = 0;

/** What a piece of text has come to. */
export interface Matched {
  /** What can be handed on: no word lies in it, and none begins in it that may still end. */
  readonly text: string;
  /** The word that ended it. */
  readonly word?: string;
}

/**
 * The automaton of a set of words. One may be shared by many texts. Its states are numbers in a few flat lists: a caller chooses
 * the words, and objects would take many times more memory than these.
 */
export class Words {
  /** The state after another and one more UTF-16 unit, which are one number. */
  readonly #next = new Map<number, number>();
  /** Of each state, the one before it, and the unit that has come since. */
  readonly #parent: number[] = [ROOT];
  readonly #unit: number[] = [0];
  /** Of each state, how many units of a word have come. */
  readonly #depth: number[] = [0];
  /** Of each state, the longest ending of what has come that is a beginning too. */
  readonly #fallback: number[] = [ROOT];
  /** The longest word that ends in a state, where one does. */
  readonly #word = new Map<number, string>();

  /** @param words None of them empty. */
  constructor(words: readonly string[]) {
    for (const word of words) this.#add(word);
    this.#link();
  }

  #add(word: string): void {
    let state = ROOT;
    for (let at = 0; at < word.length; at++) {
      const unit = word.charCodeAt(at);
      const edge = edgeOf(state, unit);
      let next = this.#next.get(edge);
      if (next === undefined) {
        next = this.#depth.push(this.depthOf(state) + 1) - 1;
        this.#parent.push(state);
        this.#unit.push(unit);
        this.#fallback.push(ROOT);
        this.#next.set(edge, next);
      }
      state = next;
    }
    this.#word.set(state, word);
  }

  /** The shortest beginnings first, so that each is linked before it is needed. */
  #link(): void {
    const states = [...this.#depth.keys()].toSorted((one, other) => this.depthOf(one) - this.depthOf(other));
    for (const state of states) {
      if (this.depthOf(state) < 2) continue;
      const fallback = this.step(this.#fallback[this.#parent[state] ?? ROOT] ?? ROOT, this.#unit[state] ?? 0);
      this.#fallback[state] = fallback;
      const word = this.#word.get(state) ?? this.#word.get(fallback);
      if (word !== undefined) this.#word.set(state, word);
    }
  }

  /** The state after one more unit. */
  step(from: number, unit: number): number {
    for (let state = from; ; state = this.#fallback[state] ?? ROOT) {
      const next = this.#next.get(edgeOf(state, unit));
      if (next !== undefined) return next;
      if (state === ROOT) return ROOT;
    }
  }

  /** How many units of a word have come. */
  depthOf(state: number): number {
    return this.#depth[state] ?? 0;
  }

  /** The longest word that ends in a state, if one does. */
  wordAt(state: number): string | undefined {
    return this.#word.get(state);
  }
}

/** How many UTF-16 units there are. */
const UNITS = 0x1_0000;

const edgeOf = (state: number, unit: number): number => state * UNITS + unit;

/** One text in search of its first word. */
export class TextMatcher {
  readonly #words: Words;
  #state = ROOT;
  #kept = "";

  constructor(words: Words) {
    this.#words = words;
  }

  /** Whether a word may have begun in what has come. */
  get isHolding(): boolean {
    return this.#kept !== "";
  }

  /** Takes the next piece. After a word was found, nothing more may be fed. */
  feed(piece: string): Matched {
    const text = this.#kept + piece;
    for (let at = this.#kept.length; at < text.length; at++) {
      this.#state = this.#words.step(this.#state, text.charCodeAt(at));
      const word = this.#words.wordAt(this.#state);
      if (word !== undefined) return { text: text.slice(0, at + 1 - word.length), word };
    }
    const ready = text.length - this.#words.depthOf(this.#state);
    this.#kept = text.slice(ready);
    return { text: text.slice(0, ready) };
  }

  /** What was kept back: no word will end it any more. The search begins anew. */
  flush(): string {
    const kept = this.#kept;
    this.#kept = "";
    this.#state = ROOT;
    return kept;
  }
}
