/** Converts the embeddings request to the neutral request. */

import { assertValid } from "../../http/validation.ts";
import type { EmbeddingRequest } from "../../model/embedding.ts";
import { EmbeddingsRequest, FORMAT, unsupportedIn } from "./schema.ts";

/** Decodes a request. Unknown fields stay in `native`. Throws `invalid_request` with the path of the first wrong field. */
export function decodeRequest(body: unknown): EmbeddingRequest {
  assertValid(EmbeddingsRequest, body);
  const { model, input, dimensions, user } = body;
  const isOne = typeof input === "string" || typeof input[0] === "number";
  return {
    model,
    inputs: (isOne ? [input] : input) as EmbeddingRequest["inputs"],
    ...(dimensions != null && { dimensions }),
    ...(user != null && { endUser: user }),
    native: { format: FORMAT, body, betas: [], unsupported: () => unsupportedIn(body) },
  };
}
