/** The search of the docs with the texts of errors, as people paste them from a log, an answer or a terminal. */

import { describe, expect, it } from "vitest";
import { blocksOf, piecesOf } from "../../playground/page/app/docs/markdown.ts";
import { searchIn } from "../../playground/page/app/docs/search.ts";
import { pageFiles } from "../../playground/page/files.ts";

const ROOT = new URL("../../", import.meta.url);
const served = pageFiles(new URL("playground/page/app/", ROOT), ROOT);
const { pages, phrases } = JSON.parse(served.find("/page/docs/pages.json")?.text ?? "") as {
  readonly pages: Readonly<Record<string, string>>;
  readonly phrases: string;
};
const search = searchIn(pages, phrases);
const find = (query: string) => search(query).hits;

const addressOf = ({ page, heading }: { readonly page: string; readonly heading: string }): string =>
  `${page}/${heading}`;

// The text, the section that it is found in, and words of the found row.
it.each<readonly [text: string, address: string, words: string]>([
  // Answers of the gateway.
  ["The model backend's answer is not valid JSON.", "error-messages/backend_failed", "is not valid JSON"],
  ["Error: 500 The model backend's answer has no end.", "error-messages/backend_failed", "has no end"],
  ["… is busy.", "errors/messages-by-their-text", "is busy"],
  ["429 The model backend is busy.", "errors/messages-by-their-text", "is busy"],
  ["… took too long.", "error-messages/deadline_exceeded", "took too long"],
  [
    "openai.InternalServerError: Error code: 504 - The model backend took too long.",
    "error-messages/deadline_exceeded",
    "took too long",
  ],
  [
    '{"error":{"message":"The prompt is too long for the model.","code":"context_length"}}',
    "error-messages/context_length_exceeded",
    "too long",
  ],
  [
    "The quota that is left of this API key is held by other calls.",
    "error-messages/quota_held",
    "held by other calls",
  ],
  [
    '{"error":{"message":"Pictures by the model \\"paint-1\\" have no price."}}',
    "error-messages/model_not_found",
    "have no price",
  ],
  ['404 There is no image model "paint".', "error-messages/model_not_found", "image model"],
  [
    '403 This API key may not use the model "large". It may use small.',
    "error-messages/model_not_allowed",
    "may not use",
  ],
  [
    "409 Another request was sent with this Idempotency-Key. A new request needs a new one.",
    "error-messages/idempotency_key_reused",
    "Another request",
  ],
  [
    "409 The request of this Idempotency-Key is still being answered.",
    "error-messages/idempotency_key_in_use",
    "still being",
  ],
  ["503 The gateway is closing.", "error-messages/busy", "is closing"],
  ["503 The gateway is serving as many calls as it can. Try again shortly.", "error-messages/busy", "as many calls"],
  ["503 The gateway holds as many WebSockets as it can. Try again later.", "error-messages/busy", "WebSockets"],
  [
    "This API key sends too many requests. The limit is 3 requests in 60 s.",
    "error-messages/rate_limited",
    "too many requests",
  ],
  ["429 This API key uses too many tokens in too short a time.", "error-messages/rate_limited", "too many tokens"],
  ["413 The request body is larger than 1048576 bytes.", "error-messages/body_too_large", "larger than"],
  ["400 The request body is empty; a JSON object is expected.", "error-messages/malformed_body", "is empty"],
  [
    "415 The request's content-type must be application/json.",
    "error-messages/unsupported_media_type",
    "application/json",
  ],
  [
    "401 The header Authorization must begin with Bearer, a space, and the API key.",
    "error-messages/malformed_credential",
    "must begin",
  ],
  ["messages.0.content: must hold at least one part", "error-messages/invalid_request", "at least one part"],
  ["400 tools.0.name: must not be empty", "error-messages/invalid_request", "must not be empty"],
  ["400 stop: must hold at most 4 texts", "error-messages/invalid_request", "4 texts"],
  ["400 There must be at most 16 stop sequences, not 20.", "error-messages/invalid_request", "stop sequences"],
  ["image: The file is not a PNG, WEBP or JPEG image.", "error-messages/invalid_request", "PNG, WEBP or JPEG"],
  [
    "The header Idempotency-Key must be 1 to 255 visible ASCII characters, without spaces.",
    "error-messages/invalid_request",
    "Idempotency-Key",
  ],
  ["404 Previous response with id 'resp_12' not found.", "errors/codes", "not_found"],
  ["404 Response with id 'resp_1' not found.", "errors/codes", "not_found"],
  [
    "408 The request body comes too slowly: fewer than 500 bytes a second.",
    "error-messages/deadline_exceeded",
    "too slowly",
  ],
  // Mistakes in settings.
  [
    "mistake: 'The upstream at https://api.example.com does not serve POST /v2/chat/completions. Check the baseUrl and the format of the relay.'",
    "error-messages/relays",
    "does not serve",
  ],
  ["does not serve POST", "error-messages/relays", "does not serve"],
  ["no apiKey", "error-messages/relays", "has no apiKey"],
  [
    "caused by SettingMistake: The upstream refuses the relay's credential. Check its apiKey and headers.\n    at mistaken (file:///x/relayed.js:1:2)",
    "error-messages/relays",
    "refuses the relay's credential",
  ],
  [
    "SettingMistake: The upstream wants a credential, but the relay has no apiKey.",
    "error-messages/relays",
    "has no apiKey",
  ],
  [
    "The provider answers with a page of HTML to POST https://x.example/v1/messages. Check its baseURL.",
    "error-messages/aisdk",
    "page of HTML",
  ],
  ["TypeError: relay: baseUrl must hold no user name or password.", "error-messages/relays", "user name or password"],
  ["TypeError: relay: the header Host is the relay's own.", "error-messages/relays", "the relay's own"],
  [
    'TypeError: route: routes is empty: write routes: { "a-model": backend }, or "*" for all models.',
    "error-messages/routes",
    "routes is empty",
  ],
  ["TypeError: signAws: needs credentials or an apiKey, and not both.", "error-messages/clouds", "not both"],
  [
    "TypeError: createGateway: formats is empty; it must have a format, such as messages() of polygate/formats/messages.",
    "error-messages/the-gateway",
    "formats is empty",
  ],
  ["TypeError: redactor: restore must return a text.", "error-messages/redactor", "restore"],
  [
    'TypeError: priceTable: expects an object of prices by model, such as { "*": { input: 3, output: 15 } }.',
    "error-messages/prices",
    "expects an object of prices",
  ],
  [
    "2026-11-28T12:00:01.123Z ERROR [app] polygate: priceTable has no row for the model gpt-9. Its calls are refused.",
    "error-messages/prices",
    "has no row",
  ],
  // Logs of hosts.
  [
    "[12:01:07] Error: The key team-a is spoilt: its held units are NaN.",
    "error-messages/stores-keys-and-budgets",
    "is spoilt",
  ],
  ["Error: The quota store holds 9007199254740993, which is beyond 2^53.", "error-messages/sql", "beyond 2^53"],
  ["Error: The Redis client is not connected: await client.connect() first.", "error-messages/redis", "not connected"],
  ["Error: A budget of the id team-a is known already.", "error-messages/stores-keys-and-budgets", "known already"],
  [
    "RangeError: The budget team-a cannot be removed: the key k1 draws on it.",
    "error-messages/stores-keys-and-budgets",
    "cannot be removed",
  ],
  [
    "12 calls have no record. Their charges appear as unrecorded calls.",
    "error-messages/stores-keys-and-budgets",
    "unrecorded",
  ],
  ["The charge of 1200 units is tried again, or told as given up.", "error-messages/the-gateway", "tried again"],
  [
    "Error: The call req_7 of the key team-a is not settled: 120 units, estimated. The gateway has closed.",
    "error-messages/the-gateway",
    "not settled",
  ],
  ["A hook has changed its request in place. Return a changed copy", "error-messages/hooks", "in place"],
  ["Error: The text is not as it was encrypted.", "error-messages/stores-keys-and-budgets", "encrypted"],
  [
    "TypeError: A backend must return an async iterable, not a promise: write `async *chat`, not `async chat`.",
    "error-messages/the-gateway",
    "async iterable",
  ],
  // The command.
  ["polygate: --rollover needs --period.", "error-messages/the-command-polygate", "--rollover"],
  [
    'The API key team-a has no quota of its own.\n"polygate keys update team-a --granted AMOUNT" gives it one.',
    "error-messages/the-command-polygate",
    "no quota of its own",
  ],
  ["Only the stores over SQL keep a record of calls.", "error-messages/the-command-polygate", "record of calls"],
  [
    "3 of 10 keys were not imported: line 4. The output has the errors.",
    "error-messages/the-command-polygate",
    "were not imported",
  ],
  ["line 3: This is no JSON object.", "error-messages/keys-import", "no JSON object"],
  [
    'postgres://***@db/x cannot be used: password authentication failed for user "x"',
    "errors/messages-of-node-and-of-sdks",
    "password authentication failed",
  ],
  [
    "The upstream first failed for the model e402, with the status 402.",
    "errors/messages-by-their-text",
    "failed for the model",
  ],
  ['There is no command "key". Did you mean keys?', "error-messages/the-command-polygate", "There is no command"],
  [
    "server.ts has no default export. Write: export default defineServer({ gateway: () => ({ backend }) })",
    "error-messages/polygate-serve",
    "no default export",
  ],
  ["Cannot listen on 0.0.0.0:80: listen EACCES", "error-messages/polygate-serve", "Cannot listen on"],
  ['cannot be used: database "gateway" does not exist', "errors/messages-of-node-and-of-sdks", "does not exist"],
  ["cannot be used: database … does not exist", "errors/messages-of-node-and-of-sdks", "does not exist"],
  ["401 The API key is paused.", "error-messages/paused_api_key", "paused"],
  ["401 The API key has expired.", "error-messages/expired_api_key", "expired"],
  // The admin, and tests.
  [
    '{"error":"The store is away. Try again in some seconds, and look whether a change was made."}',
    "error-messages/admin-over-http",
    "is away",
  ],
  ["403 A page of another origin may not change anything.", "error-messages/admin-over-http", "another origin"],
  ["testGateway: the gateway is closed.", "error-messages/tests", "is closed"],
  // Names.
  ['"code": "insufficient_quota"', "errors-by-format/names-on-the-wire", "insufficient_quota"],
  ['"status": "PERMISSION_DENIED"', "errors-by-format/names-on-the-wire", "PERMISSION_DENIED"],
  ["RESOURCE_EXHAUSTED", "errors-by-format/names-on-the-wire", "RESOURCE_EXHAUSTED"],
  ['"type": "rate_limit_error"', "errors-by-format/names-on-the-wire", "rate_limit_error"],
  ...[
    "AuthenticationError",
    "APIConnectionError",
    "RateLimitError",
    "APIStatusError",
    "ApiError",
    "BadRequestError",
    "UnprocessableEntityError",
    "ConflictError",
    "PermissionDeniedError",
    "InternalServerError",
    "APITimeoutError",
    "ClientError",
    "ServerError",
    "APICallError",
    "AI_APICallError",
  ].map((name) => [name, "errors-by-format/classes-of-sdks", name] as const),
])("finds %s", (text, address, words) => {
  const [hit] = find(text);
  expect(hit && addressOf(hit)).toBe(address);
  expect(hit?.title).toContain(words);
});

