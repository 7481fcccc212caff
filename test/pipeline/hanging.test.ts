/** Functions of the host's that hang: no caller waits for one beyond its call's deadline, and a whole answer is never lost to one. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, memoryResponseStore, type ModelBackend, type RateLimiter } from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, counted, INPUT, MINUTE, never, opened, type Send, type Setup, speaking, WORD } from "./bench.ts";
import { around, repeating } from "./repeating.ts";

const DEADLINE_MS = 5_000;
/** A store may take far longer than a call. */
const limits = { deadlineMs: DEADLINE_MS, storeTimeoutMs: 12 * DEADLINE_MS };
const USED = INPUT + 7;

const hanging = (): Promise<never> => never;

const limiter: RateLimiter = {
  begin: async () => ({ limits: [] }),
  take: async () => ({ limits: [] }),
  end: () => never,
};

/** A backend that says this, and hangs when it is told to stop. */
const reluctant = (...events: readonly (ChatEvent | string)[]): ModelBackend => ({
  async *chat() {
    try {
      yield* events;
      await never;
    } finally {
      await never;
    }
  },
});

describe.each([false, true])("where a whole answer waits (stream: %s)", (stream) => {
  const send: Send = { body: { stream }, headers: { "idempotency-key": "order-7" } };

  it("for a settlement that hangs, its caller has it at the deadline, and is charged later", async () => {
    let isAway = true;
    const bench = opened({
      limits,
      backend: speaking(WORD, counted(7)),
      around: (store) => ({ settle: (id, outcome) => (isAway ? never : store.settle(id, outcome)) }),
    });
    let text: string | undefined;
    void bench.send(send).then(async (response) => (text = await response.text()));
    await bench.clock.advance(DEADLINE_MS - 1);
    expect(text ?? "").not.toContain('output_tokens":7');
    await bench.clock.advance(1);
    expect(text).toContain('"output_tokens":7');
    expect(text).not.toContain("error");
    isAway = false;
    await bench.clock.advance(13 * DEADLINE_MS);
    expect(bench.report()).toMatchObject({ used: USED, ...AT_REST });
  });

  it.each<[string, (setup: Setup) => { readonly bench: ReturnType<typeof opened> }]>([
    ["a limiter's end", (setup) => ({ bench: opened({ ...setup, rateLimiter: limiter }) })],
    [
      "a replay store's record",
      (setup) => ({
        bench: repeating(
          [[WORD, counted(7)]],
          setup,
          around(() => ({ record: () => never })),
        ),
      }),
    ],
  ])("for %s that hangs, its caller has it at the deadline", async (_what, open) => {
    const { bench } = open({ limits, backend: speaking(WORD, counted(7)) });
    let text: string | undefined;
    void bench.send(send).then(async (response) => (text = await response.text()));
    await bench.clock.advance(DEADLINE_MS);
    expect(text).toContain('"output_tokens":7');
    expect(bench.report()).toMatchObject({ used: USED });
  });

  it("for a settlement that hangs, a gateway that closes hands it on", async () => {
    const bench = opened({
      limits,
      backend: speaking(WORD, counted(7)),
      around: () => ({ settle: () => never }),
    });
    let text: string | undefined;
    void bench.send(send).then(async (response) => (text = await response.text()));
    await bench.clock.advance(0);
    void bench.gateway.close({ deadlineMs: 100 });
    await bench.clock.advance(DEADLINE_MS);
    expect(text).toContain('"output_tokens":7');
  });

  it("for nothing but a backend that a stop sequence has ended, it is handed on at once", async () => {
    const bench = opened({ limits, backend: reluctant("one two", " STOP three") });
    const response = bench.send({ body: { stream, stop_sequences: ["STOP"] } }).then((answer) => answer.text());
    await bench.clock.advance(0);
    expect(await response).toContain('"stop_reason":"stop_sequence"');
    expect(bench.report()).toMatchObject(AT_REST);
  });
});

it("a backend that hangs when a broken picture ends its drawing keeps no good one back", async () => {
  const backend: ModelBackend = {
    async *image() {
      try {
        yield drawn(0);
        yield { ...drawn(1), bytes: new Uint8Array(0) };
      } finally {
        await never;
      }
    },
  };
  const bench = opened({ limits, backend, imagePrice: () => 1 });
  const body = JSON.stringify({ prompt: "A fox.", n: 2, response_format: "b64_json" });
  const response = bench.send({ path: "/v1/images/generations", body });
  await bench.clock.advance(0);
  expect(((await (await response).json()) as { data: object[] }).data).toHaveLength(1);
  expect(bench.report()).toMatchObject({ used: 1, ...AT_REST });
});

it("a call that its deadline has ended waits for no settlement", async () => {
  const bench = opened({ limits, backend: speaking(WORD, never), around: () => ({ settle: () => never }) });
  let status: number | undefined;
  void bench.send().then((response) => (status = response.status));
  await bench.clock.advance(DEADLINE_MS);
  expect(status).toBe(504);
});

