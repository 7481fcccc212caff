/** Every byte, count and time limit of the gateway: its name, its default, and how a host overrides it. */

import { overridden } from "./overrides.ts";

/** The gateway's limits. Each must be a positive integer; a time at most 2^31 - 1 ms, almost 25 days. */
export interface Limits {
  /** Largest JSON request body, in bytes. A larger one is 413 before it is read, or at the chunk that passes the limit. */
  readonly maxJsonBytes: number;
  /** Deepest nesting of objects and arrays in a JSON request body, and in each JSON text in it, such as a tool call's `arguments`. */
  readonly maxJsonDepth: number;
  /**
   * Most values in a JSON request body and in the JSON texts in it together, containers and what is in them alike; an empty object or
   * array counts as two.
   */
  readonly maxJsonValues: number;
  /** Most members of one object in a JSON request body, or in a JSON text in it. */
  readonly maxJsonKeys: number;
  /** Most elements of all arrays in a JSON request body and in the JSON texts in it: its messages, their parts, and all else. */
  readonly maxJsonItems: number;
  /** Most JSON values of a request's tools and of the schema of its answer, together, counted as `maxJsonValues` does: 400. */
  readonly maxSchemaValues: number;
  /** Most characters of the names and texts in a request's tools and in the schema of its answer together. */
  readonly maxSchemaChars: number;
  /** Most stop sequences of a request, whatever its format takes: 400. */
  readonly maxStopSequences: number;
  /** Most characters (UTF-16 units) of all stop sequences of a request: 400. */
  readonly maxStopSequenceChars: number;
  /** Largest multipart body, in bytes: 413. */
  readonly maxUploadBytes: number;
  /** Calls of known keys that may be in flight at once, streams included. A further one is 503, with a time to come back. */
  readonly maxCallsInFlight: number;
  /**
   * The most of them that one key may have, which it finds while the others have few: a key gets no more than so many times what is
   * free that a key without any finds room. With the half, as by default, it gets as many as are still free.
   */
  readonly maxCallsPerKey: number;
  /**
   * Memory that the bodies of all requests together may take, in bytes: what they are written in, and for each value of a JSON body what
   * it takes at most once it is parsed. A request that finds no room is 503, with a time to come back.
   */
  readonly maxBodyBytesInFlight: number;
  /** The most of it that the requests of one key may take, shared among keys as `maxCallsPerKey` is. */
  readonly maxBodyBytesPerKey: number;
  /**
   * From which length on a body is parsed only for a key that has something left, in bytes. The store is asked while the body is read.
   */
  readonly mediumBodyBytes: number;
  /** From which length on a body is not even read for a key with nothing left, in bytes. */
  readonly largeBodyBytes: number;
  /** How long a body may be silent, in milliseconds: 504. It takes room from others meanwhile. */
  readonly bodyStallMs: number;
  /** The least rate of a large body over every ten seconds and more, in bytes a second: 504. */
  readonly minBodyBytesPerSecond: number;
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
  /**
   * How soon the store notes what a live call has used, in milliseconds after the last note; a tenth of it for the first. What is not
   * more than a hundredth of that waits for the next renewal. A process that dies loses of each call what came since its last note.
   */
  readonly usageNoteMs: number;
  /** How long a store may take for one verb, in milliseconds: then it counts as failed, 503. A settlement goes on beside its answer. */
  readonly storeTimeoutMs: number;
  /**
   * Most settlements that wait for a store that failed at the end of their calls. Beyond it the oldest is given up, and `onFailure` is told
   * what was not charged. Each keeps the call's id, its count and the host's own context in memory.
   */
  readonly maxWaitingSettlements: number;
  /**
   * How often in a row a store or the rate limiter must take too long until calls no longer wait for it: they are 503 at once, or go on
   * without the limiter where `rateLimiterDown` is `open`. A failure that comes within a second is not counted: nobody waits for it.
   */
  readonly storeBreakerFailures: number;
  /** How long it is left alone then, before one call tries it again, in milliseconds. Settlements are tried all the while. */
  readonly storeBreakerOpenMs: number;
  /** Largest answer that is kept for a repeated request, in bytes. A larger one is given once: its repetition is 409. */
  readonly maxReplayBytes: number;
  /** How long an answer is kept for a repeated request, in milliseconds. */
  readonly replayRetentionMs: number;
  /**
   * How long a call with an `Idempotency-Key` goes on while nobody waits for its answer, in milliseconds: the time in which a
   * client whose connection broke has to come back. Then it is cut, and a later repetition is a call of its own.
   */
  readonly replayDrainMs: number;
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
  maxJsonKeys: 10_000,
  maxJsonItems: 100_000,
  maxSchemaValues: 50_000,
  maxSchemaChars: 4 * MIB,
  maxStopSequences: 64,
  maxStopSequenceChars: 4_096,
  // Sixteen images of 25 MiB, and a form around them.
  maxUploadBytes: 402 * MIB,
  maxCallsInFlight: 16_384,
  maxCallsPerKey: 8_192,
  maxBodyBytesInFlight: 804 * MIB,
  maxBodyBytesPerKey: 402 * MIB,
  mediumBodyBytes: 64 * 1024,
  largeBodyBytes: MIB,
  bodyStallMs: 30_000,
  minBodyBytesPerSecond: 16 * 1024,
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
  usageNoteMs: 1_000,
  storeTimeoutMs: 10_000,
  maxWaitingSettlements: 10_000,
  storeBreakerFailures: 5,
  storeBreakerOpenMs: 5_000,
  maxReplayBytes: 8 * MIB,
  // As long as the addresses of pictures are valid that an answer may hold.
  replayRetentionMs: 3_600_000,
  replayDrainMs: 60_000,
  codeDeadlineMs: 30_000,
  defaultMaxOutputTokens: 8_192,
};

/**
 * The defaults with a host's overrides, of which an undefined one is none. Throws a RangeError that names a limit which is no
 * positive integer, is more than a timer can wait, or does not exist.
 */
export const resolveLimits = (overrides?: Partial<Limits>): Limits => overridden("limits", DEFAULT_LIMITS, overrides);
