/** What an upstream has counted is charged, although its answer is broken, and the caller gets an error. */

import { describe, expect, it } from "vitest";
import { type CallRecord, createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

interface Charged {
  readonly status: number;
  readonly text: string;
  readonly record: CallRecord;
}

/** Asks a gateway, and tells the charge. A token of a prompt is a unit, and so is a picture. */
async function charged(backend: ModelBackend, path: string, body: object): Promise<Charged> {
  const done = Promise.withResolvers<CallRecord>();
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: 1_000 }]),
    imagePrice: () => 1,
    onCall: (record) => done.resolve(record),
    onFailure: () => {},
  });
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: "Bearer sk-one",
        "anthropic-version": "2023-06-01",
      },
      body: JSON.stringify(body),
    }),
  );
  return { status: response.status, text: await response.text(), record: await done.promise };
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
            doEmbed: async () => ({ embeddings, usage: { tokens: COUNT }, warnings: [] }),
          },
        },
      }),
  ],
])("an answer of %s", (_name, backendOf) => {
  it.each(BROKEN)("with %s costs what was counted", async (_what, vectors) => {
    const { status, record } = await charged(backendOf(vectors), "/v1/embeddings", { model: "m", input: ["Hi", "Ho"] });
    expect([status, record.errorCode, record.units]).toEqual([500, "backend_failed", COUNT]);
  });
});

type Name = "messages" | "chat-completions" | "generate-content" | "responses";

/** Relays to an upstream that sends a complete answer, or the frames of a stream. */
const relayed = (format: Name | "images", answer: object | readonly object[]): ModelBackend =>
  relay({
    format,
    baseUrl: "http://up.test/v1",
    async fetch() {
      if (!Array.isArray(answer)) return Response.json(answer);
      const frames = (answer as readonly { readonly type?: string }[]).map(
        (frame) => `${frame.type ? `event: ${frame.type}\n` : ""}data: ${JSON.stringify(frame)}\n\n`,
      );
      return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
    },
  });

