/** A process may die at any moment: its store has noted what its calls have used until shortly before. */

import { describe, expect, it } from "vitest";
import { type Clock, createGateway, memoryQuotaStore, type ModelBackend, type QuotaStore } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import {
  type Around,
  AT_REST,
  counted,
  fail,
  INPUT,
  microtasks,
  MINUTE,
  never,
  opened,
  requestOf,
  type Setup,
  speaking,
  verbsOf,
  WORD,
} from "./bench.ts";

const NOTE_MS = 1_000;
const FIRST_MS = NOTE_MS / 10;

/** A gateway whose backend says what it is told to, and the notes that its store was asked for: when, and how many units. */
function noted({ renew, ...setup }: Setup & { renew?: QuotaStore["renew"] } = {}) {
  const words: string[] = [];
  let told = Promise.withResolvers<void>();
  const notes: [number, number][] = [];
  const around: Around = (store, clock) => ({
    renew(id, renewal) {
      notes.push([clock.now() - begun, renewal.used]);
      return (renew ?? store.renew.bind(store))(id, renewal);
    },
  });
  const bench = opened({
    limits: { usageNoteMs: NOTE_MS, leaseMs: MINUTE },
    key: { granted: 100_000 },
    around,
    backend: {
      async *chat() {
        for (;;) {
          await told.promise;
          told = Promise.withResolvers();
          yield* words.splice(0);
        }
      },
    },
    ...setup,
  });
  const begun = bench.clock.now();
  let reading: Promise<string> | undefined;
  return {
    ...bench,
    notes,
    /** Has the backend of one call say something; nothing ends it. */
    say: async (...texts: string[]): Promise<void> => {
      reading ??= bench.send({ body: { stream: true, max_tokens: 50_000 } }).then((response) => response.text());
      words.push(...texts);
      told.resolve();
      await bench.clock.advance(0);
    },
  };
}

describe("what a live call has used", () => {
  it("is noted soon after its first event, then as often as the host says", async () => {
    const { say, clock, notes } = noted();
    await say(WORD);
    await clock.advance(FIRST_MS - 1);
    expect(notes).toEqual([]);
    await clock.advance(1);
    expect(notes).toEqual([[FIRST_MS, INPUT + 4]]);
    for (let words = 0; words < 10; words++) {
      await say(WORD);
      await clock.advance(NOTE_MS / 5);
    }
    expect(notes.slice(1)).toEqual([
      [FIRST_MS + NOTE_MS, INPUT + 4 * 6],
      [FIRST_MS + 2 * NOTE_MS, INPUT + 4 * 11],
    ]);
  });

  it("is noted as soon where the first event comes late", async () => {
    const { say, clock, notes } = noted();
    await say();
    await clock.advance(NOTE_MS);
    await say(WORD);
    await clock.advance(FIRST_MS - 1);
    expect(notes).toEqual([]);
    await clock.advance(1);
    expect(notes).toEqual([[NOTE_MS + FIRST_MS, INPUT + 4]]);
  });

  it("is not noted again while nothing comes, and needs no timer for that", async () => {
    const { say, clock, notes } = noted();
    await say(WORD);
    // Each wait of a call has its own timer after a second.
    await clock.advance(1_000);
    const { pending } = clock;
    await clock.advance(MINUTE / 3 - 1_001);
    expect(clock.pending).toBe(pending);
    expect(notes).toHaveLength(1);
  });

  it("is not noted for less than a hundredth, until the lease is renewed", async () => {
    const { say, clock, notes } = noted();
    await say("x".repeat(10_000 - INPUT));
    await clock.advance(FIRST_MS);
    await say("x".repeat(100));
    await clock.advance(NOTE_MS);
    expect(notes).toEqual([[FIRST_MS, 10_000]]);
    await say("x".repeat(2));
    await clock.advance(NOTE_MS);
    expect(notes.slice(1)).toEqual([[FIRST_MS + 2 * NOTE_MS, 10_102]]);
    await say("x");
    await clock.advance(MINUTE / 3);
    expect(notes.slice(2)).toEqual([[MINUTE / 3, 10_103]]);
  });

  it("is noted by no call that ends soon, and by none after its end", async () => {
    const { send, clock, notes, report } = noted({ backend: speaking(WORD, counted(7)) });
    for (const stream of [true, false]) await (await send({ body: { stream } })).text();
    expect(report()).toMatchObject({ used: 2 * (INPUT + 7), ...AT_REST });
    await clock.advance(MINUTE);
    expect(notes).toEqual([]);
  });

  it("is noted in one note at a time, and in the end, by a store that is slow", async () => {
    const gates: PromiseWithResolvers<void>[] = [];
    const renew = (): Promise<void> => {
      const gate = Promise.withResolvers<void>();
      gates.push(gate);
      return gate.promise;
    };
    const { say, clock, notes } = noted({ renew });
    await say(WORD);
    await clock.advance(FIRST_MS);
    await say(WORD);
    await clock.advance(3 * NOTE_MS);
    expect(notes).toEqual([[FIRST_MS, INPUT + 4]]);
    // Nothing more is said.
    gates[0]?.resolve();
    await clock.advance(NOTE_MS);
    expect(notes.map(([, used]) => used)).toEqual([INPUT + 4, INPUT + 8]);
  });

  it("is left to the lease's renewals where a note fails, until one succeeds", async () => {
    let asked = 0;
    const renew = async (): Promise<void> => void (asked++ === 0 && fail(new Error("The database is away.")));
    const { say, clock, notes, failures } = noted({ renew });
    await say(WORD);
    for (let words = 0; words < 30; words++) {
      await clock.advance(NOTE_MS);
      await say(WORD);
    }
    expect(failures).toHaveLength(1);
    const [first, second, third] = notes.map(([at]) => at);
    expect([first, second]).toEqual([FIRST_MS, MINUTE / 3]);
    expect(third).toBeLessThanOrEqual(MINUTE / 3 + 2 * NOTE_MS);
  });
});

