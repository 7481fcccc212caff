/** The estimate of tokens beside a real tokenizer: in many scripts, for code and for JSON, however a text is cut. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countOfNothing, countPiece, countTokensByScript, sampledTokens } from "../../src/kinds/count-tokens.ts";
import { texts, tokensOf } from "./texts.ts";

describe("the count by script", () => {
  it.each(texts)("is within 30 percent of the tokenizer's for %s", (_name, textOf) => {
    const text = textOf();
    expect(text.length).toBeGreaterThan(400);
    const ratio = countTokensByScript(text) / tokensOf(text);
    expect(ratio).toBeGreaterThan(0.7);
    expect(ratio).toBeLessThan(1.3);
  });

  it("of a text is the sum of its pieces, however it is cut", () => {
    const all = texts.map(([, textOf]) => textOf().slice(0, 2_000)).join("");
    fc.assert(
      fc.property(
        fc.nat(all.length),
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 50 }),
        (from, sizes) => {
          const text = all.slice(from, from + 4_000);
          const count = countOfNothing();
          for (let at = 0, cut = 0; at < text.length; cut++) {
            const size = sizes[cut % sizes.length] ?? 1;
            countPiece(count, text.slice(at, at + size), countTokensByScript);
            at += size;
          }
          expect(count.tokens).toBe(countTokensByScript(text));
        },
      ),
    );
  });

  it("grows with the text, and is some for every character but a space between words", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (one, other) => {
        expect(countTokensByScript(one + other)).toBeGreaterThanOrEqual(countTokensByScript(one));
      }),
    );
    expect(countTokensByScript("")).toBe(0);
    for (const character of ["a", "7", "\n", ".", "न", "猫", "\u{1F600}", "\uFFFF", "\0"])
      expect([character, countTokensByScript(character) >= 0.3]).toEqual([character, true]);
  });

  it.each([" ", "\n", "-", "=", "x", "1", "é", "猫", "क", "\u{1F600}", "a ", "1 ", "😀 ", "});\n"])(
    "of a run of %j is within eight times the tokenizer's",
    (unit) => {
      const text = unit.repeat(4_000);
      const ratio = countTokensByScript(text) / tokensOf(text);
      expect(ratio).toBeGreaterThan(1 / 8);
      expect(ratio).toBeLessThan(8);
    },
  );
});

const blockOf = (parts: readonly { readonly unit: string; readonly chars: number }[]): string =>
  parts.map(({ unit, chars }) => unit.repeat(Math.ceil(chars / unit.length))).join("");

describe("the count of a sample", () => {
  const units = [
    "a",
    "9",
    " ",
    "\n",
    "-",
    "=",
    "猫",
    "ሰ",
    "\u{1F600}",
    "word of ",
    "  if (a) return;\n",
    "這是一個",
    "Wort für ",
  ];
  /** The blocks of a text, which come again and again. */
  const blocks = fc.array(fc.record({ unit: fc.constantFrom(...units), chars: fc.integer({ min: 1, max: 3_000 }) }), {
    minLength: 1,
    maxLength: 6,
  });
  it("is near the whole count, however a caller mixes cheap and expensive text, in one text or in many", () => {
    fc.assert(
      fc.property(
        blocks,
        fc.integer({ min: 20_000, max: 200_000 }),
        fc.integer({ min: 1, max: 5_000 }),
        (parts, chars, cut) => {
          const block = blockOf(parts);
          const text = block.repeat(Math.ceil(chars / block.length));
          const texts = Array.from({ length: Math.ceil(text.length / cut) }, (_, index) =>
            text.slice(index * cut, (index + 1) * cut),
          );
          for (const pieces of [[text], texts]) {
            const all = pieces.reduce((sum, piece) => sum + countTokensByScript(piece), 0);
            const ratio = sampledTokens(pieces) / all;
            expect(ratio).toBeGreaterThan(0.75);
            expect(ratio).toBeLessThan(1.25);
          }
        },
      ),
    );
  });

  it("is the whole count of short texts, and of a text whose few expensive places a sample could miss", () => {
    const short = texts.map(([, textOf]) => textOf().slice(0, 200));
    expect(sampledTokens(short)).toBe(short.reduce((sum, text) => sum + countTokensByScript(text), 0));
    const sparse = (" ".repeat(2_000) + "ሰ".repeat(20)).repeat(30);
    expect(sampledTokens([sparse])).toBe(countTokensByScript(sparse));
    expect(sampledTokens(["", ""])).toBe(0);
  });

  it("is taken at other places each time", () => {
    const text = blockOf([
      { unit: "word of ", chars: 300 },
      { unit: "猫", chars: 90 },
    ]).repeat(200);
    expect(new Set(Array.from({ length: 5 }, () => sampledTokens([text]))).size).toBe(5);
  });
});
