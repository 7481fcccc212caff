/** The estimate of tokens beside a real tokenizer: in many scripts, for code and for JSON, however a text is cut. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countOfNothing, countPiece, countTokensByScript } from "../../src/kinds/count-tokens.ts";
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
