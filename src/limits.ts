/** The limits of the gateway on bytes, counts and times, with their defaults. */

import { overridden } from "./options.ts";

/**
 * The limits of a gateway. Each is a positive integer; a time is at most 2^31 - 1 ms, almost 25 days. A status in a description, such as
 * 400, is the answer to a request beyond the limit.
 */
export interface Limits {
  /**
   * Largest JSON request body, in bytes: 413. If the request declares its length, it is refused before its body is read; otherwise at the
   * chunk that exceeds the limit.
   */
  readonly maxJsonBytes: number;
  /**
   * Deepest nesting of objects and arrays in a JSON request body, and in each JSON text inside it, such as the `arguments` of a tool call.
   */
  readonly maxJsonDepth: number;
  /**
   * The most values in a JSON request body, including the values of the JSON texts inside it. Objects, arrays and their contents all count;
   * an empty object or array counts as two.
   */
  readonly maxJsonValues: number;
  /** The most members of one object in a JSON request body, or in a JSON text inside it. */
  readonly maxJsonKeys: number;
  /** The most elements of all arrays in a JSON request body and in the JSON texts inside it, such as messages and their parts. */
  readonly maxJsonItems: number;
  /** The most JSON values of a request's tools and of the schema of its answer together, counted like `maxJsonValues`: 400. */
  readonly maxSchemaValues: number;
  /** The most characters of the names and texts in a request's tools and in the schema of its answer together. */
  readonly maxSchemaChars: number;
  /** The most stop sequences of a request, in any format: 400. */
  readonly maxStopSequences: number;
  /** The most characters (UTF-16 units) of all stop sequences of a request together: 400. */
  readonly maxStopSequenceChars: number;
  /** Largest multipart body, in bytes: 413. */
  readonly maxUploadBytes: number;
  /** The most calls of known keys that are in flight at once, streams included. A further call gets 503 with `retry-after`. */
  readonly maxCallsInFlight: number;
  /**
   * The most calls in flight of one key while other keys have few calls. This limit shrinks as the gateway fills, so that a key without
   * calls still finds room. With the default, half of `maxCallsInFlight`, a key may have as many calls as the gateway still has free.
   */
  readonly maxCallsPerKey: number;
  /**
   * The most memory for the bodies of all requests together, in bytes. Counts the bytes of each body, and for each JSON value the most
   * memory that the parsed value can take. A request that finds no room gets 503 with `retry-after`.
   */
  readonly maxBodyBytesInFlight: number;
  /** The most memory for the bodies of one key, in bytes. This limit shrinks as other keys take room, like `maxCallsPerKey`. */
  readonly maxBodyBytesPerKey: number;
  /**
   * The most memory for the last bodies of keys and their values, in bytes. What a later body of the same key repeats, such as an agent's tools
   * and first turns, is not parsed again. A key with more than half of this memory pushes out only its own bodies. With 1, no body outlives its
   * call.
   */
  readonly maxKnownBodyBytes: number;
  /**
   * A body with more bytes than this is parsed only if the key has quota left, or the price has, or may have, free models. The store is asked
   * while the body is read.
   */
  readonly mediumBodyBytes: number;
  /** A body with more bytes than this is read only if the key has quota left, or the price has free models. */
  readonly largeBodyBytes: number;
  /**
   * Longest pause while a body arrives, in milliseconds: 504. A body that has stopped arriving takes room from other bodies. A body of at
   * most 256 KiB must be whole after this time.
   */
  readonly bodyStallMs: number;
  /** Lowest rate of a large body, in bytes a second, measured over ten seconds or more: 504. */
  readonly minBodyBytesPerSecond: number;
  /** Largest file of a multipart body, in bytes: 413 at the chunk that exceeds the limit. */
  readonly maxImageBytes: number;
  /** Largest multipart body without the contents of its files (fields, part headers, boundaries), in bytes: 413. */
  readonly maxFormBytes: number;
  /** Largest value of one field in a multipart body, in bytes: 413. */
  readonly maxFieldBytes: number;
  /** The most fields of a multipart body, without files: 400. */
  readonly maxFields: number;
  /** The most files of a multipart body: 400. */
  readonly maxFiles: number;
  /** The most pixels of one image in a request, in any format: 400. */
  readonly maxImagePixels: number;
  /**
   * The most pixels of all PNGs of a multipart body together: 400. PNGs are decompressed to check them, so this limit bounds the work that
   * a small file can cause.
   */
  readonly maxPngPixels: number;
  /** Longest duration of a call, from its first byte to its last, in milliseconds. Then the backend is aborted, and the call gets 504. */
  readonly deadlineMs: number;
  /** Longest silence in a streamed answer before a keep-alive is written, in milliseconds. */
  readonly keepAliveMs: number;
  /** Lifetime of a quota hold after its last renewal, in milliseconds. A running call renews its hold after a third of this time. */
  readonly leaseMs: number;
  /**
   * The time between two writes of a running call's usage to the store, in milliseconds. The first write comes after a
   * tenth of this time. An increase of 1 % or less waits for the next renewal. A process that dies loses the usage of each call since the
   * call's last write.
   */
  readonly usageNoteMs: number;
  /**
   * Longest time of one store operation, in milliseconds. A slower operation counts as failed: 503. A slow settlement does not fail its
   * call: it continues after the answer.
   */
  readonly storeTimeoutMs: number;
  /**
   * The most settlements that wait for a retry, because the store failed when their calls ended. When there are more, the oldest is given
   * up, and `onFailure` receives the lost charge. Each waiting settlement keeps the id of its call, its charge and the host's own context
   * in memory.
   */
  readonly maxWaitingSettlements: number;
  /**
   * The most memory of the answers that wait for the `after` of hooks, in bytes. `onFailure` is told of each further answer, which no hook
   * sees.
   */
  readonly maxWaitingHookBytes: number;
  /**
   * The number of timeouts in a row after which calls no longer wait for a store or the rate limiter. Such calls get 503 at once, or
   * continue without the limiter if `rateLimiterDown` is `open`. A failure within a second does not count, because it delays no call.
   */
  readonly storeBreakerFailures: number;
  /** Time before one call tries such a store or rate limiter again, in milliseconds. Settlements do not wait for this time. */
  readonly storeBreakerOpenMs: number;
  /** Largest answer that is kept for a repeated request, in bytes. The repetition of a request with a larger answer gets 409. */
  readonly maxReplayBytes: number;
  /** Time that an answer is kept for a repeated request, in milliseconds. */
  readonly replayRetentionMs: number;
  /**
   * Time that a call with an `Idempotency-Key` continues after its client has disconnected, in milliseconds, so that the client can repeat
   * the request. Then the call is cut, and a later repetition is a new call.
   */
  readonly replayDrainMs: number;
  /** The most WebSockets that are open at once. A further one gets 503 with `retry-after`. */
  readonly maxSockets: number;
  /** The most WebSockets of one key. This limit shrinks as other keys open theirs, like `maxCallsPerKey`. */
  readonly maxSocketsPerKey: number;
  /** Longest life of a WebSocket, in milliseconds. A running answer is completed first. */
  readonly socketLifeMs: number;
  /** Longest run of code that a model wrote, including the wait for its turn, in milliseconds. */
  readonly codeDeadlineMs: number;
  /** Output tokens that are reserved for a request without a limit of its own. */
  readonly defaultMaxOutputTokens: number;
}

