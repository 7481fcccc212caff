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

/**
 * A text without an api key that may stand in it: with or without `sk-`, whichever way it is given, and as it is or as JSON
 * and URLs write it.
 */
export function redact(text: string, apiKey: string | undefined): string {
  const bare = withoutPrefix(apiKey ?? "");
  if (bare === "") return text;
  const secrets = bare.length < MIN_BARE_LENGTH ? [`sk-${bare}`] : [`sk-${bare}`, bare];
  return secrets.flatMap(spellings).reduce((rest, spelling) => rest.replaceAll(spelling, "[redacted]"), text);
}

const spellings = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret.toWellFormed()),
];
