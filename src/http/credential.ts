/** Reads the secret out of a request's headers. The only code that touches it before the store does. */

import { GatewayError } from "../errors.ts";

/** A key without the `sk-` that callers may write or leave out. */
export const withoutPrefix = (apiKey: string): string => (apiKey.startsWith("sk-") ? apiKey.slice(3) : apiKey);

/**
 * The token of an `Authorization: Bearer` header, or undefined without the header or with an empty one. Throws
 * `malformed_credential` for any other scheme and for a Bearer without a token.
 */
export function bearerToken(headers: Headers): string | undefined {
  const header = headers.get("authorization")?.trim();
  if (!header) return undefined;
  const token = /^bearer +(\S.*)$/i.exec(header)?.[1];
  if (token === undefined) throw new GatewayError("malformed_credential", "Invalid Bearer token");
  return token;
}

/** A key shorter than this is blotted out with its prefix alone: by itself it may be a part of any word. */
const MIN_BARE_LENGTH = 8;

/** The shortest beginning or end of a key that is blotted out like the whole, in characters. */
const MIN_PIECE_LENGTH = 8;

const BLOT = "[redacted]";

/**
 * A text without an api key that may stand in it: with or without `sk-`, whichever way it is given; in any case; as it is or as JSON and URLs
 * write it; and cut, where eight characters or more of its beginning or its end are left. A piece that looks like a word counts only from
 * half of the key on.
 */
export function redact(text: string, apiKey: string | undefined): string {
  const bare = withoutPrefix(apiKey ?? "");
  if (bare === "" || text === "") return text;
  // JSON may write a character in several ways: PHP writes a slash as `\/`, .NET a plus as `\u002B`.
  const plain = text.includes("\\") ? unescaped(text) : text;
  const shown = blottedOut(plain, bare);
  return shown === plain ? blottedOut(text, bare) : blottedOut(shown, bare);
}

const unescaped = (text: string): string =>
  text.replaceAll(/\\u([\da-f]{4})|\\(["\\/])/gi, (_escape, code: string | undefined, char: string) =>
    code === undefined ? char : String.fromCharCode(Number.parseInt(code, 16)),
  );

function blottedOut(text: string, bare: string): string {
  const lowered = loweredInPlace(text);
  const spots: Spot[] = [];
  for (const secret of spellings(`sk-${bare}`)) findWhole(lowered, secret, spots);
  if (bare.length >= MIN_BARE_LENGTH)
    for (const secret of [...spellings(`sk-${bare}`), ...spellings(bare)]) findPieces(lowered, secret, spots);
  return spots.length === 0 ? text : blotted(text, spots);
}

/** Where something stands that is blotted out: from the first index up to the second. */
type Spot = readonly [from: number, to: number];

function findWhole(lowered: string, secret: string, spots: Spot[]): void {
  const wanted = loweredInPlace(secret);
  for (let at = lowered.indexOf(wanted); at >= 0; at = lowered.indexOf(wanted, at + wanted.length))
    spots.push([at, at + wanted.length]);
}

/** Finds the beginnings and the ends of a secret, each as far as it goes; the whole is the longest of either. */
function findPieces(lowered: string, secret: string, spots: Spot[]): void {
  const wanted = loweredInPlace(secret);
  const { length } = wanted;
  const beginning = wanted.slice(0, MIN_PIECE_LENGTH);
  for (let at = lowered.indexOf(beginning); at >= 0; at = lowered.indexOf(beginning, at + 1)) {
    let to = at + MIN_PIECE_LENGTH;
    while (to - at < length && lowered[to] === wanted[to - at]) to++;
    if (isTelling(secret.slice(0, to - at), length)) spots.push([at, to]);
  }
  const end = wanted.slice(-MIN_PIECE_LENGTH);
  for (let at = lowered.indexOf(end); at >= 0; at = lowered.indexOf(end, at + 1)) {
    const to = at + MIN_PIECE_LENGTH;
    let from = at;
    while (to - from < length && from > 0 && lowered[from - 1] === wanted[length - 1 - (to - from)]) from--;
    if (isTelling(secret.slice(length - (to - from)), length)) spots.push([from, to]);
  }
}

/** Whether a piece of a secret is none that an ordinary text has by chance: `upstream` may begin a key, and stands in many an error. */
const isTelling = (piece: string, length: number): boolean =>
  piece.length >= length / 2 || /\d/.test(piece) || (/[a-z]/.test(piece) && /[A-Z]/.test(piece));

function blotted(text: string, spots: readonly Spot[]): string {
  const pieces: string[] = [];
  let end = -1;
  for (const [from, to] of spots.toSorted(([one], [other]) => one - other)) {
    if (from > end) pieces.push(text.slice(Math.max(0, end), from), BLOT);
    end = Math.max(end, to);
  }
  return [...pieces, text.slice(end)].join("");
}

/** The text in lower case, each character at its place: of some characters the lower case is longer. */
function loweredInPlace(text: string): string {
  const lowered = text.toLowerCase();
  return lowered.length === text.length ? lowered : text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** A secret in all ways in which it is written; most are the same in each. */
const spellings = (secret: string): readonly string[] =>
  /^[\w.~-]+$/.test(secret)
    ? [secret]
    : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret.toWellFormed())];
