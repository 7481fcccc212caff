/** The codec of embeddings for upstreams of OpenAI's formats: encodes requests, and decodes answers and errors. */

import { type GatewayError, backendFailed } from "../../errors.ts";
import { fromBase64, isBase64 } from "../../media/base64.ts";
import type { WireObject } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { type EmbeddingRequest, type EmbeddingVector, MAX_DIMENSIONS, MAX_INPUTS } from "../../model/embedding.ts";
import { isJsonObject, type JsonLimits, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { EmbeddingAnswer, EmbeddingCodec, EmbeddingCounts, EncodedRequest } from "../format.ts";
import { dropped, EXACT, rejected } from "./conversions.ts";
import { type EmbeddingConversions, embeddingConversions } from "./embedding.ts";
import { decodeUpstreamError, retryAfterOf } from "./errors.decode.ts";
import { parseAnswerObject } from "./upstream.ts";
import { openAIDetails } from "./usage.decode.ts";

/** The name of the format whose requests keep their own fields. */
const FORMAT = "embeddings";

/** The conversion of each field of a request for an upstream of this format. */
export const EMBEDDINGS_CONVERSIONS: EmbeddingConversions = {
  "inputs.tokens": EXACT,
  "inputs.media": rejected("Only texts and tokens can be embedded."),
  dimensions: EXACT,
  inputDimensions: rejected("All vectors of a request have one length."),
  taskType: dropped("The use of vectors cannot be told."),
  taskTypes: dropped("The use of vectors cannot be told."),
  titles: dropped("Inputs have no title."),
  endUser: EXACT,
  native: dropped("Only the caller's own format has this field."),
};

const isOurs = ({ native }: EmbeddingRequest): boolean => native?.format === FORMAT;

const conversionsOf = (request: EmbeddingRequest): Conversion[] =>
  isOurs(request) ? [] : embeddingConversions(EMBEDDINGS_CONVERSIONS, request);

/** Tells whether the answer is requested in base64, as official clients do: it is smaller, and faster to read. */
const asksForBase64 = (request: EmbeddingRequest): boolean =>
  !isOurs(request) || request.native?.body["encoding_format"] === "base64";

/** The most inputs of a request for an answer of plain numbers, so that the answer keeps within the relay's limits. */
const MAX_INPUTS_AS_NUMBERS = 512;

const maxInputs = (request: EmbeddingRequest): number => (asksForBase64(request) ? MAX_INPUTS : MAX_INPUTS_AS_NUMBERS);

/** Encodes the inputs from `start` up to `end`. A request of this format keeps its unknown fields and its encoding. */
export function encodeRequest(
  request: EmbeddingRequest,
  start: number,
  end: number,
): Omit<EncodedRequest, "conversions"> {
  const { model, inputs, dimensions, endUser, native } = request;
  const body = isOurs(request)
    ? { ...native?.body, model, ...(inputs.length > 1 && { input: inputs.slice(start, end) }) }
    : {
        model,
        input: inputs.slice(start, end),
        ...(dimensions !== undefined && { dimensions }),
        encoding_format: "base64",
        ...(endUser !== undefined && { user: endUser }),
      };
  // The cast is safe: the body is the caller's own JSON, or is built from texts and numbers.
  return { path: "/embeddings", headers: {}, body: body as WireObject as JsonObject };
}

/**
 * Decodes an answer. Puts the vectors in the order of their inputs: an upstream may send them in another order, each with its index.
 * Throws `backend_failed` for an answer without exactly one vector for each input.
 */
export function decodeAnswer(body: string, count: number, limits?: JsonLimits): EmbeddingAnswer {
  const answer = parseAnswerObject(body, limits);
  const { data } = answer;
  if (!Array.isArray(data) || data.length !== count)
    throw backendFailed("The model backend's answer does not have a vector for each input.");
  const vectors = Array.from<EmbeddingVector | undefined>({ length: count });
  for (const [position, item] of data.entries()) {
    const { index = position, embedding = null } = isJsonObject(item) ? item : {};
    const isFree = typeof index === "number" && Number.isInteger(index) && index >= 0 && index < count;
    if (!isFree || vectors[index]) throw backendFailed("The model backend's vectors have wrong indexes.");
    vectors[index] = decodeVector(embedding);
  }
  return { ...decodeCounts(answer), vectors: vectors as EmbeddingVector[] };
}

function decodeCounts({ usage, model }: JsonObject): EmbeddingCounts {
  const {
    prompt_tokens,
    total_tokens,
    prompt_tokens_details: kinds,
  }: Partial<JsonObject> = isJsonObject(usage) ? usage : {};
  const tokens = prompt_tokens ?? total_tokens;
  return {
    inputTokens: tokens == null ? undefined : Number(tokens),
    details: isJsonObject(kinds) ? openAIDetails(kinds).details?.input : undefined,
    native: isJsonObject(usage) ? { format: FORMAT, fields: usage } : undefined,
    model: typeof model === "string" ? model : undefined,
  };
}

/** The longest vector in base64, in characters. */
const MAX_VECTOR_CHARS = Math.ceil((MAX_DIMENSIONS * 4) / 3) * 4;

/** Decodes a vector: a list of numbers, or base64. An upstream may ignore the requested encoding. The meter checks the numbers. */
function decodeVector(embedding: JsonValue): EmbeddingVector {
  if (typeof embedding === "string" && embedding.length > MAX_VECTOR_CHARS)
    throw backendFailed("The model backend's answer has a vector that is too long.");
  if (Array.isArray(embedding)) return embedding as number[];
  if (typeof embedding === "string" && isBase64(embedding)) return floatsOf(fromBase64(embedding));
  throw backendFailed("The model backend's answer has something that is no vector.");
}

/** Reads 32-bit floats, little-endian. Throws `backend_failed` for bytes that end within a float. */
export function floatsOf(bytes: Uint8Array): Float32Array {
  if (bytes.length % 4 !== 0) throw backendFailed("The model backend's answer has something that is no vector.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const floats = new Float32Array(bytes.length / 4);
  for (let at = 0; at < floats.length; at++) floats[at] = view.getFloat32(at * 4, true);
  return floats;
}

/** Decodes an error response from status, headers and body (parsed JSON, or a text). The upstream's own message stays in `cause`. */
function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 in another form comes from another kind of server, so it does not mean an unknown model.
  return decodeUpstreamError(status === 404 && !isJsonObject(body) ? 500 : status, body, retryAfterOf(headers));
}

export const openaiEmbeddings: EmbeddingCodec = {
  maxInputs,
  conversionsOf,
  encodeRequest,
  decodeAnswer,
  decodeCounts,
  decodeError,
};