const CALLERS: Readonly<Record<Name, (stream: boolean) => readonly [path: string, body: object]>> = {
  messages: (stream) => ["/v1/messages", { model: "m", max_tokens: 50, stream, messages: SAID }],
  "chat-completions": (stream) => ["/v1/chat/completions", { model: "m", max_tokens: 50, stream, messages: SAID }],
  "generate-content": (stream) => [
    `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    { contents: [{ role: "user", parts: [{ text: "Hi" }] }], generationConfig: { maxOutputTokens: 50 } },
  ],
  responses: (stream) => ["/v1/responses", { model: "m", max_output_tokens: 50, stream, input: "Hi" }],
};
const SAID = [{ role: "user", content: "Hi" }];

const TOLD = { input_tokens: COUNT, output_tokens: 3 };
const TOLD_TO_CHAT = { prompt_tokens: COUNT, completion_tokens: 3, total_tokens: COUNT + 3 };
const TOLD_BY_GOOGLE = { promptTokenCount: COUNT, candidatesTokenCount: 3, totalTokenCount: COUNT + 3 };
const MESSAGE = { id: "m1", type: "message", role: "assistant", model: "m", stop_reason: null, stop_sequence: null };

const ANSWERS: readonly (readonly [Name, what: string, answer: object | readonly object[]])[] = [
  ["messages", "complete", { ...MESSAGE, content: [{ type: "text", text: 7 }], stop_reason: "end_turn", usage: TOLD }],
  [
    "messages",
    "stream, from its start",
    [{ type: "message_start", message: { ...MESSAGE, role: 7, content: 7, usage: TOLD } }],
  ],
  [
    "messages",
    "stream, in its middle",
    [
      { type: "message_start", message: { ...MESSAGE, content: [], usage: TOLD } },
      { type: "content_block_start", index: 0, content_block: 7 },
    ],
  ],
  [
    "messages",
    "stream, at its end",
    [
      { type: "message_start", message: { ...MESSAGE, content: [], usage: { input_tokens: 1, output_tokens: 0 } } },
      { type: "message_delta", delta: 7, usage: TOLD },
    ],
  ],
  [
    "chat-completions",
    "complete",
    {
      id: "c",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, message: 7 }],
      usage: TOLD_TO_CHAT,
    },
  ],
  [
    "chat-completions",
    "stream",
    [
      {
        id: "c",
        object: "chat.completion.chunk",
        created: 1,
        model: "m",
        choices: [{ index: 0, delta: 7 }],
        usage: TOLD_TO_CHAT,
      },
    ],
  ],
  ["generate-content", "complete", { candidates: [{ content: { parts: 7 } }], usageMetadata: TOLD_BY_GOOGLE }],
  ["generate-content", "stream", [{ candidates: [{ content: { parts: 7 } }], usageMetadata: TOLD_BY_GOOGLE }]],
  ["responses", "complete", { id: "r", object: "response", status: "completed", model: "m", output: 7, usage: TOLD }],
  [
    "responses",
    "stream",
    [
      {
        type: "response.completed",
        response: { id: "r", object: "response", status: "completed", model: "m", output: 7, usage: TOLD },
      },
    ],
  ],
];

describe.each(ANSWERS)("an answer of %s, %s", (format, what, answer) => {
  it.each(Object.keys(CALLERS) as Name[])("costs a caller of %s what was counted", async (caller) => {
    const { status, text, record } = await charged(relayed(format, answer), ...CALLERS[caller](what !== "complete"));
    expect([record.errorCode, record.units]).toEqual(["backend_failed", COUNT + 3]);
    expect([status === 500 || what !== "complete", text]).toEqual([true, expect.stringContaining("error")]);
  });
});

const COUNTED = { inputTokens: { total: COUNT }, outputTokens: { total: 3 } };

/** A model of the AI SDK that gives the answer, and the parts of a stream. */
const modelOf = (answer: object, parts: readonly object[]): ModelBackend =>
  aiSdk({
    chat: {
      m: {
        specificationVersion: "v4",
        provider: "p",
        modelId: "m",
        supportedUrls: {},
        doGenerate: async () => answer,
        doStream: async () => ({
          stream: new ReadableStream({
            start(controller) {
              for (const part of parts) controller.enqueue(part);
              controller.close();
            },
          }),
        }),
      },
    },
  });

describe.each<[string, object, object]>([
  ["whose content is none", { content: [7], finishReason: "stop" }, { type: "tool-call", toolName: 7, usage: COUNTED }],
  [
    "that ends by an error",
    { content: [], finishReason: "error" },
    { type: "finish", finishReason: "error", usage: COUNTED },
  ],
])("an answer of a model of the AI SDK %s", (_what, answer, part) => {
  it.each([false, true])("costs what was counted (stream: %s)", async (stream) => {
    const backend = modelOf({ ...answer, usage: COUNTED, warnings: [] }, [part]);
    const { record } = await charged(backend, ...CALLERS.messages(stream));
    expect([record.errorCode, record.units]).toEqual(["backend_failed", COUNT + 3]);
  });
});

describe("pictures that are none", () => {
  const usage = { input_tokens: COUNT, output_tokens: 3, total_tokens: COUNT + 3 };

  it.each<[string, object | readonly object[]]>([
    ["complete", { created: 1, data: [{ b64_json: "eHh4" }], usage }],
    ["stream", [{ type: "image_generation.completed", b64_json: "eHh4", usage }]],
  ])("cost nothing, and the record has their tokens (%s)", async (what, answer) => {
    const body = { model: "image-model-multi", prompt: "A fox.", stream: what === "stream" };
    const { record } = await charged(relayed("images", answer), "/v1/images/generations", body);
    expect([record.errorCode, record.units]).toEqual(["backend_failed", 0]);
    expect(record.images).toMatchObject({ count: 0, usage: { outputTokens: 3 } });
  });
});
