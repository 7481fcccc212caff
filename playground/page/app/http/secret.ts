/** Keeps a key that the user typed out of what is shown and copied. */

/** The environment variable that stands for such a key in copied code. */
export const KEY_VARIABLE = "POLYGATE_API_KEY";

/** How a key appears in shown requests and copied code. */
export interface ShownKey {
  /** In headers. */
  readonly text: string;
  /** In JavaScript, as an expression. */
  readonly source: string;
}

/** A key of the demo stands there as it is: everybody knows it. */
export const shownKey = (apiKey: string, isPublic: boolean): ShownKey =>
  isPublic
    ? { text: apiKey, source: JSON.stringify(apiKey) }
    : { text: `$${KEY_VARIABLE}`, source: `process.env.${KEY_VARIABLE}` };
