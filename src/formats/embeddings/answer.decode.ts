/** Decodes the answers and errors of an upstream that speaks the embeddings format. */

import type { GatewayError } from "../../errors.ts";
import { type EmbeddingVector, MAX_DIMENSIONS } from "../../kinds/embedding/request.ts";
import { fromBase64, isBase64 } from "../../media/base64.ts";
import { isJsonObject, type JsonLimits, type JsonValue } from "../../model/json.ts";
import type { EmbeddingAnswer } from "../format.ts";
import { decodeUpstreamError, retryAfterOf } from "../shared/errors.decode.ts";
import { parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { FORMAT } from "./schema.ts";

/**
 * Decodes an answer. Puts the vectors in the order of their inputs: an upstream may send them in another order, each with its index.
 * Throws `backend_failed` for an answer without exactly one vector for each input.
 */
export function decodeAnswer(body: string, count: number, limits?: JsonLimits): EmbeddingAnswer {
  const { data, model, usage } = parseAnswerObject(body, limits);
  if (!Array.isArray(data) || data.length !== count)
    throw upstreamFailed("The model backend's answer does not have a vector for each input.");
  const vectors = Array.from<EmbeddingVector | undefined>({ length: count });
  for (const [position, item] of data.entries()) {
    const { index = position, embedding = null } = isJsonObject(item) ? item : {};
    const isFree = typeof index === "number" && Number.isInteger(index) && index >= 0 && index < count;
    if (!isFree || vectors[index]) throw upstreamFailed("The model backend's vectors have wrong indexes.");
    vectors[index] = decodeVector(embedding);
  }
  const tokens = isJsonObject(usage) ? (usage["prompt_tokens"] ?? usage["total_tokens"]) : undefined;
  return {
    vectors: vectors as EmbeddingVector[],
    inputTokens: tokens == null ? undefined : Number(tokens),
    native: isJsonObject(usage) ? { format: FORMAT, fields: usage } : undefined,
    model: typeof model === "string" ? model : undefined,
  };
}

/** The longest vector in base64, in characters. */
const MAX_VECTOR_CHARS = Math.ceil((MAX_DIMENSIONS * 4) / 3) * 4;

/** Decodes a vector: a list of numbers, or base64. An upstream may ignore the requested encoding. The meter checks the numbers. */
function decodeVector(embedding: JsonValue): EmbeddingVector {
  if (typeof embedding === "string" && embedding.length > MAX_VECTOR_CHARS)
    throw upstreamFailed("The model backend's answer has a vector that is too long.");
  if (Array.isArray(embedding)) return embedding as number[];
  if (typeof embedding === "string" && isBase64(embedding)) return floatsOf(fromBase64(embedding));
  throw upstreamFailed("The model backend's answer has something that is no vector.");
}

/** Reads 32-bit floats, little-endian. Throws `backend_failed` for bytes that end within a float. */
export function floatsOf(bytes: Uint8Array): Float32Array {
  if (bytes.length % 4 !== 0) throw upstreamFailed("The model backend's answer has something that is no vector.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const floats = new Float32Array(bytes.length / 4);
  for (let at = 0; at < floats.length; at++) floats[at] = view.getFloat32(at * 4, true);
  return floats;
}

/** Decodes an error response from status, headers and body (parsed JSON, or a text). The upstream's own message stays in `cause`. */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 in another form comes from another kind of server, so it does not mean an unknown model.
  return decodeUpstreamError(status === 404 && !isJsonObject(body) ? 500 : status, body, retryAfterOf(headers));
}
