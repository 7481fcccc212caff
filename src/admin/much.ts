/** Words the question for amounts that are so large that a person is asked once more, on the command line and on the page. */

/** The words for what was given before. */
const NAMES = {
  key: "what this key was granted so far",
  budget: "what this budget was given so far",
  amount: "the amount of this budget",
} as const;

/** Units that a user adds. */
export interface Addition {
  readonly added: number;
  /** The units that were given so far. Nothing is much where nothing was given. */
  readonly given: number;
  readonly to: keyof typeof NAMES;
  /** The units that the user has written. Default: those that are added. */
  readonly written?: number;
}

/**
 * Says how much larger some units are than those that were given so far. Undefined for an addition of at most as many units as were given.
 *
 * @param inWords Writes an amount.
 * @param numbers Writes a number.
 */
export function muchInWords(
  { added, given, to, written = added }: Addition,
  inWords: (units: number) => string,
  numbers: Pick<Intl.NumberFormat, "format"> = new Intl.NumberFormat("en"),
): string | undefined {
  if (given <= 0 || added <= given) return undefined;
  const times = Number((written / given).toPrecision(2));
  return `${inWords(written)} is ${times >= 2 ? `${numbers.format(times)} times` : "more than"} ${NAMES[to]}, ${inWords(given)}.`;
}
