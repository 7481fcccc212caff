/** When a key ends, as a host says it. */

/** What is beyond, more than thirty thousand years away, was meant in milliseconds. */
const LATEST = 1_000_000_000_000;

/** Throws a RangeError for what is no Unix time in whole seconds: an end that is misread would never come. */
export function assertExpiresAt(expiresAt: number): void {
  if (!Number.isSafeInteger(expiresAt)) throw new RangeError("expiresAt must be a Unix time in whole seconds.");
  if (expiresAt > LATEST) throw new RangeError("expiresAt must be a Unix time in seconds, not in milliseconds.");
}
