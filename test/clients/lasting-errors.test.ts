/** The official SDKs ask once where only the operator can mend a failure, and again where the failure may pass. */

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, it, vi } from "vitest";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { relay, type RelayOptions } from "../../src/upstreams/relay/index.ts";

const KEY = "sk-one";

const says = (status: number, body: object) => () => Promise.resolve(Response.json(body, { status }));
const fails = (code: string) => () =>
  Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) }));
const REFUSAL = { error: { message: "Incorrect API key provided.", type: "x", param: null, code: "invalid_api_key" } };

it.each<[string, asked: number, header: string | null, fetch: () => Promise<Response>]>([
  ["once of an upstream that refuses the key", 1, "false", says(401, REFUSAL)],
  ["once of an upstream that refuses the account", 1, "false", says(403, { error: { message: "No." } })],
  ["once of an address that lacks the route", 1, "false", says(404, {})],
  ["again of a name that does not resolve", 2, null, fails("ENOTFOUND")],
  ["again of a connection without trust", 2, null, fails("SELF_SIGNED_CERT_IN_CHAIN")],
  ["again of a connection that is refused", 2, null, fails("ECONNREFUSED")],
  ["again of an upstream that fails", 2, null, says(500, {})],
])("ask %s", async (_what, asked, header, fetch) => {
  const failures: string[] = [];
  const gateway = createGateway({
    backend: relay({ format: "chat-completions", baseUrl: "http://up.test/v1", apiKey: "sk-two", fetch }),
    quotas: memoryQuotaStore([{ apiKey: KEY, granted: 10_000 }]),
    onFailure: ({ text }) => void failures.push(text),
  });
  const headers: (string | null)[] = [];
  const sent = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const response = await gateway.fetch(new Request(url, init));
    headers.push(response.headers.get("x-should-retry"));
    return response;
  };
  const options = { apiKey: KEY, fetch: sent, maxRetries: 1 };
  const messages = [{ role: "user" as const, content: "Hello" }];
  const openai = new OpenAI({ ...options, baseURL: "http://gateway.test/v1" });
  await expect(openai.chat.completions.create({ model: "a", messages })).rejects.toThrow(OpenAI.InternalServerError);
  const anthropic = new Anthropic({ ...options, baseURL: "http://gateway.test" });
  await expect(anthropic.messages.create({ model: "a", max_tokens: 9, messages })).rejects.toThrow(
    Anthropic.InternalServerError,
  );
  expect(headers).toEqual(Array.from({ length: 2 * asked }, () => header));
  expect(failures).toHaveLength(2 * asked);
  await gateway.close();
});

it.each<[string, RelayOptions["format"], number, string]>([
  ["with 401", "messages", 401, "invalid x-api-key"],
  ["with 400, as Gemini does", "generate-content", 400, "API key not valid. Please pass a valid API key."],
])("tells the operator what to check where an upstream refuses the key %s", async (_how, format, status, message) => {
  const printed = vi.spyOn(console, "error").mockReturnValue();
  const fetch = says(status, { error: { code: status, message, status: "INVALID_ARGUMENT" } });
  const gateway = createGateway({
    backend: relay({ format, baseUrl: "http://up.test", apiKey: "sk-two", fetch }),
    quotas: memoryQuotaStore([{ apiKey: KEY, granted: 10_000 }]),
  });
  const body = JSON.stringify({ model: "a", max_tokens: 9, messages: [{ role: "user", content: "Hello" }] });
  const headers = { "x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json" };
  const request = new Request("http://gateway.test/v1/messages", { method: "POST", headers, body });
  expect((await gateway.fetch(request)).status).toBe(500);
  expect(printed.mock.calls.flat().join("\n")).toMatch(
    /SettingMistake: The upstream refuses the relay's credential\. Check its apiKey and headers\.?, caused by Error: The upstream/,
  );
  printed.mockRestore();
  await gateway.close();
});
