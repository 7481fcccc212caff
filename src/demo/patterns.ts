/** Makes texts that match one or several regular expressions. */

import fc from "fast-check";

/** Compiles a pattern with the flag `u`, as JSON Schema says, or without: many patterns have escapes that `u` forbids. */
export function regExpOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return new RegExp(pattern);
  }
}

/** The sizes of samples, from short to long. */
const SIZES = ["small", "medium", "large"] as const;
const SAMPLES_PER_SIZE = 20;

/** Yields texts that most likely match a pattern. Ignores lookaheads and lookbehinds, so that some texts may not match. */
export function* samplesOf(pattern: string, seed: number): Generator<string> {
  const { source, flags } = regExpOf(pattern);
  const regExp = new RegExp(withoutLookarounds(source), flags);
  for (const size of SIZES) yield* fc.sample(fc.stringMatching(regExp, { size }), { seed, numRuns: SAMPLES_PER_SIZE });
}

/** Removes `(?=…)`, `(?!…)`, `(?<=…)` and `(?<!…)` from a pattern. */
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

/** Returns the index after the closing bracket of the group at `start`. */
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

/** A character class or an escaped character. Brackets in these open no group. */
const TOKEN = /\[(?:\\.|[^\]\\])*\]|\\.|./suy;

function tokenAt(source: string, at: number): string {
  TOKEN.lastIndex = at;
  return TOKEN.exec(source)?.[0] ?? source.slice(at, at + 1);
}

/** The shortest and the longest length of a text, in characters. */
export interface Lengths {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
}

/**
 * Returns a text that matches all patterns and lengths; undefined if the samples run out. Tries each sample alone, and then all samples
 * of a round in a row: patterns with `^` come first, and patterns with `$` last.
 */
export function textOf(
  patterns: readonly string[],
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Lengths,
  sample: (pattern: string) => Iterator<string>,
): string | undefined {
  const inOrder = patterns.toSorted((one, other) => rankOf(one) - rankOf(other));
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

const rankOf = (pattern: string): number => (pattern.startsWith("^") ? -1 : 0) + (pattern.endsWith("$") ? 1 : 0);
