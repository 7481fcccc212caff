/** A settlement that its store does not take: retried while the process lives, and told to the host where that ends. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { createGateway, type Failure, type GatewayGauges, type QuotaStore } from "../../src/index.ts";
import {
  type Around,
  AT_REST,
  counted,
  failing,
  INPUT,
  MINUTE,
  never,
  opened,
  requestOf,
  type Setup,
  speaking,
  verbsOf,
  WORD,
} from "./bench.ts";

const DAY = 24 * 60 * MINUTE;
const USED = INPUT + 7;
const answering: Setup = { key: { granted: 10_000 }, backend: speaking(WORD, counted(7)) };

/** A store that takes no settlement while it is away, and what it was asked meanwhile. */
function away(how: () => Promise<never> = () => Promise.reject(new Error("The database is away."))) {
  const state = { isAway: true, asked: [] as string[] };
  const around: Around = (store) => ({
    settle: (id, outcome, call) => {
      state.asked.push(id);
      return state.isAway ? how() : store.settle(id, outcome, call);
    },
  });
  return { state, around };
}

/** Notes how many settlements wait. */
function gauged(): { setup: Setup; waiting: () => number | undefined } {
  let gauges: GatewayGauges | undefined;
  const observer = { watchGateway: (told: GatewayGauges) => ((gauges = told), undefined), begin: () => undefined };
  return { setup: { observer }, waiting: () => gauges?.waitingSettlements };
}

const unasked = (): never => {
  throw new Error("Nothing can be asked.");
};

it("is tried again after an error of which nothing can be asked", async () => {
  const { state, around } = away(() =>
    Promise.reject(new Proxy(new Error("away"), { getPrototypeOf: unasked, get: unasked })),
  );
  const bench = opened({ ...answering, around });
  expect((await bench.send()).status).toBe(200);
  await bench.clock.advance(MINUTE);
  state.isAway = false;
  await bench.clock.advance(MINUTE);
  expect(bench.report()).toMatchObject({ used: USED, ...AT_REST });
});

describe("a store that is away for a day", () => {
  it("is asked again and again, each half minute at last, and then charges each call once, as it told in its record", async () => {
    const { state, around } = away();
    const units: number[] = [];
    const { setup, waiting } = gauged();
    const bench = opened({ ...answering, ...setup, around, onCall: (record) => units.push(record.units) });
    for (let call = 0; call < 20; call++) expect((await bench.send()).status).toBe(200);
    expect(waiting()).toBe(20);
    state.asked = [];
    await bench.clock.advance(DAY);
    // One question finds out whether the store is back, however many settlements wait.
    const expected = DAY / 30_000;
    expect(state.asked.length).toBeGreaterThan(expected - 3);
    expect(state.asked.length).toBeLessThan(expected + 3);
    expect(waiting()).toBe(20);
    state.isAway = false;
    await bench.clock.advance(30_000);
    expect(waiting()).toBe(0);
    expect(units.reduce((sum, one) => sum + one)).toBe(20 * USED);
    // Each failure was told once, and each charge corrects what the lease's end has charged.
    expect(bench.failures).toHaveLength(20);
    expect(bench.report()).toMatchObject({ used: 20 * USED, estimated: 0, overdraft: 0, ...AT_REST });
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("The database is away."))],
    ["hangs", () => never],
  ])("and %s is left with one question at a time", async (_how, how) => {
    const { state, around } = away(how);
    const bench = opened({ ...answering, around, limits: { deadlineMs: 1_000 } });
    const answers = Array.from({ length: 30 }, () => bench.send());
    await bench.clock.advance(10_000);
    await Promise.all(answers);
    state.asked = [];
    await bench.clock.advance(10 * MINUTE);
    expect(state.asked.length).toBeLessThanOrEqual(23);
    expect(new Set(state.asked).size).toBe(state.asked.length);
  });
});

