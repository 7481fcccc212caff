/** A clock that jumps back, as a machine's may when it is set: no timer fires in a storm, and calls end as they would. */

import { describe, expect, it } from "vitest";
import { type CallRecord, type Clock, createGateway, memoryQuotaStore } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { counted, INPUT, MINUTE, never, requestOf, speaking, verbsOf, WORD } from "./bench.ts";

interface Jumping {
  readonly clock: Clock;
  readonly wound: ReturnType<typeof manualClock>;
  /** Has the time be so much earlier than its timers know. */
  readonly setBack: (ms: number) => void;
  /** How many timers have fired, and how many were set. */
  readonly counts: { fired: number; set: number };
}

function jumping(): Jumping {
  const wound = manualClock();
  const counts = { fired: 0, set: 0 };
  let behindMs = 0;
  const counting = (callback: () => void) => (): void => {
    counts.fired++;
    callback();
  };
  const clock: Clock = {
    now: () => wound.now() - behindMs,
    after: (ms, callback) => (counts.set++, wound.after(ms, counting(callback))),
    every: (ms, callback) => (counts.set++, wound.every(ms, counting(callback))),
  };
  return { clock, wound, counts, setBack: (ms) => void (behindMs = ms) };
}

describe.each([MINUTE, 60 * MINUTE, 24 * 60 * MINUTE])("a clock that jumps back by %d ms", (jump) => {
  it("in the middle of a stream costs no more timers, and no keep-alive but one", async () => {
    const { clock, wound, counts, setBack } = jumping();
    const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000 }], { clock: wound });
    let renewals = 0;
    const quotas = {
      ...verbsOf(store),
      renew: (...renewal: Parameters<typeof store.renew>) => (renewals++, store.renew(...renewal)),
    };
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const limits = { keepAliveMs: 10_000, leaseMs: MINUTE, deadlineMs: 10 * MINUTE };
    const backend = speaking(WORD, told, counted(7));
    const gateway = createGateway({ backend, quotas, clock, limits, countTokens: (text) => text.length });
    let text = "";
    const reading = gateway.fetch(requestOf(true)).then(async (response) => {
      for await (const chunk of response.body ?? []) text += new TextDecoder().decode(chunk);
    });
    await wound.advance(30_000);
    setBack(jump);
    await wound.advance(2 * MINUTE);
    const pings = text.match(/event: ping/g)?.length ?? 0;
    // Fifteen silences of ten seconds, of which the jump may lengthen one.
    expect(pings).toBeGreaterThanOrEqual(14);
    expect(pings).toBeLessThanOrEqual(15);
    expect(renewals).toBe(7 + 1);
    // The pings', the renewals', that of the note of what has come, and no more.
    expect(counts.fired).toBeLessThanOrEqual(16 + 7 + 1);
    expect(counts.set).toBeLessThan(30);
    open();
    await wound.advance(0);
    await reading;
    expect(text).toContain("message_stop");
    expect(store.report("one")).toMatchObject({ used: INPUT + 7, liveHolds: 0 });
    expect(wound.pending).toBe(0);
  });

  it("does not keep a call from its deadline", async () => {
    const { clock, wound, setBack } = jumping();
    const quotas = memoryQuotaStore([{ apiKey: "sk-one" }], { clock: wound });
    const backend = speaking(WORD, new Promise(() => {}));
    const gateway = createGateway({
      backend,
      quotas,
      clock,
      limits: { deadlineMs: 5 * MINUTE },
      onFailure: () => {},
    });
    let status: number | undefined;
    void gateway.fetch(requestOf(false)).then((response) => (status = response.status));
    await wound.advance(MINUTE);
    setBack(jump);
    await wound.advance(4 * MINUTE);
    expect([status, wound.pending]).toEqual([504, 0]);
    await gateway.close();
    expect(wound.pending).toBe(0);
  });

  it("keeps no store from being tried again, and no record tells of less than no time", async () => {
    const { clock, wound, setBack } = jumping();
    const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000 }], { clock: wound });
    const state = { isDown: true };
    const quotas = { ...verbsOf(store), find: (apiKey: string) => (state.isDown ? never : store.find(apiKey)) };
    const limits = { storeTimeoutMs: 10_000, storeBreakerFailures: 1, storeBreakerOpenMs: 5_000 };
    const records: CallRecord[] = [];
    const onCall = (record: CallRecord): void => void records.push(record);
    const backend = speaking(WORD, counted(7));
    const gateway = createGateway({ backend, quotas, clock, limits, onCall, onFailure: () => {} });
    const failing = gateway.fetch(requestOf(false));
    await wound.advance(5_000);
    setBack(-jump);
    await wound.advance(5_000);
    expect((await failing).status).toBe(503);
    // It was left alone at a time that is far ahead of the one that the clock tells now.
    setBack(jump);
    state.isDown = false;
    const call = gateway.fetch(requestOf(false));
    await wound.advance(0);
    expect((await call).status).toBe(200);
    expect(records.map(({ endMs }) => endMs >= 0)).toEqual([true, true]);
  });
});
