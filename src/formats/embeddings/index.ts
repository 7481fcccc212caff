/** The embeddings format: `POST /v1/embeddings`. */

import { embedding } from "../../kinds/embedding/index.ts";
import type { EmbeddingCodec, EndpointOf, Format } from "../format.ts";
import { openaiEndpoint } from "../shared/errors.ts";
import { decodeAnswer, decodeError } from "./answer.decode.ts";
import { answerCollector } from "./answer.ts";
import { conversionsOf, decodeRequest, encodeRequest, maxInputs } from "./request.ts";
import { FORMAT } from "./schema.ts";

export const embeddings = (): Format => ({
  name: FORMAT,
  endpoints: [
    {
      format: FORMAT,
      kind: embedding,
      method: "POST",
      path: "/v1/embeddings",
      ...openaiEndpoint,
      async decode(body, incoming) {
        const turn = incoming.turn();
        if (turn) await turn;
        return decodeRequest(body);
      },
      complete: ({ request }) => answerCollector(request),
    } satisfies EndpointOf<typeof embedding>,
  ],
});

/** Encodes requests to an upstream of this format, and decodes its answers and errors. */
export const embeddingsCodec: EmbeddingCodec = { maxInputs, conversionsOf, encodeRequest, decodeAnswer, decodeError };