describe("a settlement that is never taken", () => {
  it("keeps no other from its turn", async () => {
    let poisoned: string | undefined;
    let isAway = true;
    const around: Around = (store) => ({
      settle: (id, outcome) => {
        poisoned ??= id;
        return isAway || id === poisoned ? Promise.reject(new Error("No.")) : store.settle(id, outcome);
      },
    });
    const { setup, waiting } = gauged();
    const bench = opened({ ...answering, ...setup, around });
    for (let call = 0; call < 10; call++) await bench.send();
    isAway = false;
    await bench.clock.advance(MINUTE);
    expect(waiting()).toBe(1);
    expect(bench.report()).toMatchObject({ used: 9 * USED, estimated: 0 });
  });

  it("because the store refuses its amount is told to the host, and not retried", async () => {
    const asked: string[] = [];
    const around: Around = () => ({
      settle: (id) => (asked.push(id), Promise.reject(new RangeError("That is no amount."))),
    });
    const bench = opened({ ...answering, around });
    const id = (await bench.send()).headers.get("request-id");
    await bench.clock.advance(DAY);
    expect(asked).toEqual([id, id]);
    expect(bench.failures.map(unsettled)).toEqual([undefined, { requestId: id, keyId: "one", used: USED }]);
    expect(bench.failures.map(({ waiting }) => waiting)).toEqual([true, undefined]);
    expect(bench.clock.pending).toBe(0);
  });
});

const unsettled = ({ requestId, unsettled: left }: Failure): object | undefined =>
  left && { requestId, keyId: left.keyId, used: left.used };

describe("more settlements than may wait", () => {
  it("push out the oldest, which the host is told of", async () => {
    const { state, around } = away();
    const { setup, waiting } = gauged();
    const bench = opened({ ...answering, ...setup, around, limits: { maxWaitingSettlements: 3 } });
    const ids: (string | null)[] = [];
    for (let call = 0; call < 5; call++) ids.push((await bench.send()).headers.get("request-id"));
    expect(waiting()).toBe(3);
    const lost = bench.failures.filter((failure) => failure.unsettled);
    expect(lost.map(unsettled)).toEqual(ids.slice(0, 2).map((requestId) => ({ requestId, keyId: "one", used: USED })));
    expect(lost).toMatchObject([{ port: "quota-store", error: { code: "store_unavailable" } }, {}]);
    state.isAway = false;
    await bench.clock.advance(MINUTE);
    // What was charged, and what was told, add up to what was used. The lost ones have cost what was noted: nothing.
    expect(bench.report()).toMatchObject({ used: 3 * USED, ...AT_REST });
  });
});

