/** The requests of a call to upstreams: in its record, in the reports of failures, and in its price. */

import { describe, expect, it } from "vitest";
import {
  type CallContext,
  type CallRecord,
  GatewayError,
  type ImageKind,
  type ModelBackend,
  type Price,
  type UpstreamModel,
} from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { type Route, route } from "../../src/upstreams/route/index.ts";
import { drawn } from "../hosts/stage.ts";
import { NOBODY, type RawAnswer, rawUpstream, whole } from "../upstreams/relay/raw-upstream.ts";
import { counted, never, type Opened, opened, type Setup, speaking, WORD } from "./bench.ts";

const KEY = "sk-upstream-0123456789";

interface Recording extends Opened {
  readonly records: CallRecord[];
}

function recording(setup: Setup): Recording {
  const records: CallRecord[] = [];
  return { ...opened({ onCall: (record) => records.push(record), key: { granted: 100_000 }, ...setup }), records };
}

const json = (status: number, body: object): Buffer => whole(status, "application/json", JSON.stringify(body));

const answers: RawAnswer = (socket) =>
  socket.end(
    json(200, {
      id: "c",
      object: "chat.completion",
      created: 1,
      model: "large-2-2026",
      choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 7, total_tokens: 17 },
    }),
  );

const refuses: RawAnswer = (socket) =>
  socket.end(json(401, { error: { message: `No such key: ${KEY}.`, type: "invalid_request_error" } }));

const relayTo = (baseUrl: string, name?: string): ReturnType<typeof relay> =>
  relay({ format: "chat-completions", baseUrl, apiKey: KEY, ...(name !== undefined && { name }) });

/** A primary that refuses the host's key, and a second upstream that answers. */
const withFallback = (primary: string, second: string): ModelBackend =>
  route({
    routes: {
      fast: {
        upstreams: [
          { backend: relayTo(primary), name: "primary", model: "large-1" },
          { backend: relayTo(second), name: "second", model: "large-2", weight: 0 },
        ],
      },
    },
  });

const FAST = { body: { model: "fast" } };

describe("an upstream that fails before another answers", () => {
  it("is in the record, with what it answered and why the call moved on", async () => {
    await using primary = await rawUpstream(refuses);
    await using second = await rawUpstream(answers);
    const { send, records, failures } = recording({ backend: withFallback(primary.url, second.url) });
    const answer = await send(FAST);
    expect([answer.status, await answer.text()]).toMatchObject([200, expect.stringContaining("Hello")]);
    expect(records).toMatchObject([
      {
        outcome: "completed",
        attempts: [
          { upstream: "primary", model: "large-1", status: 401, errorCode: "backend_refused", movedOn: "refused" },
          { upstream: "second", model: "large-2", status: 200, errorCode: undefined, movedOn: undefined },
        ],
      },
    ]);
    for (const { beganAt, endMs } of records[0]?.attempts ?? []) {
      expect(beganAt).toBeGreaterThan(0);
      expect(endMs).toBeGreaterThanOrEqual(0);
    }
    const { port } = new URL(primary.url);
    expect(failures).toMatchObject([
      {
        error: { code: "backend_refused" },
        port: "model-backend",
        upstream: { name: "primary", address: `127.0.0.1:${port}`, model: "large-1", status: 401 },
      },
    ]);
    expect(failures[0]?.text).toContain(`The upstream primary at 127.0.0.1:${port} failed for the model large-1`);
    // The status and the words of the upstream tell all.
    expect(failures[0]?.text).toMatch(/caused by Error: The upstream answered 401, [^\n]*$/);
    expect(JSON.stringify([failures, records])).not.toContain(KEY);
  });

  it("is reported at once, while the next upstream has not answered yet", async () => {
    await using primary = await rawUpstream(refuses);
    const reported = Promise.withResolvers<string | undefined>();
    const { send, gateway, clock } = recording({
      backend: route({
        routes: {
          fast: {
            upstreams: [
              { backend: relayTo(primary.url), name: "primary" },
              { backend: speaking(never), weight: 0 },
            ],
          },
        },
      }),
      onFailure: ({ upstream }) => reported.resolve(upstream?.name),
    });
    const answer = send(FAST);
    expect(await reported.promise).toBe("primary");
    const closed = gateway.close({ deadlineMs: 1 });
    await clock.advance(1);
    await closed;
    expect((await answer).status).toBe(503);
  });

  it("is reported once, although its error is also the call's", async () => {
    await using primary = await rawUpstream(refuses);
    const { send, failures, records } = recording({ backend: relayTo(primary.url, "only") });
    expect((await send()).status).toBe(500);
    expect(failures).toMatchObject([{ upstream: { name: "only", status: 401 } }]);
    expect(records[0]?.attempts).toMatchObject([{ upstream: "only", movedOn: undefined }]);
  });

  it("is listed as resting while its circuit breaker is open, without a report", async () => {
    await using second = await rawUpstream(answers);
    const backend = route({
      breaker: { failures: 1 },
      routes: {
        fast: {
          upstreams: [
            { backend: relayTo(`http://${NOBODY}/v1`), name: "primary" },
            { backend: relayTo(second.url), name: "second", weight: 0 },
          ],
        },
      },
    });
    const { send, records, failures } = recording({ backend });
    await (await send(FAST)).text();
    await (await send(FAST)).text();
    expect(records.map(({ attempts }) => attempts.map(({ upstream, movedOn }) => [upstream, movedOn]))).toEqual([
      [
        ["primary", "failed"],
        ["second", undefined],
      ],
      [
        ["primary", "resting"],
        ["second", undefined],
      ],
    ]);
    expect(failures).toMatchObject([{ upstream: { name: "primary", status: undefined } }]);
  });
});

