/** What vectors of the playground have in common, whichever client asks for them. */

import { expect } from "vitest";

type Vector = readonly number[] | undefined;

/** The cosine of two vectors of unit length. */
export function cosine(one: Vector, other: Vector): number {
  if (!one || !other) throw new Error("There is no vector.");
  return one.reduce((sum, number, index) => sum + number * (other[index] ?? Number.NaN), 0);
}

/** Two texts that are alike, and one that is like neither. */
export const TEXTS = [
  "A lighthouse stands in the rain",
  "The lighthouse was standing in heavy rain",
  "Quarterly taxes are due on Monday",
];

/** Holds the vectors of `TEXTS` to unit length, and to their nearness. */
export function expectNear(vectors: readonly Vector[], dimensions = 256): void {
  const [lighthouse, another, taxes] = vectors;
  expect(vectors.map((vector) => vector?.length)).toEqual([dimensions, dimensions, dimensions]);
  for (const vector of vectors) expect(cosine(vector, vector)).toBeCloseTo(1, 5);
  expect(cosine(lighthouse, another)).toBeGreaterThan(cosine(lighthouse, taxes) + 0.1);
}
