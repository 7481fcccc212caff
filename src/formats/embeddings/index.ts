/** The embeddings format: `POST /v1/embeddings`. */

import { embedding } from "../../kinds/embedding/index.ts";
import type { EndpointOf, Format } from "../format.ts";
import { openaiEndpoint } from "../shared/errors.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { answerCollector } from "./answer.ts";
import { decodeRequest } from "./request.ts";
import { FORMAT } from "./schema.ts";

export const embeddings = (): Format => ({
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
