/** Embeddings: the requests and answers of `embedContent` and `batchEmbedContents`, in both directions. */

import { GatewayError, backendFailed } from "../../errors.ts";
import { RawJson } from "../../http/answer.ts";
import { assertValid } from "../../http/validation.ts";
import type { DocumentPart, MediaPart, TextPart, WireObject } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import type { EmbeddingAnswerEvent, EmbeddingInput, EmbeddingRequest, EmbeddingVector } from "../../model/embedding.ts";
import { given, isJsonObject, type JsonLimits, type JsonObject } from "../../model/json.ts";
import { nativeUsage } from "../../model/usage.ts";
import type { AnswerCollector, EmbeddingAnswer, EmbeddingCounts, EncodedRequest } from "../format.ts";
import { dropped, EXACT, rejected } from "../shared/conversions.ts";
import { type EmbeddingConversions, embeddingConversions, vectorJson } from "../shared/embedding.ts";
import { TASK_TYPE } from "../shared/schema.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { googleDetails } from "../shared/usage.decode.ts";
import { decodeMedium, encodeMessages } from "./request.contents.ts";
import { inCallersSpelling, spellingWalk } from "./request.spelling.ts";
import { pathOf, resourceOf } from "./request.ts";
import { FORMAT } from "./routes.ts";
import {
  BatchEmbedContentsRequest,
  EmbedContentRequest,
  unsupportedInBatch,
  unsupportedInOne,
} from "./schema.embed.ts";
import { readWord } from "./schema.wire.ts";

const spellOne = spellingWalk(EmbedContentRequest);
const spellBatch = spellingWalk(BatchEmbedContentsRequest);

/**
 * Decodes a request. Unknown fields stay in `native`. Throws `invalid_request` with the path of the first wrong field, in the spelling
 * of the caller.
 */
export function decodeEmbedRequest(raw: unknown, model: string, isBatch: boolean): EmbeddingRequest {
  const body = (isBatch ? spellBatch : spellOne)(raw, []);
  const requests = validRequests(raw, body, isBatch);
  const titles = requests.map(({ title }) => title ?? undefined);
  const dimensions = requests.map(({ outputDimensionality }) => outputDimensionality ?? undefined);
  const tasks = requests.map(({ taskType }) => readWord(TASK_TYPE, taskType));
  return {
    model,
    inputs: requests.map(({ content }) => decodeInput(content)),
    ...given({
      ...(differ(dimensions) ? { inputDimensions: dimensions } : { dimensions: dimensions[0] }),
      ...(differ(tasks) ? { taskTypes: tasks } : { taskType: tasks[0] }),
      titles: titles.some((title) => title !== undefined) ? titles : undefined,
    }),
    native: {
      format: FORMAT,
      body: raw as WireObject,
      betas: [],
      unsupported: () => (isBatch ? unsupportedInBatch(body) : unsupportedInOne(body)),
    },
  };
}

const differ = ([first, ...others]: readonly unknown[]): boolean => others.some((other) => other !== first);

function validRequests(raw: unknown, body: unknown, isBatch: boolean): readonly EmbedContentRequest[] {
  try {
    if (isBatch) {
      assertValid(BatchEmbedContentsRequest, body);
      return body.requests;
    }
    assertValid(EmbedContentRequest, body);
    return [body];
  } catch (error) {
    throw error instanceof GatewayError ? inCallersSpelling(error, raw, body) : error;
  }
}

/** Decodes a content: texts alone become one text. */
function decodeInput(content: EmbedContentRequest["content"]): EmbeddingInput {
  if (typeof content === "string") return content;
  const parts = content.parts.map(
    (part): TextPart | MediaPart | DocumentPart => decodeMedium(part) ?? { type: "text", text: part.text ?? "" },
  );
  const texts = parts.flatMap((part) => (part.type === "text" ? part.text : []));
  return texts.length === parts.length ? texts.join("") : { parts };
}

/** The conversion of each field of a request for an upstream of this format. */
export const EMBEDDING_CONVERSIONS: EmbeddingConversions = {
  "inputs.tokens": rejected("Only texts and files can be embedded, not lists of tokens."),
  "inputs.media": EXACT,
  dimensions: EXACT,
  inputDimensions: EXACT,
  taskType: EXACT,
  taskTypes: EXACT,
  titles: EXACT,
  endUser: dropped("The end user cannot be named."),
  native: dropped("Only the caller's own format has this field."),
};

export const embedConversionsOf = (request: EmbeddingRequest): Conversion[] =>
  request.native?.format === FORMAT ? [] : embeddingConversions(EMBEDDING_CONVERSIONS, request);

