/** Makes the secrets of api keys. */

const SECRET_BYTES = 32;

/** A new secret: `sk-` and 256 random bits in URL-safe characters. */
export function newApiKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  const text = btoa(String.fromCharCode(...bytes));
  return `sk-${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