describe("a backend of the host's own", () => {
  it("is listed by its route, although it reports nothing", async () => {
    const failing: ModelBackend = {
      // oxlint-disable-next-line require-yield -- fails first
      async *chat() {
        throw new GatewayError("rate_limited", "Slow down.");
      },
    };
    const { send, records } = recording({
      backend: route({
        routes: {
          any: {
            upstreams: [
              { backend: failing, name: "busy" },
              { backend: speaking(WORD), weight: 0 },
            ],
          },
        },
      }),
    });
    await (await send()).text();
    expect(records[0]?.attempts).toMatchObject([
      { upstream: "busy", model: "any", errorCode: "rate_limited", movedOn: "rate-limited" },
      { upstream: "any", model: "any", errorCode: undefined, movedOn: undefined },
    ]);
  });

  it("reports its own attempts, of which the first 64 are kept", async () => {
    const backend: ModelBackend = {
      async *chat({ model }, { observeUpstream }) {
        for (let at = 0; at < 100; at++)
          observeUpstream?.({ name: `n${at}`, format: "own", model, modelListed: false, stream: false }).end({
            endMs: at,
            status: 503,
            errorCode: "backend_overloaded",
            error: new GatewayError("backend_overloaded", "Busy.", {
              port: "model-backend",
              cause: new Error("sk-one is busy"),
            }),
          });
        yield WORD;
      },
    };
    const { send, records, failures } = recording({ backend });
    await (await send({ body: { model: "a-sk-one-model" } })).text();
    const attempts = records[0]?.attempts ?? [];
    expect(attempts).toHaveLength(64);
    expect(attempts[1]).toMatchObject({ upstream: "n1", status: 503, endMs: 1, errorCode: "backend_overloaded" });
    expect(failures).toHaveLength(100);
    // What a caller writes may hold its key.
    expect(JSON.stringify([attempts, failures.map(({ text, upstream }) => [text, upstream])])).not.toContain("sk-one");
  });

  it("that hangs is listed as it stands when the call is cut", async () => {
    const backend: ModelBackend = {
      async *chat({ model }, { observeUpstream }) {
        observeUpstream?.({ name: "hanging", format: "own", model, modelListed: false, stream: false });
        await never;
        yield WORD;
      },
    };
    const bench = recording({ backend, limits: { deadlineMs: 5_000 } });
    const answer = bench.send();
    await bench.clock.advance(5_000);
    expect((await answer).status).toBe(504);
    expect(bench.records[0]?.attempts).toMatchObject([
      { upstream: "hanging", endMs: 5_000, status: undefined, errorCode: "deadline_exceeded" },
    ]);
    expect(bench.failures.filter(({ upstream }) => upstream)).toEqual([]);
  });
});

