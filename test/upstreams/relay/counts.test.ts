/** Input tokens counted by an upstream. */

import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { type RawUpstream, rawUpstream, whole } from "./raw-upstream.ts";
import { API_KEY } from "./stage.ts";

const json = (status: number, body: object): string =>
  whole(status, "application/json", JSON.stringify(body)).toString();

/** Asks a gateway before a backend for the tokens of one small message. */
async function counted(backend: ModelBackend, format: "messages" | "generate-content"): Promise<[number, unknown]> {
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), onFailure: () => {} });
  const [path, headers, body] =
    format === "messages"
      ? [
          "/v1/messages/count_tokens",
          { "x-api-key": "sk-one", "anthropic-version": "2023-06-01" },
          { model: "small", messages: [{ role: "user", content: "How many are these?" }] },
        ]
      : [
          "/v1beta/models/small:countTokens",
          { "x-goog-api-key": "sk-one" },
          { contents: [{ role: "user", parts: [{ text: "How many are these?" }] }] },
        ];
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(headers as Record<string, string>) },
      body: JSON.stringify(body),
    }),
  );
  return [response.status, await response.json()];
}

const before = (upstream: RawUpstream, format: "messages" | "generate-content" | "chat-completions"): ModelBackend =>
  relay({ format, baseUrl: upstream.url, apiKey: API_KEY, models: { small: "upstream-9" } });

const ESTIMATE = { input_tokens: 5 };

describe("a count", () => {
  it("is that of an upstream of the messages format, asked for nothing but a count", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(json(200, { input_tokens: 77 })));
    expect(await counted(before(upstream, "messages"), "messages")).toEqual([200, { input_tokens: 77 }]);
    expect(await counted(before(upstream, "messages"), "generate-content")).toEqual([200, { totalTokens: 77 }]);
    expect(upstream.requests[0]?.head).toMatch(/^POST \/v1\/messages\/count_tokens HTTP/);
    const bodies = upstream.requests.map(({ body }) => JSON.parse(body) as object);
    const said = { model: "upstream-9", messages: [{ role: "user", content: expect.anything() }] };
    expect(bodies).toEqual([said, said]);
  });

  it("is that of an upstream of the generate-content format, of the whole request", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(json(200, { totalTokens: 78 })));
    expect(await counted(before(upstream, "generate-content"), "messages")).toEqual([200, { input_tokens: 78 }]);
    expect(upstream.requests[0]?.head).toMatch(/^POST \/v1\/models\/upstream-9:countTokens HTTP/);
    expect(JSON.parse(upstream.requests[0]?.body ?? "")).toMatchObject({
      generateContentRequest: { model: "models/upstream-9", contents: [{ parts: [{ text: "How many are these?" }] }] },
    });
  });

  it("goes by a route to the first upstream of its model", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(json(200, { input_tokens: 79 })));
    const backend = route({ routes: { small: before(upstream, "messages") } });
    expect(await counted(backend, "messages")).toEqual([200, { input_tokens: 79 }]);
  });

  it("is estimated where the upstream's format has none, without asking it", async () => {
    await using upstream = await rawUpstream((socket) => socket.destroy());
    expect(await counted(before(upstream, "chat-completions"), "messages")).toEqual([200, ESTIMATE]);
    expect(upstream.requests).toEqual([]);
  });

  it.each([404, 405, 501])("is estimated where the upstream has no such route: %i", async (status) => {
    await using upstream = await rawUpstream((socket) => socket.end(whole(status, "text/html", "<h1>No</h1>")));
    expect(await counted(before(upstream, "messages"), "messages")).toEqual([200, ESTIMATE]);
  });

  it.each<[string, string, number, string]>([
    ["knows no such model", json(404, { type: "error", error: { type: "not_found_error" } }), 400, "model_not_found"],
    [
      "refuses the relay's key",
      json(401, { type: "error", error: { type: "authentication_error" } }),
      500,
      "backend_failed",
    ],
    ["is busy", json(429, { type: "error", error: { type: "rate_limit_error" } }), 429, "rate_limit_exceeded"],
    ["counts in words", json(200, { input_tokens: "many" }), 500, "backend_failed"],
    ["counts below nothing", json(200, { input_tokens: -1 }), 500, "backend_failed"],
    ["shows a page", whole(200, "text/html", "<h1>Hi</h1>").toString(), 500, "backend_failed"],
  ])("is an error in the caller's format where the upstream %s", async (_name, answer, status, code) => {
    await using upstream = await rawUpstream((socket) => socket.end(answer));
    expect(await counted(before(upstream, "messages"), "messages")).toMatchObject([status, { error: { code } }]);
  });
});
