/** Valid requests for every route of a gateway, as the starting point of attacks. */

import type { GatewayEndpoint } from "../../src/index.ts";
import { ACCEPTED as CHAT_COMPLETIONS } from "../formats/chat-completions/accepted.ts";
import { ACCEPTED as GENERATE_CONTENT } from "../formats/generate-content/accepted.ts";
import { REFUSED as GENERATE_CONTENT_REFUSED } from "../formats/generate-content/refused.ts";
import { ACCEPTED_EDITS, ACCEPTED_VARIATIONS } from "../formats/images/forms.accepted.ts";
import { ACCEPTED as GENERATIONS } from "../formats/images/generations.accepted.ts";
import { type FormFields, formOf } from "../formats/images/requests.ts";
import { ACCEPTED as MESSAGES } from "../formats/messages/accepted.ts";
import { REFUSED as MESSAGES_REFUSED } from "../formats/messages/refused.ts";
import { ACCEPTED as RESPONSES } from "../formats/responses/accepted.ts";
import { REFUSED as RESPONSES_REFUSED } from "../formats/responses/refused.ts";
import {
  CHAT_COMPLETIONS as CHAT_COMPLETIONS_FIELDS,
  GENERATE_CONTENT as GENERATE_CONTENT_FIELDS,
  MESSAGES as MESSAGES_FIELDS,
  RESPONSES as RESPONSES_FIELDS,
} from "../properties/wire-fields.requests.ts";

/** A request of a route. */
export interface Fixture {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** The JSON body. Undefined for a form, and for a request without a body. */
  readonly json?: unknown;
  readonly form?: FormFields;
}

type Case = readonly [name: string, body: unknown, ...unknown[]];

const bodies = (...lists: readonly (readonly Case[])[]): unknown[] => lists.flat().map(([, body]) => body);
const posts = (path: string, list: readonly unknown[]): Fixture[] =>
  list.map((json) => ({ method: "POST", path, json }));
const forms = (path: string, list: readonly (readonly [string, FormFields, ...unknown[]])[]): Fixture[] =>
  list.map(([, form]) => ({ method: "POST", path, form }));
const gets = (...paths: readonly string[]): Fixture[] => paths.map((path) => ({ method: "GET", path }));

const messages = [...bodies(MESSAGES, MESSAGES_REFUSED), ...MESSAGES_FIELDS];
const contents = [...bodies(GENERATE_CONTENT, GENERATE_CONTENT_REFUSED), ...GENERATE_CONTENT_FIELDS];
const completions = [...bodies(CHAT_COMPLETIONS), ...CHAT_COMPLETIONS_FIELDS];

/** Bodies with all fields of embeddings. */
export const EMBEDDINGS: readonly object[] = [
  { model: "model-a", input: "A red hat", dimensions: 8, encoding_format: "base64", user: "u" },
  { model: "model-a", input: ["A red hat", "A blue hat"] },
  { model: "model-a", input: [1, 2, 3] },
  { model: "model-a", input: [[1], [2, 3]] },
];
const PNG = { mimeType: "image/png", data: "iVBORw0KGgo=" };
export const CONTENTS_TO_EMBED: readonly object[] = [
  { content: { parts: [{ text: "A red hat" }] }, outputDimensionality: 8 },
  { content: { role: "user", parts: [{ text: "A" }, { text: "hat" }] }, title: "Hats", outputDimensionality: 8 },
  { content: { parts: [{ inlineData: PNG }] }, taskType: "RETRIEVAL_DOCUMENT" },
  { content: "A red hat", task_type: "CLUSTERING", output_dimensionality: 8 },
];

const responses = [
  ...bodies(RESPONSES, RESPONSES_REFUSED),
  ...RESPONSES_FIELDS,
  { model: "model-a", input: "Hi", background: true },
  { model: "model-a", input: "Hi", background: true, stream: true },
  { model: "model-a", input: "Hi", previous_response_id: "resp_1" },
  { model: "model-a", input: "Hi", conversation: "conv_1" },
];
/** Bodies that create and change conversations. */
export const CONVERSATIONS: readonly object[] = [
  { metadata: { topic: "hats" }, items: [{ type: "message", role: "user", content: "Hi" }] },
  { items: [{ type: "item_reference", id: "msg_1" }] },
  {},
];

