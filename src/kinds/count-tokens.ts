/** Estimates the tokens of a text by its scripts, in one linear pass. The text may come in pieces. */

import { GatewayError, named } from "../errors.ts";
import { abandon } from "../options.ts";

/** Counts the tokens of a text; fractions are summed before they are rounded up. */
export type CountTokens = (text: string) => number;

/** Throws `internal` when a host's count is not a number from 0 up. */
export function assertTokens(tokens: number): number {
  if (Number.isFinite(tokens) && tokens >= 0) return tokens;
  abandon(tokens);
  throw new GatewayError("internal", "The gateway's count of tokens is no number from 0 up.");
}

/** Returns a host's own count that throws for each wrong result: in a sum, a wrong result would be lost. */
export const checkedCount = (countTokens: CountTokens): CountTokens =>
  countTokens === countTokensByScript
    ? countTokens
    : (text) => assertTokens(named("countTokens", () => countTokens(text)));

/** A class of characters with equal costs. Costs are in tokens. */
interface CharacterClass {
  /** The cost of a character that begins a word or a run. */
  readonly first: number;
  /** The cost of a character that continues a word or a run. */
  readonly next: number;
  /** The cost of a character that repeats the one before it. Default: `next`. */
  readonly same?: number;
  /** The ranges of UTF-16 units, in hexadecimal digits. */
  readonly units: string;
}

/**
 * The costs are fitted to the tokenizer o200k_base, for the Universal Declaration of Human Rights in 60 languages, for code, JSON and chat.
 * `test/kinds/count-tokens.test.ts` holds the count of each text within 30 % of the tokenizer's. If several classes contain a unit, the
 * last of these classes counts.
 */
const CLASSES: readonly CharacterClass[] = [
  // Scripts that the tokenizer hardly knows: Ethiopic, Tibetan, Lao, Cherokee and all others.
  { first: 1.8, next: 1.8, units: "80-ffff" },
  // ASCII punctuation and control characters.
  { first: 0.54, next: 0.25, same: 0.06, units: "0-7f" },
  // Spaces. A space is part of the token of the next word.
  { first: 0, next: 0.1, same: 0.03, units: "20-20" },
  // Line breaks and tabs.
  { first: 0.75, next: 0.25, same: 0.06, units: "9-d" },
  // Digits: a token has at most three, and never the space before them.
  { first: 1.6, next: 0.33, units: "30-39" },
  // Small Latin letters.
  { first: 0.5, next: 0.19, units: "61-7a" },
  // Capital Latin letters.
  { first: 0.75, next: 0.6, units: "41-5a" },
  // Latin letters with accents.
  { first: 1.15, next: 1.1, units: "c0-24f" },
  // Vietnamese letters.
  { first: 0.6, next: 0.5, units: "1e00-1eff" },
  // Combining accents.
  { first: 0.8, next: 1.1, units: "300-36f" },
  // Cyrillic.
  { first: 1.2, next: 0.13, units: "400-52f" },
  // Armenian, Georgian, Devanagari, Tamil, Malayalam.
  { first: 0.45, next: 0.33, units: "530-58f 10a0-10ff 900-97f b80-bff d00-d7f" },
  // Greek, Bengali, Gujarati.
  { first: 0.4, next: 0.4, units: "370-3ff 980-9ff a80-aff" },
  // Hebrew, Arabic, Thai, Kannada.
  { first: 0.38, next: 0.45, units: "590-6ff 750-77f e00-e7f c80-cff" },
  // Telugu, Burmese, Khmer.
  { first: 0.4, next: 0.57, units: "c00-c7f 1000-109f 1780-17ff" },
  // Gurmukhi, Sinhala.
  { first: 0.5, next: 0.67, units: "a00-a7f d80-dff" },
  // Hangul.
  { first: 0.7, next: 0.88, units: "1100-11ff 3130-318f ac00-d7a3" },
  // Kana.
  { first: 0.86, next: 0.73, units: "3040-30ff 31f0-31ff" },
  // Han.
  { first: 0.8, next: 0.88, units: "3400-4dbf 4e00-9fff f900-faff" },
  // Typographic and full-width punctuation, currency signs.
  { first: 0.56, next: 0.7, same: 0.1, units: "a0-bf 2000-206f 20a0-20cf 3000-303f ff00-ff60" },
  // Surrogates: the halves of emoji and of other rare characters.
  { first: 0.65, next: 0.75, units: "d800-dfff" },
];

