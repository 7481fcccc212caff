/** The embeddings format, whole: an entry of the package. Upstreams of chat-completions speak it too. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { embedding } from "../../kinds/embedding/index.ts";
import type { EndpointOf, Format } from "../format.ts";
import type { FormatModule, GatewayFormat } from "../module.ts";
import { openaiEndpoint } from "../shared/errors.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { answerCollector } from "./answer.ts";
import { decodeRequest } from "./request.ts";
import { FORMAT } from "./schema.ts";

/** The embeddings format: `POST /v1/embeddings`. */
export const embeddings = (): GatewayFormat<"embeddings"> => ({
  name: FORMAT,
  rank: 5,
  make: () => served(),
});

/** The embeddings format, whole. */
export const embeddingsFormat: FormatModule<"embeddings", object, never> = { name: FORMAT, serve: embeddings };

const served = (): Format => ({
  name: FORMAT,
  telemetry: OPENAI_TELEMETRY,
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
