/** What an upstream has counted is charged, although its answer is broken, and the caller gets an error. */

import { describe, expect, it } from "vitest";
import { type CallRecord, createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

interface Charged {
  readonly status: number;
  readonly record: CallRecord;
}

/** Asks a gateway for an embedding of two texts, and tells its charge. */
async function embedded(backend: ModelBackend): Promise<Charged> {
  const done = Promise.withResolvers<CallRecord>();
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: 1_000 }]),
    onCall: (record) => done.resolve(record),
    onFailure: () => {},
  });
  const response = await gateway.fetch(
    new Request("http://gateway.test/v1/embeddings", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer sk-one" },
      body: JSON.stringify({ model: "m", input: ["Hi", "Ho"] }),
    }),
  );
  return { status: response.status, record: await done.promise };
}

const COUNT = 7;

const BROKEN: readonly (readonly [string, readonly unknown[]])[] = [
  ["no vectors", []],
  ["too few vectors", [[1, 2]]],
  ["a vector that is none", [[1, 2], { a: 1 }]],
  ["a first vector of texts", [["x"], [1]]],
  [
    "a last vector of texts",
    [
      [1, 2],
      [1, "x"],
    ],
  ],
  ["vectors of two lengths", [[1, 2], [1]]],
  ["an empty vector", [[], []]],
];

describe.each<[string, (vectors: readonly unknown[]) => ModelBackend]>([
  [
    "chat-completions",
    (vectors) =>
      relayed("chat-completions", {
        object: "list",
        model: "m",
        data: vectors.map((embedding, index) => ({ object: "embedding", index, embedding })),
        usage: { prompt_tokens: COUNT, total_tokens: COUNT },
      }),
  ],
  [
    "generate-content",
    (vectors) =>
      relayed("generate-content", {
        embeddings: vectors.map((values) => ({ values })),
        usageMetadata: { promptTokenCount: COUNT },
      }),
  ],
  [
    "the AI SDK",
    (embeddings) =>
      aiSdk({
        embeddings: {
          m: {
            specificationVersion: "v4",
            provider: "p",
            modelId: "m",
            maxEmbeddingsPerCall: 10,
            supportsParallelCalls: false,
            doEmbed: async () => ({ embeddings, usage: { tokens: COUNT }, warnings: [] }) as never,
          },
        },
      }),
  ],
])("an answer of %s", (_name, backendOf) => {
  it.each(BROKEN)("with %s costs what was counted", async (_what, vectors) => {
    const { status, record } = await embedded(backendOf(vectors));
    expect([status, record.errorCode, record.units]).toEqual([500, "backend_failed", COUNT]);
  });
});

const relayed = (format: "chat-completions" | "generate-content", answer: object): ModelBackend =>
  relay({ format, baseUrl: "http://up.test/v1", fetch: async () => Response.json(answer) });
