/** An upstream that does not have the route is not an upstream that does not know the model. */

import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import type { CallRecord } from "../../../src/ports/observer.ts";
import { scriptedBackend } from "../../../src/testing/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";

const ASK: Readonly<Record<RelayFormat, readonly [path: string, body: object, asked: string]>> = {
  messages: [
    "/v1/messages",
    { model: "m", max_tokens: 9, messages: [{ role: "user", content: "Go." }] },
    "POST /deep-secret-word/v1/messages",
  ],
  "generate-content": [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    { contents: [{ role: "user", parts: [{ text: "Go." }] }] },
    "POST /deep-secret-word/v1/models/m:streamGenerateContent",
  ],
  "chat-completions": [
    "/v1/chat/completions",
    { model: "m", stream: true, messages: [{ role: "user", content: "Go." }] },
    "POST /deep-secret-word/v1/chat/completions",
  ],
  responses: ["/v1/responses", { model: "m", stream: true, input: "Go." }, "POST /deep-secret-word/v1/responses"],
  images: [
    "/v1/images/generations",
    { model: "image-model-2", prompt: "A cat." },
    "POST /deep-secret-word/v1/images/generations",
  ],
};
const FORMATS = Object.keys(ASK) as RelayFormat[];

/** Asks a gateway before an upstream that answers with this status, body and headers. */
async function refused(
  format: RelayFormat,
  status: number,
  body: string,
  headers: Record<string, string> = {},
  model?: string,
) {
  const failures: string[] = [];
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend: relay({
      format,
      baseUrl: "http://up.test/deep-secret-word/v1",
      apiKey: "sk-secret-0123456789",
      headers: { "x-token": "deep-secret-word" },
      fetch: async () => new Response(body === "" ? null : body, { status, headers }),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    onFailure: ({ text }) => void failures.push(text),
    onCall: (record) => void records.push(record),
  });
  const [path, ask] = ASK[format];
  const own = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: own,
      body: JSON.stringify({ ...ask, ...(model && { model }) }),
    }),
  );
  const text = await response.text();
  await gateway.close();
  return { status: response.status, text, failures, record: records[0] };
}

/** The value of the secret header stands in the path, and is removed. The path has no query. */
const mistakeOf = (format: RelayFormat, does: string): string =>
  `The upstream at http://up.test ${does} ${ASK[format][2].replace("deep-secret-word", "[redacted]")}. Check the baseUrl and the format of the relay.`;

const error = (message: string, more: object = {}): string => JSON.stringify({ error: { message, ...more } });

const NGINX = "<html><center><h1>400 Bad Request</h1></center>The plain HTTP request was sent to HTTPS port</html>";