/** The most requests of a batch that the official service takes. */
const MAX_BATCH = 100;

export const maxEmbedInputs = (): number => MAX_BATCH;

/** Encodes the inputs from `start` up to `end`. A request of this format keeps its unknown fields, and the method that the caller chose. */
export function encodeEmbedRequest(
  request: EmbeddingRequest,
  start: number,
  end: number,
): Omit<EncodedRequest, "conversions"> {
  const { inputs, native } = request;
  const path = pathOf(request.model);
  // Name the model in each request again: the caller may have named a model that the key may not use.
  const model = resourceOf(request.model);
  const own = native?.format === FORMAT ? (native.body as JsonObject) : undefined;
  if (own && !("requests" in own)) return { path: `${path}:embedContent`, headers: {}, body: { ...own, model } };
  const ownRequests = Array.isArray(own?.["requests"]) ? own["requests"].slice(start, end) : undefined;
  const requests = ownRequests
    ? ownRequests.map((one) => ({ ...(isJsonObject(one) && one), model }))
    : inputs.slice(start, end).map((input, index) => encodeOne(request, model, input, start + index));
  return {
    path: `${path}:batchEmbedContents`,
    headers: {},
    body: { ...own, ...(own && "model" in own && { model }), requests },
  };
}

function encodeOne(
  { titles = [], dimensions, inputDimensions = [], taskType, taskTypes = [] }: EmbeddingRequest,
  model: string,
  input: EmbeddingInput,
  index: number,
): JsonObject {
  const [content] = encodeMessages([{ role: "user", parts: partsOf(input) }]);
  const task = taskTypes[index] ?? taskType;
  const one = {
    model,
    content: content ?? { parts: [] },
    ...given({
      taskType: task && TASK_TYPE[task],
      title: titles[index],
      outputDimensionality: inputDimensions[index] ?? dimensions,
    }),
  };
  // The cast is safe: the request is built from texts, numbers and the caller's own JSON.
  return one as WireObject as JsonObject;
}

/** Returns the parts of an input. A list of tokens has none: the conversions refuse such a request. */
function partsOf(input: EmbeddingInput): readonly (TextPart | MediaPart | DocumentPart)[] {
  if (typeof input === "string") return [{ type: "text", text: input }];
  return "parts" in input ? input.parts : [];
}

/** Collects the vectors of one answer into its body. Each vector is written when it comes, because all of them at once take long. */
export function embedCollector(isBatch: boolean): AnswerCollector<EmbeddingAnswerEvent> {
  const vectors: string[] = [];
  let usage: object | undefined;
  return {
    add(event) {
      if (event.type === "embedding") vectors.push(`{"values":${vectorJson(event.vector)}}`);
      if (event.type !== "finish") return;
      const { inputTokens } = event.usage;
      usage = { ...nativeUsage(event, FORMAT), promptTokenCount: inputTokens, totalTokenCount: inputTokens };
    },
    body() {
      const field = isBatch ? `"embeddings":[${vectors.join(",")}]` : `"embedding":${vectors.join("")}`;
      return new RawJson(`{${field},"usageMetadata":${JSON.stringify(usage)}}`);
    },
  };
}

/** Decodes an answer to either method. Throws `backend_failed` for an answer without exactly one vector for each input. */
export function decodeEmbedAnswer(body: string, count: number, limits?: JsonLimits): EmbeddingAnswer {
  const answer = parseAnswerObject(body, limits);
  const { embedding, embeddings = [embedding ?? null] } = answer;
  if (!Array.isArray(embeddings) || embeddings.length !== count)
    throw backendFailed("The model backend's answer does not have a vector for each input.");
  const vectors = embeddings.map((item): EmbeddingVector => {
    const values = isJsonObject(item) ? item["values"] : undefined;
    if (Array.isArray(values)) return values as number[];
    throw backendFailed("The model backend's answer has something that is no vector.");
  });
  return { ...decodeEmbedCounts(answer), vectors };
}

export function decodeEmbedCounts({ usageMetadata, modelVersion }: JsonObject): EmbeddingCounts {
  const { promptTokenCount: tokens, promptTokensDetails }: JsonObject = isJsonObject(usageMetadata)
    ? usageMetadata
    : {};
  return {
    inputTokens: tokens == null ? undefined : Number(tokens),
    details: googleDetails(promptTokensDetails),
    native: isJsonObject(usageMetadata) ? { format: FORMAT, fields: usageMetadata } : undefined,
    model: typeof modelVersion === "string" ? modelVersion : undefined,
  };
}
