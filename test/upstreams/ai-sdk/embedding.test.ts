/** Embedding models of the AI SDK's providers: batches, fields, hostile answers, and the official providers themselves. */

import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect, it } from "vitest";
import { demoModel } from "../../../src/demo/backend.ts";
import {
  type Conversion,
  createGateway,
  type EmbeddingRequest,
  type GatewayError,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { type AiSdkEmbeddingModel, type AiSdkOptions, aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { callContext } from "../relay/stage.ts";
import type { Asked } from "./fake-models.ts";

interface Fake {
  readonly version?: "v2" | "v3" | "v4";
  readonly provider?: string;
  readonly most?: unknown;
  readonly parallel?: unknown;
}

const valuesIn = ({ values }: Asked): string[] => values as string[];

/** The vector of a text is its number. */
const vectors = (asked: Asked): object => ({
  embeddings: valuesIn(asked).map((text) => [Number(text), 0.5]),
  usage: { tokens: valuesIn(asked).length },
  warnings: [],
});

function fake(
  answer: (asked: Asked) => unknown = vectors,
  { version = "v4", provider = "fake", most, parallel }: Fake = {},
) {
  const asked: Asked[] = [];
  const model: AiSdkEmbeddingModel = {
    specificationVersion: version,
    provider,
    modelId: "fake-embed",
    maxEmbeddingsPerCall: most,
    supportsParallelCalls: parallel,
    async doEmbed(options: Asked) {
      asked.push(options);
      return answer(options);
    },
  };
  return { model, asked };
}

const texts = (count: number): string[] => Array.from({ length: count }, (_, index) => String(index));

async function ask(
  model: AiSdkEmbeddingModel,
  more: Partial<EmbeddingRequest> = {},
  options: Partial<AiSdkOptions> = {},
  signal?: AbortSignal,
) {
  const found: number[][] = [];
  let tokens: number | undefined;
  let error: Partial<GatewayError> | undefined;
  let conversions: readonly Conversion[] = [];
  const call = { ...callContext(), signal: signal ?? new AbortController().signal };
  call.reportConversions = (told) => void (conversions = told);
  try {
    const backend = aiSdk({ embeddings: { m: model }, ...options });
    for await (const event of backend.embed?.({ model: "m", inputs: ["7"], ...more }, call) ?? [])
      if ("type" in event) tokens = event.usage.inputTokens;
      else found.push([...event]);
  } catch (thrown) {
    error = thrown as GatewayError;
  }
  return { vectors: found, tokens, error, dropped: conversions.map(({ field }) => field) };
}

describe("batches", () => {
  it.each([undefined, null, Number.POSITIVE_INFINITY, 0, -1, "5", Promise.resolve(100)])(
    "are one where the model takes %o at once",
    async (most) => {
      const { model, asked } = fake(vectors, { most });
      expect(await ask(model, { inputs: texts(100) })).toMatchObject({ tokens: 100, error: undefined });
      expect(asked).toHaveLength(1);
    },
  );

  it.each([
    [true, 4],
    [false, 1],
    [undefined, 1],
    [Promise.resolve(true), 4],
  ])("are asked for at once where the model allows it: %o", async (parallel, expected) => {
    let [running, most] = [0, 0];
    const answer = async (asked: Asked): Promise<object> => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
      return vectors(asked);
    };
    const { model, asked } = fake(answer, { most: Promise.resolve(3), parallel });
    const told = await ask(model, { inputs: texts(20) });
    expect(told.vectors.map(([number]) => number)).toEqual(texts(20).map(Number));
    expect(told.tokens).toBe(20);
    expect(asked.map((one) => valuesIn(one).length)).toEqual([3, 3, 3, 3, 3, 3, 2]);
    expect(most).toBe(expected);
  });
});

describe("fields", () => {
  const ALL = { dimensions: 8, taskType: "clustering", titles: ["T"], endUser: "u" } as const;

  it.each<
    [provider: string, version: Fake["version"], dimensions: number | undefined, options: object, dropped: string[]]
  >([
    ["openai.embedding", "v4", 8, { openai: { user: "u" } }, ["taskType", "titles"]],
    ["openai.embedding", "v2", undefined, { openai: { dimensions: 8, user: "u" } }, ["taskType", "titles"]],
    ["google.generative-ai", "v4", 8, { google: { taskType: "CLUSTERING" } }, ["titles", "endUser"]],
    [
      "google.generative-ai",
      "v3",
      undefined,
      { google: { outputDimensionality: 8, taskType: "CLUSTERING" } },
      ["titles", "endUser"],
    ],
    ["mistral.embedding", "v4", 8, {}, ["taskType", "titles", "endUser"]],
    ["mistral.embedding", "v3", undefined, {}, ["dimensions", "taskType", "titles", "endUser"]],
  ])("of a model of %s, %s", async (provider, version = "v4", dimensions, options, dropped) => {
    const { model, asked } = fake(vectors, { provider, version });
    expect((await ask(model, ALL)).dropped).toEqual(dropped);
    expect(asked[0]?.["dimensions"]).toBe(dimensions);
    expect(asked[0]?.["providerOptions"]).toEqual(options);
  });

  it("of the host are laid over those of the caller", async () => {
    const { model, asked } = fake(vectors, { provider: "openai.embedding" });
    await ask(model, ALL, { providerOptions: { openai: { user: "host" } } });
    expect(asked[0]?.["providerOptions"]).toEqual({ openai: { user: "host" } });
  });

  it("that no model takes are refused by name", async () => {
    const { model, asked } = fake();
    for (const [inputs, field] of [
      [[[1, 2]], "inputs.tokens"],
      [[{ parts: [] }], "inputs.media"],
    ] as const)
      expect((await ask(model, { inputs })).error).toMatchObject({
        code: "failed_precondition",
        message: expect.stringContaining(field),
      });
    expect((await ask(model, ALL, { strict: true })).error).toMatchObject({ code: "failed_precondition" });
    expect(asked).toEqual([]);
  });

  it("that a warning names are reported", async () => {
    const warnings = [{ type: "unsupported", feature: "dimensions", details: "Not here." }];
    const { model } = fake((asked) => ({ ...vectors(asked), warnings }));
    expect((await ask(model)).dropped).toEqual(["dimensions"]);
  });
});

describe("an answer", () => {
  it.each<[name: string, answer: unknown]>([
    ["nothing", undefined],
    ["a text", "vectors"],
    ["no vectors", {}],
    ["too many vectors", { embeddings: [[1], [2]] }],
    ["too few vectors", { embeddings: [] }],
    ["a text for a vector", { embeddings: ["1"] }],
    ["null for a vector", { embeddings: [null] }],
  ])("of %s is a failure", async (_name, answer) => {
    expect((await ask(fake(() => answer).model)).error).toMatchObject({ code: "backend_failed" });
  });

  it.each([[undefined], [null], [{}], [{ tokens: null }], [{ tokens: Number.NaN }]])(
    "of the usage %o has no count",
    async (usage) => {
      const told = await ask(fake((asked) => ({ ...vectors(asked), usage })).model);
      expect(told).toMatchObject({ vectors: [[7, 0.5]], tokens: undefined, error: undefined });
    },
  );

  it("may be an error of the provider", async () => {
    const error = Object.assign(new Error("Slow down."), { name: "AI_APICallError", statusCode: 429 });
    const { model } = fake(() => {
      throw error;
    });
    expect((await ask(model)).error).toMatchObject({ code: "rate_limited" });
  });
});

describe("a model that hangs", () => {
  it("is given up after its time", async () => {
    const clock = manualClock();
    const begun = Promise.withResolvers<void>();
    const { model, asked } = fake(() => (begun.resolve(), new Promise(() => {})));
    const told = ask(model, {}, { clock, timeouts: { completeMs: 1_000 } });
    await begun.promise;
    await clock.advance(1_000);
    expect((await told).error).toMatchObject({ code: "deadline_exceeded" });
    expect(asked[0]?.abortSignal?.aborted).toBe(true);
  });

  it("is left when the caller is gone", async () => {
    const [hangUp, begun] = [new AbortController(), Promise.withResolvers<void>()];
    const { model, asked } = fake(() => (begun.resolve(), new Promise(() => {})), { most: 1, parallel: true });
    const told = ask(model, { inputs: texts(6) }, {}, hangUp.signal);
    await begun.promise;
    hangUp.abort(new Error("Gone."));
    expect((await told).error).toBeDefined();
    expect(asked.every(({ abortSignal }) => abortSignal?.aborted)).toBe(true);
  });
});

describe("the list of models", () => {
  it("tells that they embed", async () => {
    const { model } = fake();
    expect(await aiSdk({ embeddings: { near: model }, info: { near: { maxInputTokens: 5 } } }).models?.()).toEqual([
      { id: "near", kinds: ["embedding"], maxInputTokens: 5 },
    ]);
  });

  it("must not be empty, and each must be a model", () => {
    expect(() => aiSdk({})).toThrow("neither a chat model nor an image model nor an embedding model");
    expect(() => aiSdk({ embeddings: { near: {} as AiSdkEmbeddingModel } })).toThrow('the model "near" is none');
  });
});

describe("the official providers", () => {
  const upstream = createGateway({ backend: demoModel(), quotas: memoryQuotaStore([{ apiKey: "sk-up" }]) });
  const connection = {
    apiKey: "sk-up",
    fetch: ((url, init) => upstream.fetch(new Request(url, init))) satisfies typeof fetch,
  };
  const models: Readonly<Record<string, AiSdkEmbeddingModel>> = {
    openai: createOpenAI({ ...connection, baseURL: "http://upstream.test/v1" }).embedding("demo-embedding"),
    google: createGoogle({ ...connection, baseURL: "http://upstream.test/v1beta" }).embedding("demo-embedding"),
  };

  it.each(Object.entries(models))("of %s embed one text and more than one call takes", async (_name, model) => {
    const inputs = Array.from({ length: 101 }, (_, index) => `Text ${index}`);
    const many = await ask(model, { inputs, dimensions: 16 });
    expect(many.error).toBeUndefined();
    expect(many.dropped).toEqual([]);
    expect(many.vectors).toHaveLength(101);
    const one = await ask(model, { inputs: ["Text 100"], dimensions: 16 });
    expect(one.vectors).toEqual(many.vectors.slice(100));
  });
});
