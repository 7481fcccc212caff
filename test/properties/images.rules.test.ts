/** A prompt is held to its model's length at no cost that its own length decides. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { ImageModels } from "../../src/formats/images/request.models.ts";

const models = new ImageModels({});
const choose = (prompt: string): unknown =>
  models.choose({ operation: "generate", fields: { prompt, model: "image-model-2" }, originals: 0, masked: false });

/** How many characters of texts are looked at, whichever way; there are to be no emojis among them. */
function countingCharacters(): () => number {
  const { [Symbol.iterator]: iterate } = String.prototype;
  let count = 0;
  vi.spyOn(String.prototype, "codePointAt").mockImplementation(function (this: string, at) {
    count++;
    return this.charCodeAt(at);
  });
  vi.spyOn(String.prototype, Symbol.iterator).mockImplementation(function (this: string) {
    count += this.length;
    return iterate.call(this);
  });
  return () => count;
}

describe("a prompt", () => {
  afterEach(() => void vi.restoreAllMocks());

  it.each([
    ["letters", "a", 1_000],
    ["emojis", "🎈", 1_000],
  ])("may have as many %s as its model takes, and no more", (_what, character, most) => {
    expect(choose(character.repeat(most))).toMatchObject({ id: "image-model-2" });
    expect(() => choose(character.repeat(most + 1))).toThrow(
      'prompt: must be at most 1000 characters long for the model "image-model-2"; image-model-3 and image-model-multi take it',
    );
  });

  it("may be partly emojis", () => {
    expect(choose(`${"🎈".repeat(500)}${"a".repeat(500)}`)).toBeDefined();
    expect(() => choose(`${"🎈".repeat(500)}${"a".repeat(501)}`)).toThrow("at most 1000 characters");
  });

  it("that is far too long is refused without a look at it", () => {
    const seen = countingCharacters();
    expect(() => choose("a".repeat(1_000_000))).toThrow("at most 1000 characters");
    expect(seen()).toBe(0);
  });

  it("that may be too long is looked at no further than its models take", () => {
    const seen = countingCharacters();
    expect(() => choose("a".repeat(64_000))).toThrow("at most 1000 characters");
    // Of the three models, one takes 32,000 characters; for the others it is more than twice too long.
    expect(seen()).toBe(32_001);
  });
});