const MIB = 1024 * 1024;

/** The limits of a gateway whose host sets none. */
export const DEFAULT_LIMITS: Limits = {
  maxJsonBytes: 32 * MIB,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 100_000,
  maxSchemaValues: 50_000,
  maxSchemaChars: 4 * MIB,
  maxStopSequences: 16,
  maxStopSequenceChars: 4_096,
  // Room for sixteen images of 25 MiB and the form around them.
  maxUploadBytes: 402 * MIB,
  maxCallsInFlight: 16_384,
  maxCallsPerKey: 8_192,
  maxBodyBytesInFlight: 804 * MIB,
  maxBodyBytesPerKey: 402 * MIB,
  maxKnownBodyBytes: 64 * MIB,
  mediumBodyBytes: 64 * 1024,
  largeBodyBytes: MIB,
  bodyStallMs: 30_000,
  minBodyBytesPerSecond: 16 * 1024,
  maxImageBytes: 25 * MIB,
  maxFormBytes: MIB,
  maxFieldBytes: MIB / 4,
  maxFields: 64,
  maxFiles: 17,
  // The most pixels that common decoders accept.
  maxImagePixels: 2 ** 28,
  // Room for sixteen images of 4 megapixels, or five of 12.
  maxPngPixels: 2 ** 26,
  deadlineMs: 600_000,
  // Stay below Bun's idle timeout of 10 s, the shortest of the known runtimes and proxies.
  keepAliveMs: 8_000,
  leaseMs: 60_000,
  usageNoteMs: 1_000,
  storeTimeoutMs: 10_000,
  maxWaitingSettlements: 10_000,
  maxWaitingHookBytes: 64 * MIB,
  storeBreakerFailures: 5,
  storeBreakerOpenMs: 5_000,
  maxReplayBytes: 8 * MIB,
  // As long as the links to pictures in an answer are valid.
  replayRetentionMs: 3_600_000,
  replayDrainMs: 60_000,
  maxSockets: 16_384,
  maxSocketsPerKey: 8_192,
  socketLifeMs: 3_600_000,
  codeDeadlineMs: 30_000,
  defaultMaxOutputTokens: 8_192,
};

/**
 * Returns the defaults with a host's overrides. An undefined override counts as absent.
 *
 * @throws RangeError that names a number which is no positive integer or is longer than a timer can wait; TypeError for a limit that is no number
 *   or does not exist.
 */
export const resolveLimits = (overrides?: Partial<Limits>): Limits =>
  overridden("createGateway: limits", DEFAULT_LIMITS, overrides, {}, OTHER_NAMES);

/** The limits that other libraries name otherwise. */
const OTHER_NAMES = { timeout: "deadlineMs", timeoutMs: "deadlineMs" } as const;
