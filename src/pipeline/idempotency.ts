/**
 * Idempotency keys: reads the header, fingerprints requests, checks the states that a replay store tells, and declares what calls with one
 * key share.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { GatewayError } from "../errors.ts";
import type { Answer } from "../http/answer.ts";
import type { Form } from "../http/form.ts";
import type { SharedStream } from "../http/shared-stream.ts";
import { EventLoopYielder } from "../ports/clock.ts";
import type { RecordedAnswer, ReplayState, ReplayStore } from "../ports/replay-store.ts";

const MAX_KEY_CHARS = 255;
/** Visible ASCII. Spaces are excluded: two headers of the name arrive as one, with a comma and a space between. */
const VISIBLE = /^[\x21-\x7e]+$/;

/** Returns the request's idempotency key; undefined without the header. Throws `invalid_request` for a header that is not a key. */
export function idempotencyKeyOf(request: Request): string | undefined {
  const key = request.headers.get("idempotency-key");
  if (key === null) return undefined;
  if (key.length > MAX_KEY_CHARS || !VISIBLE.test(key))
    throw new GatewayError(
      "invalid_request",
      `The header Idempotency-Key must be 1 to ${MAX_KEY_CHARS} visible ASCII characters, without spaces.`,
    );
  return key;
}

/** The characters that a header's value may hold. */
const PRINTABLE = /^[\t\x20-\x7e]*$/;
const REQUEST_ID = /^[\w-]{1,190}$/;

/**
 * Returns the state that a store has told, without headers that no answer has. Throws a TypeError for an impossible state.
 *
 * @param keptHeaders The names of headers that an answer may have.
 */
export function checkedState(told: ReplayState, keptHeaders: ReadonlySet<string>): ReplayState {
  switch (told?.state) {
    case "claimed":
      return { state: "claimed" };
    case "running":
      return { state: "running", fingerprint: told.fingerprint };
    case "answered":
      return { state: "answered", fingerprint: told.fingerprint, answer: checked(told.answer, keptHeaders) };
    default:
      throw new TypeError("The store told no state of an entry.");
  }
}

function checked(answer: RecordedAnswer, keptHeaders: ReadonlySet<string>): RecordedAnswer {
  const { requestId, status, headers, body, stream } = answer;
  const isAnswer =
    Number.isInteger(status) &&
    status >= 200 &&
    status <= 599 &&
    typeof requestId === "string" &&
    REQUEST_ID.test(requestId) &&
    (body === undefined || typeof body === "string") &&
    typeof stream === "boolean";
  if (!isAnswer) throw new TypeError("The store told an answer that it cannot have been given.");
  const kept = Object.entries(headers).filter(
    ([name, value]) => keptHeaders.has(name) && typeof value === "string" && PRINTABLE.test(value),
  );
  return { requestId, status, headers: Object.fromEntries(kept), body, stream };
}

/** The gateway's state for repeated calls. */
export interface Replays {
  readonly store: ReplayStore;
  /** The behaviour while the store is down: `closed` refuses calls, `open` serves them. */
  readonly down: "closed" | "open";
  /** The behaviour while another process answers the same call: wait for its answer, or refuse. */
  readonly inFlightElsewhere: "wait" | "refuse";
  /** The calls of this process that work on an entry, by the entry's id. */
  readonly running: Map<string, RunningCall>;
}

/** The identity of a request, apart from the call that brings it. */
export interface Entry {
  readonly id: string;
  readonly keyId: string;
  readonly fingerprint: string;
}

/** A recorded answer, or an answer that is still being streamed. */
export type Opened = RecordedAnswer | (Omit<RecordedAnswer, "body"> & { readonly shared: SharedStream });

/** A call of this process that works on an entry, as its repetitions see it. */
export interface RunningCall {
  readonly fingerprint: string;
  /** True once this call is answered by the backend. Before, the call asks the store whether another call has the entry. */
  readonly isStarted: boolean;
  /** Adds a caller that waits for the same answer: the call goes on even without its own client. */
  join(follower: Follower): void;
  /** Stops waiting for the answer. Keeps nothing of the follower. */
  leave(follower: Follower): void;
}

