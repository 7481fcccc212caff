/** The list of models as the chat-completions format's clients read it: `GET /v1/models` and `GET /v1/models/{id}`. */

import type { ModelInfo } from "../../ports/model-backend.ts";
import type { QueryEndpoint } from "../dialect.ts";
import { isModelAddress, modelNamed } from "../shared/model-list.ts";

type Route = Pick<QueryEndpoint, "dialect" | "rateHeaders" | "credential" | "encodeError">;

/** For every caller that is of no other format: its own has no header of its own. */
export const modelEndpoints = (route: Route): QueryEndpoint[] => [
  {
    ...route,
    ...QUERY,
    path: "/v1/models",
    answer: async ({ models }) => ({ object: "list", data: (await models()).map(encodeModel) }),
  },
  {
    ...route,
    ...QUERY,
    path: "/v1/models/**",
    owns: isModelAddress,
    answer: async (query, { tail }) => encodeModel(await modelNamed(query, tail)),
  },
];

const QUERY = { kind: "query", method: "GET", body: "none", expiredKeysMayAsk: false } as const;

const encodeModel = ({ id, createdAt = 0 }: ModelInfo): object => ({
  id,
  object: "model",
  created: createdAt,
  owned_by: "polygate",
});
