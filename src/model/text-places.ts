/** Places in a growing text, as bytes and as characters: neutral positions count bytes, and those of OpenAI's formats characters. */

import { utf8Length } from "./json.ts";

/** The numbers of a run: its first byte, its first character, and the bytes of each of its characters. */
const BYTE = 0;
const CHAR = 1;
const WIDTH = 2;
const RUN_LENGTH = 3;

/** The positions of a piece of a text. The end is the position behind the last byte or character. */
interface TextSpan {
  readonly start: number;
  readonly end: number;
}

const widthOf = (char: string): number => {
  const code = char.codePointAt(0) ?? 0;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
};

export class TextPlaces {
  /**
   * The runs: characters of one width that follow each other. A character is a code point. The numbers stand in one list, because a text
   * in Greek has a run for each word and each space.
   */
  readonly #runs: number[] = [];
  /** The width of the last run; 0 before the first run and behind skipped text. */
  #width = 0;
  #bytes = 0;
  #chars = 0;

  /** The length of the text in characters, with the skipped text. */
  get chars(): number {
    return this.#chars;
  }

  /** Adds a piece of the text. A text of ASCII, which is most text, is one run. */
  add(text: string): void {
    const bytes = utf8Length(text);
    if (bytes === text.length) this.#extend(1, bytes);
    else for (const char of text) this.#extend(widthOf(char), 1);
  }

  /** Adds characters that no byte position counts: they stand only in the text of one format. */
  skip(text: string): void {
    this.#chars += lengthOf(text);
    this.#width = 0;
  }

  /** Returns the characters of a span of bytes; undefined for a span that is empty or outside of the text. */
  charsOf(span: Partial<TextSpan>): TextSpan | undefined {
    const { start = 0, end = 0 } = span;
    if (!(start >= 0 && start < end && start < this.#bytes)) return undefined;
    const last = Math.min(end, this.#bytes);
    return { start: this.#at(start, BYTE, false), end: this.#at(last, BYTE, true) };
  }

  /** Returns the bytes of a span of characters; undefined for a span that is empty or outside of the text. */
  bytesOf({ start, end }: TextSpan): TextSpan | undefined {
    if (!(start >= 0 && start < end && start < this.#chars)) return undefined;
    const last = Math.min(end, this.#chars);
    return { start: this.#at(start, CHAR, false), end: this.#at(last, CHAR, true) };
  }

  /**
   * Returns the character of a byte, or the byte of a character.
   *
   * @param unit The unit of the position.
   * @param isEnd Counts a position between two runs to the first of them.
   */
  #at(position: number, unit: typeof BYTE | typeof CHAR, isEnd: boolean): number {
    const number = (run: number, index: number): number => this.#runs[run * RUN_LENGTH + index] ?? 0;
    let [low, high] = [0, this.#runs.length / RUN_LENGTH];
    while (low < high) {
      const middle = (low + high) >> 1;
      const begin = number(middle, unit);
      if (isEnd ? begin < position : begin <= position) low = middle + 1;
      else high = middle;
    }
    const run = low - 1;
    const width = number(run, WIDTH);
    const offset = position - number(run, unit);
    if (unit === CHAR) return number(run, BYTE) + offset * width;
    // A span that begins or ends inside a character has the whole character.
    return number(run, CHAR) + (isEnd ? Math.ceil(offset / width) : Math.floor(offset / width));
  }

  #extend(width: number, count: number): void {
    if (count === 0) return;
    if (width !== this.#width) this.#runs.push(this.#bytes, this.#chars, width);
    this.#width = width;
    this.#bytes += width * count;
    this.#chars += count;
  }
}

/** Returns the length of a text in characters. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length++;
  return length;
}
