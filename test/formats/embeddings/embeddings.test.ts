/** What both embedding formats take, refuse, carry and answer, case by case. */

import { describe, expect, it } from "vitest";
import { createGateway, type EmbeddingRequest, memoryQuotaStore } from "../../../src/index.ts";
import { KEY, post, sharedStage } from "../../hosts/stage.ts";
import { inProcess } from "../in-process.ts";

const stage = sharedStage(inProcess);

const EMBEDDINGS = "/v1/embeddings";
const ONE = "/v1beta/models/m:embedContent";
const BATCH = "/v1beta/models/m:batchEmbedContents";

const asked = (path: string, body: unknown): Promise<Response> =>
  stage().request(path, post(body, { authorization: `Bearer ${KEY}`, "x-api-key": undefined }));

type Expected = Omit<EmbeddingRequest, "native" | "model">;

const content = (...texts: readonly string[]): object => ({ parts: texts.map((text) => ({ text })) });
const PNG = { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } };

describe.each<[path: string, cases: readonly (readonly [name: string, body: object, expected: Expected])[]]>([
  [
    EMBEDDINGS,
    [
      ["a text", { input: "A" }, { inputs: ["A"] }],
      ["texts", { input: ["A", "B"] }, { inputs: ["A", "B"] }],
      ["tokens", { input: [1, 0] }, { inputs: [[1, 0]] }],
      ["lists of tokens", { input: [[1], [2, 3]] }, { inputs: [[1], [2, 3]] }],
      [
        "all fields",
        { input: "A", dimensions: 8, user: "u", encoding_format: "float" },
        { inputs: ["A"], dimensions: 8, endUser: "u" },
      ],
      ["nulls", { input: "A", dimensions: null, user: null, encoding_format: null }, { inputs: ["A"] }],
      ["fields that nobody knows", { input: "A", input_type: "query" }, { inputs: ["A"] }],
    ],
  ],
  [
    ONE,
    [
      ["a text", { content: content("A") }, { inputs: ["A"] }],
      ["a text alone", { content: "A" }, { inputs: ["A"] }],
      ["texts that belong together", { content: content("A", "B") }, { inputs: ["AB"] }],
      ["a single part without its list", { content: { parts: { text: "A" } } }, { inputs: ["A"] }],
      [
        "all fields",
        { model: "models/x", content: content("A"), taskType: "CLUSTERING", title: "T", outputDimensionality: 8 },
        { inputs: ["A"], taskType: "clustering", titles: ["T"], dimensions: 8 },
      ],
      [
        "the other spelling",
        { content: content("A"), task_type: "CODE_RETRIEVAL_QUERY", output_dimensionality: 8 },
        { inputs: ["A"], taskType: "code-retrieval-query", dimensions: 8 },
      ],
      ["a task type that nobody knows", { content: content("A"), taskType: "NEW_TASK" }, { inputs: ["A"] }],
      ["no task type", { content: content("A"), taskType: "TASK_TYPE_UNSPECIFIED" }, { inputs: ["A"] }],
      [
        "a picture",
        { content: { parts: [PNG, { text: "A" }] } },
        {
          inputs: [
            {
              parts: [
                {
                  type: "media",
                  kind: "image",
                  source: { type: "base64", mediaType: "image/png", data: PNG.inlineData.data },
                },
                { type: "text", text: "A" },
              ],
            },
          ],
        },
      ],
    ],
  ],
  [
    BATCH,
    [
      ["requests", { requests: [{ content: content("A") }, { content: content("B") }] }, { inputs: ["A", "B"] }],
      [
        "titles of some",
        { requests: [{ content: content("A"), title: "T" }, { content: content("B") }] },
        { inputs: ["A", "B"], titles: ["T", undefined] },
      ],
    ],
  ],
])("%s takes", (path, cases) => {
  it.each(cases)("%s", async (_name, body, expected) => {
    const response = await asked(path, { ...(path === EMBEDDINGS && { model: "m" }), ...body });
    expect(response.status).toBe(200);
    const { native, ...request } = stage().backend.askedForEmbeddings;
    expect(request).toEqual({ model: "m", ...expected });
    expect(native?.body).toMatchObject(body);
  });
});

describe.each<
  [path: string, cases: readonly (readonly [name: string, body: unknown, field: string, message: string])[]]
