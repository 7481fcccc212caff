/** Reads the secret out of a request's headers. The only code that touches it before the store does. */

import { GatewayError } from "../errors.ts";

/** A key without the `sk-` that callers may write or leave out. */
export const withoutPrefix = (apiKey: string): string => (apiKey.startsWith("sk-") ? apiKey.slice(3) : apiKey);

/**
 * The token of an `Authorization: Bearer` header, or undefined without the header. Throws `malformed_credential` for any
 * other scheme and for a Bearer without a token.
 */
export function bearerToken(headers: Headers): string | undefined {
  const header = headers.get("authorization");
  if (header === null) return undefined;
  const token = /^bearer +(\S.*)$/i.exec(header.trim())?.[1];
  if (token === undefined) throw new GatewayError("malformed_credential", "Invalid Bearer token");
  return token;
}

/** A text without a secret that may stand in it. */
export const redact = (text: string, secret: string | undefined): string =>
  secret ? text.replaceAll(secret, "[redacted]") : text;
