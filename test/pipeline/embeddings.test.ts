/** What the pipeline does for embeddings as for every kind: routes, repetitions, limits, permissions, records, traces. */

import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  type EmbeddingEvent,
  type EmbeddingRequest,
  GatewayError,
  memoryReplayStore,
  type ModelBackend,
  type RateLimiter,
} from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { only, watched } from "../telemetry/stage.ts";
import { AT_REST, never, opened, type Opened, type Send, type Setup, speaking, WORD } from "./bench.ts";

const TOKENS = 7;

interface Embedder extends ModelBackend {
  readonly asked: EmbeddingRequest[];
}

/** Makes a vector of each input, and counts `TOKENS`. */
function embedder(failure?: Error): Embedder {
  const asked: EmbeddingRequest[] = [];
  return {
    asked,
    async *embed(request): AsyncGenerator<EmbeddingEvent> {
      asked.push(request);
      if (failure) throw failure;
      for (const index of request.inputs.keys()) yield [index];
      yield { type: "usage", usage: { inputTokens: TOKENS } };
    },
  };
}

const embed = (more: object = {}): Send => ({
  path: "/v1/embeddings",
  body: JSON.stringify({ model: "m", input: ["A", "B"], ...more }),
});

/** A response that has been read, after the call is settled. */
async function answered(bench: Opened, send: Send = embed()) {
  const response = await bench.send(send);
  const answer = (await response.json()) as { error?: { code: string }; model?: string; data?: unknown[] };
  await bench.clock.advance(0);
  return { status: response.status, headers: response.headers, answer, used: bench.report()?.used };
}

describe("a route", () => {
  it("asks the next upstream when the first fails, under its own name of the model", async () => {
    const [failing, working] = [embedder(new GatewayError("backend_unavailable", "Gone.")), embedder()];
    const upstreams = [{ backend: failing }, { backend: working, weight: 0, model: "other" }];
    const bench = opened({ backend: route({ routes: { m: { upstreams } } }) });
    expect(await answered(bench)).toMatchObject({ status: 200, answer: { model: "m" }, used: TOKENS });
    expect([...failing.asked, ...working.asked].map(({ model }) => model)).toEqual(["m", "other"]);
  });

  it("charges what an upstream counted before it failed, where no other answers", async () => {
    const counting: ModelBackend = {
      async *embed(): AsyncGenerator<EmbeddingEvent> {
        yield { type: "usage", usage: { inputTokens: 5 } };
        throw new GatewayError("backend_unavailable", "Gone.");
      },
    };
    const first = { backend: counting };
    for (const [upstreams, ...expected] of [
      [[first], 503, 5],
      [[first, { backend: embedder(), weight: 0 }], 200, TOKENS],
    ] as const) {
      const { send, report } = opened({ backend: route({ routes: { m: { upstreams } }, retry: { rounds: 0 } }) });
      expect([(await send(embed())).status, report()?.used]).toEqual(expected);
    }
  });

  it("passes no upstream that cannot embed", async () => {
    const backend = route({ routes: { m: speaking(WORD), "n*": embedder() } });
    const bench = opened({ backend });
    expect(await answered(bench)).toMatchObject({ status: 404, answer: { error: { code: "model_not_found" } } });
    expect(await answered(bench, embed({ model: "n1" }))).toMatchObject({ status: 200 });
  });

  it("has no addresses where nobody embeds", async () => {
    const { gateway } = opened({ backend: route({ routes: { m: speaking(WORD) } }) });
    expect(gateway.endpoints.some(({ kind }) => kind === "embedding")).toBe(false);
  });
});

describe("a repetition under one idempotency key", () => {
  it("gets the same answer, and costs nothing", async () => {
    const backend = embedder();
    const bench = opened({ backend, replays: (clock) => memoryReplayStore({ clock }) });
    const repeated = { ...embed(), headers: { "idempotency-key": "once" } };
    const first = await answered(bench, repeated);
    expect(await answered(bench, repeated)).toMatchObject({ status: 200, answer: first.answer, used: TOKENS });
    expect(backend.asked).toHaveLength(1);
    const other = { ...embed({ input: "C" }), headers: { "idempotency-key": "once" } };
    expect(await answered(bench, other)).toMatchObject({ status: 409 });
  });
});

describe("a rate limiter", () => {
  it("hears of the tokens, and tells the caller in the headers that its clients read", async () => {
    const heard: object[] = [];
    const limits = [{ kind: "requests", limit: 9, remaining: 8, resetMs: 1_000 }] as const;
    const rateLimiter: RateLimiter = {
      begin: async () => ({ limits }),
      async take({ tokens, outputTokens }) {
        heard.push({ tokens, outputTokens });
        return { limits };
      },
      end: async (_id, tokens) => void heard.push({ tokens }),
    };
    const { headers } = await answered(opened({ backend: embedder(), rateLimiter }));
    expect(heard).toEqual([{ tokens: 2, outputTokens: 0 }, { tokens: TOKENS }]);
    expect(headers.get("x-ratelimit-remaining-requests")).toBe("8");
  });
});