/**
 * Receives the answer of the followed call, once. Receives undefined, after the entry is free again, when the call has no lasting
 * answer.
 */
export type Follower = (answer: Opened | undefined) => void;

/** The answer of a first call that is given again, or the recorder of the answer, for the first call itself. */
export type Replayed =
  | { readonly answer: Answer; readonly recorder?: undefined }
  | { readonly answer?: undefined; readonly recorder: AnswerRecorder };

/** Keeps the answer of a call. */
export interface AnswerRecorder {
  /** Takes the complete answer. */
  complete(answer: Answer): void;
  /** Takes and records a complete answer at once, for a call that goes on behind it. */
  settle(answer: Answer): void;
  /** Takes a streamed answer. Returns its body as a stream that the call's own client and others can read. */
  stream(head: Omit<Answer, "body">, body: AsyncIterator<string, undefined>, keepAlive: string): SharedStream;
}

interface Hash {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

interface NativeCrypto {
  createHash?(algorithm: "sha256"): Hash;
}

// Resolved at run time, not imported: a bundle for a runtime without Node's modules must not name such a module.
const native = globalThis.process?.getBuiltinModule?.("node:crypto") as NativeCrypto | undefined;

/** The length of one hashed slice, in bytes or characters. */
const SLICE = 256 * 1024;

/** The content of a body as it was read: a JSON text or a form; undefined without a body. */
export type BodyContent = string | Form | undefined;

/** The texts and bytes to hash. Each part counts separately: `["ab", "c"]` differs from `["a", "bc"]`. */
type Hashed = readonly (string | Uint8Array)[];

const encoder = new TextEncoder();

/**
 * Returns the SHA-256 of all parts in hex. Pauses for the event loop, because an upload may be hundreds of megabytes.
 */
export async function hashOf(parts: Hashed): Promise<string> {
  const hash: Hash = native?.createHash?.("sha256") ?? sha256.create();
  const yielder = new EventLoopYielder();
  for (const part of parts) {
    hash.update(encoder.encode(`${typeof part} ${part.length};`));
    for (let from = 0; from < part.length;) {
      const to = endOf(part, from);
      const slice = typeof part === "string" ? encoder.encode(part.slice(from, to)) : part.subarray(from, to);
      hash.update(slice);
      from = to;
      if (yielder.isDue(slice.length)) await yielder.pause();
    }
  }
  return bytesToHex(Uint8Array.from(hash.digest()));
}

/** Returns the end of a slice. Never splits a character, because each half would be hashed like any other half. */
function endOf(part: string | Uint8Array, from: number): number {
  const to = Math.min(part.length, from + SLICE);
  const isCut = typeof part === "string" && to < part.length && /[\uD800-\uDBFF]/.test(part[to - 1] ?? "");
  return isCut ? to - 1 : to;
}

/**
 * Returns the content of a body for its fingerprint: JSON as it was written, a form by its parts in order. A client that repeats a form
 * makes up another boundary, so the bytes of two equal forms differ.
 */
export function saidBy(body: BodyContent): Hashed {
  if (body === undefined || typeof body === "string") return ["json", body ?? ""];
  const { fields, files } = body;
  return [
    "form",
    ...[...fields].flatMap(([name, values]) => [name, String(values.length), ...values]),
    "files",
    ...files.flatMap(({ field, name, bytes }) => [field, name ?? "", bytes]),
  ];
}

/**
 * Returns the meaningful headers for the fingerprint: the version of the format, and the beta features in any order and spelling.
 * Returns nothing when neither is there.
 */
export function saidByHeaders(headers: Headers): Hashed {
  const version = headers.get("compat-version") || headers.get("anthropic-version") || "";
  const betas = [headers.get("compat-beta"), headers.get("anthropic-beta")]
    .flatMap((list) => list?.split(",") ?? [])
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "");
  if (version === "" && betas.length === 0) return [];
  return ["version", version, "betas", ...[...new Set(betas)].toSorted()];
}