>([
  [
    EMBEDDINGS,
    [
      ["no model", { input: "A" }, "model", "is required"],
      ["no input", { model: "m" }, "input", "is required"],
      ["an empty text", { model: "m", input: "" }, "input", "must not be empty"],
      ["an object", { model: "m", input: { text: "A" } }, "input", "must be a string, not an object"],
      ["a number", { model: "m", input: 5 }, "input", "must be a string, not 5"],
      ["half a token", { model: "m", input: [1, 1.5] }, "input.1", "must be an integer, not 1.5"],
      ["texts among tokens", { model: "m", input: [1, "A"] }, "input.1", 'must be a number, not "A"'],
      ["a text among lists", { model: "m", input: [[1], "A"] }, "input.1", 'must be an array, not "A"'],
      [
        "too many lists",
        { model: "m", input: Array.from({ length: 2_049 }, () => [1]) },
        "input",
        "must hold at most 2048 inputs",
      ],
      ["dimensions in words", { model: "m", input: "A", dimensions: "8" }, "dimensions", 'must be a number, not "8"'],
    ],
  ],
  [
    ONE,
    [
      ["no content", {}, "content", "is required"],
      ["an empty text", { content: "" }, "content", "must not be empty"],
      ["empty texts", { content: content("", "") }, "content.parts", "must not be empty"],
      ["no parts", { content: { parts: [] } }, "content.parts", "must hold at least one part"],
      [
        "a part of two kinds",
        { content: { parts: [{ text: "A", ...PNG }] } },
        "content.parts[0].inlineData",
        "cannot stand beside text: a part is of one kind",
      ],
      [
        "a call of a function",
        { content: { parts: [{ functionCall: { name: "f" } }] } },
        "content.parts[0]",
        "must hold one of text, inlineData, fileData: nothing else can be embedded",
      ],
      ["no length", { content: "A", output_dimensionality: 0 }, "output_dimensionality", "must be at least 1"],
    ],
  ],
  [
    BATCH,
    [
      ["no requests", {}, "requests", "is required"],
      ["an empty list", { requests: [] }, "requests", "must hold at least one request"],
      [
        "an empty content",
        { requests: [{ content: "A" }, { content: "" }] },
        "requests[1].content",
        "must not be empty",
      ],
      [
        "no length",
        { requests: [{ content: "A" }, { content: "B", outputDimensionality: 0 }] },
        "requests[1].outputDimensionality",
        "must be at least 1",
      ],
      [
        "too many",
        { requests: Array.from({ length: 2_049 }, () => ({ content: "A" })) },
        "requests",
        "must hold at most 2048 requests",
      ],
    ],
  ],
])("%s refuses", (path, cases) => {
  it.each(cases)("%s", async (_name, body, field, message) => {
    const before = stage().backend.calls;
    const response = await asked(path, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: `${field}: ${message}` } });
    expect(stage().backend.calls).toBe(before);
  });
});

describe("the answer", () => {
  it("of numbers", async () => {
    const response = await asked(EMBEDDINGS, { model: "m", input: ["A", "B"], encoding_format: "float" });
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual({
      object: "list",
      data: [
        { object: "embedding", index: 0, embedding: [0, 0.5] },
        { object: "embedding", index: 1, embedding: [1, 0.5] },
      ],
      model: "m",
      usage: { prompt_tokens: 2, total_tokens: 2 },
    });
  });

  it("of base64, which is 32-bit floats, little-endian", async () => {
    const response = await asked(EMBEDDINGS, { model: "m", input: "A", encoding_format: "base64" });
    // 0 and 0.5, whose bits are 3f000000.
    const embedding = Buffer.from("000000000000003f", "hex").toString("base64");
    expect(await response.json()).toMatchObject({ data: [{ object: "embedding", index: 0, embedding }] });
  });

  it("to a content", async () => {
    const usageMetadata = { promptTokenCount: 1, totalTokenCount: 1 };
    expect(await (await asked(ONE, { content: "A" })).json()).toEqual({
      embedding: { values: [0, 0.5] },
      usageMetadata,
    });
  });

  it("to contents", async () => {
    const response = await asked(BATCH, { requests: [{ content: "A" }, { content: "B" }] });
    expect(await response.json()).toEqual({
      embeddings: [{ values: [0, 0.5] }, { values: [1, 0.5] }],
      usageMetadata: { promptTokenCount: 2, totalTokenCount: 2 },
    });
  });
});

it("a gateway whose backend does not embed has none of the addresses", async () => {
  const gateway = createGateway({
    backend: {
      async *chat() {
        yield "Hello";
      },
    },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
  });
  const statusOf = async (path: string): Promise<number> =>
    (await gateway.fetch(new Request(`http://host${path}`, post({ input: "A" }, { "x-goog-api-key": KEY })))).status;
  expect(await Promise.all([EMBEDDINGS, ONE, BATCH].map(statusOf))).toEqual([404, 404, 404]);
  expect(gateway.endpoints.some(({ kind }) => kind === "embedding")).toBe(false);
});
