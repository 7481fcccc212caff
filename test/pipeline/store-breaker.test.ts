/** A store that keeps hanging is left alone: its callers are told at once, and one of them tries it again after a while. */

import { describe, expect, it } from "vitest";
import type { RateLimiter } from "../../src/index.ts";
import { type Around, AT_REST, errorCode, INPUT, never, opened, speaking, counted, WORD } from "./bench.ts";

const STORE_MS = 10_000;
const OPEN_MS = 5_000;
const limits = { storeTimeoutMs: STORE_MS, storeBreakerFailures: 3, storeBreakerOpenMs: OPEN_MS, leaseMs: 600_000 };

/** A gateway whose store does not answer a verb for as long as `isDown`. */
function stage(verb: "find" | "reserve", hang: () => Promise<never> = () => never) {
  const state = { isDown: true, asked: 0 };
  const around: Around = (store) => {
    const ask = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>;
    const asked = (...args: unknown[]): Promise<unknown> => {
      state.asked++;
      return state.isDown ? hang() : ask(...args);
    };
    return { [verb]: asked };
  };
  return { state, ...opened({ around, limits, backend: speaking(WORD, counted(7)) }) };
}

type Stage = ReturnType<typeof stage>;

async function failThrice({ send, clock }: Pick<Stage, "send" | "clock">): Promise<void> {
  for (let failure = 0; failure < limits.storeBreakerFailures; failure++) {
    const answer = send();
    await clock.advance(STORE_MS);
    expect((await answer).status).toBe(503);
  }
}

describe.each(["find", "reserve"] as const)("a store that hangs at %s", (verb) => {
  it("is left alone after some failures: callers are told at once when to come back", async () => {
    const bench = stage(verb);
    await failThrice(bench);
    const before = bench.clock.now();
    const refused = await bench.send();
    expect([refused.status, await errorCode(refused)]).toEqual([503, "store_unavailable"]);
    expect(refused.headers.get("retry-after-ms")).toBe(String(OPEN_MS));
    expect([bench.clock.now(), bench.state.asked]).toEqual([before, 3]);
    expect(bench.failures).toHaveLength(4);
    expect(bench.failures.at(-1)).toMatchObject({ port: "quota-store" });
    expect(bench.failures.at(-1)?.text).toContain("is left alone");
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("is tried by one call, and asked by all once that has come through", async () => {
    const bench = stage(verb);
    await failThrice(bench);
    await bench.clock.advance(OPEN_MS);
    // The one that tries waits, and fails: the others do not wait with it.
    const trying = bench.send();
    await bench.clock.advance(0);
    expect((await bench.send()).status).toBe(503);
    expect(bench.state.asked).toBe(4);
    await bench.clock.advance(STORE_MS);
    expect((await trying).status).toBe(503);
    expect((await bench.send()).status).toBe(503);
    expect(bench.state.asked).toBe(4);
    await bench.clock.advance(OPEN_MS);
    bench.state.isDown = false;
    const answers = [await bench.send(), ...(await Promise.all([bench.send(), bench.send()]))];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(bench.report()).toMatchObject({ used: 3 * (INPUT + 7), ...AT_REST });
  });

  it("is asked again by the next call where the one that tried has hung up", async () => {
    const bench = stage(verb);
    await failThrice(bench);
    await bench.clock.advance(OPEN_MS);
    const client = new AbortController();
    const trying = bench.send({ signal: client.signal });
    await bench.clock.advance(2_000);
    client.abort();
    await trying.catch(() => {});
    await bench.clock.advance(0);
    bench.state.isDown = false;
    expect((await bench.send()).status).toBe(200);
  });
});

describe("a store", () => {
  it("that fails at once is asked each time: nobody waits for it", async () => {
    const bench = stage("reserve", () => Promise.reject(new Error("The database is away.")));
    for (let call = 0; call < 10; call++) expect((await bench.send()).status).toBe(503);
    expect(bench.state.asked).toBe(10);
    bench.state.isDown = false;
    expect((await bench.send()).status).toBe(200);
  });

  it("that hangs now and then is not left alone", async () => {
    const bench = stage("reserve");
    for (let call = 0; call < 10; call++) {
      bench.state.isDown = call % 3 > 0;
      const answer = bench.send();
      await bench.clock.advance(STORE_MS);
      expect((await answer).status).toBe(call % 3 > 0 ? 503 : 200);
    }
    expect(bench.state.asked).toBe(10);
  });

  it("that is left alone is still told what calls have used", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    let isDown = false;
    const around: Around = (store) => ({ reserve: (hold) => (isDown ? never : store.reserve(hold)) });
    const bench = opened({ around, limits, backend: speaking(WORD, told, counted(7)) });
    const early = bench.send();
    await bench.clock.advance(0);
    isDown = true;
    await failThrice(bench);
    open();
    expect((await early).status).toBe(200);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

describe("a limiter that hangs", () => {
  const ALL_IS_WELL = { limits: [] };

  it.each([
    ["is 503 at once after some failures", "closed", 503],
    ["holds up no call any more after some failures, where its host lets them through", "open", 200],
  ] as const)("%s", async (_what, rateLimiterDown, status) => {
    let asked = 0;
    const rateLimiter: RateLimiter = {
      begin: () => (asked++, never),
      take: async () => ALL_IS_WELL,
      end: async () => {},
    };
    const bench = opened({ rateLimiter, rateLimiterDown, limits });
    for (let failure = 0; failure < limits.storeBreakerFailures; failure++) {
      const answer = bench.send();
      await bench.clock.advance(STORE_MS);
      expect((await answer).status).toBe(status);
    }
    const before = bench.clock.now();
    expect((await bench.send()).status).toBe(status);
    expect([bench.clock.now(), asked]).toEqual([before, 3]);
    expect(bench.failures).toHaveLength(4);
  });
});
