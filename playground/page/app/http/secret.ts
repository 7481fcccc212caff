/** Hides the user's own key in shown requests and copied code. */

/** The environment variable that replaces the user's own key in copied code. */
export const KEY_VARIABLE = "POLYGATE_API_KEY";

/** The representations of a key in shown requests and copied code. */
export interface ShownKey {
  /** The text in headers. */
  readonly text: string;
  /** The JavaScript expression. */
  readonly source: string;
}

/** Shows the demo's keys unchanged, because they are public. */
export const shownKey = (apiKey: string, isPublic: boolean): ShownKey =>
  isPublic
    ? { text: apiKey, source: JSON.stringify(apiKey) }
    : { text: `$${KEY_VARIABLE}`, source: `process.env.${KEY_VARIABLE}` };
