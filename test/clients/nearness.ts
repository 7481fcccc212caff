/** What vectors of the playground have in common, whichever client asks for them. */

type Vector = readonly number[] | undefined;

/** The cosine of two vectors of unit length. */
function cosine(one: Vector, other: Vector): number {
  if (!one || !other) throw new Error("There is no vector.");
  return one.reduce((sum, number, index) => sum + number * (other[index] ?? Number.NaN), 0);
}

/** Two texts that are alike, and one that is like neither. */
export const TEXTS: readonly [string, string, string] = [
  "A lighthouse stands in the rain",
  "The lighthouse was standing in heavy rain",
  "Quarterly taxes are due on Monday",
];

/** What is true of the vectors of `TEXTS`. */
export interface Nearness {
  readonly dimensions: readonly (number | undefined)[];
  readonly areUnits: boolean;
  /** Whether texts that are alike are nearer than others. */
  readonly areNear: boolean;
}

export function nearnessOf(vectors: readonly Vector[]): Nearness {
  const [lighthouse, another, taxes] = vectors;
  return {
    dimensions: vectors.map((vector) => vector?.length),
    areUnits: vectors.every((vector) => Math.abs(cosine(vector, vector) - 1) < 1e-5),
    areNear: cosine(lighthouse, another) > cosine(lighthouse, taxes) + 0.1,
  };
}

/** What holds where the vectors have so many numbers. */
export const near = (dimensions = 256): Nearness => ({
  dimensions: [dimensions, dimensions, dimensions],
  areUnits: true,
  areNear: true,
});