const models = (): readonly { id: string; kinds: ("chat" | "embedding")[] }[] => [
  { id: "m", kinds: ["embedding"] },
  { id: "c", kinds: ["chat"] },
];

describe("a model", () => {
  const backend = { ...embedder(), ...speaking(WORD), models };

  it("of another kind does not exist", async () => {
    const bench = opened({ backend });
    expect(await answered(bench, embed({ model: "c" }))).toMatchObject({ status: 404 });
    expect((await bench.send({ body: { model: "m" } })).status).toBe(400);
    expect((await bench.send({ body: { model: "c" } })).status).toBe(200);
  });

  it("is listed with what it does", async () => {
    const bench = opened({ backend });
    const response = await bench.send({ path: "/v1beta/models", method: "GET" });
    expect(await response.json()).toMatchObject({
      models: [
        { name: "models/m", supportedGenerationMethods: ["embedContent", "batchEmbedContents"] },
        { name: "models/c", supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"] },
      ],
    });
  });

  it("that reads only so much of an input costs no more", async () => {
    const silent: ModelBackend = {
      async *embed({ inputs }) {
        for (const index of inputs.keys()) yield [index];
      },
      models: () => [{ id: "m", maxInputTokens: 4 }],
    };
    expect(await answered(opened({ backend: silent }), embed({ input: ["sixteen letters.", "two"] }))).toMatchObject({
      used: 4 + 3,
    });
  });
});

const recordOf = async (setup: Setup): Promise<CallRecord> => {
  const records: CallRecord[] = [];
  const bench = opened({ ...setup, onCall: (record) => records.push(record) });
  await answered(bench);
  return only(records);
};

describe("the record of a call", () => {
  it("has its tokens and its format", async () => {
    expect(await recordOf({ backend: embedder() })).toMatchObject({
      format: "embeddings",
      route: "/v1/embeddings",
      modelAsked: "m",
      stream: false,
      usage: { inputTokens: TOKENS, outputTokens: 0 },
      images: undefined,
      units: TOKENS,
      certainty: "exact",
      outcome: "completed",
      firstEventMs: 0,
    });
  });

  it("of a failure has its error", async () => {
    const backend = embedder(new GatewayError("rate_limited", "Later."));
    expect(await recordOf({ backend })).toMatchObject({ outcome: "failed", errorCode: "rate_limited", units: 0 });
  });
});

describe("a client that leaves", () => {
  it.each([
    ["has counted", { prompt_tokens: 3 }, 3],
    // An estimate for one of two inputs of one character.
    ["has not counted", undefined, 1],
  ])("is charged the batches that its upstream has answered and %s", async (_what, usage, used) => {
    const backend = relay({
      format: "chat-completions",
      baseUrl: "http://upstream.test/v1",
      embeddings: { maxInputs: 1 },
      fetch: async (_url, { body }) =>
        (body as string).includes('"A"') ? never : Response.json({ data: [{ embedding: [1] }], model: "m-1", usage }),
    });
    const bench = opened({ backend });
    const client = new AbortController();
    const sent = bench.send({ ...embed(), signal: client.signal });
    for (let turn = 0; turn < 5; turn++) await bench.clock.advance(0);
    client.abort();
    expect((await sent).status).toBe(499);
    expect(bench.report()).toMatchObject({ used, ...AT_REST });
  });
});

describe("a trace", () => {
  it("has the operation of the conventions, for the call and its upstream", async () => {
    const backend = relay({
      format: "chat-completions",
      baseUrl: "http://upstream.test/v1",
      models: ["m"],
      fetch: async () => Response.json({ data: [{ embedding: [1] }], model: "m-1", usage: { prompt_tokens: 3 } }),
    });
    const bench = watched({ backend });
    await answered(bench, embed({ input: "A" }));
    const common = { "gen_ai.operation.name": "embeddings", "gen_ai.provider.name": "openai" };
    expect(bench.spans().map(({ name, attributes }) => ({ name, attributes }))).toMatchObject([
      {
        name: "embeddings m",
        attributes: { ...common, "gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": 3 },
      },
      {
        name: "POST /v1/embeddings",
        attributes: { ...common, "gen_ai.usage.input_tokens": 3, "polygate.units": 3, "polygate.format": "embeddings" },
      },
    ]);
  });

  it("of the other format has the same operation", async () => {
    const bench = watched({ backend: { ...embedder(), models: () => [{ id: "m" }] } });
    await answered(bench, { path: "/v1beta/models/m:embedContent", body: JSON.stringify({ content: "A" }) });
    expect(only(bench.spans())).toMatchObject({
      name: "POST /v1beta/models/**",
      attributes: { "gen_ai.operation.name": "embeddings", "gen_ai.provider.name": "gcp.gen_ai" },
    });
  });
});