/** The index of each UTF-16 unit's class. */
const CLASS_OF = new Uint8Array(0x10000);
CLASSES.forEach(({ units }, index) => {
  for (const range of units.split(" ")) {
    const [from = 0, to = 0] = range.split("-").map((unit) => Number.parseInt(unit, 16));
    CLASS_OF.fill(index, from, to + 1);
  }
});

const classOf = (character: string): number => CLASS_OF[character.charCodeAt(0)] ?? 0;

/** The classes whose letters can stand together in one word. */
const LATIN: ReadonlySet<number> = new Set(["a", "A", "é", "ế", "\u0301"].map(classOf));
const CAPITAL = classOf("A");

/** The row of `COSTS` for a character that repeats the one before it. There are fewer than 31 classes. */
const SAME = 32;
/** The row of `COSTS` for the first character of a text. */
const NONE = 31;

/**
 * A table of costs in rows of 32. The row is the class of the character before, the column is the class of the character itself. A capital
 * after a small letter begins a word, as in `maxTokens`.
 */
const COSTS = new Float64Array((SAME + 1) * 32);
CLASSES.forEach(({ first, next, same = next }, index) => {
  COSTS[SAME * 32 + index] = same;
  for (let before = 0; before < SAME; before++) {
    const isOneWord = LATIN.has(before) && LATIN.has(index) && index !== CAPITAL;
    COSTS[before * 32 + index] = before === index || isOneWord ? next : first;
  }
});

/** The count of a text that comes in pieces. */
export interface TextCount {
  tokens: number;
  /** The class and the UTF-16 unit of the last character. */
  lastClass: number;
  lastUnit: number;
}

export const countOfNothing = (): TextCount => ({ tokens: 0, lastClass: NONE, lastUnit: -1 });

/**
 * Counts the next piece of a text. The default count is the same however the text is divided into pieces. A host's own function counts each
 * piece separately.
 */
export function countPiece(count: TextCount, piece: string, countTokens: CountTokens): void {
  if (countTokens !== countTokensByScript) {
    count.tokens += assertTokens(countTokens(piece));
    return;
  }
  countUnits(count, piece, 0, piece.length);
}

/** Counts the characters of a text from `start` up to `end`, as they follow the last character of the count. */
function countUnits(count: TextCount, piece: string, start: number, end: number): void {
  let { tokens, lastClass, lastUnit } = count;
  for (let at = start; at < end; at++) {
    const unit = piece.charCodeAt(at);
    const own = CLASS_OF[unit] as number;
    // Use one table access for both cases. With a branch, V8 would compile the loop again for each text that takes the rare case.
    const row = unit === lastUnit ? SAME : lastClass;
    tokens += COSTS[row * 32 + own] as number;
    lastClass = own;
    lastUnit = unit;
  }
  count.tokens = tokens;
  count.lastClass = lastClass;
  count.lastUnit = lastUnit;
}

/**
 * The default count, by the script of each character and the beginnings of words and runs. Within 30 % of OpenAI's o200k_base for prose in
 * 40 languages of 20 scripts, for code and for JSON. Takes time linear in the text, and needs no vocabulary.
 */
export const countTokensByScript: CountTokens = (text) => {
  const count = countOfNothing();
  countUnits(count, text, 0, text.length);
  return count.tokens;
};

