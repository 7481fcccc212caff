/** Replay stores that hang, throw, come late or lie: the caller is told, the host is told, and nothing is kept. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ReplayState, type ReplayStore } from "../../src/index.ts";
import { AT_REST, counted, errorCode, MINUTE, never, type Step, WORD } from "./bench.ts";
import { around, once, repeating, SEVEN, STORE_MS, STREAM } from "./repeating.ts";

const FAULTS: readonly [how: string, fault: () => Promise<never>, ms: number][] = [
  ["hangs", () => never, STORE_MS],
  ["rejects", () => Promise.reject(new Error("The store is away.")), 0],
  [
    "throws",
    () => {
      throw new Error("The store is away.");
    },
    0,
  ],
];

describe.each(FAULTS)("a replay store that %s", (_how, fault, ms) => {
  const limits = { storeTimeoutMs: STORE_MS };

  it("at a claim is 503, reported as its own, and nothing is charged", async () => {
    const bench = repeating(
      [once],
      { limits },
      around(() => ({ claim: fault })),
    );
    const answer = bench.repeat();
    await bench.clock.advance(ms);
    expect([(await answer).status, await errorCode(await answer)]).toEqual([503, "store_unavailable"]);
    expect(bench.failures).toMatchObject([{ port: "replay-store", error: { code: "store_unavailable" } }]);
    expect([bench.asked(), bench.report()]).toMatchObject([0, { used: 0, ...AT_REST }]);
  });

  it("at a claim lets calls through where its host wants that, and they are still one in this process", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const setup = { limits, replayStoreDown: "open" } as const;
    const bench = repeating(
      [[WORD, told, counted(7)]],
      setup,
      around(() => ({ claim: fault })),
    );
    const answers = [bench.repeat(), bench.repeat()];
    await bench.clock.advance(ms);
    open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
    expect(bench.failures).toMatchObject([{ port: "replay-store" }]);
    expect([bench.asked(), bench.report()]).toMatchObject([1, { used: SEVEN, ...AT_REST }]);
  });

  it.each<[verb: string, verbs: Partial<ReplayStore>, script: readonly Step[], status: number]>([
    ["a record", { record: fault }, once, 200],
    ["a release", { release: fault }, [new GatewayError("rate_limited", "No.")], 429],
  ])("at %s holds its answer up for no longer than it may", async (_verb, verbs, script, status) => {
    const bench = repeating(
      [script],
      { limits },
      around(() => verbs),
    );
    const answer = bench.repeat();
    await bench.clock.advance(ms);
    expect((await answer).status).toBe(status);
    expect(bench.failures).toMatchObject([{ port: "replay-store" }]);
    // The store is told again, beside the call.
    await bench.clock.advance(35_500 + 3 * ms);
    expect(bench.failures).toHaveLength(4);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("at a renewal is reported, and the call goes on", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    let claims = 0;
    const verbs = around((store) => ({
      claim: (claim) => (claims++ === 0 ? store.claim(claim) : fault()),
    }));
    const bench = repeating([[WORD, told, counted(7)]], { limits: { ...limits, leaseMs: MINUTE } }, verbs);
    const answer = bench.repeat();
    await bench.clock.advance(MINUTE / 3 + ms);
    open();
    await bench.clock.advance(0);
    expect((await answer).status).toBe(200);
    expect(bench.failures).toMatchObject([{ port: "replay-store" }]);
    expect(bench.report()).toMatchObject(AT_REST);
  });
});

describe("a replay store", () => {
  it("whose claim comes too late gets it back", async () => {
    const { promise: late, resolve: answer } = Promise.withResolvers<void>();
    const verbs = around((store) => ({ claim: (claim) => late.then(() => store.claim(claim)) }));
    const bench = repeating([once], { limits: { storeTimeoutMs: STORE_MS } }, verbs);
    const refused = bench.repeat();
    await bench.clock.advance(STORE_MS);
    expect((await refused).status).toBe(503);
    answer();
    await bench.clock.advance(0);
    expect([(await bench.repeat()).status, bench.asked()]).toEqual([200, 1]);
  });

  it("whose renewal comes only after its call was given up gets it back", async () => {
    const { promise: told, reject: fail } = Promise.withResolvers<void>();
    const { promise: late, resolve: renew } = Promise.withResolvers<void>();
    let claims = 0;
    const verbs = around((store) => ({
      claim: (claim) => (++claims === 2 ? late.then(() => store.claim(claim)) : store.claim(claim)),
    }));
    const bench = repeating([[WORD, told], once], { limits: { leaseMs: MINUTE } }, verbs);
    const broken = bench.repeat();
    await bench.clock.advance(MINUTE / 3);
    fail(new Error("broken"));
    expect((await broken).status).toBe(500);
    renew();
    await bench.clock.advance(0);
    expect(claims).toBe(2);
    const again = bench.repeat();
    await bench.clock.advance(0);
    expect([bench.asked(), (await again).status]).toEqual([2, 200]);
  });

  it("that fails to take an answer is told it again, so that a repetition is charged nothing", async () => {
    let records = 0;
    const verbs = around((store) => ({
      record: async (record) => {
        if (records++ < 2) throw new Error("The store is away.");
        await store.record(record);
      },
    }));
    const bench = repeating([once], { limits: { leaseMs: MINUTE } }, verbs);
    expect((await bench.repeat()).status).toBe(200);
    expect(bench.failures).toMatchObject([{ port: "replay-store" }]);
    await bench.clock.advance(5_500);
    expect([records, bench.failures.length]).toEqual([3, 2]);
    await bench.clock.advance(MINUTE);
    expect([(await bench.repeat()).status, bench.asked()]).toEqual([200, 1]);
    expect(bench.report()).toMatchObject({ used: SEVEN, ...AT_REST });
  });

  it.each(FAULTS)(
    "that %s at a release is told it again, so that a repetition need not wait for the lease",
    async (...[, fault, ms]) => {
      let releases = 0;
      const verbs = around((store) => ({
        release: (holder) => (releases++ < 2 ? fault() : store.release(holder)),
      }));
      const limits = { leaseMs: 10 * MINUTE, storeTimeoutMs: STORE_MS };
      const bench = repeating([[new GatewayError("rate_limited", "No.")], once], { limits }, verbs);
      const refused = bench.repeat();
      await bench.clock.advance(ms);
      expect((await refused).status).toBe(429);
      const again = bench.repeat();
      await bench.clock.advance(0);
      expect([releases, bench.asked()]).toEqual([1, 1]);
      await bench.clock.advance(5_500 + ms + 1_000);
      expect([releases, bench.asked()]).toEqual([3, 2]);
      expect((await again).status).toBe(200);
      expect(bench.report()).toMatchObject({ used: SEVEN, ...AT_REST });
    },
  );

  it("that is slow to tell of a reused key has nobody refused but who reuses it", async () => {
    const { promise: told, resolve: tell } = Promise.withResolvers<void>();
    let claims = 0;
    const verbs = around((store) => ({
      claim: (claim) => (++claims === 2 ? told.then(() => store.claim(claim)) : store.claim(claim)),
    }));
    const bench = repeating([once], {}, verbs);
    const first = await bench.repeat();
    const reusing = bench.repeat({ body: { max_tokens: 49 } });
    await bench.clock.advance(0);
    const again = bench.repeat();
    await bench.clock.advance(0);
    tell();
    expect([(await again).status, (await reusing).status, bench.asked()]).toEqual([200, 409, 1]);
    expect(await (await again).text()).toBe(await first.text());
  });

  const answer = { requestId: "req_1", status: 200, headers: {}, body: "{}", stream: false };
  it.each<[lie: string, told: unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["no state", { state: "lost" }],
    ["no answer", { state: "answered", fingerprint: "x" }],
    ["a status that is none", { state: "answered", fingerprint: "x", answer: { ...answer, status: 99 } }],
    ["a status that is a text", { state: "answered", fingerprint: "x", answer: { ...answer, status: "200" } }],
    ["a body that is none", { state: "answered", fingerprint: "x", answer: { ...answer, body: {} } }],
    ["an id that is none", { state: "answered", fingerprint: "x", answer: { ...answer, requestId: "a\r\nb: c" } }],
    ["headers that are none", { state: "answered", fingerprint: "x", answer: { ...answer, headers: null } }],
  ])("that tells %s is down", async (_lie, told) => {
    const bench = repeating(
      [once],
      {},
      around(() => ({ claim: async () => told as ReplayState })),
    );
    expect([(await bench.repeat()).status, bench.asked()]).toEqual([503, 0]);
    expect(bench.failures).toMatchObject([{ port: "replay-store" }]);
  });

  it("that tells another request's answer is not believed", async () => {
    const told: ReplayState = { state: "answered", fingerprint: "0".repeat(64), answer };
    const bench = repeating(
      [once],
      {},
      around(() => ({ claim: async () => told })),
    );
    expect([(await bench.repeat()).status, bench.asked()]).toEqual([409, 0]);
  });

  it("adds no header that is none of an answer's", async () => {
    const verbs = around((store) => ({
      record: (record) => {
        const headers = { ...record.answer.headers, "set-cookie": "a=b", "polygate-dropped": "x\r\ny: z" };
        return store.record({ ...record, answer: { ...record.answer, headers } });
      },
    }));
    const { repeat } = repeating([once], {}, verbs);
    await repeat();
    const again = await repeat();
    expect([again.status, again.headers.get("set-cookie"), again.headers.get("polygate-dropped")]).toEqual([
      200,
      null,
      null,
    ]);
  });

  it("that is slow to release lets nobody read a broken stream in the meantime", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const verbs = around((store) => ({ release: (holder) => told.then(() => store.release(holder)) }));
    const bench = repeating([[WORD, new Error("broken")], once], {}, verbs);
    expect(await (await bench.repeat(STREAM)).text()).toContain("event: error");
    const again = bench.repeat(STREAM);
    await bench.clock.advance(0);
    expect(bench.asked()).toBe(1);
    open();
    expect([await (await again).text(), bench.asked()]).toEqual([expect.stringContaining("message_stop"), 2]);
  });

  it("is given those headers alone that belong to an answer", async () => {
    const recorded: object[] = [];
    const verbs = around((store) => ({
      record: (record) => (recorded.push(record.answer.headers), store.record(record)),
    }));
    const { repeat } = repeating([once], {}, verbs);
    await repeat();
    expect(recorded).toEqual([{ "content-type": "application/json" }]);
  });

  it("is told of the call, by ids and hashes alone", async () => {
    const told: object[] = [];
    const verbs = around((store) => ({
      claim: (claim, call) => (told.push(claim, { requestId: call?.requestId }), store.claim(claim)),
    }));
    const { repeat } = repeating([once], {}, verbs);
    const id = (await repeat()).headers.get("request-id");
    const hash = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
    expect(told).toEqual([
      { id: hash, keyId: "one", callId: id, fingerprint: hash, leaseMs: 60_000 },
      { requestId: id },
    ]);
  });
});
