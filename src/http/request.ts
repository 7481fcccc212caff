/** Reads the address and the credential of a request, makes request ids, and removes api keys from texts. */

import { GatewayError } from "../errors.ts";

// Addresses are read as they were written: `URL` rejects some addresses that hosts accept, and rewrites others.

const SLASH = 0x2f;
const QUERY = 0x3f;
const FRAGMENT = 0x23;

/** Returns the path of an address, as it was written, without the query. */
export function pathOf(url: string): string {
  const from = pathStart(url);
  let end = from;
  while (end < url.length && url.charCodeAt(end) !== QUERY && url.charCodeAt(end) !== FRAGMENT) end++;
  return end === from ? "/" : url.slice(from, end);
}

/** Returns the path of a request; undefined where srvx cannot read its address, such as that of `GET /..` with `host: h:99999`. */
export function pathIn(request: Request): string | undefined {
  try {
    return pathOf(request.url);
  } catch {
    return undefined;
  }
}

/** Returns the part of an address before its path: `https://example.com`. */
export function originOf(url: string): string {
  return url.slice(0, pathStart(url));
}

/** Returns the offset of an address's path. Without a usable `host` header, the address may be a path alone. */
function pathStart(url: string): number {
  if (url.startsWith("/")) return 0;
  for (let at = url.indexOf("://") + 3; at < url.length; at++) {
    const code = url.charCodeAt(at);
    if (code === SLASH || code === QUERY || code === FRAGMENT) return at;
  }
  return url.length;
}

/** Returns the query parameters of an address. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf("?");
  return new URLSearchParams(from < 0 ? "" : (url.slice(from + 1).split("#", 1)[0] ?? ""));
}

/** Returns a key without its prefix `sk-`, which callers may write or leave out. */
export const withoutPrefix = (apiKey: string): string => (apiKey.startsWith("sk-") ? apiKey.slice(3) : apiKey);

/**
 * Returns the token of an `Authorization: Bearer` header, or undefined for a missing or empty header. Throws `malformed_credential` for any
 * other scheme and for a Bearer without a token.
 */
export function bearerToken(headers: Headers): string | undefined {
  const header = headers.get("authorization")?.trim();
  if (!header) return undefined;
  const token = /^bearer +(\S.*)$/i.exec(header)?.[1];
  // Do not repeat the header, which may be a key alone.
  if (token === undefined)
    throw new GatewayError(
      "malformed_credential",
      "The header Authorization must begin with Bearer, a space, and the API key.",
    );
  return token;
}

/** Answers a call of `fetch`. Beside a request, `init` is ignored. A server that passes the request needs no rejection when its client is gone. */
export async function fetched(
  input: string | URL | Request,
  init: RequestInit | object = {},
  answer: (request: Request) => Promise<Response>,
): Promise<Response> {
  if (typeof input !== "string" && !(input instanceof URL)) return answer(input);
  const request = new Request(input, init);
  return "signal" in init && init.signal ? untilAborted(request, answer) : answer(request);
}

/** Answers a request like `fetch`: rejects once its signal is aborted, and fails the body of a later answer, as SDKs expect it. */
async function untilAborted(request: Request, answer: (request: Request) => Promise<Response>): Promise<Response> {
  const { signal } = request;
  signal.throwIfAborted();
  const response = await new Promise<Response>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    answer(request).then(resolve, reject);
  });
  // An SDK would read the last words of the gateway as an error of its own.
  return response.body
    ? new Response(response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal }), response)
    : response;
}

/** The shortest key that is removed without its prefix, in characters: a shorter one may be a part of any word. */
const MIN_BARE_LENGTH = 8;

/** The shortest beginning or end of a key that is removed like the whole key, in characters. */
const MIN_PIECE_LENGTH = 8;

const REDACTED = "[redacted]";

/**
 * Replaces an api key in a text by `[redacted]`. Finds it with or without `sk-`, in upper and lower case, in the spelling of JSON and of URLs,
 * and cut to eight characters or more of its beginning or its end. A piece that looks like a word counts only if it is half of the key.
 */
