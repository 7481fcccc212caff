/** Decides which amounts are so large that a person is asked once more, on the command line and on the page. */

/** True for units to add that are more than what was given so far. Nothing is much where nothing was given. */
export const isMuch = (added: number, given: number): boolean => given > 0 && added > given;

/**
 * Says how much larger units to add are than those that were given so far, which have a name.
 *
 * @param inWords Writes an amount.
 * @param numbers Writes a number.
 */
export function muchInWords(
  added: number,
  given: number,
  name: string,
  inWords: (units: number) => string,
  numbers: Pick<Intl.NumberFormat, "format"> = new Intl.NumberFormat("en"),
): string {
  const times = Number((added / given).toPrecision(2));
  const words = times >= 2 && given > 0 ? `${numbers.format(times)} times` : "more than";
  return `${inWords(added)} is ${words} ${name}, ${inWords(given)}.`;
}
