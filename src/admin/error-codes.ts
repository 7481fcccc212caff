/** Finds the codes of recorded calls by the words that clients read in errors, because each wire format writes the codes in its own way. */

import { GATEWAY_ERROR_CODES, GatewayError, type GatewayErrorCode } from "../errors.ts";
import { DEFAULT_LIMITS } from "../limits.ts";
import { isJsonObject } from "../model/json.ts";
import { nearest, oneLine } from "../options.ts";
import { systemClock } from "../ports/clock.ts";

/**
 * Returns the codes that a word means: itself, if it is a code, or else every code that a client of some format reads as this word, such as
 * `quota_exhausted` and `quota_insufficient` for `insufficient_quota`.
 *
 * @param name The name of the option or the field, for the error.
 * @throws RangeError for a word that no format writes. Its message has the word that was probably meant.
 */
export async function codesMeant(name: string, word: string): Promise<readonly GatewayErrorCode[]> {
  const own = GATEWAY_ERROR_CODES.filter((code) => code === word);
  if (own.length > 0) return own;
  const words = await wordsOfFormats();
  const codes = words.get(word);
  if (codes) return [...codes];
  const near = nearest(word, [...GATEWAY_ERROR_CODES, ...words.keys()]);
  const question = near === undefined ? "" : ` Did you mean ${near}?`;
  throw new RangeError(
    `${name} must be the code of an error, such as quota_exhausted, not ${oneLine(word)}.${question}`,
  );
}

/** The fields of an error in which formats write its code. */
const CODE_FIELDS = ["code", "type", "status"] as const;

/** Asks each format how it writes each code. */
async function wordsOfFormats(): Promise<ReadonlyMap<string, ReadonlySet<GatewayErrorCode>>> {
  // Few commands need the formats.
  const { SERVED } = await import("../formats/all.ts");
  const words = new Map<string, Set<GatewayErrorCode>>();
  const endpoints = Object.values(SERVED).flatMap(
    ({ serve }) => serve().make({ clock: systemClock, limits: DEFAULT_LIMITS }).endpoints,
  );
  for (const code of GATEWAY_ERROR_CODES)
    for (const endpoint of endpoints) {
      const { body } = endpoint.encodeError(new GatewayError(code, ""), "");
      const error = isJsonObject(body) && isJsonObject(body["error"]) ? body["error"] : {};
      for (const field of CODE_FIELDS) {
        const word = error[field];
        if (typeof word === "string") words.set(word, (words.get(word) ?? new Set()).add(code));
      }
    }
  return words;
}
