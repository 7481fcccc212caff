/** The headers of a relay: those that a host may set, and the secrets in them. */

/**
 * Throws a TypeError for a key that cannot be sent.
 *
 * @param name The name of the key in messages. They contain no value, because a secret must not get into the host's log.
 */
export function assertKey(name: string, key: string): void {
  if (/^(?:bearer|basic)\s/i.test(key))
    throw new TypeError(`${name} must be the key alone; the relay adds what the header has before it.`);
  if (!/^[\u0021-\u007e]+$/.test(key)) throw new TypeError(`${name} must be visible ASCII characters.`);
}

/** Headers that a host may not set, because the transport sets them, or because they change how the body is read. */
const RESERVED = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** Returns headers with names in lower case. Throws a TypeError for headers that cannot be sent. The message contains no value. */
export function validHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const valid: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (RESERVED.has(lower)) throw new TypeError(`relay: the header ${lower} is the relay's own.`);
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower)) throw new TypeError("relay: headers has a name that is none.");
    if (typeof value !== "string" || !/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value))
      throw new TypeError(`relay: the header ${lower} has no valid value.`);
    valid[lower] = value;
  }
  return valid;
}

/** Matches the names of headers whose values are probably secrets of the host. */
export const SECRET_HEADER: RegExp = /auth|cookie|credential|key|password|secret|signature|token/;

/** Returns the secret values without a scheme such as `Bearer`. The longest value comes first, because a value may be a part of another. */
export const secretsIn = (headers: Readonly<Record<string, string>>): string[] =>
  Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .map(([, value]) => value.replace(/^[A-Za-z]+ +(?=\S)/, ""))
    .toSorted((a, b) => b.length - a.length);