/** A price of nothing for a caller's name, and none for an upstream's. */
const free: Price = (_usage, _model, _kind, upstream) => {
  if (upstream) throw new GatewayError("model_not_found", `The model "${upstream.model}" has no price.`);
  return 0;
};
const LARGE = { name: "own", format: "own", model: "large-9", modelListed: false, stream: false };
/** A backend that asks an upstream which it did not tell before. */
const asking = (catches: boolean): ModelBackend & { readonly sent: string[] } => {
  const sent: string[] = [];
  return {
    sent,
    async *chat(_request, { observeUpstream }) {
      try {
        observeUpstream?.(LARGE);
      } catch (error) {
        if (!catches) throw error;
      }
      sent.push("large-9");
      yield WORD;
      yield counted(7);
    },
  };
};

describe("a price", () => {
  /** Units for each token, by the upstream's name of the model. */
  const UNITS: Readonly<Record<string, number>> = { "large-1": 5, "large-2": 2 };
  const price: Price = ({ inputTokens, outputTokens }, model, _kind, upstream) =>
    (inputTokens + outputTokens) * (UNITS[upstream?.model ?? model] ?? 1);

  const counting: Pick<Route, "upstreams"> = {
    upstreams: [
      {
        backend: {
          // oxlint-disable-next-line require-yield -- fails first
          async *chat() {
            throw new GatewayError("backend_failed", "Down.");
          },
        },
        model: "large-1",
        name: "here",
      },
      { backend: speaking(WORD, counted(7)), model: "large-2", name: "there", weight: 0 },
    ],
  };

  it("is held for the dearest upstream that may answer, and charged for the one that has", async () => {
    const held: number[] = [];
    const { send, records, store } = recording({
      price,
      backend: route({ routes: { fast: counting } }),
      around: (inner) => ({
        reserve: (hold) => {
          held.push(hold.atMost);
          return inner.reserve(hold);
        },
      }),
    });
    await (await send(FAST)).text();
    expect(held).toEqual([(10 + 50) * 5]);
    expect(records).toMatchObject([{ units: (10 + 7) * 2 }]);
    expect(store.report("one")).toMatchObject({ used: (10 + 7) * 2 });
  });

  it("is asked for the caller's model alone where the backend does not tell its upstreams", async () => {
    const asked = new Set<UpstreamModel | undefined>();
    const { send } = recording({
      backend: speaking(WORD, counted(7)),
      price: (usage, model, kind, upstream) => {
        asked.add(upstream);
        return price(usage, model, kind, upstream);
      },
    });
    await (await send()).text();
    expect([...asked]).toEqual([undefined]);
  });

  it("goes on where a backend throws when it is asked for its upstreams", async () => {
    const backend: ModelBackend = {
      ...speaking(WORD, counted(7)),
      upstreamsOf: () => {
        throw new Error("Not now.");
      },
    };
    const { send, records } = recording({ backend, price });
    await (await send()).text();
    expect(records).toMatchObject([{ units: 17, outcome: "completed" }]);
  });

  describe("of nothing for the caller's name, and of none for an upstream that the backend did not tell before", () => {
    it.each([false, true])("refuses the call before the upstream is asked (stream: %s)", async (stream) => {
      const backend = asking(false);
      const { send, records, failures } = recording({ backend, price: free });
      const answer = await send({ body: { stream } });
      expect([answer.status, await answer.text()]).toEqual([
        400,
        expect.stringContaining('The model \\"large-9\\" has no price.'),
      ]);
      expect(backend.sent).toEqual([]);
      expect(records).toMatchObject([{ units: 0, errorCode: "model_not_found", attempts: [] }]);
      expect(failures).toEqual([]);
    });

    it("tells the host the error of a price that fails by mistake", async () => {
      const backend = asking(false);
      const { send, failures } = recording({ backend, price: (_usage, _model, _kind, up) => (up ? Number.NaN : 0) });
      expect((await send()).status).toBe(500);
      expect(backend.sent).toEqual([]);
      expect(failures).toMatchObject([{ error: { code: "internal" } }]);
      expect(failures[0]?.text).toContain("must be a number from 0 up, not NaN");
    });

    it("refuses pictures and embeddings, too", async () => {
      const backend: ModelBackend = {
        async *image(_request, { observeUpstream }) {
          observeUpstream?.(LARGE);
          yield drawn(0);
        },
        async *embed(_request, { observeUpstream }) {
          observeUpstream?.(LARGE);
          yield [1];
        },
      };
      const { send, report } = recording({
        backend,
        price: free,
        imagePrice: ({ upstream }) => free({} as never, "", "image", upstream),
      });
      const picture = { path: "/v1/images/generations", body: JSON.stringify({ model: "any", prompt: "A cat" }) };
      expect((await send(picture)).status).toBe(404);
      const input = { path: "/v1/embeddings", body: JSON.stringify({ model: "any", input: "A cat" }) };
      expect((await send(input)).status).toBe(404);
      expect(report()).toMatchObject({ used: 0, held: 0 });
    });

    it.each<[when: string, price: Price]>([
      ["before the answer", free],
      ["after it", (usage, ...told) => (usage.outputTokens === 7 ? free(usage, ...told) : 0)],
    ])("charges one unit for each token where the backend goes on all the same (fails %s)", async (_when, price) => {
      const { send, records, failures, store } = recording({ backend: asking(true), price });
      expect((await send()).status).toBe(200);
      expect(records).toMatchObject([{ units: 10 + 7, certainty: "estimated" }]);
      expect(store.report("one")).toMatchObject({ used: 10 + 7, estimated: 10 + 7 });
      expect(failures).toMatchObject([{ error: { code: "model_not_found" } }]);
    });

    it.each(["image", "embed"] as const)("charges the tokens of a backend's %s, too", async (verb) => {
      const { send, records, failures } = recording({
        backend: {
          [verb]: async function* (_request: never, { observeUpstream }: CallContext) {
            expect(() => observeUpstream?.(LARGE)).toThrow("has no price");
            yield verb === "image" ? drawn(0) : [1];
          },
        },
        price: free,
        imagePrice: ({ upstream }) => free({} as never, "", "image", upstream),
      });
      const path = verb === "image" ? "/v1/images/generations" : "/v1/embeddings";
      const body = JSON.stringify({ prompt: "A cat", model: "image-model-2", input: "A cat" });
      expect((await send({ path, body })).status).toBe(200);
      expect(records[0]?.units).toBeGreaterThan(0);
      expect(records).toMatchObject([{ certainty: "estimated" }]);
      expect(failures).toMatchObject([{ error: { code: "model_not_found" } }]);
    });
  });

  it("of pictures knows the upstream too", async () => {
    const kinds: ImageKind[] = [];
    const backend: ModelBackend = {
      async *image() {
        yield drawn(0);
      },
    };
    const { send, records } = recording({
      backend: route({ routes: { "image-model-2": { upstreams: [{ backend, model: "dalle", name: "there" }] } } }),
      imagePrice: (kind) => {
        kinds.push(kind);
        return kind.upstream?.model === "dalle" ? 30 : 1;
      },
    });
    const body = { model: "image-model-2", prompt: "A cat" };
    expect((await send({ path: "/v1/images/generations", body })).status).toBe(200);
    expect(kinds.map(({ upstream }) => upstream)).toContainEqual({ name: "there", model: "dalle" });
    expect(records).toMatchObject([{ units: 30 }]);
  });
});