export function redact(text: string, apiKey: string | undefined): string {
  const bare = withoutPrefix(apiKey ?? "");
  if (bare === "" || text === "") return text;
  // JSON has several spellings of a character: PHP writes a slash as `\/`, .NET a plus as `\u002B`.
  const plain = text.includes("\\") ? unescaped(text) : text;
  const shown = withoutSecret(plain, bare);
  if (shown !== plain) return withoutSecret(shown, bare);
  return plain === text ? text : withoutSecret(text, bare);
}

const unescaped = (text: string): string =>
  text.replaceAll(/\\u([\da-f]{4})|\\(["\\/])/gi, (_escape, code: string | undefined, char: string) =>
    code === undefined ? char : String.fromCharCode(Number.parseInt(code, 16)),
  );

function withoutSecret(text: string, bare: string): string {
  const lowered = loweredInPlace(text);
  const spots: Spot[] = [];
  for (const secret of spellings(`sk-${bare}`)) findWhole(lowered, secret, spots);
  if (bare.length >= MIN_BARE_LENGTH)
    for (const secret of [...spellings(`sk-${bare}`), ...spellings(bare)]) findPieces(lowered, secret, spots);
  return spots.length === 0 ? text : replaced(text, spots);
}

/** A part of the text to remove: from the first index up to the second. */
type Spot = readonly [from: number, to: number];

function findWhole(lowered: string, secret: string, spots: Spot[]): void {
  const wanted = loweredInPlace(secret);
  for (let at = lowered.indexOf(wanted); at >= 0; at = lowered.indexOf(wanted, at + wanted.length))
    spots.push([at, at + wanted.length]);
}

/** Finds the beginnings and the ends of a secret, each as long as possible. */
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

/** Tells whether a piece of a secret is unlikely in an ordinary text: `upstream` may begin a key, but it is a common word in errors. */
const isTelling = (piece: string, length: number): boolean =>
  piece.length >= length / 2 || /\d/.test(piece) || (/[a-z]/.test(piece) && /[A-Z]/.test(piece));

function replaced(text: string, spots: readonly Spot[]): string {
  const pieces: string[] = [];
  let end = -1;
  for (const [from, to] of spots.toSorted(([one], [other]) => one - other)) {
    if (from > end) pieces.push(text.slice(Math.max(0, end), from), REDACTED);
    end = Math.max(end, to);
  }
  return [...pieces, text.slice(end)].join("");
}

/** Returns the text in lower case, with every character at its index: the lower case of some characters is longer. */
function loweredInPlace(text: string): string {
  const lowered = text.toLowerCase();
  return lowered.length === text.length ? lowered : text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Returns the spellings of a secret: plain, in JSON and in URLs. Most secrets have only one. */
const spellings = (secret: string): readonly string[] =>
  /^[\w.~-]+$/.test(secret)
    ? [secret]
    : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret.toWellFormed())];

/** The random bytes of an id: 128 bits, so that ids cannot be guessed. */
const ID_BYTES = 16;
const ID_DIGITS = 2 * ID_BYTES;
/** The ids for which random bytes are fetched at once, as the call costs more than the bytes. One id may keep all of them in memory. */
const POOLED_IDS = 32;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The digits of the next ids, and the offset of the next one. */
let pool = "";
let next = 0;

/** Returns a new id: `req_` and 32 hexadecimal digits. */
export function newRequestId(): string {
  // Fill the pool on first use: Workers provide no random bytes before a request.
  if (next === pool.length) {
    const digits: (string | undefined)[] = [];
    for (const byte of crypto.getRandomValues(new Uint8Array(ID_BYTES * POOLED_IDS))) digits.push(HEX[byte]);
    pool = digits.join("");
    next = 0;
  }
  const from = next;
  next += ID_DIGITS;
  return `req_${pool.slice(from, next)}`;
}
