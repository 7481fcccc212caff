/** The laws of the ReplayStore port, to be run on a store by any test runner. */

import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import type { RecordedAnswer, ReplayState, ReplayStore } from "../../index.ts";
import { closing, type Law } from "./law.ts";

/** A store under test, and its clock. */
export interface OpenedReplayStore {
  /** Must have room for a few dozen entries of some megabytes in all: each law uses up to so many. */
  readonly store: ReplayStore;
  /** The same entries through another connection or process, where there can be one. Default: the store itself. */
  readonly other?: ReplayStore;
  /**
   * Lets `ms` milliseconds pass on the clock by which the store's leases and answers end. The clock may run on by itself as well.
   */
  advance(ms: number): void | Promise<void>;
  /** Closes the store. It is called once for each store, also when the law was broken. */
  close?(): void | Promise<void>;
}

/**
 * Opens a store for one law. Entries, keys and calls have names of their own in each law: one database may serve all of them.
 *
 * @example
 * const open: OpenReplayStore = () => {
 *   const clock = manualClock();
 *   return { store: memoryReplayStore({ clock }), advance: (ms) => clock.advance(ms) };
 * };
 */
export type OpenReplayStore = () => OpenedReplayStore | Promise<OpenedReplayStore>;

/** A promise of the ReplayStore port. */
export type ReplayStoreLaw = Law<OpenReplayStore>;

/** The lengths of leases and retention are long, because a real store's clock runs on while a law is at work. */
const LEASE_MS = 600_000;
const RETAIN_MS = 3_600_000;

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

const answerOf = (body: string | undefined, more: Partial<RecordedAnswer> = {}): RecordedAnswer => ({
  requestId: "req_1",
  status: 200,
  headers: { "content-type": "application/json" },
  body,
  stream: false,
  ...more,
});

const running = (said: string): ReplayState => ({ state: "running", fingerprint: hashOf(said) });
const CLAIMED: ReplayState = { state: "claimed" };

/** A fresh store with short verbs, for entries and calls by short names. */
class Bench {
  readonly #opened: OpenedReplayStore;
  readonly #suffix: string = randomUUID();

  constructor(opened: OpenedReplayStore) {
    this.#opened = opened;
  }

  get other(): ReplayStore {
    return this.#opened.other ?? this.#opened.store;
  }

  holder(callId: string, name = "entry", keyId = "key") {
    const id = hashOf(`${this.#suffix} ${keyId} ${name}`);
    return { id, keyId: `${keyId}-${this.#suffix}`, callId: `${callId}-${this.#suffix}` };
  }

  claim(callId: string, said = "hello", store = this.#opened.store, name = "entry"): Promise<ReplayState> {
    return store.claim({ ...this.holder(callId, name), fingerprint: hashOf(said), leaseMs: LEASE_MS });
  }

  async claimed(callId: string, said?: string): Promise<void> {
    assert.deepEqual(await this.claim(callId, said), CLAIMED, `${callId} must get the entry`);
  }

  record(callId: string, answer: RecordedAnswer, said = "hello", store = this.#opened.store): Promise<void> {
    return store.record({ ...this.holder(callId), fingerprint: hashOf(said), answer, retainMs: RETAIN_MS });
  }

  release(callId: string): Promise<void> {
    return this.#opened.store.release(this.holder(callId));
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms);
  }

  /** Asserts the answer to a call that claims the entry now. */
  async expect(expected: ReplayState, why: string, said?: string): Promise<void> {
    const state = await this.claim("asking", said);
    // Compares plain objects, because a store may return objects of any class.
    assert.deepEqual(JSON.parse(JSON.stringify(state)), JSON.parse(JSON.stringify(expected)), why);
  }

  expectAnswer(answer: RecordedAnswer, why: string, said = "hello"): Promise<void> {
    return this.expect({ state: "answered", fingerprint: hashOf(said), answer }, why);
  }
}

const law = (name: string, body: (bench: Bench) => Promise<void>): ReplayStoreLaw => ({
  name,
  async verify(open) {
    const opened = await open();
    await closing(opened, () => body(new Bench(opened)));
  },
});

/** Texts that a store may spoil. */
const EVERY_CHARACTER = [
  Array.from({ length: 0x2100 }, (_, code) => String.fromCodePoint(code)).join(""),
  "\u2028\u2029\uFEFF",
  "😀 ein Fuchs",
  'data: {"text":"\\ud800"}\n\n',
  "  spaces at both ends \n",
].join("|");