describe.each(FORMATS)("an upstream of %s without the route", (format) => {
  it.each<[server: string, status: number, body: string]>([
    ["nothing", 404, ""],
    ["a page", 404, "<html><h1>404 Not Found</h1></html>"],
    ["Go", 404, "404 page not found"],
    ["FastAPI", 404, '{"detail":"Not Found"}'],
    ["Express", 404, '{"message":"Cannot POST /deep-secret-word/v1/x","error":"Not Found","statusCode":404}'],
    ["Fastify", 404, '{"message":"Route POST:/deep-secret-word/v1/x not found","error":"Not Found","statusCode":404}'],
    ["Spring", 404, '{"timestamp":"2026-01-01","status":404,"error":"Not Found","path":"/deep-secret-word/v1/x"}'],
    ["Kong", 404, '{"message":"no Route matched with those values"}'],
    ["llama.cpp", 404, error("File Not Found", { type: "not_found_error", code: 404 })],
    ["Azure", 404, error("Resource not found", { code: "404" })],
    ["OpenAI", 404, error("Invalid URL (POST /v1/x)", { type: "invalid_request_error", param: null, code: null })],
    ["Groq", 404, error("Unknown request URL: POST /x. Please check the URL.", { code: "unknown_url" })],
    ["Anthropic", 404, '{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}'],
    ["Google", 404, '[{"error":{"code":404,"message":"Not Found","status":"NOT_FOUND"}}]'],
    ["Kimi", 404, '{"code":5,"error":"url.not_found","message":"url.not_found","method":"POST"}'],
    ["xAI", 404, error("The requested resource was not found. Please check the URL and try again.")],
    ["polygate", 404, error("There is no route POST /x. Did you mean POST /v1/messages?", { type: "not_found_error" })],
    ["polygate at the right address", 404, error("This gateway does not offer POST /v1/x.", { code: "not_found" })],
    ["a path", 404, error("Not found {path}")],
    ["a path without its beginning", 404, error("Nothing is served at {below}.", { code: "not_found" })],
    ["an address", 404, error("http://up.test{path}: no handler")],
    ["another JSON", 404, "{}"],
    ["nginx before static files", 405, "<html><h1>405 Not Allowed</h1></html>"],
    ["a Python server of files", 501, "<html><p>Message: Unsupported method ('POST').</p></html>"],
  ])("fails, and the host learns the path (%s)", async (_server, status, body) => {
    const path = ASK[format][2].replace("POST ", "");
    const named = body.replace("{path}", path).replace("{below}", path.replace("/deep-secret-word/v1", ""));
    const answer = await refused(format, status, named);
    expect(answer.status).toBe(500);
    expect(answer.text).toContain("The model backend failed.");
    expect(answer.failures).toHaveLength(1);
    expect(answer.text).not.toContain("up.test");
    expect(answer.failures[0]).toContain(mistakeOf(format, "does not serve"));
    expect(answer.failures[0]).not.toContain("secret-");
    expect(answer.record?.attempts).toMatchObject([{ mistake: mistakeOf(format, "does not serve") }]);
    expect(answer.record).toMatchObject({ outcome: "failed", errorMessage: "The model backend failed." });
  });

  it.each<[answer: string, does: string, status: number, body: string, headers: Record<string, string>]>([
    ["a page", "answers with no JSON and no event stream to", 200, "<h1>Hi</h1>", { "content-type": "text/html" }],
    ["nginx's wish for TLS", "wants https for", 400, NGINX, { "content-type": "text/html" }],
    ["Go's wish for TLS", "wants https for", 400, "Client sent an HTTP request to an HTTPS server.\n", {}],
    ["a redirect", "answers with a redirect to", 308, "", { location: "https://up.test/v1?token=deep-secret-word" }],
  ])("records the address that answers with %s", async (_answer, does, status, body, headers) => {
    const answer = await refused(format, status, body, headers);
    expect(answer.status).toBe(500);
    expect(answer.text).toContain("The model backend failed.");
    expect(answer.text).not.toContain("up.test");
    expect(answer.record?.attempts).toMatchObject([{ mistake: mistakeOf(format, does) }]);
    expect(JSON.stringify(answer.record?.attempts)).not.toContain("secret");
  });
});

it("a route asks such an upstream once for a call, and the next one at once", async () => {
  let asked = 0;
  const lost = relay({
    format: "chat-completions",
    baseUrl: "http://up.test/v2",
    fetch: async () => {
      asked++;
      return new Response("404 page not found", { status: 404 });
    },
  });
  const clock = manualClock();
  const others = scriptedBackend("Hello.");
  const upstreams = [lost, { backend: others, name: "other", weight: 0 }];
  expect([await statusOf(route({ routes: { m: { upstreams } }, clock })), asked]).toEqual([200, 1]);
  const alone = route({ routes: { m: { upstreams: [lost] } }, retry: { again: 2 }, clock });
  expect([await statusOf(alone), asked]).toEqual([500, 2]);
});

const statusOf = (backend: ModelBackend): Promise<number> =>
  askedStatus(createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), onFailure: () => {} }));

async function askedStatus(gateway: Gateway): Promise<number> {
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one" };
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Go." }] });
  const request = new Request("http://gateway.test/v1/chat/completions", { method: "POST", headers, body });
  return (await gateway.fetch(request)).status;
}

