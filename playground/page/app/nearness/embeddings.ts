/** Builds the call for the vectors of sentences, shows its code for the official SDK, and compares vectors. */

import { type ApiCall, postJson } from "../http/call.ts";
import { isObject, type JsonObject, listAt, numberAt, objectAt, parsed } from "../json.ts";
import { toSource } from "../source.ts";

const PATH = "/v1/embeddings";

/** The most sentences to compare: a larger table would not be readable. */
export const MAX_SENTENCES = 12;

export interface NearnessDraft {
  readonly model: string;
  /** The length of a vector. Undefined uses the model's default. */
  readonly dimensions: number | undefined;
  /** The sentences, each on a line of its own. */
  readonly text: string;
}

export const FIRST_NEARNESS: NearnessDraft = {
  model: "demo-embedding",
  dimensions: undefined,
  text: `The boat sailed out of the harbour at dawn.
At dawn the boats were sailing from the harbour.
A sailor painted his boat blue.
The quarterly invoices are due on Friday.
Invoices of the quarter are due by Friday.`,
};

/** Returns the lines that are not empty. */
export const sentencesOf = ({ text }: NearnessDraft): readonly string[] =>
  text.split("\n").flatMap((line) => line.trim() || []);

const bodyOf = (draft: NearnessDraft): JsonObject => ({
  model: draft.model,
  ...(draft.dimensions !== undefined && { dimensions: draft.dimensions }),
  input: sentencesOf(draft),
});

export const embeddingCall = (draft: NearnessDraft, apiKey: string): ApiCall =>
  postJson(PATH, { authorization: `Bearer ${apiKey}` }, bodyOf(draft));

export const embeddingCode = (
  draft: NearnessDraft,
  { apiKey, baseUrl }: { readonly apiKey: string; readonly baseUrl: string },
): string => `import OpenAI from "openai";

const client = new OpenAI({ apiKey: ${apiKey}, baseURL: ${JSON.stringify(`${baseUrl}/v1`)} });
const { data, usage } = await client.embeddings.create(${toSource(bodyOf(draft))});
const dot = (one, other) => one.reduce((sum, value, index) => sum + value * other[index], 0);
for (const one of data) console.log(data.map((other) => dot(one.embedding, other.embedding).toFixed(2)).join(" "));
console.log(usage);
`;

export interface Embeddings {
  readonly vectors: readonly (readonly number[])[];
  readonly inputTokens: number | undefined;
}

/** Reads the vectors of an answer, which may have any order; undefined if there are none. */
export function embeddingsIn(text: string): Embeddings | undefined {
  const body = parsed(text);
  const vectors: number[][] = [];
  for (const one of listAt(body, "data"))
    if (isObject(one)) vectors[numberAt(one, "index") ?? vectors.length] = listAt(one, "embedding").map(Number);
  return vectors.length > 0 ? { vectors, inputTokens: numberAt(objectAt(body, "usage"), "prompt_tokens") } : undefined;
}

/** Returns the cosine of the angle between two vectors: 1 for the same direction, 0 for unrelated vectors. */
export function nearness(one: readonly number[], other: readonly number[]): number {
  const lengths = Math.sqrt(dot(one, one) * dot(other, other));
  return lengths > 0 ? dot(one, other) / lengths : 0;
}

const dot = (one: readonly number[], other: readonly number[]): number =>
  one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
