/** The embeddings format: `POST /v1/embeddings`. Decodes the request, and collects the answer. */

import { RawJson } from "../../http/answer.ts";
import { assertValid } from "../../http/validation.ts";
import { embedding } from "../../kinds/embedding/index.ts";
import { toBase64 } from "../../media/base64.ts";
import type { EmbeddingAnswerEvent, EmbeddingRequest, EmbeddingVector } from "../../model/embedding.ts";
import { nativeUsage } from "../../model/usage.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { AnswerCollector, EndpointOf } from "../format.ts";
import { vectorJson } from "../shared/embedding.ts";
import { FORMAT, ROUTE } from "./routes.ts";
import { EmbeddingsRequest, unsupportedIn } from "./schema.ts";

export const embeddings: EndpointOf<typeof embedding> = {
  ...ROUTE,
  kind: embedding,
  async decode(body, incoming) {
    if (incoming.json.isLarge) await nextIteration();
    return decodeRequest(body);
  },
  complete: ({ request }) => answerCollector(request),
};

/** Collects the vectors of one answer into its body. Each vector is written when it comes, because all of them at once take long. */
export function answerCollector({ model, native }: EmbeddingRequest): AnswerCollector<EmbeddingAnswerEvent> {
  const isBase64 = native?.body["encoding_format"] === "base64";
  const data: string[] = [];
  let usage: object | undefined;
  return {
    add(event) {
      if (event.type === "finish") {
        const { inputTokens } = event.usage;
        usage = { ...nativeUsage(event, FORMAT), prompt_tokens: inputTokens, total_tokens: inputTokens };
      }
      if (event.type !== "embedding") return;
      const { vector } = event;
      const json = isBase64 ? `"${base64OfFloats(vector)}"` : vectorJson(vector);
      data.push(`{"object":"embedding","index":${data.length},"embedding":${json}}`);
    },
    body() {
      const [name, counts] = [JSON.stringify(model), JSON.stringify(usage)];
      return new RawJson(`{"object":"list","data":[${data.join(",")}],"model":${name},"usage":${counts}}`);
    },
  };
}

/** Encodes a vector as 32-bit floats, little-endian on every machine, in base64. */
export function base64OfFloats(vector: EmbeddingVector): string {
  const view = new DataView(new ArrayBuffer(vector.length * 4));
  for (let at = 0; at < vector.length; at++) view.setFloat32(at * 4, vector[at] as number, true);
  return toBase64(new Uint8Array(view.buffer));
}

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
