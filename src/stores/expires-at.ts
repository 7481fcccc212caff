/** When a key ends, as a host says it. */

/** The year 5138: what is beyond was meant in milliseconds. */
const LATEST = 100_000_000_000;

/** Throws a RangeError for what is no Unix time in whole seconds: an end that is misread would never come. */
export function assertExpiresAt(expiresAt: number): void {
  if (!Number.isSafeInteger(expiresAt)) throw new RangeError("expiresAt must be a Unix time in whole seconds.");
  if (expiresAt > LATEST) throw new RangeError("expiresAt must be a Unix time in seconds, not in milliseconds.");
}
