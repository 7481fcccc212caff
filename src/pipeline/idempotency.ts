/** Idempotency keys: reads the header, checks the states that a replay store tells, and declares what calls with one key share. */

import { GatewayError } from "../errors.ts";
import type { Answer } from "../http/answer.ts";
import type { SharedStream } from "../http/shared-stream.ts";
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
  /** True once this call is the one that is answered. Before that, it still asks the store whether another call is. */
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

/** Keeps the answer of a call. */
export interface AnswerRecorder {
  /** Takes the complete answer. */
  complete(answer: Answer): void;
  /** Takes and records a complete answer at once, for a call that goes on behind it. */
  settle(answer: Answer): void;
  /** Takes the body of a streamed answer. Returns a stream that the call's own client and others can read. */
  stream(body: AsyncIterator<string, undefined>, keepAlive: string): SharedStream;
  /** Takes the head of the streamed answer. */
  open(answer: Answer, shared: SharedStream): void;
}