/** A text of up to this many characters is counted whole. */
const WHOLE_CHARS = 16_384;
/** The characters of one run of a sample. Neighbours cost alike, so many short runs tell more than few long ones. */
const RUN_CHARS = 16;
/** The runs of the first sample, and of the largest. */
const FEWEST_RUNS = 512;
const MOST_RUNS = 8_192;
/** A sample is believed when its standard error is at most this part of the count. */
const MOST_ERROR = 0.03;
/**
 * A sample of fewer tokens for a character is not believed: it could have missed the few places of a text of spaces that cost the most.
 */
const LEAST_TOKENS = 0.12;

const random = new Uint32Array(MOST_RUNS);

/**
 * The default count of several texts that are part of one input: counts a sample when they are long together. The sample has a run of
 * characters from each of many equal sections. The places are random, because a caller who knew them could hide expensive text between them.
 * A text whose sections differ much gets a larger sample, and is counted whole in the end.
 *
 * @param texts The texts, and the tokens of other texts in the input that are counted already.
 */
export function sampledTokens(texts: readonly (string | number)[]): number {
  let chars = 0;
  for (const text of texts) if (typeof text === "string") chars += text.length;
  const sampled =
    chars > WHOLE_CHARS
      ? sampledOf(
          texts.filter((text) => typeof text === "string"),
          chars,
        )
      : undefined;
  let tokens = sampled ?? 0;
  for (const text of texts)
    if (typeof text === "number") tokens += text;
    else if (sampled === undefined) tokens += countTokensByScript(text);
  return tokens;
}

/** Counts a sample of texts; undefined where none is believed. */
function sampledOf(texts: readonly string[], chars: number): number | undefined {
  for (let runs = FEWEST_RUNS; runs <= MOST_RUNS && runs * RUN_CHARS * 2 <= chars; runs *= 4) {
    const { mean, error } = sampleOf(texts, chars / runs, random.subarray(0, runs));
    if (mean >= LEAST_TOKENS && error <= mean * MOST_ERROR) return mean * chars;
  }
  return undefined;
}

/**
 * Counts a run of each section. Returns the mean tokens of a character, and the standard error of the mean. A run that reaches the end of the
 * last text goes on at the beginning of the first, so that all characters are equally likely to be counted.
 *
 * @param section The length of a section, in characters.
 * @param runs An element for each section. Gets random numbers.
 */
function sampleOf(
  texts: readonly string[],
  section: number,
  runs: Uint32Array<ArrayBuffer>,
): { readonly mean: number; readonly error: number } {
  crypto.getRandomValues(runs);
  const count = countOfNothing();
  let [sum, squares] = [0, 0];
  /** The text that the last run began in, and the characters before it. */
  let [index, before] = [0, 0];
  for (let run = 0; run < runs.length; run++) {
    const begin = Math.floor((run + (runs[run] as number) / 2 ** 32) * section);
    for (let { length } = texts[index] ?? ""; begin >= before + length; { length } = texts[index] ?? "") {
      before += length;
      index++;
    }
    count.tokens = 0;
    let left = RUN_CHARS;
    for (let [at, start] = [index, begin - before]; left > 0; at = (at + 1) % texts.length, start = 0) {
      const text = texts[at] ?? "";
      const end = Math.min(text.length, start + left);
      countRun(count, text, start, end);
      left -= end - start;
    }
    const mean = count.tokens / RUN_CHARS;
    sum += mean;
    squares += mean * mean;
  }
  const mean = sum / runs.length;
  const variance = Math.max(0, squares / runs.length - mean * mean);
  return { mean, error: Math.sqrt(variance / runs.length) };
}

/** Counts a part of a text. Its first character costs as it does in the whole text. */
function countRun(count: TextCount, text: string, start: number, end: number): void {
  count.lastUnit = start > 0 ? text.charCodeAt(start - 1) : -1;
  count.lastClass = start > 0 ? (CLASS_OF[count.lastUnit] as number) : NONE;
  countUnits(count, text, start, end);
}

/** Estimates the tokens of encrypted text: four characters of base64 are three bytes, and four bytes count as one token. */
export const encryptedTokens = (base64: string): number => (base64.length * 3) / 16;
