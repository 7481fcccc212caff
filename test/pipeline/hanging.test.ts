/** Functions of the host's that hang: no caller waits for one beyond its call's deadline, and a whole answer is never lost to one. */

import { describe, expect, it } from "vitest";
import type { ChatEvent, ModelBackend, RateLimiter } from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, counted, INPUT, never, opened, type Send, type Setup, speaking, WORD } from "./bench.ts";
import { around, repeating } from "./repeating.ts";

const DEADLINE_MS = 5_000;
/** A store may take far longer than a call. */
const limits = { deadlineMs: DEADLINE_MS, storeTimeoutMs: 12 * DEADLINE_MS };
const USED = INPUT + 7;

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
