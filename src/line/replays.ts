/** What the line knows of calls that may be repeated: their entries, who works on them, and what is passed on. */

import type { Answer } from "../http/answer.ts";
import type { SharedStream } from "../http/shared-stream.ts";
import type { RecordedAnswer, ReplayStore } from "../ports/replay-store.ts";

/** What the line needs to answer repeated calls. */
export interface Replays {
  readonly store: ReplayStore;
  /** Whether calls are refused or served where the store is down. */
  readonly down: "closed" | "open";
  /** Whether a call waits that another process still answers, or is refused. */
  readonly elsewhere: "wait" | "refuse";
  /** The calls of this process that work on an entry, by its id. */
  readonly running: Map<string, RunningCall>;
}

/** What a request is, apart from the call that brings it. */
export interface Entry {
  readonly id: string;
  readonly keyId: string;
  readonly fingerprint: string;
}

/** A recorded answer, or an answer that is still being streamed. */
export type Opened = RecordedAnswer | (Omit<RecordedAnswer, "body"> & { readonly shared: SharedStream });

/** A call of this process that works on an entry, as those see it that repeat it. */
export interface RunningCall {
  readonly fingerprint: string;
  /** Whether it is the one that is answered. Before that it asks whether another is. */
  readonly isStarted: boolean;
  /** One more caller waits for its answer, so that it goes on without its own client. */
  join(follower: Follower): void;
  /** Stops waiting for its answer; nothing of the follower is kept. */
  leave(follower: Follower): void;
}

/** Is told once what a call is answered with; undefined where that came to nothing that lasts, once its entry is free again. */
export type Follower = (answer: Opened | undefined) => void;

/** Keeps the answer of a call. */
export interface AnswerRecorder {
  /** The call is answered with this, whole. */
  complete(answer: Answer): void;
  /** The call is answered with a stream: what its own client and others read it from. */
  stream(body: AsyncIterator<string, undefined>, keepAlive: string): SharedStream;
  /** The head of the streamed answer is decided. */
  open(answer: Answer, shared: SharedStream): void;
}