describe("closing", () => {
  it("asks at once, and resolves as soon as all is charged", async () => {
    const { state, around } = away();
    const bench = opened({ ...answering, around });
    for (let call = 0; call < 20; call++) await bench.send();
    await bench.clock.advance(10 * MINUTE);
    state.isAway = false;
    const begun = bench.clock.now();
    await bench.gateway.close();
    expect(bench.clock.now()).toBe(begun);
    expect(bench.report()).toMatchObject({ used: 20 * USED, ...AT_REST });
    expect(bench.failures.filter((failure) => failure.unsettled)).toEqual([]);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("The database is away."))],
    ["hangs", () => never],
  ])("tells the host of each charge that a store which %s has not taken by the deadline", async (_how, how) => {
    const { around } = away(how);
    const bench = opened({ ...answering, around, limits: { storeTimeoutMs: 1_000 } });
    const answers = [bench.send(), bench.send()];
    await bench.clock.advance(1_000);
    const ids = (await Promise.all(answers)).map(({ headers }) => headers.get("request-id"));
    let isClosed = false;
    const closed = bench.gateway.close({ deadlineMs: 5_000 }).then(() => (isClosed = true));
    await bench.clock.advance(4_999);
    expect(isClosed).toBe(false);
    await bench.clock.advance(1);
    await closed;
    const lost = bench.failures.filter((failure) => failure.unsettled);
    expect(lost.map(unsettled).toSorted(byId)).toEqual(
      ids.map((requestId) => ({ requestId, keyId: "one", used: USED })).toSorted(byId),
    );
    for (const { requestId, text } of lost)
      expect(text).toContain(`The call ${requestId} of the key one is not settled: ${USED} units, exact.`);
    // The question that the store has not answered is given up in its own time.
    await bench.clock.advance(1_000);
    expect(bench.clock.pending).toBe(0);
  });

  it.each([
    ["settles", 5_000, "settled"],
    ["tells of", 50, "unsettled"],
  ])("%s what waits before a process ends that nothing else keeps alive", async (_what, deadlineMs, expected) => {
    const script = `
      const { createGateway, memoryQuotaStore } = await import(${JSON.stringify(new URL("../../src/index.ts", import.meta.url))});
      const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000 }]);
      let tried = 0;
      const quotas = Object.assign(store, { settle: async () => {
        if (tried++ < 2) throw new Error("The database is away.");
        console.log("settled");
      } });
      const onFailure = ({ unsettled }) => unsettled && console.log("unsettled");
      const gateway = createGateway({ quotas, onFailure, backend: { async *chat() { yield "word"; } } });
      const headers = { "x-api-key": "sk-one", "compat-version": "1", "content-type": "application/json" };
      const body = JSON.stringify({ model: "any", max_tokens: 50, messages: [{ role: "user", content: "hi" }] });
      await gateway.fetch(new Request("http://host/v1/messages", { method: "POST", headers, body }));
      void gateway.close({ deadlineMs: ${deadlineMs} }).then(() => console.log("closed"));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
    expect(stdout.trim().split("\n")).toEqual([expected, "closed"]);
  });

  it("prints what is left where its host listens to nothing", async () => {
    const printed = vi.spyOn(console, "error").mockImplementation(() => {});
    const { around } = away();
    const bench = opened({ ...answering, around });
    const quotas: QuotaStore = { ...verbsOf(bench.store), ...around(bench.store, bench.clock) };
    const gateway = createGateway({
      backend: speaking(WORD, counted(7)),
      countTokens: (text) => text.length,
      quotas,
      clock: bench.clock,
    });
    const response = await gateway.fetch(requestOf(false));
    const closed = gateway.close({ deadlineMs: 1 });
    await bench.clock.advance(1);
    await closed;
    const text = printed.mock.calls.map(String).join("\n");
    printed.mockRestore();
    expect(text).toContain(
      `The call ${response.headers.get("request-id")} of the key one is not settled: ${USED} units`,
    );
  });
});

describe("what waits", () => {
  it("knows the host's context, and nothing else of its call", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const told: unknown[] = [];
    const around: Around = () => ({
      settle: (_id, _outcome, call) => {
        told.push([call?.context, call?.requestId !== undefined, [...(call?.headers ?? [])].length > 0]);
        return Promise.reject(new Error("The database is away."));
      },
    });
    const bench = opened({ ...answering, around });
    const ask = async (): Promise<WeakRef<object>[]> => {
      const request = requestOf(false);
      const response = await bench.gateway.at("").handle(request, { context: "tenant" });
      await response?.text();
      return [request, request.headers].map((one) => new WeakRef(one));
    };
    const refs = await ask();
    await bench.clock.advance(MINUTE);
    expect(told.slice(0, 2)).toEqual([
      ["tenant", true, true],
      ["tenant", true, false],
    ]);
    await expect
      .poll(() => {
        collect();
        return refs.map((ref) => ref.deref() !== undefined);
      })
      .toEqual([false, false]);
  });

  it("is waited for by a runtime that stops what is not", async () => {
    const { around } = failing(2);
    const bench = opened({ ...answering, around });
    const pending = new Set<Promise<unknown>>();
    const waitUntil = (work: Promise<unknown>): void => {
      pending.add(work);
      void work.then(() => pending.delete(work));
    };
    await bench.gateway.at("").handle(requestOf(false), { waitUntil });
    await bench.clock.advance(499);
    expect(pending.size).toBe(1);
    await bench.clock.advance(MINUTE);
    expect(pending.size).toBe(0);
    expect(bench.report()).toMatchObject({ used: USED, ...AT_REST });
  });

  it("is taken up by a later call where the runtime has stopped the timer", async () => {
    const { state, around } = away();
    const { setup, waiting } = gauged();
    const bench = opened({ ...answering, ...setup, around });
    const after = vi.spyOn(bench.clock, "after");
    await bench.send();
    const stopped = after.mock.results.at(-1)?.value as () => void;
    stopped();
    state.isAway = false;
    await bench.clock.advance(DAY);
    expect(waiting()).toBe(1);
    await bench.send();
    await bench.clock.advance(0);
    expect(waiting()).toBe(0);
    expect(bench.report()).toMatchObject({ used: 2 * USED, estimated: 0, ...AT_REST });
  });
});

const byId = (one: unknown, other: unknown): number => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1);