/**
 * The promises of every ReplayStore. Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of replayStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const replayStoreLaws: readonly ReplayStoreLaw[] = [
  law("of 50 calls that claim an entry at once, exactly one gets it", async (bench) => {
    const states = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        bench.claim(`call-${index}`, "hello", index % 2 === 0 ? undefined : bench.other),
      ),
    );
    assert.equal(states.filter(({ state }) => state === "claimed").length, 1, "one call must get it, and one alone");
    for (const state of states)
      if (state.state !== "claimed") assert.deepEqual({ ...state }, running("hello"), "the others must be told so");
  }),

  law("whoever comes with another request is told the fingerprint of the first", async (bench) => {
    await bench.claimed("first", "hello");
    await bench.expect(running("hello"), "while the first call runs", "something else");
    const answer = answerOf("{}");
    await bench.record("first", answer);
    const answered: ReplayState = { state: "answered", fingerprint: hashOf("hello"), answer };
    await bench.expect(answered, "and once it is answered", "something else");
  }),

  law("entries of other names, and of other keys, are free", async (bench) => {
    await bench.claimed("first");
    assert.deepEqual(await bench.claim("second", "hello", undefined, "another"), CLAIMED, "another entry is free");
  }),

  law("an answer is told as it was recorded, as often as it is asked for", async (bench) => {
    const answer = answerOf(EVERY_CHARACTER, {
      status: 422,
      stream: true,
      headers: { "content-type": "text/event-stream; charset=utf-8", "polygate-dropped": "top_k, metadata.user_id" },
    });
    await bench.claimed("first");
    await bench.record("first", answer);
    for (const time of ["once", "twice"]) await bench.expectAnswer(answer, `it must be the same: ${time}`);
  }),

  law("an answer may be empty, without a body, or megabytes long", async (bench) => {
    for (const body of ["", undefined, "0123456789abcdef".repeat(128 * 1024)]) {
      const callId = `call-${body?.length}`;
      const holder = bench.holder(callId, callId);
      const { store } = { store: bench.other };
      const fingerprint = hashOf("hello");
      await store.claim({ ...holder, fingerprint, leaseMs: LEASE_MS });
      await store.record({ ...holder, fingerprint, answer: answerOf(body), retainMs: RETAIN_MS });
      const found = await store.claim({ ...holder, callId: "asking", fingerprint, leaseMs: LEASE_MS });
      assert.ok(found.state === "answered" && found.answer.body === body, `${body?.length} characters must come back`);
    }
  }),

  law("an answer that one process has recorded is told to every other", async (bench) => {
    const answer = answerOf('{"text":"hello"}');
    await bench.claimed("first");
    await bench.record("first", answer, undefined, bench.other);
    await bench.expectAnswer(answer, "an entry is shared");
  }),

  law("an answer is there to its end, and never after it", async (bench) => {
    const answer = answerOf("{}");
    await bench.claimed("first");
    await bench.record("first", answer);
    await bench.advance(RETAIN_MS - LEASE_MS);
    await bench.expectAnswer(answer, "its time has not come");
    await bench.advance(LEASE_MS);
    await bench.expect(CLAIMED, "its time is over, and the entry is free");
  }),

  law("a claim whose lease has run out is free, and not before", async (bench) => {
    await bench.claimed("first");
    await bench.advance(LEASE_MS / 2);
    await bench.expect(running("hello"), "its lease runs");
    await bench.advance(LEASE_MS / 2);
    await bench.expect(CLAIMED, "its lease has run out", "something else");
  }),

  law("a call that claims its entry again renews the lease", async (bench) => {
    await bench.claimed("first");
    for (let time = 0; time < 3; time++) {
      await bench.advance((LEASE_MS / 3) * 2);
      await bench.claimed("first");
    }
    await bench.advance(LEASE_MS / 3);
    await bench.expect(running("hello"), "the lease was renewed");
  }),

  law("a call whose lease has passed to another has lost the entry", async (bench) => {
    await bench.claimed("first");
    await bench.advance(LEASE_MS);
    await bench.claimed("second", "something else");
    assert.deepEqual(await bench.claim("first"), running("something else"), "it must be told so");
    await bench.record("first", answerOf("late"));
    await bench.release("first");
    await bench.expect(running("something else"), "what it records or releases is not its own");
    const answer = answerOf("right");
    await bench.record("second", answer, "something else");
    await bench.expectAnswer(answer, "the answer is the one of the call that has it", "something else");
  }),

  law("an answer whose claim nobody has any more is recorded all the same", async (bench) => {
    await bench.claimed("first");
    await bench.advance(LEASE_MS);
    const answer = answerOf("slow");
    await bench.record("first", answer);
    await bench.expectAnswer(answer, "nobody has taken its place");
  }),

  law("an entry that is released is free at once", async (bench) => {
    await bench.claimed("first");
    await bench.release("stranger");
    await bench.expect(running("hello"), "none but its call gives it up");
    await bench.release("first");
    await bench.claimed("second", "something else");
  }),

  law("an answer that is recorded stays as it is, whoever records or releases", async (bench) => {
    const answer = answerOf("first");
    await bench.claimed("first");
    await bench.record("first", answer);
    await bench.record("first", answerOf("again"));
    await bench.record("stranger", answerOf("forged"));
    for (const callId of ["first", "stranger"]) await bench.release(callId);
    await bench.expectAnswer(answer, "the first answer is the only one");
  }),

  law("of two calls that record at once, the one that has the entry is heard", async (bench) => {
    const answer = answerOf("right");
    await bench.claimed("first");
    await Promise.all([
      bench.record("stranger", answerOf("forged")),
      bench.record("first", answer),
      bench.record("stranger", answerOf("forged"), undefined, bench.other),
    ]);
    await bench.expectAnswer(answer, "a stranger has recorded");
  }),

  law("what can be no entry is refused", async (bench) => {
    const claim = { ...bench.holder("call"), fingerprint: hashOf("hello"), leaseMs: LEASE_MS };
    for (const wrong of [{ id: "short" }, { fingerprint: "" }, { leaseMs: 0 }, { leaseMs: 0.5 }, { keyId: "" }])
      await assert.rejects(
        async () => bench.other.claim({ ...claim, ...wrong }),
        RangeError,
        `${JSON.stringify(wrong)} must be refused`,
      );
    await bench.claimed("first");
  }),
];
