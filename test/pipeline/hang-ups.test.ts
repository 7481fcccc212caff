/** Clients that leave at the worst moments: the call ends, once, and nothing of it stays behind. */

import { describe, expect, it } from "vitest";
import { type Answer, GatewayError, type ModelBackend, type RateLimiter } from "../../src/index.ts";
import type { UnreadEvents } from "../../src/ports/model-backend.ts";
import { route } from "../../src/upstreams/route/index.ts";
import {
  type Around,
  AT_REST,
  chatty,
  counted,
  fail,
  INPUT,
  microtasks,
  MINUTE,
  never,
  obedient,
  opened,
  requestOf,
  type Opened,
  slowToSettle,
  speaking,
  WORD,
} from "./bench.ts";

/** A call whose client the test can have gone. */
function called(bench: Opened, stream: boolean): { answer: Promise<Answer>; hangUp: () => void } {
  let hangUp: (() => void) | undefined;
  const answer = bench.gateway.answer(requestOf(stream), { onDisconnect: (listener) => void (hangUp = listener) });
  if (!answer) throw new Error("The gateway does not own the route.");
  return { answer, hangUp: () => hangUp?.() };
}

const bodyOf = ({ body }: Answer): AsyncIterableIterator<string> => body as AsyncIterableIterator<string>;

describe("a client that has read all but the end", () => {
  it.each(["cancels the body", "is gone", "does not come back"])("and %s leaves nothing behind", async (how) => {
    const bench = opened({ backend: speaking(WORD, counted(7)) });
    const client = new AbortController();
    const response = await bench.send({ body: { stream: true }, signal: client.signal });
    const reader = response.body?.getReader();
    // The platform's stream asks for one piece more than is read: the last one is made, and lies there unread.
    for (let read = ""; !read.includes(WORD);) read += new TextDecoder().decode((await reader?.read())?.value);
    await bench.clock.advance(0);
    if (how === "cancels the body") await reader?.cancel();
    if (how === "is gone") client.abort();
    await bench.clock.advance(0);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
    await bench.gateway.close();
    expect(bench.clock.pending).toBe(0);
  });
});

