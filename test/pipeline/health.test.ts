/** The health of a gateway: its stores, its settlements, its upstreams, and its calls. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ModelBackend } from "../../src/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { failing, never, opened, speaking, WORD } from "./bench.ts";

const AWAY = new Error("The database at db.example is away.");

describe("a gateway", () => {
  it("is ready while its quota store answers", async () => {
    const { gateway } = opened();
    expect(await gateway.health()).toEqual({
      ready: true,
      closing: false,
      calls: 0,
      waitingSettlements: 0,
      stores: { "quota-store": "ok" },
      restingUpstreams: 0,
      upstreams: [],
    });
  });

  it.each([null, "now", 7, { timeoutMs: "soon" }, { timeoutMs: Number.NaN }, { timeoutMs: -1 }, { timeoutMs: null }])(
    "answers as without options where it is given %j",
    async (options) => {
      const { gateway, clock } = opened({ around: () => ({ balance: () => never }) });
      const asked = gateway.health(options as object);
      await clock.advance(999);
      const answered = await Promise.race([asked, Promise.resolve("not yet")]);
      expect(answered).toBe("not yet");
      await clock.advance(1);
      expect(await asked).toMatchObject({ ready: false, stores: { "quota-store": "unreachable" } });
    },
  );

  it("closes as without options where it is given null", async () => {
    const { gateway } = opened();
    await expect(gateway.close(null as unknown as object)).resolves.toBeUndefined();
  });

  it.each([
    ["rejects", () => Promise.reject(AWAY)],
    [
      "throws",
      () => {
        throw AWAY;
      },
    ],
  ])("is not ready where its store %s, and does not say why", async (_how, balance) => {
    const { gateway } = opened({ around: () => ({ balance }) });
    const health = await gateway.health();
    expect(health).toMatchObject({ ready: false, stores: { "quota-store": "unreachable" } });
    expect(JSON.stringify(health)).not.toContain("db.example");
  });

  it("is not ready where its store hangs, after the given time", async () => {
    const { gateway, clock } = opened({ around: () => ({ balance: () => never }) });
    const asked = gateway.health({ timeoutMs: 200 });
    await clock.advance(199);
    const later = gateway.health({ timeoutMs: 100 });
    await clock.advance(100);
    expect(await asked).toMatchObject({ ready: false, stores: { "quota-store": "unreachable" } });
    expect(await later).toMatchObject({ ready: false });
  });

  it("asks a store that hangs again after ten seconds, and not at each check", async () => {
    let asked = 0;
    const { gateway, clock } = opened({
      around: () => ({
        balance: () => {
          asked++;
          return never;
        },
      }),
    });
    for (let second = 0; second < 20; second++) {
      const checked = gateway.health();
      await clock.advance(1_000);
      expect(await checked).toMatchObject({ ready: false });
    }
    expect(asked).toBe(2);
  });

  it("asks its store at most once a second, and passes a context on", async () => {
    const contexts: unknown[] = [];
    const { gateway, clock } = opened({
      around: (store) => ({
        balance: (keyId, call) => {
          contexts.push(call?.context);
          return store.balance(keyId);
        },
      }),
    });
    await Promise.all([gateway.health(), gateway.health(), gateway.health()]);
    expect(contexts).toHaveLength(1);
    await clock.advance(1_000);
    await gateway.health();
    await gateway.health({ context: { db: 1 } });
    expect(contexts).toEqual([undefined, undefined, { db: 1 }]);
  });

  it("tells its calls in flight, and is not ready while it closes", async () => {
    const { gateway, send, clock } = opened({ backend: speaking(WORD, never) });
    const answer = send();
    await clock.advance(0);
    expect(await gateway.health()).toMatchObject({ ready: true, calls: 1 });
    const closed = gateway.close({ deadlineMs: 5 });
    expect(await gateway.health()).toMatchObject({ ready: false, closing: true, calls: 1 });
    await clock.advance(5);
    await Promise.all([closed, answer]);
    expect(await gateway.health()).toMatchObject({ ready: false, calls: 0 });
  });

  it("tells the settlements that wait, and the stores that rest", async () => {
    const { gateway, send, clock } = opened({
      around: (store, at) => ({ ...failing(2).around(store, at), find: () => never }),
      limits: { storeBreakerFailures: 1, storeTimeoutMs: 2_000 },
    });
    const refused = send();
    await clock.advance(2_000);
    expect((await refused).status).toBe(503);
    expect(await gateway.health()).toMatchObject({ ready: true, stores: { "quota-store": "resting" } });
    const waiting = opened({ around: failing(2).around });
    await (await waiting.send()).text();
    expect(await waiting.gateway.health()).toMatchObject({ waitingSettlements: 1 });
    await waiting.clock.advance(60_000);
    expect(await waiting.gateway.health()).toMatchObject({ waitingSettlements: 0 });
  });

  it("tells the upstreams that rest, and their last failure", async () => {
    const down: ModelBackend = {
      // oxlint-disable-next-line require-yield -- fails first
      async *chat() {
        throw new GatewayError("backend_unavailable", "Down.");
      },
    };
    const bench = opened();
    const backend = route({
      routes: {
        any: {
          upstreams: [
            { backend: down, name: "first" },
            { backend: speaking(WORD), name: "second", weight: 0 },
          ],
        },
      },
      breaker: { failures: 1, openMs: 30_000 },
      clock: bench.clock,
    });
    const { gateway, send } = opened({ backend });
    expect((await send()).status).toBe(200);
    expect(await gateway.health()).toMatchObject({
      ready: true,
      restingUpstreams: 1,
      upstreams: [
        {
          route: "any",
          upstream: "first",
          state: "open",
          waitMs: 30_000,
          lastFailure: { code: "backend_unavailable", at: bench.clock.now() },
        },
        { route: "any", upstream: "second", state: "closed", waitMs: 0, lastFailure: undefined },
      ],
    });
  });

  it.each([
    [
      "throws",
      () => {
        throw AWAY;
      },
    ],
    ["lies", () => "all good" as never],
  ])("is healthy where the status of its backend %s", async (_how, status) => {
    const { gateway } = opened({ backend: { ...speaking(WORD), status } });
    expect(await gateway.health()).toMatchObject({ ready: true, upstreams: [] });
  });
});
