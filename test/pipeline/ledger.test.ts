/** The whole line against its ledger: whatever becomes of a call, its hold ends, and what was generated is charged. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, GatewayError, type ModelBackend } from "../../src/index.ts";
import {
  type Around,
  AT_REST,
  chatty,
  counted,
  errorCode,
  fail,
  failing,
  INPUT,
  microtasks,
  MINUTE,
  never,
  obedient,
  opened,
  readUntil,
  type Send,
  type Setup,
  slowToSettle,
  speaking,
  WORD,
} from "./bench.ts";

describe("many calls at once", () => {
  it("are admitted exactly as far as the balance covers their worst cases, and charged exactly", async () => {
    const [admissions, refusals]: [number[], Response[]] = [[], []];
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const backend: ModelBackend = {
      async *chat(request) {
        admissions.push(request.maxOutputTokens);
        await told;
        yield WORD;
        yield counted(7);
      },
    };
    const { send, report, clock } = opened({ backend, key: { granted: 100 * (INPUT + 50) } });
    const answers = Array.from({ length: 1000 }, async (_, index) => {
      const response = await send({ body: { stream: index % 2 === 0 } });
      if (response.status !== 200) refusals.push(response);
      await response.clone().text();
      return response.status;
    });
    while (admissions.length + refusals.length < 1000) await clock.advance(0);

    expect(admissions).toEqual(Array.from({ length: 100 }, () => 50));
    expect(report()).toMatchObject({ used: 6000, available: 0, held: 6000, liveHolds: 100 });
    open();
    const statuses = await Promise.all(answers);
    expect(statuses.filter((status) => status === 200)).toHaveLength(100);
    expect(statuses.filter((status) => status === 429)).toHaveLength(900);
    for (const refusal of refusals) {
      // Live calls hold what they need at their worst, so that some of it may come back.
      expect(refusal.headers.get("x-should-retry")).toBeNull();
      expect(refusal.headers.get("retry-after")).toBe("1");
      expect(await errorCode(refusal)).toBe("quota_held");
    }
    const used = 100 * (INPUT + 7);
    expect(report()).toEqual({ granted: 6000, used, available: 6000 - used, overdraft: 0, estimated: 0, ...AT_REST });
  });
});

describe("an answer", () => {
  it("is charged before its client sees its end", async () => {
    const { send, report } = opened({ around: slowToSettle(1), backend: speaking(WORD, counted(7)) });
    const reader = await readUntil("message_stop", await send({ body: { stream: true } }));
    expect(report()).toMatchObject({ used: INPUT + 7, available: 1000 - INPUT - 7, held: 0, liveHolds: 0 });
    expect(await reader.read()).toMatchObject({ done: true });
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

describe("a request for more than the balance", () => {
  const asked: number[] = [];
  const backend: ModelBackend = {
    async *chat(request) {
      asked.push(request.maxOutputTokens);
      yield WORD;
      yield counted(request.maxOutputTokens);
    },
  };
  it.each([
    ["is lowered to what the balance affords", { granted: 50 }, 128_000, 40],
    ["is lowered to a single token", { granted: INPUT + 1 }, 128_000, 1],
    ["is served whole by a balance of just that", { granted: 138 }, 128, 128],
    ["is not lowered for an unlimited key", {}, 128_000, 128_000],
  ])("%s", async (_, key, max_tokens, expected) => {
    const { send, report } = opened({ backend, key });
    const response = await send({ body: { max_tokens } });
    expect(response.status).toBe(200);
    expect(asked.at(-1)).toBe(expected);
    const available = "granted" in key ? 0 : null;
    expect(report()).toMatchObject({ used: INPUT + expected, available, overdraft: 0, ...AT_REST });
  });

  it("is lowered below its budget for reasoning, which a backend lowers too", async () => {
    const { send } = opened({ backend, key: { granted: INPUT + 50 } });
    const body = { max_tokens: 128_000, thinking: { type: "enabled", budget_tokens: 1024 } };
    expect((await send({ body })).status).toBe(200);
    expect(asked.at(-1)).toBe(50);
  });

  it.each([
    ["that does not cover the input and one token", { granted: INPUT, used: 0 }],
    ["that is used up", { granted: 100, used: 100 }],
  ])("is refused by a balance %s", async (_, key) => {
    const { send, report } = opened({ key, backend: speaking(new Error("It was asked.")) });
    const response = await send({ body: { max_tokens: 128_000 } });
    expect(response.status).toBe(429);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(await errorCode(response)).toBe("insufficient_quota");
    expect(report()).toMatchObject({ used: key.used, ...AT_REST });
  });

  it.each([true, false])("is not overspent by a backend that ignores its limit (stream: %s)", async (stream) => {
    let said = 0;
    const endless: ModelBackend = {
      async *chat() {
        for (;;) yield ((said++, WORD));
      },
    };
    const { send, report } = opened({ backend: endless, key: { granted: INPUT + 50 } });
    const text = await (await send({ body: { stream } })).text();
    expect(text).toContain('"stop_reason":"max_tokens"');
    // Twice the limit and 64 tokens, the reach of an estimate; a word is four.
    expect(said).toBeLessThanOrEqual((2 * 50 + 64) / 4 + 1);
    expect(report()).toMatchObject({ used: INPUT + 50, available: 0, ...AT_REST });
  });

  it("is neither cut nor charged for what its code printed, nor cut for a picture", async () => {
    const { send, report } = opened({
      backend: speaking(
        { type: "code", language: "python", code: "x" },
        { type: "code-result", outcome: "ok", output: "x".repeat(5_000) },
        { type: "media", mediaType: "image/png", data: "AAAA" },
        WORD,
        counted(7),
      ),
    });
    expect(await (await send()).json()).toMatchObject({ stop_reason: "end_turn", usage: { output_tokens: 7 } });
    expect(report()).toMatchObject({ used: INPUT + 7, overdraft: 0, ...AT_REST });
  });

  it("ends with an error where the backend ends for no known reason", async () => {
    const weird = { type: "finish", reason: "weird" } as unknown as ChatEvent;
    expect((await opened({ backend: speaking(WORD, weird) }).send()).status).toBe(500);
  });

  it("records what a backend counts beyond its limit as overdraft", async () => {
    const { send, report } = opened({ key: { granted: 30 }, backend: speaking(WORD, counted(25)) });
    expect((await send()).status).toBe(200);
    expect(report()).toMatchObject({ used: 30, available: 0, overdraft: 5, ...AT_REST });
  });
});

describe("a client that hangs up", () => {
  it.each(["cancels the body", "aborts the request"])("and %s is charged for what was generated", async (how) => {
    const backend = obedient();
    const { send, report, clock } = opened({ backend });
    const client = new AbortController();
    const reader = await readUntil(WORD, await send({ body: { stream: true }, signal: client.signal }));
    if (how === "cancels the body") await reader.cancel();
    else client.abort();
    await clock.advance(0);
    expect(backend.seen).toMatchObject({ reason: { code: "client_closed" }, ended: true });
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
  });

  it("before a complete answer is charged for what was generated", async () => {
    const backend = obedient();
    const { send, report, clock } = opened({ backend });
    const client = new AbortController();
    const answer = send({ signal: client.signal });
    await clock.advance(0);
    client.abort();
    expect((await answer).status).toBe(499);
    expect(backend.seen).toMatchObject({ reason: { code: "client_closed" }, ended: true });
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
  });

  it("before the call began is charged nothing", async () => {
    const { send, report } = opened({ backend: speaking(WORD) });
    expect((await send({ signal: AbortSignal.abort() })).status).toBe(499);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  // Every promise that settles is a moment at which a client may go, and each must find someone to settle the hold.
  describe.each([
    ["a store that answers at once", 0],
    ["a store that takes a turn of the event loop", 1],
  ])("at any moment, with %s", (_, turns) => {
    async function hangUp(how: "cancel" | "abort", moment: number, frames: number): Promise<unknown> {
      const { send, report, clock } = opened({ backend: chatty(), around: slowToSettle(turns) });
      const client = new AbortController();
      const reader = (await send({ body: { stream: true }, signal: client.signal })).body?.getReader();
      const reading = (async () => {
        for (let frame = 0; frame < frames; frame++) if ((await reader?.read())?.done) return;
      })();
      await microtasks(moment);
      if (how === "abort") client.abort();
      else void reader?.cancel();
      await clock.advance(0);
      if (frames === Number.POSITIVE_INFINITY) await reading;
      return report();
    }

    it.each([0, 1, 2, 3, 4, Number.POSITIVE_INFINITY])("having asked for %d frames, settles", async (frames) => {
      for (const how of ["cancel", "abort"] as const)
        for (let moment = 0; moment < 60; moment++)
          expect(await hangUp(how, moment, frames), `${how} at ${moment}`).toMatchObject(AT_REST);
    });

    it("having read nothing yet, settles", async () => {
      for (let moment = 0; moment < 200; moment++) {
        const { send, report, clock } = opened({ backend: chatty(), around: slowToSettle(turns) });
        const client = new AbortController();
        const answer = send({ body: { stream: true }, signal: client.signal });
        await microtasks(moment);
        client.abort();
        await answer;
        await clock.advance(0);
        expect(report(), `at ${moment}`).toMatchObject(AT_REST);
      }
    });
  });
});

describe("a backend that fails", () => {
  const unavailable = new GatewayError("backend_unavailable", "The upstream is down.");

  it.each([true, false])("before its first event costs nothing, and keeps its status (stream: %s)", async (stream) => {
    for (const [error, status] of [
      [unavailable, 503],
      [new Error("secret inside"), 500],
    ] as const) {
      const { send, report, failures } = opened({ backend: speaking(error) });
      const response = await send({ body: { stream } });
      expect(response.status).toBe(status);
      expect(await response.text()).not.toContain("secret");
      expect(failures).toHaveLength(1);
      expect(report()).toMatchObject({ used: 0, ...AT_REST });
    }
  });

  it("when it is called costs nothing", async () => {
    const { send, report } = opened({ backend: { chat: () => fail(unavailable) } });
    expect((await send()).status).toBe(503);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("mid-stream is charged for what it generated", async () => {
    const { send, report } = opened({ backend: speaking(WORD, WORD, unavailable) });
    const response = await send({ body: { stream: true } });
    expect(response.status).toBe(200);
    expect((await response.text()).trimEnd().split("\n\n").at(-1)).toMatch(/^event: error\n.*"backend_unavailable"/);
    expect(report()).toMatchObject({ used: INPUT + 8, estimated: INPUT + 8, ...AT_REST });
  });

  it("in the middle of a complete answer is charged for what it generated", async () => {
    const { send, report } = opened({ backend: speaking(WORD, WORD, unavailable) });
    expect((await send()).status).toBe(503);
    expect(report()).toMatchObject({ used: INPUT + 8, estimated: INPUT + 8, ...AT_REST });
  });

  it.each([true, false])("by yielding what no format can say is stopped (stream: %s)", async (stream) => {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const backend: ModelBackend = {
      async *chat() {
        try {
          yield WORD;
          yield { type: "tool-call-end", id: "never begun" };
          await never;
        } finally {
          end();
        }
      },
    };
    const { send, report, failures } = opened({ backend });
    expect(await (await send({ body: { stream } })).text()).toContain("backend_failed");
    await ended;
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
  });

  it("to be stopped harms no one", async () => {
    const stubborn: AsyncIterator<string> = {
      next: () => Promise.resolve({ done: false, value: WORD }),
      return: () => fail(new Error("It does not want to stop.")),
    };
    const { send, report, clock } = opened({ backend: { chat: () => ({ [Symbol.asyncIterator]: () => stubborn }) } });
    const reader = await readUntil(WORD, await send({ body: { stream: true } }));
    await reader.cancel();
    await clock.advance(0);
    expect(report()).toMatchObject({ ...AT_REST });
  });
});

describe("the deadline", () => {
  const limits = { deadlineMs: 5 * MINUTE, bodyStallMs: 10 * MINUTE, storeTimeoutMs: 10 * MINUTE };

  it.each([
    ["never yields", [never], 0],
    ["stops yielding", [WORD, never], INPUT + 4],
  ])("ends a complete answer whose backend %s and ignores its signal", async (_, steps, used) => {
    const { send, report, clock } = opened({ limits, backend: speaking(...steps) });
    const answer = send();
    await clock.advance(5 * MINUTE);
    const response = await answer;
    expect(response.status).toBe(504);
    expect(await errorCode(response)).toBe("deadline_exceeded");
    expect(report()).toMatchObject({ used, estimated: used, ...AT_REST });
  });

  it.each([
    ["never yields", [never], 0],
    ["stops yielding", [WORD, never], INPUT + 4],
  ])("ends a stream whose backend %s and ignores its signal", async (_, steps, used) => {
    const { send, report, clock } = opened({ limits, backend: speaking(...steps) });
    const text = send({ body: { stream: true } }).then((response) => response.text());
    await clock.advance(5 * MINUTE);
    expect(await text).toMatch(/event: error\n.*"deadline_exceeded"/);
    expect(report()).toMatchObject({ used, ...AT_REST });
  });

  it("ends a stream that no one reads", async () => {
    const later = Promise.withResolvers<void>();
    const { send, report, clock } = opened({ limits, backend: speaking(WORD, later.promise, WORD, counted(20)) });
    await send({ body: { stream: true } });
    await clock.advance(0);
    later.resolve();
    await clock.advance(5 * MINUTE);
    // The word that was asked for while the stream took pieces was made; its finish never was.
    expect(report()).toMatchObject({ used: INPUT + 8, ...AT_REST });
  });

  it.each<[what: string, send: Send, setup: Setup]>([
    ["a body that never ends", { body: new ReadableStream() }, {}],
    ["a small body that never ends", { body: new ReadableStream(), headers: { "content-length": "10" } }, {}],
    ["a store that never finds", {}, { around: () => ({ find: () => never }) }],
    ["a store that never reserves", {}, { around: () => ({ reserve: () => never }) }],
    ["a backend that never names its models", {}, { backend: { ...speaking(WORD), models: () => never } }],
  ])("ends the wait for %s", async (_, wire, setup) => {
    const { send, report, clock } = opened({ limits, ...setup });
    let status: number | undefined;
    void send(wire).then((response) => (status = response.status));
    await clock.advance(5 * MINUTE);
    expect(status).toBe(504);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("voids a hold that a slow store grants after it", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const around: Around = (store) => ({ reserve: (hold) => told.then(() => store.reserve(hold)) });
    const { send, report, clock } = opened({ limits, around });
    const answer = send();
    await clock.advance(5 * MINUTE);
    open();
    expect((await answer).status).toBe(504);
    await clock.advance(0);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

describe("the lease", () => {
  const limits = { deadlineMs: 60 * MINUTE };

  it.each([true, false])("of a long call is renewed while it lives (stream: %s)", async (stream) => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, report, clock } = opened({ limits, backend: speaking(WORD, told, WORD, counted(9)) });
    const text = send({ body: { stream } }).then((response) => response.text());
    await clock.advance(10 * MINUTE);
    expect(report()).toMatchObject({ used: INPUT + 50, held: INPUT + 50, liveHolds: 1 });
    open();
    expect(await text).toContain(WORD);
    expect(report()).toMatchObject({ used: INPUT + 9, estimated: 0, ...AT_REST });
  });

  it("outlasts a store that fails to settle: it is asked again after 500 ms, 5 s and 30 s", async () => {
    const { asked, around } = failing(3);
    const { send, report, clock, failures } = opened({ around, backend: speaking(WORD, counted(7)) });
    expect((await send()).status).toBe(200);
    expect(report()).toMatchObject({ used: INPUT + 50, liveHolds: 1, timers: 1 });
    await clock.advance(MINUTE - 1);
    const [first = 0] = asked;
    expect(asked.map((moment) => moment - first)).toEqual([0, 500, 5_500, 35_500]);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
    expect(failures).toHaveLength(1);
    expect(failures[0]?.text).toContain("The database is away.");
  });

  it("runs out when the store fails for ever, and charges what its last renewal noted", async () => {
    const { asked, around } = failing(Number.POSITIVE_INFINITY);
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, report, clock } = opened({ limits, around, backend: speaking(WORD, told, WORD, WORD, counted(12)) });
    const answer = send();
    await clock.advance(MINUTE / 2);
    open();
    expect((await answer).status).toBe(200);
    await clock.advance(MINUTE / 2);
    expect(report()).toMatchObject({ used: INPUT + 50, liveHolds: 1 });
    await clock.advance(MINUTE / 2);
    expect(asked).toHaveLength(4);
    // The one timer is that of the next try.
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST, timers: 1 });
  });

  it("does not end a call when its renewals fail", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, report, clock, failures } = opened({
      backend: speaking(WORD, told, counted(7)),
      around: () => ({ renew: () => Promise.reject(new Error("The database is away.")) }),
    });
    const answer = send();
    await clock.advance(2 * MINUTE);
    expect(report()).toMatchObject({ used: 0, liveHolds: 0 });
    open();
    expect((await answer).status).toBe(200);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
    // One note of what has come, and then the renewals alone.
    expect(failures).toHaveLength(1 + 6);
  });
});

describe("no timer outlives its call", () => {
  it.each<[what: string, status: number, send: Send, setup?: Setup]>([
    ["answered", 200, {}],
    ["streamed", 200, { body: { stream: true } }],
    ["counted", 200, { path: "/v1/messages/count_tokens" }],
    ["about its quota", 200, { path: "/api/usage/token", method: "GET" }],
    ["failed", 500, {}, { backend: speaking(new Error("no")) }],
    ["failed mid-stream", 200, { body: { stream: true } }, { backend: speaking(WORD, new Error("no")) }],
    ["that is not JSON", 400, { body: "{" }],
    ["that is not valid", 400, { body: { max_tokens: "many" } }],
    ["too large", 413, { body: { system: "x".repeat(2000) } }, { limits: { maxJsonBytes: 1000 } }],
    ["of another type", 415, { headers: { "content-type": "text/plain" } }],
    ["without a version", 400, { headers: { "compat-version": "" } }],
    ["without a key", 401, { headers: { authorization: "" } }],
    ["with an unknown key", 401, { headers: { authorization: "Bearer sk-two" } }],
    ["with an expired key", 401, {}, { key: { expiresAt: 1 } }],
    ["for a model that its key may not use", 400, {}, { key: { models: ["another"] } }],
    ["for an unknown model", 400, {}, { backend: { ...speaking(WORD), models: () => [] } }],
    ["beyond its quota", 429, {}, { key: { granted: 1 } }],
    ["that its store fails", 503, {}, { around: () => ({ reserve: () => Promise.reject(new Error("no")) }) }],
    ["of another method", 405, { method: "DELETE" }],
    ["for another route", 404, { path: "/v1/nothing" }],
  ])("%s", async (_, status, wire, setup = {}) => {
    const { send, report } = opened(setup);
    const response = await send(wire);
    await response.text();
    expect(response.status).toBe(status);
    expect(report()).toMatchObject(AT_REST);
  });
});