describe("the host hears once of a call that its deadline has ended", () => {
  it.each([
    ["before its answer", false, speaking(never)],
    ["in mid-answer", true, speaking(WORD, never)],
  ])("%s", async (_when, isStream, backend) => {
    const bench = opened({ limits, backend });
    const answer = bench.send({ body: { stream: isStream } }).then((response) => response.text());
    await bench.clock.advance(DEADLINE_MS);
    expect(await answer).toContain("deadline_exceeded");
    expect(bench.failures).toMatchObject([{ error: { code: "deadline_exceeded" }, port: "model-backend" }]);
    expect(bench.failures[0]?.text).toContain(`The call has lasted for limits.deadlineMs, ${DEADLINE_MS} ms.`);
  });

  it("for a store that hangs, but not for a client that sends no body", async () => {
    const bench = opened({ limits, backend: speaking(WORD), around: () => ({ reserve: () => never }) });
    const calls = [bench.send(), bench.send({ body: new ReadableStream() })];
    await bench.clock.advance(DEADLINE_MS);
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([504, 504]);
    expect(bench.failures).toMatchObject([{ error: { code: "deadline_exceeded" }, port: undefined }]);
  });
});

describe("a gateway that closes", () => {
  const CLOSE_MS = 500;
  const STORE_MS = 2_000;
  /** The time of the calls before the gateway closes. */
  const BEFORE_MS = 100;
  const after = { after: hanging, timeoutMs: MINUTE };
  const silent = reluctant(WORD);
  const observed = { end: hanging, hold: hanging, rateLimit: hanging };
  const quotas = (verb: string): Setup => ({ around: () => ({ [verb]: hanging }) });
  const limits = (verb: string): Setup => ({ rateLimiter: { ...limiter, end: async () => {}, [verb]: hanging } });
  const replays = (verb: string): Setup => ({ replays: around(() => ({ [verb]: hanging })) });
  const responses = (verb: string): Setup => ({
    responses: (clock) => Object.assign(memoryResponseStore({ clock }), { [verb]: hanging }),
  });
  const repeated: Send = { headers: { "idempotency-key": "order-7" } };
  const kept: Send = { path: "/v1/responses", body: JSON.stringify({ model: "m", input: "Hi." }) };
  const drawing: Send = { path: "/v1/images/generations", body: JSON.stringify({ prompt: "A fox." }) };
  const draws: ModelBackend = {
    async *image() {
      yield drawn(0);
    },
  };
  // A store has its own time to take what a call leaves.
  const SETTLED_MS = STORE_MS - BEFORE_MS;

  it.each<[what: string, Setup, closedMs?: number, Send?]>([
    ["several hooks before", { hooks: [1, 2, 3].map(() => ({ before: hanging, timeoutMs: MINUTE, down: "open" })) }],
    ["several hooks after", { hooks: [after, { after: hanging }, after] }],
    ["hooks after calls that it cuts", { backend: silent, hooks: [after, after] }],
    ["a backend that does not stop", { backend: silent }],
    ["a backend's list", { backend: { ...speaking(WORD), models: hanging } }],
    ["a backend's count", { backend: { ...speaking(WORD), countInputTokens: hanging }, countInput: "backend" }],
    ["the host's reports", { backend: silent, onCall: hanging, onFailure: hanging }],
    ["an observer", { backend: silent, observer: { begin: () => observed } }],
    ["a limiter's begin", limits("begin")],
    ["a limiter's take", limits("take")],
    ["a limiter's end", limits("end"), SETTLED_MS],
    ["a quota store's find", quotas("find")],
    ["a quota store's reserve", quotas("reserve")],
    ["a quota store's renew", { ...quotas("renew"), backend: silent }],
    ["a quota store's settle", quotas("settle"), SETTLED_MS],
    ["a quota store's balance", quotas("balance"), CLOSE_MS, { path: "/api/usage/token", method: "GET" }],
    ["a replay store's claim", replays("claim"), CLOSE_MS, repeated],
    ["a replay store's record", replays("record"), SETTLED_MS, repeated],
    ["a replay store's release", { ...replays("release"), backend: silent }, CLOSE_MS + STORE_MS, repeated],
    ["a response store's create", responses("create"), SETTLED_MS, kept],
    ["a response store's read", responses("read"), CLOSE_MS, { path: "/v1/responses/resp_1", method: "GET" }],
    [
      "a store of pictures",
      { backend: draws, imagePrice: () => 1, images: { store: { put: hanging, get: hanging } } },
      CLOSE_MS,
      drawing,
    ],
  ])("waits for %s no longer than it says", async (_what, setup, closedMs = CLOSE_MS, send = {}) => {
    const bench = opened({ ...setup, limits: { deadlineMs: 10 * MINUTE, storeTimeoutMs: STORE_MS } });
    const answers = [1, 2, 3].map(async () => (await bench.send(send)).text());
    await bench.clock.advance(BEFORE_MS);
    const begunAt = bench.clock.now();
    let closedAt = Number.NaN;
    void bench.gateway.close({ deadlineMs: CLOSE_MS }).then(() => (closedAt = bench.clock.now() - begunAt));
    for (let step = 0; step < 30; step++) await bench.clock.advance(100);
    expect(closedAt).toBe(closedMs);
    await Promise.all(answers);
  });
});
