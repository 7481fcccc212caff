/** Texts that match regular expressions: one, or several at once. */

import fc from "fast-check";

/** A pattern as JSON Schema means it, or in the older syntax where it is written in that: many escape what needs none. */
export function regExpOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return new RegExp(pattern);
  }
}

/** From short to long. */
const SIZES = ["small", "medium", "large"] as const;
const SAMPLES = 20;

/** Texts that most likely match a pattern. What it looks ahead or behind for is left to luck. */
export function* samplesOf(pattern: string, seed: number): Generator<string> {
  const { source, flags } = regExpOf(pattern);
  const regExp = new RegExp(withoutLookarounds(source), flags);
  for (const size of SIZES) yield* fc.sample(fc.stringMatching(regExp, { size }), { seed, numRuns: SAMPLES });
}

/** A pattern without `(?=…)`, `(?!…)`, `(?<=…)` and `(?<!…)`. */
function withoutLookarounds(source: string): string {
  let kept = "";
  for (let at = 0; at < source.length;) {
    const end = /^\(\?<?[=!]/.test(source.slice(at, at + 4)) ? endOfGroup(source, at) : at;
    const piece = tokenAt(source, at);
    if (end === at) kept += piece;
    at = end === at ? at + piece.length : end;
  }
  return kept;
}

/** Where the group that begins here is closed. */
function endOfGroup(source: string, start: number): number {
  let depth = 0;
  for (let at = start; at < source.length;) {
    const token = tokenAt(source, at);
    at += token.length;
    if (token === "(") depth++;
    if (token === ")" && --depth === 0) return at;
  }
  return source.length;
}

/** A class, an escaped character, or one character: brackets in the first two open no group. */
const TOKEN = /\[(?:\\.|[^\]\\])*\]|\\.|./suy;

function tokenAt(source: string, at: number): string {
  TOKEN.lastIndex = at;
  return TOKEN.exec(source)?.[0] ?? source.slice(at, at + 1);
}

/** What is asked of a text beside its patterns: how many characters it has. */
export interface Lengths {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
}

/**
 * A text that matches all patterns: of the texts that are sampled for each, one by itself, or one after another, what a text
 * begins with first and what it ends with last.
 */
export function textOf(
  patterns: readonly string[],
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Lengths,
  sample: (pattern: string) => Iterator<string>,
): string | undefined {
  const inOrder = patterns.toSorted((one, other) => placeOf(one) - placeOf(other));
  const regExps = inOrder.map(regExpOf);
  const samples = inOrder.map(sample);
  for (;;) {
    const texts = samples.flatMap((texts) => texts.next().value ?? []);
    if (texts.length === 0) return undefined;
    for (const text of new Set([...texts, texts.join("")])) {
      const { length } = Array.from(text);
      if (length >= minLength && length <= maxLength && regExps.every((regExp) => regExp.test(text))) return text;
    }
  }
}

const placeOf = (pattern: string): number => (pattern.startsWith("^") ? -1 : 0) + (pattern.endsWith("$") ? 1 : 0);