const VERBS = ["generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent", "countTokens", "predict"];
const COLLECTIONS = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

/** Many requests for each route, in the order of the routes. */
export const fixtures: readonly Fixture[] = [
  ...posts("/v1/messages", messages),
  ...posts("/v1/messages/count_tokens", messages),
  ...COLLECTIONS.flatMap((collection) =>
    VERBS.flatMap((verb, place) =>
      // Divide the bodies among the many addresses.
      posts(
        `${collection}model-a:${verb}`,
        contents.filter((_, index) => index % VERBS.length === place),
      ),
    ),
  ),
  ...posts("/v1/chat/completions", completions),
  ...posts("/v1/responses", responses),
  ...posts("/v1/responses/input_tokens", responses),
  ...gets("/v1/responses/resp_1", "/v1/responses/resp_1?stream=true&starting_after=3"),
  ...gets("/v1/responses/resp_1/input_items?limit=2&order=asc&after=msg_1"),
  { method: "POST", path: "/v1/responses/resp_1/cancel" },
  { method: "DELETE", path: "/v1/responses/resp_1" },
  ...posts("/v1/conversations", CONVERSATIONS),
  ...posts("/v1/conversations/conv_1", CONVERSATIONS),
  ...posts("/v1/conversations/conv_1/items", CONVERSATIONS),
  ...gets("/v1/conversations/conv_1", "/v1/conversations/conv_1/items?limit=2", "/v1/conversations/conv_1/items/msg_1"),
  { method: "DELETE", path: "/v1/conversations/conv_1" },
  { method: "DELETE", path: "/v1/conversations/conv_1/items/msg_1" },
  ...posts("/v1/images/generations", bodies(GENERATIONS)),
  ...posts("/v1/embeddings", EMBEDDINGS),
  ...["/v1beta/models/", "/v1/models/"].flatMap((collection) => [
    ...posts(`${collection}model-a:embedContent`, CONTENTS_TO_EMBED),
    ...posts(`${collection}model-a:batchEmbedContents`, [{ requests: CONTENTS_TO_EMBED.slice(0, 2) }]),
  ]),
  ...forms("/v1/images/edits", ACCEPTED_EDITS),
  ...forms("/v1/images/variations", ACCEPTED_VARIATIONS),
  ...gets("/v1/models", "/v1/models/model-a", "/v1beta/models", "/v1beta/models/model-a", "/v1/models?pageSize=1"),
  ...gets("/v1/images/files/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "/api/usage/token", "/v1beta/models?key=sk-x"),
];

/** Fixtures by route, so that attacks choose each route equally often. */
export const byRoute: ReadonlyMap<string, readonly Fixture[]> = Map.groupBy(
  fixtures,
  ({ method, path }) => `${method} ${path}`,
);

/** Returns the routes of a gateway without a fixture. */
export function unknownRoutes(endpoints: readonly GatewayEndpoint[]): string[] {
  const known = [...byRoute.keys()].map((route) => route.split("?", 1)[0] ?? "");
  const isKnown = ({ method, path }: GatewayEndpoint): boolean => {
    const route = `${method} ${path.replace(/\*\*$/, "")}`;
    return known.some((one) => (path.endsWith("/**") ? one.startsWith(route) : one === route));
  };
  return endpoints.filter((endpoint) => !isKnown(endpoint)).map(({ method, path }) => `${method} ${path}`);
}

/** Returns the bytes of a form and their content type. */
export async function formBytes(fields: FormFields): Promise<{ type: string; bytes: Uint8Array<ArrayBuffer> }> {
  const response = new Response(formOf(fields));
  return { type: response.headers.get("content-type") ?? "", bytes: new Uint8Array(await response.arrayBuffer()) };
}
