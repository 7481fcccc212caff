/** Encodes the answer of the embeddings format. */

import { RawJson } from "../../http/answer.ts";
import type { EmbeddingAnswerEvent, EmbeddingRequest, EmbeddingVector } from "../../kinds/embedding/request.ts";
import { toBase64 } from "../../media/base64.ts";
import type { AnswerCollector } from "../format.ts";
import { vectorJson } from "../shared/embedding.ts";

/** Collects the vectors of one answer into its body. Each vector is written when it comes, because all of them at once take long. */
export function answerCollector({ model, native }: EmbeddingRequest): AnswerCollector<EmbeddingAnswerEvent> {
  const isBase64 = native?.body["encoding_format"] === "base64";
  const data: string[] = [];
  let tokens = 0;
  return {
    add(event) {
      if (event.type === "finish") tokens = event.usage.inputTokens;
      if (event.type !== "embedding") return;
      const { vector } = event;
      const embedding = isBase64 ? `"${base64OfFloats(vector)}"` : vectorJson(vector);
      data.push(`{"object":"embedding","index":${data.length},"embedding":${embedding}}`);
    },
    body() {
      const usage = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
      return new RawJson(
        `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(model)},"usage":${usage}}`,
      );
    },
  };
}

/** Encodes a vector as 32-bit floats, little-endian on every machine, in base64. */
export function base64OfFloats(vector: EmbeddingVector): string {
  const view = new DataView(new ArrayBuffer(vector.length * 4));
  for (let at = 0; at < vector.length; at++) view.setFloat32(at * 4, vector[at] as number, true);
  return toBase64(new Uint8Array(view.buffer));
}