describe("a client that is gone", () => {
  it("has its runtime wait until the store has taken the settlement", async () => {
    const taken = Promise.withResolvers<void>();
    const around: Around = (store) => ({
      settle: (id, outcome) => taken.promise.then(() => store.settle(id, outcome)),
    });
    const bench = opened({ backend: obedient(), around });
    const client = new AbortController();
    const request = new Request(requestOf(true), { signal: client.signal });
    const waitingFor: Promise<unknown>[] = [];
    const response = await bench.gateway.handle(request, { waitUntil: (work) => waitingFor.push(work) });
    const reader = response?.body?.getReader();
    await reader?.read();
    client.abort();
    await bench.clock.advance(0);
    let isLetGo = false;
    void Promise.all(waitingFor).then(() => (isLetGo = true));
    await bench.clock.advance(0);
    expect(waitingFor.length).toBeGreaterThan(0);
    expect(isLetGo).toBe(false);
    taken.resolve();
    await Promise.all(waitingFor);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it.each([true, false])("before its answer is looked at, settles (stream: %s)", async (stream) => {
    for (let moment = 0; moment < 80; moment++) {
      const bench = opened({ backend: speaking(WORD, counted(7)), around: slowToSettle(moment % 3) });
      const { answer, hangUp } = called(bench, stream);
      await microtasks(moment);
      hangUp();
      hangUp();
      const { status, body } = await answer;
      for (let round = 0; round < 2; round++) await bench.clock.advance(0);
      // A stream that nobody reads has its first word charged; one that was answered whole, all of it.
      expect([200, 499], `at ${moment}`).toContain(status);
      expect(bench.report(), `at ${moment}`).toMatchObject(AT_REST);
      const isWhole = status === 200 && !stream;
      expect(bench.report()).toMatchObject(isWhole ? { used: INPUT + 7, estimated: 0 } : {});
      if (typeof body !== "string" && body !== null) for await (const _ of bodyOf({ status, headers: {}, body }));
      expect(bench.clock.pending).toBe(0);
    }
  });

  it("before the call began costs nothing, and no store is asked", async () => {
    const asked: string[] = [];
    const bench = opened({ around: (store) => ({ find: (key) => (asked.push(key), store.find(key)) }) });
    const answer = await bench.gateway.answer(requestOf(true), { onDisconnect: (listener) => listener() });
    expect([answer?.status, asked, bench.report()]).toEqual([499, [], expect.objectContaining(AT_REST)]);
  });
});

describe("a reader", () => {
  it("that returns before it has read anything ends the call", async () => {
    for (const drainMs of [undefined, 5_000]) {
      const backend = { ...chatty(), ...(drainMs !== undefined && { hangUp: { drainMs } }) };
      const bench = opened({ backend });
      const body = bodyOf(await called(bench, true).answer);
      expect(await body.return?.()).toEqual({ done: true, value: undefined });
      await bench.clock.advance(drainMs ?? 0);
      expect(bench.report()).toMatchObject({ estimated: expect.any(Number) as number, ...AT_REST });
    }
  });

  it("that never reads is waited for until the deadline, and no longer", async () => {
    const bench = opened({ backend: speaking(WORD, never), limits: { deadlineMs: 1_000 } });
    const body = bodyOf(await called(bench, true).answer);
    await bench.clock.advance(999);
    expect(bench.report()).toMatchObject({ liveHolds: 1 });
    await bench.clock.advance(1);
    expect(bench.report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    expect((await body.next()).value).toContain("deadline_exceeded");
    expect(await body.next()).toEqual({ done: true, value: undefined });
  });

  it("that goes on after the end finds it again", async () => {
    const bench = opened({ backend: speaking(WORD, counted(7)) });
    const body = bodyOf(await called(bench, true).answer);
    let text = "";
    for await (const frames of body) text += frames;
    expect(text).toContain("message_stop");
    expect([await body.next(), await body.return?.()]).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });
});

describe("a drain", () => {
  it("whose backend fails is reported, though its client is gone", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const backend = { ...speaking(WORD, told, new Error("broken late")), hangUp: { drainMs: 5_000 } };
    const bench = opened({ backend });
    const { answer, hangUp } = called(bench, true);
    const body = bodyOf(await answer);
    await body.next();
    hangUp();
    open();
    await bench.clock.advance(0);
    expect(bench.failures).toMatchObject([{ port: "model-backend" }]);
    expect(bench.failures[0]?.text).toContain("broken late");
    expect(bench.report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it("ends with its exact charge", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const backend = { ...speaking(WORD, told, counted(7)), hangUp: { drainMs: 5_000 } };
    const bench = opened({ backend });
    const { answer, hangUp } = called(bench, true);
    await bodyOf(await answer).next();
    hangUp();
    open();
    await bench.clock.advance(0);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });
});

/** Tells of what has come and is not yielded yet, and falls silent. */
const buffering = (unread: () => unknown): ModelBackend => ({
  async *chat(_, call) {
    call.reportUnread?.(unread as UnreadEvents);
    yield WORD;
    await never;
  },
});
const routed = (backend: ModelBackend): ModelBackend => route({ routes: { any: { upstreams: [{ backend }] } } });

describe("events that nobody has read when the client leaves", () => {
  const usage = { type: "usage", usage: { inputTokens: INPUT, outputTokens: 30 } } as const;

  it.each<[string, backend: () => ModelBackend, units: number]>([
    ["of a backend that reports them", () => buffering(() => [WORD, usage]), INPUT + 30],
    ["of a backend in a route", () => routed(buffering(() => [WORD, usage])), INPUT + 30],
    ["with counts that a route has read before the answer begins", () => routed(speaking(usage, never)), INPUT + 30],
    ["of which none came", () => buffering(() => []), INPUT + 4],
  ])("are charged: %s", async (_whose, backend, used) => {
    const bench = opened({ backend: backend() });
    const { answer, hangUp } = called(bench, true);
    await bench.clock.advance(MINUTE);
    hangUp();
    await answer;
    await bench.clock.advance(0);
    expect([bench.report(), bench.failures]).toEqual([expect.objectContaining({ used, ...AT_REST }), []]);
  });

  it("are charged though the first comes behind a keep-alive", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const bench = opened({ backend: speaking(told, WORD, never) });
    const { answer, hangUp } = called(bench, true);
    await bench.clock.advance(MINUTE);
    await answer;
    open();
    await bench.clock.advance(0);
    hangUp();
    await bench.clock.advance(0);
    expect(bench.report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it.each<[string, () => unknown]>([
    ["throws", () => fail(new Error("Lost."))],
    ["returns a promise", async () => [WORD]],
    ["returns a promise that rejects", async () => fail(new Error("Lost."))],
    ["returns events that are none", () => [{ type: "word" }]],
  ])("end the call as ever, and are reported, when the function %s", async (_how, unread) => {
    const bench = opened({ backend: buffering(unread) });
    const { answer, hangUp } = called(bench, true);
    await answer;
    hangUp();
    await bench.clock.advance(0);
    expect(bench.report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    expect(bench.failures).toMatchObject([{ port: "model-backend" }]);
  });

  it("are counted one call after the other, with turns of the event loop between", async () => {
    let counts = 0;
    const ended: number[] = [];
    const rateLimiter: RateLimiter = {
      begin: async () => ({ limits: [] }),
      take: async () => ({ limits: [] }),
      end: async (_id, tokens) => void ended.push(tokens),
    };
    const backend = buffering(() => (counts++, Array.from({ length: 20 }, () => usage)));
    const bench = opened({ backend, rateLimiter });
    const calls = [1, 2, 3].map(() => called(bench, true));
    await Promise.all(calls.map(({ answer }) => answer));
    for (const { hangUp } of calls) hangUp();
    // Two calls have more events than one turn counts.
    expect(counts).toBe(2);
    await expect.poll(() => bench.report()).toMatchObject({ used: 3 * (INPUT + 30), ...AT_REST });
    expect(ended).toEqual([INPUT + 30, INPUT + 30, INPUT + 30]);
  });

  it.each<[string, event: unknown, used: number, read: number]>([
    // More than twice the limit of 50 tokens and 64 cannot be true.
    ["where a reader's call is stopped", "x", INPUT + 165, 162],
    ["with the first 65,536 events", usage, INPUT + 30, 65_537],
  ])("of a backend that has no end stop %s", async (_where, event, used, most) => {
    let read = 0;
    const bench = opened({
      backend: buffering(function* () {
        for (;;) yield ((read++, event));
      }),
      key: {},
    });
    const { answer, hangUp } = called(bench, true);
    await answer;
    hangUp();
    await bench.clock.advance(0);
    expect([bench.report(), read]).toEqual([expect.objectContaining({ used, ...AT_REST }), most]);
  });

  it.each<[string, second: ModelBackend, used: number]>([
    ["another upstream answers", speaking(WORD, never), INPUT + 4],
    ["another upstream is asked", speaking(never), INPUT + 9],
  ])("are not charged of an upstream that has failed, when %s", async (_when, second, used) => {
    const counts = { type: "usage", usage: { inputTokens: INPUT, outputTokens: 9 } } as const;
    const first: ModelBackend = {
      async *chat(_, call) {
        call.reportUnread?.(() => [usage]);
        yield counts;
        throw new GatewayError("backend_failed", "It is down.");
      },
    };
    const upstreams = [{ backend: first }, { backend: second, weight: 0 }];
    const bench = opened({ backend: route({ routes: { any: { upstreams } } }) });
    const { answer, hangUp } = called(bench, true);
    await bench.clock.advance(MINUTE);
    await answer;
    hangUp();
    await bench.clock.advance(0);
    expect(bench.report()).toMatchObject({ used, ...AT_REST });
  });
});

describe("closing", () => {
  it("at any moment of a call ends it, and settles", async () => {
    for (const stream of [true, false])
      for (let moment = 0; moment < 60; moment += 3) {
        const bench = opened({ backend: chatty(), around: slowToSettle(1) });
        const { answer } = called(bench, stream);
        await microtasks(moment);
        const closing = bench.gateway.close({ deadlineMs: 1_000 });
        const reading = answer.then(async ({ body }) => {
          if (typeof body === "string") return body;
          let text = "";
          for await (const frames of body as AsyncIterable<string>) text += frames;
          return text;
        });
        await bench.clock.advance(1_000);
        await closing;
        expect(await reading, `at ${moment}`).toContain("busy");
        expect(bench.report(), `at ${moment}`).toMatchObject(AT_REST);
      }
  });
});

describe("a backend that cuts its own call", () => {
  it("is charged once", async () => {
    let hangUp: (() => void) | undefined;
    const bench = opened({
      backend: {
        async *chat() {
          yield WORD;
          hangUp?.();
          throw new GatewayError("backend_failed", "Broken.");
        },
      },
    });
    const made = called(bench, false);
    hangUp = made.hangUp;
    expect((await made.answer).status).toBe(499);
    await bench.clock.advance(0);
    expect([bench.failures, bench.report()]).toEqual([[], expect.objectContaining({ used: INPUT + 4, ...AT_REST })]);
  });
});
