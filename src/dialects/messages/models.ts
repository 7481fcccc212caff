/** The list of models as the messages format's clients read it: `GET /v1/models` and `GET /v1/models/{id}`. */

import { queryOf } from "../../http/address.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { Incoming, Query, QueryEndpoint } from "../dialect.ts";
import { isModelAddress, modelNamed, pageSize } from "../shared/model-list.ts";

interface WireModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  /** RFC 3339; the epoch where the time is not known, as the official service has it. */
  readonly created_at: string;
}

const DEFAULT_SIZE = 20;
const MOST = 1_000;

/** Whether a caller is of this format: it says so by one of its headers. */
const isOurs = ({ headers }: Request): boolean =>
  ["x-api-key", "compat-version", "anthropic-version"].some((name) => headers.has(name));

type Route = Pick<QueryEndpoint, "dialect" | "rateHeaders" | "credential" | "encodeError">;

export const modelEndpoints = (route: Route): QueryEndpoint[] => [
  { ...route, ...QUERY, path: "/v1/models", owns: (_tail, request) => isOurs(request), answer: list },
  {
    ...route,
    ...QUERY,
    path: "/v1/models/**",
    owns: (tail, request) => isModelAddress(tail, request) && isOurs(request),
    answer: async (query, { tail }) => encodeModel(await modelNamed(query, tail)),
  },
];

const QUERY = { kind: "query", method: "GET", body: "none", expiredKeysMayAsk: false } as const;

const encodeModel = ({ id, displayName = id, createdAt = 0 }: ModelInfo): WireModel => ({
  type: "model",
  id,
  display_name: displayName,
  created_at: new Date(createdAt * 1000).toISOString().replace(".000Z", "Z"),
});

/** A page of them: behind `after_id` or before `before_id`, `limit` at most. */
async function list({ models }: Query, { request }: Incoming): Promise<object> {
  const query = queryOf(request.url);
  const all = await models();
  const size = pageSize(query.get("limit"), "limit", DEFAULT_SIZE, MOST);
  const after = all.findIndex(({ id }) => id === query.get("after_id")) + 1;
  const before = all.findIndex(({ id }) => id === query.get("before_id"));
  const [start, end] = before < 0 ? [after, after + size] : [Math.max(0, before - size), before];
  const data = all.slice(start, end).map(encodeModel);
  const hasMore = before < 0 ? end < all.length : start > 0;
  return { data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}
