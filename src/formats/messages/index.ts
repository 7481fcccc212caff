/** The messages format: `POST /v1/messages`, token counts, the list of models, and the codec for upstreams (spec 2.6, 2.7, 6.1, 7.2). */

import { GatewayError } from "../../errors.ts";
import { queryOf } from "../../http/request.ts";
import { assertValid } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject } from "../../model/json.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { EndpointOf, WholeFormat, Incoming, Query } from "../format.ts";
import { CompleteAnswer, modelNamed, pageSize } from "../shared/answer.ts";
import { assertSchemaSize } from "../shared/schema.ts";
import { MessagesBuilder } from "./answer.ts";
import { conversionsOfAnswer, conversionsOfEvent } from "./conversions.ts";
import { decodeRequest, INTERLEAVED_THINKING, type MessagesHeaders } from "./request.ts";
import { FORMAT, type MessagesOptions, routesOf, TELEMETRY } from "./routes.ts";
import type { MessagesModel, MessagesModelList } from "./schema.answer.ts";
import { messagesRequest } from "./schema.ts";
import { MessagesStream, wholeBody } from "./stream.ts";

export function messages(options: MessagesOptions = {}): WholeFormat {
  const { ranges = "spec", imageSources = "spec", errors = "spec" } = options;
  const routes = routesOf(options);
  const rules = { vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" };
  const interleaved = messagesRequest({ ...rules, anyBudget: true });
  const schema = rules.vendorRanges ? interleaved : messagesRequest(rules);

  async function decode(body: unknown, incoming: Incoming): Promise<ChatRequest> {
    const headers = readHeaders(incoming.request.headers);
    if (incoming.json.isLarge) await nextIteration();
    assertSchemaSize(body, ["tools", "output_config"], incoming);
    assertValid(headers.betas.includes(INTERLEAVED_THINKING) ? interleaved : schema, body);
    if (incoming.json.isLarge) await nextIteration();
    return decodeRequest(body, headers);
  }

  const generation: EndpointOf<ChatKind> = {
    ...routes.generate,
    kind: chat,
    maxOutputTokensPaths: [["max_tokens"]],
    decode,
    conversionsOfEvent,
    conversionsOf: conversionsOfAnswer,
    complete(answer) {
      const builder = new MessagesBuilder(answer);
      return new CompleteAnswer(FORMAT, builder, (body, finish) => wholeBody(body, builder.started, finish));
    },
    stream: (answer) => new MessagesStream(answer, errors === "vendor"),
  };
  const models = { kind: "query", body: "none", expiredKeysMayAsk: false } as const;

  return {
    name: FORMAT,
    telemetry: TELEMETRY,
    endpoints: [
      generation,
      {
        ...routes.count,
        kind: "query",
        expiredKeysMayAsk: false,
        body: "json",
        answer: async ({ body, authorize, countInput }, incoming) => {
          const counted = await decode(withMaxTokens(body), incoming);
          await authorize(chat, counted.model);
          return { input_tokens: await countInput(chat, counted) };
        },
      },
      { ...routes.list, ...models, answer: listModels },
      {
        ...routes.read,
        ...models,
        answer: async (query, { wildcardPath }) => encodeModel(await modelNamed(query, wildcardPath)),
      },
    ],
  };
}

/**
 * Reads the headers for the version, which is required, and for betas (spec 4, note 3). Several betas are separated by commas or come in
 * repeated headers. The header names of the official service are accepted too.
 */
function readHeaders(headers: Headers): MessagesHeaders {
  const version = headers.get("compat-version") || headers.get("anthropic-version");
  if (!version) {
    const message = "anthropic-version: the header is required (compat-version is read as well), such as 2023-06-01";
    throw new GatewayError("invalid_request", message, { path: ["anthropic-version"] });
  }
  const betas = new Set<string>();
  for (const name of ["compat-beta", "anthropic-beta"])
    for (const beta of headers.get(name)?.split(",") ?? []) if (beta.trim() !== "") betas.add(beta.trim());
  return { version, betas: [...betas] };
}

/** Adds `max_tokens` to the body of a token count. Callers do not send it, because a count generates nothing; the schema requires it. */
const withMaxTokens = (body: unknown): unknown =>
  isJsonObject(body) && body["max_tokens"] == null ? { ...body, max_tokens: 2 ** 31 - 1 } : body;

const DEFAULT_PAGE_SIZE = 20;
const MAX_PAGE_SIZE = 1_000;

/** Returns a page of at most `limit` models, after the model `after_id` or before the model `before_id`. */
async function listModels({ models }: Query, { request }: Incoming): Promise<MessagesModelList> {
  const query = queryOf(request.url);
  const all = await models();
  const size = pageSize(query.get("limit"), "limit", DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
  const [afterId, beforeId] = [query.get("after_id"), query.get("before_id")];
  const after = afterId === null ? 0 : all.findIndex(({ id }) => id === afterId) + 1;
  const before = beforeId === null ? -1 : all.findIndex(({ id }) => id === beforeId);
  const [start, end] = before < 0 ? [after, after + size] : [Math.max(0, before - size), before];
  const data = all.slice(start, end).map(encodeModel);
  const hasMore = before < 0 ? end < all.length : start > 0;
  return { data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/** Encodes a model. An unknown creation time becomes 1970-01-01, as in the official service. */
const encodeModel = ({
  id,
  displayName = id,
  createdAt = 0,
  maxInputTokens,
  maxOutputTokens,
}: ModelInfo): MessagesModel => ({
  type: "model",
  id,
  display_name: displayName,
  created_at: new Date(createdAt * 1000).toISOString().replace(".000Z", "Z"),
  max_input_tokens: maxInputTokens ?? null,
  max_tokens: maxOutputTokens ?? null,
  lifecycle: "active",
  capabilities: null,
  line: null,
  deprecated_at: null,
  retires_at: null,
});
