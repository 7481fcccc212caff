/** Every byte, count and time limit of the gateway: its name, its default, and how a host overrides it. */

/** The gateway's limits. Each must be a positive integer; a time at most 2^31 - 1 ms, almost 25 days. */
export interface Limits {
  /** Largest JSON request body, in bytes. A larger one is 413 before it is read, or at the chunk that passes the limit. */
  readonly maxJsonBytes: number;
  /** Deepest nesting of objects and arrays in a JSON request body. */
  readonly maxJsonDepth: number;
  /** Most values in a JSON request body, containers and what is in them alike; an empty object or array counts as two. */
  readonly maxJsonValues: number;
  /** Largest multipart body, in bytes: 413. */
  readonly maxUploadBytes: number;
  /** Upload bytes that all requests together may hold in memory. One that finds no room is 503, with a time to come back. */
  readonly maxUploadBytesInFlight: number;
  /** How long an upload may be silent, in milliseconds: 504. It takes room from others meanwhile. */
  readonly uploadStallMs: number;
  /** Largest file of a multipart body, in bytes: 413 at the chunk that passes the limit. */
  readonly maxImageBytes: number;
  /** All that is not the content of a file in a multipart body (fields, part headers, boundaries), in bytes: 413. */
  readonly maxFormBytes: number;
  /** Largest value of a field in a multipart body, in bytes: 413. */
  readonly maxFieldBytes: number;
  /** Most fields of a multipart body that are not files. */
  readonly maxFields: number;
  /** Most files of a multipart body. */
  readonly maxFiles: number;
  /** Most pixels of an image that is sent, whatever its format: 400. */
  readonly maxImagePixels: number;
  /** Most pixels of all PNGs of a multipart body. They are unfolded, and a small file must not be long work: 400. */
  readonly maxPngPixels: number;
  /** How long one call may take from its first byte to its last, in milliseconds. Then it is 504 and the backend is aborted. */
  readonly deadlineMs: number;
  /** The longest silence in a stream, in milliseconds, before a keep-alive is written. */
  readonly keepAliveMs: number;
  /** How long a quota hold outlives its last renewal, in milliseconds. Live calls renew theirs at a third of this. */
  readonly leaseMs: number;
  /** How long code that a model wrote may run, waiting for its turn included, in milliseconds. */
  readonly codeDeadlineMs: number;
  /** The output tokens reserved for a request that names no limit of its own. */
  readonly defaultMaxOutputTokens: number;
}

const MIB = 1024 * 1024;

/** What holds unless a host says otherwise. */
export const DEFAULT_LIMITS: Limits = {
  maxJsonBytes: 32 * MIB,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  // Sixteen images of 25 MiB, and a form around them.
  maxUploadBytes: 402 * MIB,
  maxUploadBytesInFlight: 804 * MIB,
  uploadStallMs: 30_000,
  maxImageBytes: 25 * MIB,
  maxFormBytes: MIB,
  maxFieldBytes: MIB / 4,
  maxFields: 64,
  maxFiles: 17,
  // What common decoders take.
  maxImagePixels: 2 ** 28,
  // Sixteen images of 4 megapixels, or five of 12.
  maxPngPixels: 2 ** 26,
  deadlineMs: 600_000,
  // Under Bun's idle timeout of 10 s, the shortest of the known runtimes and proxies.
  keepAliveMs: 8_000,
  leaseMs: 60_000,
  codeDeadlineMs: 30_000,
  defaultMaxOutputTokens: 8_192,
};

/** Timers fire at once where they are set for later than this. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The defaults with a host's overrides, of which an undefined one is none. Throws a RangeError that names a limit which is no
 * positive integer, is more than a timer can wait, or does not exist.
 */
export function resolveLimits(overrides: Partial<Limits> = {}): Limits {
  const limits: Record<string, number> = { ...DEFAULT_LIMITS };
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name))
      throw new RangeError(`limits.${name} is no limit; there are ${Object.keys(DEFAULT_LIMITS).join(", ")}`);
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`limits.${name} must be a positive integer, not ${String(value)}`);
    if (name.endsWith("Ms") && value > MAX_TIMER_MS)
      throw new RangeError(
        `limits.${name} must be at most ${MAX_TIMER_MS} ms, the longest that a timer waits, not ${value}`,
      );
    limits[name] = value;
  }
  return { ...DEFAULT_LIMITS, ...limits };
}
