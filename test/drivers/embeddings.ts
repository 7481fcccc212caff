/** How both formats ask for embeddings, answer and refuse; a piece is a vector whose numbers are the characters of the piece's text. */

import type { EmbeddingInput } from "../../src/index.ts";
import type { Driver, Form } from "./driver.ts";
import { generateContent } from "./generate-content.ts";
import { images } from "./images.ts";

/** The inputs of each request: as many as the longest answer has pieces. */
const INPUTS = 3;
/** The numbers of each vector; zeros follow the characters. */
const DIMENSIONS = 32;
/** What an answer to its end is charged: what its backend says that it took. */
const INPUT_TOKENS = 2;

const vectorOf = (text: string): number[] =>
  Array.from({ length: DIMENSIONS }, (_, index) => (index < text.length ? text.charCodeAt(index) : 0));

const textIn = (vector: readonly number[]): string => String.fromCharCode(...vector.filter((unit) => unit !== 0));

const plays: Driver["plays"] = (pieces) => ({
  async *embedPlay({ inputs }, { signal }) {
    let vectors = 0;
    for await (const piece of pieces({ prompt: promptIn(inputs), stream: false, signal })) {
      vectors++;
      yield vectorOf(piece);
    }
    if (signal.aborted) return;
    while (vectors++ < inputs.length) yield vectorOf("");
    yield { type: "usage", usage: { inputTokens: INPUT_TOKENS } };
  },
});

const promptIn = ([input]: readonly EmbeddingInput[]): string => (typeof input === "string" ? input : "");

const complete = (path: Form["path"], vectorsIn: (body: never) => readonly (readonly number[])[]): Form => ({
  name: "complete",
  stream: false,
  path,
  fields: {},
  textOf: async (response) =>
    vectorsIn((await response.json()) as never)
      .map(textIn)
      .join(""),
});

const common = {
  plays,
  promptOf: ({ askedForEmbeddings: { inputs } }) => promptIn(inputs),
  cost: () => INPUT_TOKENS,
  estimates: true,
  endless: false,
  models: { one: "model-a", other: "model-b", unknown: "model-z" },
  otherPaths: [],
} as const satisfies Partial<Driver>;

export const embeddings: Driver = {
  ...common,
  name: "embeddings",
  forms: [
    complete(
      () => "/v1/embeddings",
      ({ data }: { data: readonly { embedding: readonly number[] }[] }) => data.map(({ embedding }) => embedding),
    ),
  ],
  credential: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  headers: {},
  body: (prompt, model) => ({ model, input: Array.from({ length: INPUTS }, () => prompt) }),
  paths: ["/v1/embeddings"],
  notOwned: ["/v1/embedding", "/v2/embeddings", "/v1/embeddings/other"],
  refusal: (code) => images.refusal(code),
  refusalOf: (response) => images.refusalOf(response),
};

const batchPath = (model: string): string => `/v1beta/models/${model}:batchEmbedContents`;

export const batchEmbedContents: Driver = {
  ...common,
  name: "batch-embed-contents",
  forms: [
    complete(batchPath, (body: { embeddings: readonly { values: readonly number[] }[] }) =>
      body.embeddings.map(({ values }) => values),
    ),
  ],
  credential: (apiKey) => generateContent.credential(apiKey),
  headers: generateContent.headers,
  body: (prompt) => ({ requests: Array.from({ length: INPUTS }, () => ({ content: { parts: [{ text: prompt }] } })) }),
  paths: [batchPath("model-a"), "/v1/models/model-a:batchEmbedContents"],
  notOwned: ["/v2/models/model-a:batchEmbedContents"],
  refusal: (code) => generateContent.refusal(code),
  refusalOf: (response) => generateContent.refusalOf(response),
};