it.each([
  ["The upstream refuses the relay's account.", "Check its credit", "the-upstream-refuses-the-relays-account"],
  ["The upstream at http://127.0.0.1:1 takes no connections.", "Start the upstream", "takes-no-connections"],
  ["429 The quota of this API key is used up.", "Grant units", "the-quota-of--is-used-up"],
])("shows the remedy of %s, and leads to its row", (text, remedy, row) => {
  const [hit] = find(text);
  expect(hit).toMatchObject({ excerpt: expect.stringContaining(remedy), row: expect.stringMatching(`^${row}`) });
});

it("finds each message of the page, with values in place of its dots", () => {
  const some = ["errors", "error-messages", "errors-by-format"].map((name) => [name, pages[name] ?? ""] as const);
  const among = searchIn(Object.fromEntries(some));
  const messages = blocksOf(pages["error-messages"] ?? "").flatMap((block) =>
    block.type === "list" ? block.items : [],
  );
  expect(messages.length).toBeGreaterThan(700);
  const lost = messages.flatMap((item) => {
    const [quotes = ""] = /^(?:`[^`]*` ?)+/.exec(item) ?? [];
    const texts = piecesOf(quotes).flatMap(({ type, text }) => (type === "code" ? text : []));
    const pasted = `Error: ${texts.join(" ").replaceAll("…", () => "a7")}`;
    const title = texts.join(" ").replace(/^… /, "");
    const found = among(pasted).hits.slice(0, 2);
    return found.some((hit) => hit.page === "errors" || hit.title.endsWith(title)) ? [] : title;
  });
  expect(lost).toEqual([]);
});

describe("questions in the words of messages", () => {
  it.each([
    "price of a call",
    "what if the model backend is slow",
    "a key that may not use the model",
    "the answer of the upstream",
    "is the store of responses full",
    "how many requests per key",
    "which models may a key use",
    "budget of a team",
    "the quota of a key",
    "no two keys with the same name",
    "hold more than one budget",
    "permission denied",
    "resource exhausted",
    "rate limit",
    "internal server error",
    "is the gateway overloaded",
  ])("answers %s by an explanation", (question) => {
    expect(
      find(question)
        .slice(0, 3)
        .map(({ page }) => page),
    ).not.toContain("error-messages");
  });
});
