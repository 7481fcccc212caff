/** Stores that hang, throw, reject, answer late or lie: the caller is told, the host is told once, and nothing is kept. */

import { describe, expect, it } from "vitest";
import type { ApiKey, Reservation } from "../../src/index.ts";
import {
  type Around,
  AT_REST,
  counted,
  errorCode,
  failing,
  INPUT,
  MINUTE,
  never,
  opened,
  type Send,
  slowToSettle,
  speaking,
  WORD,
} from "./bench.ts";

const STORE_MS = 10_000;
const limits = { storeTimeoutMs: STORE_MS, leaseMs: 60 * MINUTE };
const away = (): Error => new Error("The database is away.");

const thrower = (): never => {
  throw away();
};

const usage: Send = { path: "/api/usage/token", method: "GET" };
const large: Send = { body: { system: "x".repeat(2_000) } };

/** How a verb may fail, and how much time passes until that shows. */
const FAULTS: readonly [how: string, fault: () => Promise<never>, ms: number][] = [
  ["hangs", () => never, STORE_MS],
  ["rejects", () => Promise.reject(away()), 0],
  ["throws", thrower, 0],
];

describe.each(FAULTS)("a store that %s", (_how, fault, ms) => {
  it.each<[verb: string, around: Around, send: Send]>([
    ["when a key is to be found", () => ({ find: fault }), {}],
    ["when a key is to be found for a stream", () => ({ find: fault }), { body: { stream: true } }],
    ["when a balance is asked for", () => ({ balance: fault }), usage],
    ["when a large body is to be admitted", () => ({ balance: fault }), large],
    ["when quota is to be reserved", () => ({ reserve: fault }), {}],
    ["when quota is to be reserved for a stream", () => ({ reserve: fault }), { body: { stream: true } }],
  ])("%s is 503, reported once as the store's, and nothing is kept", async (_verb, around, send) => {
    const bench = opened({ around, limits: { ...limits, largeBodyBytes: 1_000 } });
    const answer = bench.send(send);
    await bench.clock.advance(ms);
    const response = await answer;
    expect(response.status).toBe(503);
    // So a client waits, and does not spend its retries within a second.
    expect(response.headers.get("retry-after")).toBe("5");
    expect(await response.text()).toMatch(
      send === usage ? /A store of this service is not available/ : /"store_unavailable"/,
    );
    expect(bench.failures).toMatchObject([{ port: "quota-store", error: { code: "store_unavailable" } }]);
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it.each([false, true])("when it settles delays the answer by no more than its time (stream: %s)", async (stream) => {
    const asked: number[] = [];
    const { send, clock, failures, report } = opened({
      limits,
      backend: speaking(WORD, counted(7)),
      around: (store, clock) => ({
        settle: (id, outcome) => {
          asked.push(clock.now());
          return asked.length <= 2 ? fault() : store.settle(id, outcome);
        },
      }),
    });
    const begun = clock.now();
    const text = send({ body: { stream } }).then((response) => response.text());
    await clock.advance(ms);
    expect(await text).toContain('"output_tokens":7');
    // No keep-alive goes on: the one timer is that of the next try.
    expect(clock.pending).toBe(1);
    expect(failures).toMatchObject([{ port: "quota-store" }]);
    await clock.advance(MINUTE);
    expect(asked.map((at) => at - begun)).toEqual([0, ms + 500, 2 * ms + 5_500]);
    // A failure is reported once, and not with each try.
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });

  it("when it renews does not end the call, is reported, and is asked again", async () => {
    let asked = 0;
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, clock, failures, report } = opened({
      limits: { ...limits, leaseMs: MINUTE },
      backend: speaking(WORD, told, counted(7)),
      around: (store) => ({ renew: (id, renewal) => (asked++ === 0 ? fault() : store.renew(id, renewal)) }),
    });
    const answer = send();
    await clock.advance(3 * MINUTE);
    expect(report()).toMatchObject({ liveHolds: 1 });
    open();
    expect((await answer).status).toBe(200);
    // A note of what has come, and nine renewals.
    expect(asked).toBe(1 + 9);
    expect(failures).toMatchObject([{ port: "quota-store" }]);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });
});

describe("a store that hangs for ever", () => {
  it.each([
    ["renews", MINUTE / 3 + 1, 60 * MINUTE],
    ["notes what was used", 101, 1_000],
  ])("when it %s leaves no timer, and no report, behind a call that ends meanwhile", async (_what, ms, usageNoteMs) => {
    let asked = 0;
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, clock, failures, report } = opened({
      limits: { ...limits, leaseMs: MINUTE, usageNoteMs },
      backend: speaking(WORD, told, counted(7)),
      around: () => ({ renew: () => (asked++, never) }),
    });
    const answer = send();
    await clock.advance(ms);
    expect(asked).toBe(1);
    open();
    expect((await answer).status).toBe(200);
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

describe("a key whose row cannot be read", () => {
  it.each(["id", "name", "budget", "metadata", "modelLimits", "expiresAt"])("ends its call, by %s", async (field) => {
    const { send, failures, report } = opened({
      around: (store) => ({
        find: async (apiKey) =>
          Object.defineProperty({ ...(await store.find(apiKey)) } as ApiKey, field, { get: thrower }),
      }),
    });
    for (const sent of [{}, usage]) expect((await send(sent)).status).toBe(503);
    expect(failures).toMatchObject([{ port: "quota-store" }, { port: "quota-store" }]);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

describe("a reservation", () => {
  it.each([
    ["after its time", {}],
    ["after its time, for a stream", { body: { stream: true } }],
  ])("that is granted %s is void", async (_when, send) => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const bench = opened({ limits, around: (store) => ({ reserve: (hold) => told.then(() => store.reserve(hold)) }) });
    const answer = bench.send(send);
    await bench.clock.advance(STORE_MS);
    expect((await answer).status).toBe(503);
    open();
    await bench.clock.advance(0);
    expect(bench.failures).toHaveLength(1);
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("that fails after its time is nobody's", async () => {
    const { promise: told, reject } = Promise.withResolvers<never>();
    const { send, clock, failures, report } = opened({ limits, around: () => ({ reserve: () => told }) });
    const answer = send();
    await clock.advance(STORE_MS);
    expect((await answer).status).toBe(503);
    reject(away());
    await clock.advance(0);
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("that tells nothing, and that too late, breaks nothing", async () => {
    const broken: unknown[] = [];
    const note = (reason: unknown): unknown => broken.push(reason);
    process.on("unhandledRejection", note);
    const { promise: late, resolve: tell } = Promise.withResolvers<Reservation>();
    const bench = opened({ around: () => ({ reserve: () => late }), limits });
    const answer = bench.send();
    await bench.clock.advance(STORE_MS);
    expect((await answer).status).toBe(503);
    tell(undefined as unknown as Reservation);
    await bench.clock.advance(0);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", note);
    expect([broken, bench.report()]).toMatchObject([[], AT_REST]);
  });

  it.each<[lie: string, told: (granted: number) => unknown]>([
    ["more than it was asked for", (granted) => ({ granted: granted + 1 })],
    ["less than it may", () => ({ granted: INPUT })],
    ["no number", () => ({ granted: Number.NaN })],
    ["less than nothing", () => ({ granted: -1 })],
    ["half a unit", (granted) => ({ granted: granted - 0.5 })],
    ["a text", (granted) => ({ granted: String(granted) })],
    ["nothing at all", () => undefined],
  ])("that grants %s is void, and the call is 503", async (_lie, told) => {
    const { send, failures, report, clock } = opened({
      limits: { ...limits, leaseMs: MINUTE },
      backend: speaking(new Error("It was asked.")),
      around: (store) => ({
        async reserve(hold) {
          const reservation = await store.reserve(hold);
          return told(reservation.refused ? 0 : reservation.granted) as Reservation;
        },
      }),
    });
    const response = await send();
    expect([response.status, await errorCode(response)]).toEqual([503, "store_unavailable"]);
    expect(failures).toMatchObject([{ port: "quota-store" }]);
    // What a store has held and not told of, its lease gives back.
    if (_lie === "nothing at all") await clock.advance(MINUTE);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

/** A query as some libraries build it: it runs anew each time that somebody waits for it. */
const query = <T>(run: () => Promise<T>): Promise<T> =>
  // oxlint-disable-next-line unicorn/no-thenable -- such objects are what this is about
  ({ then: (...on: Parameters<Promise<T>["then"]>) => run().then(...on) }) as Promise<T>;

describe("what only looks like a promise", () => {
  const ran: string[] = [];
  const noted = <T>(verb: string, run: () => Promise<T>): Promise<T> =>
    query(() => {
      ran.push(verb);
      return run();
    });

  it("is asked once", async () => {
    const { send, report } = opened({
      key: { granted: 10_000 },
      backend: speaking(WORD, counted(7)),
      around: (store) => ({
        find: (apiKey) => noted("find", () => store.find(apiKey)),
        balance: (keyId) => noted("balance", () => store.balance(keyId)),
        reserve: (hold) => noted("reserve", () => store.reserve(hold)),
        settle: (id, outcome) => noted("settle", () => store.settle(id, outcome)),
      }),
      limits: { largeBodyBytes: 1_000 },
    });
    expect((await send(large)).status).toBe(200);
    expect(ran).toEqual(["find", "balance", "reserve", "settle"]);
    expect(report()).toMatchObject(AT_REST);
  });
});

describe("one end", () => {
  it.each([0, 1, 5])("charges once, however a call is cut while its store settles (%d turns)", async (turns) => {
    for (const stream of [true, false]) {
      let settled = 0;
      const client = new AbortController();
      const { send, report, clock } = opened({
        backend: speaking(WORD, counted(7)),
        around: (store, clock) => ({
          settle: async (id, outcome) => {
            settled++;
            client.abort();
            await slowToSettle(turns)(store, clock).settle?.(id, outcome);
          },
        }),
      });
      await (await send({ body: { stream }, signal: client.signal })).text();
      for (let round = 0; round < 3; round++) await clock.advance(0);
      expect(settled).toBe(1);
      expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
    }
  });

  it("is tried again for a call that the client has left", async () => {
    const { asked, around } = failing(1);
    const client = new AbortController();
    const { send, report, clock } = opened({ around, backend: speaking(WORD, never) });
    const answer = send({ signal: client.signal });
    await clock.advance(0);
    client.abort();
    expect((await answer).status).toBe(499);
    await clock.advance(500);
    expect(asked).toHaveLength(2);
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });
});