it.each<[format: RelayFormat, server: string, body: string, model?: string]>([
  ["messages", "Anthropic", '{"type":"error","error":{"type":"not_found_error","message":"model: m"}}'],
  [
    "generate-content",
    "Google",
    '{"error":{"code":404,"message":"models/m is not found for API version v1","status":"NOT_FOUND"}}',
  ],
  ["chat-completions", "OpenAI", error("The model `m` does not exist.", { code: "model_not_found" })],
  ["chat-completions", "Ollama", error('model "m" not found, try pulling it first', { type: "api_error" })],
  ["chat-completions", "vLLM", error("The model `m` does not exist.", { type: "NotFoundError", code: 404 })],
  ["images", "OpenAI", error("The model `m` does not exist.", { code: "model_not_found" })],
  // A caller must not make an upstream of all callers look wrong by the name of a model.
  ["chat-completions", "OpenAI, a hostile name", error("The model `my url was not found` does not exist.")],
  ["chat-completions", "Ollama, a hostile name", error("model 'route not found' not found, try pulling it first")],
  ["messages", "Anthropic, a hostile name", error("model: url is not found", { type: "not_found_error" })],
  [
    "generate-content",
    "Google, a hostile name",
    '{"error":{"code":404,"message":"models/route is not found for API version v1","status":"NOT_FOUND"}}',
  ],
  [
    "chat-completions",
    "OpenAI for a model of another route",
    error("This is not a chat model and thus not supported in the v1/chat/completions endpoint."),
  ],
  ["chat-completions", "a longer path", error("Not found: /chat/completions/extra")],
  // Nor by the id of a file or of an item, which may hold the path.
  ["messages", "Anthropic, a hostile file", error("File not found: /messages", { type: "not_found_error" })],
  ["responses", "OpenAI, a hostile item", error("Item with id 'rs_/responses' not found.")],
  ["chat-completions", "a hostile name that holds the path", error("/chat/completions not found"), "/chat/completions"],
])("an upstream of %s that does not know the model serves the route (%s)", async (format, _server, body, model) => {
  const { text, failures, record } = await refused(format, 404, body, {}, model);
  expect(text).toMatch(/model_not_found|not_found_error|NOT_FOUND/);
  expect(failures.join()).not.toContain("does not serve");
  expect(record?.attempts[0]).not.toHaveProperty("mistake");
});

it("a 400 that repeats the words of a proxy in JSON, or is another page, is the caller's", async () => {
  const words = "The plain HTTP request was sent to HTTPS port";
  for (const body of [error(words), "<html>400 Bad Request</html>"]) {
    const { status, record } = await refused("chat-completions", 400, body);
    expect(status).toBe(400);
    expect(record?.attempts[0]).not.toHaveProperty("mistake");
  }
});

it("the health of a gateway names the mistake until the upstream answers", async () => {
  for (const wrap of [
    (backend: ModelBackend) => backend,
    (backend: ModelBackend) => route({ routes: { m: backend } }),
  ]) {
    let status = 404;
    const answer = {
      id: "1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
    };
    const backend = wrap(
      relay({
        format: "chat-completions",
        baseUrl: "http://up.test/v2",
        fetch: async () => (status === 404 ? new Response("404 page not found", { status }) : Response.json(answer)),
      }),
    );
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), onFailure: () => {} });
    const mistake =
      "The upstream at http://up.test does not serve POST /v2/chat/completions. Check the baseUrl and the format of the relay.";
    expect(await askedStatus(gateway)).toBe(500);
    expect((await gateway.health()).upstreams).toMatchObject([{ lastFailure: { code: "backend_failed", mistake } }]);
    status = 200;
    expect(await askedStatus(gateway)).toBe(200);
    expect((await gateway.health()).upstreams).toMatchObject([{ lastFailure: undefined }]);
  }
});

it("the path of a request stays hidden also where it is named with a model, or with another status", async () => {
  for (const status of [404, 400]) {
    const path = "/deep-secret-word/v1/chat/completions";
    const { text } = await refused("chat-completions", status, error(`The model m is not for ${path}, or is gone.`));
    expect(text).toContain("is gone");
    expect(text).not.toMatch(/\/chat\/completions|secret/);
  }
});

it("the path of a vendor's route is shown as the upstream names it", async () => {
  const said = "The model m is not supported in /v1/chat/completions, as all know.";
  const backend = relay({
    format: "chat-completions",
    baseUrl: "http://up.test/v1",
    fetch: async () => new Response(error(said), { status: 400 }),
  });
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), onFailure: () => {} });
  const [path, ask] = ASK["chat-completions"];
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one" };
  const answer = await gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(ask) }),
  );
  expect(await answer.json()).toMatchObject({ error: { message: said } });
  await gateway.close();
});