it("keeps nothing of its notes for the end of a call that lasts", async () => {
  const wound = manualClock();
  // What waits for the store is told at the call's end to wait no longer, which cancels its timer.
  let cancelledAgain = 0;
  const after: Clock["after"] = (ms, callback) => {
    const cancel = wound.after(ms, callback);
    let isCancelled = false;
    return () => {
      cancelledAgain += isCancelled ? 1 : 0;
      isCancelled = true;
      cancel();
    };
  };
  const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000 }], { clock: wound });
  let renewals = 0;
  const quotas: QuotaStore = {
    ...verbsOf(store),
    async renew(id, renewal) {
      // As slow as a store behind a socket, so that it is waited for.
      await microtasks(20);
      renewals++;
      await store.renew(id, renewal);
    },
  };
  let told = Promise.withResolvers<void>();
  const backend: ModelBackend = {
    async *chat() {
      for (let words = 0; words < 50; words++) {
        yield "x";
        await told.promise;
        told = Promise.withResolvers();
      }
      yield counted(7);
    },
  };
  const clock = { ...wound, after };
  const gateway = createGateway({ backend, quotas, clock, countTokens: (text) => text.length });
  const text = gateway.fetch(requestOf(true)).then((response) => response.text());
  for (let words = 0; words < 50; words++) {
    await wound.advance(NOTE_MS);
    told.resolve();
  }
  expect(await text).toContain("message_stop");
  expect(renewals).toBeGreaterThan(40);
  expect(store.report("one")).toMatchObject({ used: INPUT + 7, liveHolds: 0 });
  expect(cancelledAgain).toBeLessThan(5);
});

describe("a process that dies", () => {
  it("costs of a call no more than came after its last note", async () => {
    // Of two clocks the one of the gateway stops.
    const [clock, storeClock] = [manualClock(), manualClock()];
    const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000 }], { clock: storeClock });
    const open = Promise.withResolvers<void>();
    const gateway = createGateway({
      backend: {
        async *chat() {
          yield WORD;
          await open.promise;
          yield WORD;
          await never;
        },
      },
      quotas: verbsOf(store),
      clock,
      countTokens: (text) => text.length,
    });
    const response = await gateway.fetch(requestOf(true));
    void response.text();
    await clock.advance(FIRST_MS);
    open.resolve();
    await clock.advance(NOTE_MS - 1);
    await storeClock.advance(MINUTE);
    expect(await store.balance("one")).toMatchObject({ used: INPUT + 4, held: 0 });
    expect(store.report("one")).toMatchObject({ estimated: INPUT + 4 });
  });
});
