/** Places in a text, as bytes and as characters. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { TextPlaces } from "../../src/model/text-places.ts";

const piece = fc.string({ unit: fc.constantFrom("a", "b", "é", "日", "🌞"), maxLength: 6 });
const bytesIn = (text: string): number => Buffer.byteLength(text);

it("are the same piece of the text, wherever it comes in pieces", () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), piece.filter(Boolean), piece, (before, found, behind) => {
      const places = new TextPlaces();
      for (const text of [...before, found, behind]) places.add(text);
      const start = before.join("");
      const chars = { start: Array.from(start).length, end: Array.from(start + found).length };
      const bytes = { start: bytesIn(start), end: bytesIn(start + found) };
      expect(places.charsOf(bytes)).toEqual(chars);
      expect(places.bytesOf(chars)).toEqual(bytes);
    }),
  );
});

it("count the characters that only one format shows, and end before them", () => {
  const places = new TextPlaces();
  places.add("aé");
  places.skip("code 🌞");
  places.add("éa");
  expect([places.charsOf({ start: 0, end: 3 }), places.charsOf({ start: 3, end: 6 }), places.chars]).toEqual([
    { start: 0, end: 2 },
    { start: 8, end: 10 },
    10,
  ]);
});

it("are whole characters, and none outside of the text", () => {
  const places = new TextPlaces();
  places.add("a🌞b");
  expect(places.charsOf({ start: 2, end: 4 })).toEqual({ start: 1, end: 2 });
  expect(places.charsOf({ start: 1, end: 99 })).toEqual({ start: 1, end: 3 });
  expect(places.bytesOf({ start: 1, end: 99 })).toEqual({ start: 1, end: 6 });
  for (const span of [
    { start: 6, end: 7 },
    { start: 2, end: 2 },
    { start: -1, end: 2 },
    { start: NaN, end: 2 },
  ])
    expect([places.charsOf(span), places.bytesOf(span)]).toEqual([undefined, undefined]);
});
