/** Gives a range of numbers both its ends, near to one another and to zero: the generator has such ends of its own alone. */

/** What a JSON Schema asks of a number. */
export interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
}

/** The ends that the generator takes where there are none. */
const USUAL_END = 1_000;

/** An end beyond this is one only by its name, such as the least that a type of number can hold. */
const FAR = 1e12;

/** A range within these bounds, its ends included; the same for the range that it has made. */
export function rangeOf(bounds: Bounds): { minimum: number; maximum: number } {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf = 0 } = bounds;
  const least = Math.max(minimum ?? -Number.MAX_VALUE, above === undefined ? -Infinity : above + stepAt(above));
  const most = Math.min(maximum ?? Number.MAX_VALUE, below === undefined ? Infinity : below - stepAt(below));
  const room = (end: number): number => Math.max(USUAL_END, Math.abs(end) / USUAL_END, multipleOf);
  return {
    minimum: least < -FAR ? Math.max(least, Math.min(-USUAL_END, most - room(most))) : least,
    maximum: most > FAR ? Math.min(most, Math.max(USUAL_END, least + room(least))) : most,
  };
}

/** What makes a number another one. */
const stepAt = (number: number): number => Math.max(Math.abs(number) * Number.EPSILON, Number.MIN_VALUE);
