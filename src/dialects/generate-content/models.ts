/** The list of models as the generate-content format's clients read it: `GET /v1beta/models` and `GET /v1beta/models/{id}`. */

import { GatewayError } from "../../errors.ts";
import { queryOf } from "../../http/address.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { Incoming, Query, QueryEndpoint } from "../dialect.ts";
import { isModelAddress, modelNamed, pageSize } from "../shared/model-list.ts";

const DEFAULT_SIZE = 50;
const MOST = 1_000;

/** Whether a caller of an address that several formats share is of this format. */
const isOurs = ({ headers, url }: Request): boolean =>
  headers.has("x-goog-api-key") || headers.has("x-goog-api-client") || queryOf(url).has("key");

type Route = Pick<QueryEndpoint, "dialect" | "credential" | "encodeError">;

export const modelEndpoints = (route: Route): QueryEndpoint[] => [
  ...endpointsAt("/v1beta/models", route, () => true),
  // The other formats list their models there as well.
  ...endpointsAt("/v1/models", route, isOurs),
];

function endpointsAt(path: string, route: Route, isMeant: (request: Request) => boolean): QueryEndpoint[] {
  const query = { ...route, kind: "query", method: "GET", body: "none", expiredKeysMayAsk: false } as const;
  return [
    { ...query, path, owns: (_tail, request) => isMeant(request), answer: list },
    {
      ...query,
      path: `${path}/**`,
      owns: (tail, request) => isModelAddress(tail, request) && isMeant(request),
      answer: async (asked, { tail }) => encodeModel(await modelNamed(asked, tail.replace(/^models(?:\/|%2F)/i, ""))),
    },
  ];
}

const METHODS = {
  chat: ["generateContent", "streamGenerateContent", "countTokens"],
  image: [],
} as const;

const encodeModel = ({
  id,
  displayName = id,
  maxInputTokens,
  maxOutputTokens,
  kinds = ["chat"],
}: ModelInfo): object => ({
  name: `models/${id}`,
  displayName,
  ...(maxInputTokens !== undefined && { inputTokenLimit: maxInputTokens }),
  ...(maxOutputTokens !== undefined && { outputTokenLimit: maxOutputTokens }),
  supportedGenerationMethods: kinds.flatMap((kind) => METHODS[kind]),
});

/** A page of them, `pageSize` at most; its token is the number of the first model behind it. */
async function list({ models }: Query, { request }: Incoming): Promise<object> {
  const query = queryOf(request.url);
  const all = await models();
  const size = pageSize(query.get("pageSize"), "pageSize", DEFAULT_SIZE, MOST);
  const start = Number(query.get("pageToken") || 0);
  if (!Number.isInteger(start) || start < 0)
    throw new GatewayError("invalid_request", "pageToken: is none that this service gave", { path: ["pageToken"] });
  const end = start + size;
  return {
    models: all.slice(start, end).map(encodeModel),
    ...(end < all.length && { nextPageToken: String(end) }),
  };
}
