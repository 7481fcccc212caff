/** Completes ranges of numbers for the generator of values, which picks useful numbers only from a range with two near ends. */

/** The keywords of a JSON Schema that limit a number. */
export interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
}

/** The distance from zero of an end that the schema leaves open. */
const DEFAULT_END = 1_000;

/** An end farther from zero counts as open: it is often just the limit of a number type. */
const FAR = 1e12;

/** Returns a range within the bounds, with both ends included. Given a range that it returned, returns the same range. */
export function rangeOf(bounds: Bounds): { minimum: number; maximum: number } {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf = 0 } = bounds;
  const least = Math.max(minimum ?? -Number.MAX_VALUE, above === undefined ? -Infinity : above + stepAt(above));
  const most = Math.min(maximum ?? Number.MAX_VALUE, below === undefined ? Infinity : below - stepAt(below));
  const room = (end: number): number => Math.max(DEFAULT_END, Math.abs(end) / DEFAULT_END, multipleOf);
  return {
    minimum: least < -FAR ? Math.max(least, Math.min(-DEFAULT_END, most - room(most))) : least,
    maximum: most > FAR ? Math.min(most, Math.max(DEFAULT_END, least + room(least))) : most,
  };
}

/** Returns the smallest step that changes a number. */
const stepAt = (number: number): number => Math.max(Math.abs(number) * Number.EPSILON, Number.MIN_VALUE);
