/** Conversations through every pair of formats: the short form of `npm run trial -- conversations`. */

import { expect, it } from "vitest";
import type { EncodedRequest } from "../../../src/formats/format.ts";
import { factsOf } from "./facts.ts";
import { type Format, FORMATS } from "./formats.ts";
import { crossed } from "./law.ts";
import { allPairs, run } from "./pairs.ts";

it("loses nothing that is not told, of what is asked and of what is answered", () => {
  const pairs = allPairs();
  run(pairs, { numRuns: 60 });
  expect(pairs.length).toBe(9);
  for (const { compared, refused, facts } of pairs) {
    expect(compared + refused).toBe(60);
    expect(compared).toBeGreaterThan(50);
    expect(facts).toBeGreaterThan(1_000);
  }
});

it("finds what a codec loses without a word, and what it tells without losing it", () => {
  const [format] = FORMATS;
  if (!format) throw new Error("There is no format.");
  const request = format.read(
    { model: "m", max_tokens: 9, top_k: 7, messages: [{ role: "user", content: "Hi" }] },
    {
      model: "m",
      stream: false,
    },
  );
  const changed = (change: (encoded: EncodedRequest) => object): Format => ({
    ...format,
    codec: {
      ...format.codec,
      encodeRequest: (given) => {
        const encoded = format.codec.encodeRequest(given);
        return { ...encoded, ...change(encoded) };
      },
    },
  });
  const { native: _, ...neutral } = request;
  const asked = { request: neutral, text: "", facts: [...factsOf(neutral)] };
  expect(crossed(format, asked)).toEqual({ lost: 0, refused: false });
  const silent = changed(({ body: { top_k: _lost, ...body } }) => ({ body }));
  expect(() => crossed(silent, asked)).toThrow("Lost without a word: topK 7");
  const lying = changed(() => ({ conversions: [{ field: "seed", conversion: "dropped", why: "It is not." }] }));
  expect(() => crossed(lying, asked)).toThrow("Told to be dropped, and there: seed");
  const refused = (field: string): Format =>
    changed(() => ({ conversions: [{ field, conversion: "rejected", why: "It is not." }] }));
  expect(() => crossed(refused("cachedContent"), asked)).toThrow(
    "Told to be refused, and not asked for: cachedContent",
  );
  expect(() => crossed(refused("messages.none"), asked)).toThrow("Told to be nothing, and something: user says Hi");
  const cached = { ...asked, facts: [...factsOf({ ...neutral, cachedContent: "cachedContents/1" })] };
  expect(crossed(refused("cachedContent"), cached)).toEqual({ lost: 0, refused: true });
});
