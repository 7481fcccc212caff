/** Gemini and Claude on Vertex AI, before a mock that gives out access tokens and checks them. */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI, ServiceTier } from "@google/genai";
import { OAuth2Client } from "google-auth-library";
import { describe, expect, it } from "vitest";
import {
  type GoogleTokens,
  googleToken,
  vertexGenerateContent,
  vertexMessages,
  type VertexOptions,
} from "../../src/clouds/google.ts";
import { describeError } from "../../src/errors.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { callContext, chatRequest } from "../upstreams/relay/stage.ts";
import { type Cloud, cloud, front, json, MESSAGE, MESSAGE_EVENTS, type Received, TEXT } from "./stage.ts";

const GEMINI = {
  candidates: [{ content: { role: "model", parts: [{ text: TEXT }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 5, totalTokenCount: 17 },
  modelVersion: "gemini-3-pro",
};

interface Vertex extends Cloud {
  /** The tokens that were given out, from the oldest to the newest. Only the newest is valid. */
  readonly tokens: string[];
  /** The routes that were asked with a token, whether valid or not. */
  routes(): string[];
}

const BASE = "/v1/projects/my-project/locations/europe-west1/publishers";

/** Serves Google's token endpoint and Vertex AI. */
async function vertex(): Promise<Vertex> {
  const tokens: string[] = [];
  const served = await cloud(({ path, headers, body, bytes }: Received, res) => {
    if (path === "/token") {
      const form = new URLSearchParams(bytes.toString());
      if (form.get("refresh_token") !== "refresh-0123456789" || form.get("client_id") !== "client")
        return json(res, 400, { error: "invalid_grant" });
      tokens.push(`ya29.token-${tokens.length + 1}-0123456789`);
      return json(res, 200, { access_token: tokens.at(-1), expires_in: 3600, token_type: "Bearer" });
    }
    if (headers["authorization"] !== `Bearer ${tokens.at(-1)}`)
      return json(res, 401, {
        error: { code: 401, message: `${headers["authorization"]} is invalid.`, status: "UNAUTHENTICATED" },
      });
    const claude = `${BASE}/anthropic/models/`;
    if (path === `${claude}count-tokens:rawPredict`) return json(res, 200, { input_tokens: 42 });
    if (path.startsWith(claude)) {
      const isStream = path === `${claude}claude-sonnet-4-5@20250929:streamRawPredict`;
      const isRight = isStream ? body["stream"] === true : path === `${claude}claude-sonnet-4-5@20250929:rawPredict`;
      if (!isRight || body["anthropic_version"] !== "vertex-2023-10-16" || "model" in body)
        return json(res, 400, { error: { code: 400, message: "Bad request.", status: "INVALID_ARGUMENT" } });
      if (!isStream) return json(res, 200, MESSAGE);
      return stream(
        MESSAGE_EVENTS.map((event) => `event: ${event["type"] as string}\ndata: ${JSON.stringify(event)}\n\n`),
      );
    }
    const gemini = `${BASE}/google/models/gemini-3-pro:`;
    if (path === `${gemini}countTokens`) return json(res, 200, { totalTokens: 43 });
    if (path === `${gemini}generateContent`) return json(res, 200, GEMINI);
    if (path === `${gemini}streamGenerateContent?alt=sse`) return stream([`data: ${JSON.stringify(GEMINI)}\r\n\r\n`]);
    return json(res, 404, { error: { code: 404, message: "No such model.", status: "NOT_FOUND" } });

    function stream(frames: readonly string[]): void {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.end(frames.join(""));
    }
  });
  return {
    ...served,
    tokens,
    routes: () => served.received.map(({ path }) => path).filter((path) => path !== "/token"),
  };
}

/** A client of Google's own library. Its tokens come from the mock. */
function clientOf(upstream: Cloud, refreshToken = "refresh-0123456789"): OAuth2Client {
  const client = new OAuth2Client({
    clientId: "client",
    clientSecret: "client-secret-0123456789",
    endpoints: { oauth2TokenUrl: `${upstream.url}/token` },
  });
  client.setCredentials({ refresh_token: refreshToken });
  return client;
}

const options = (upstream: Cloud, more: Partial<VertexOptions> = {}): VertexOptions => ({
  project: "my-project",
  location: "europe-west1",
  endpoint: upstream.url,
  ...("apiKey" in more ? {} : { auth: clientOf(upstream) }),
  ...more,
});

const ask = {
  model: "claude-sonnet-4-5@20250929",
  max_tokens: 100,
  messages: [{ role: "user" as const, content: "Hello" }],
};

describe("Claude on Vertex AI", () => {
  it("answers the official client, complete and streamed, with one token of Google's library", async () => {
    await using upstream = await vertex();
    await using stage = await front(relay(vertexMessages(options(upstream))));
    const client = new Anthropic({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 });
    const message = await client.beta.messages.create({ ...ask, betas: ["context-1m-2025-08-07"] });
    expect([message.content, message.usage.output_tokens]).toMatchObject([[{ type: "text", text: TEXT }], 5]);
    expect(await client.messages.stream(ask).finalText()).toBe(TEXT);
    expect(upstream.tokens).toHaveLength(1);
    expect(upstream.routes()).toEqual([
      `${BASE}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict`,
      `${BASE}/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict`,
    ]);
    const [, complete] = upstream.received;
    expect(complete?.headers["anthropic-beta"]).toBe("context-1m-2025-08-07");
    expect(complete?.headers["anthropic-version"]).toBeUndefined();
    expect(complete?.body).toEqual({ max_tokens: 100, messages: ask.messages, anthropic_version: "vertex-2023-10-16" });
    expect(stage.records.map(({ usage }) => usage)).toMatchObject([{ outputTokens: 5 }, { outputTokens: 5 }]);
  });

  it("counts tokens", async () => {
    await using upstream = await vertex();
    const backend = relay({ ...vertexMessages(options(upstream)), models: { sonnet: "claude-sonnet-4-5@20250929" } });
    expect(await backend.countInputTokens(chatRequest({ model: "sonnet" }), callContext())).toBe(42);
    expect(upstream.received[1]?.body).toMatchObject({
      model: "claude-sonnet-4-5@20250929",
      messages: [{ role: "user" }],
    });
    expect(upstream.received[1]?.body).not.toHaveProperty("max_tokens");
  });
});

describe("Gemini on Vertex AI", () => {
  it("answers the official client, complete and streamed", async () => {
    await using upstream = await vertex();
    await using stage = await front(relay(vertexGenerateContent(options(upstream))));
    const client = new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: stage.url } });
    const question = { model: "gemini-3-pro", contents: "Hello" };
    expect((await client.models.generateContent(question)).text).toBe(TEXT);
    let text = "";
    for await (const piece of await client.models.generateContentStream(question)) text += piece.text;
    expect(text).toBe(TEXT);
    expect(upstream.routes()).toEqual([
      `${BASE}/google/models/gemini-3-pro:generateContent`,
      `${BASE}/google/models/gemini-3-pro:streamGenerateContent?alt=sse`,
    ]);
  });

  it("is asked for a tier by a header, and never by a field of the body", async () => {
    await using upstream = await vertex();
    await using stage = await front(relay(vertexGenerateContent(options(upstream))));
    const client = new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: stage.url } });
    const tiers = [ServiceTier.PRIORITY, ServiceTier.FLEX, ServiceTier.STANDARD, undefined, "other" as ServiceTier];
    for (const serviceTier of tiers)
      await client.models.generateContent({
        model: "gemini-3-pro",
        contents: "Hello",
        ...(serviceTier && { config: { serviceTier } }),
      });
    const sent = upstream.received.filter(({ path }) => path.endsWith(":generateContent"));
    expect(
      sent.map(({ headers, body }) => [
        headers["x-vertex-ai-llm-shared-request-type"],
        (body as { serviceTier?: unknown }).serviceTier,
      ]),
    ).toEqual([
      ["priority", undefined],
      ["flex", undefined],
      [undefined, undefined],
      [undefined, undefined],
      [undefined, "other"],
    ]);
  });

  it("counts the parts of a request, without the request around them", async () => {
    await using upstream = await vertex();
    const backend = relay({ ...vertexGenerateContent(options(upstream)), models: ["gemini-3-pro"] });
    expect(await backend.countInputTokens(chatRequest({ model: "gemini-3-pro" }), callContext())).toBe(43);
    expect(upstream.received[1]?.body).toMatchObject({ contents: [{ parts: [{ text: "Hello" }] }] });
    expect(upstream.received[1]?.body).not.toHaveProperty("model");
    expect(await backend.check()).toMatchObject({ ok: true });
  });
});

it("Vertex AI gets no embeddings, and no beta features but those of the header", async () => {
  await using upstream = await vertex();
  const gemini = relay({ ...vertexGenerateContent(options(upstream)), models: ["gemini-embedding-001"] });
  expect(gemini).not.toHaveProperty("embed");
  await using stage = await front(relay({ ...vertexMessages(options(upstream)), betas: "none" }));
  const { messages } = new Anthropic({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 }).beta;
  const smuggled = { anthropic_beta: ["context-1m-2025-08-07"] } as object;
  await messages.create({ ...ask, ...smuggled });
  await messages.countTokens({ model: ask.model, messages: ask.messages, ...smuggled });
  expect(upstream.received.slice(1).map(({ body }) => "anthropic_beta" in body)).toEqual([false, false]);
});

describe("the tokens of Google's library", () => {
  it("expire as the library says, and are kept until then", async () => {
    await using upstream = await vertex();
    const client = clientOf(upstream);
    const first = await googleToken(client)();
    expect(first).toEqual({ apiKey: upstream.tokens[0], expiresAt: client.credentials.expiry_date });
    // `GoogleAuth` finds such a client.
    expect(await googleToken({ getClient: () => Promise.resolve(client) })()).toEqual(first);
  });

  it("are asked for again after a minute when nobody knows how long they last", async () => {
    const clock = manualClock();
    const auth: GoogleTokens = { getAccessToken: () => Promise.resolve({ token: "a" }) };
    expect(await googleToken(auth, clock)()).toEqual({ apiKey: "a", expiresAt: clock.now() + 60_000 });
  });

  it("that Google has revoked fail the call, as those that the library does not get, without a secret in the error", async () => {
    await using upstream = await vertex();
    await using stage = await front(relay(vertexMessages(options(upstream))));
    const client = new Anthropic({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 });
    await client.messages.create(ask);
    upstream.tokens.push("another");
    await expect(client.messages.create(ask)).rejects.toMatchObject({ status: 500 });
    expect(describeError(stage.failures[0]?.error)).toContain("Bearer [redacted] is invalid.");
    const auth = clientOf(upstream, "refresh-wrong");
    await using broken = await front(relay(vertexMessages(options(upstream, { auth }))));
    await expect(
      new Anthropic({ apiKey: "sk-1", baseURL: broken.url, maxRetries: 0 }).messages.create(ask),
    ).rejects.toMatchObject({ status: 503 });
    const told = describeError(broken.failures[0]?.error);
    expect(told).toMatch(/The relay's apiKey failed\.[^]*invalid_grant/);
    expect(told).not.toContain("0123456789");
  });

  it("may come from elsewhere, and are asked for again when Google refuses one", async () => {
    await using upstream = await vertex();
    upstream.tokens.push("token-two");
    let asked = 0;
    const apiKey = (): string => ["token-one", "token-two"][asked++] ?? "";
    await using stage = await front(relay(vertexMessages(options(upstream, { apiKey }))));
    const client = new Anthropic({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 });
    expect(await client.messages.stream(ask).finalText()).toBe(TEXT);
    expect(asked).toBe(2);
  });
});

describe("the options", () => {
  it("lead to the address of the location", () => {
    const addresses = ["us-east5", "global", "eu"].map(
      (location) => vertexMessages({ project: "p", location, apiKey: "a" }).baseUrl,
    );
    expect(addresses).toEqual([
      "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic",
      "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic",
      "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic",
    ]);
    expect(vertexGenerateContent({ project: "p", location: "global" }).baseUrl).toContain("/publishers/google");
  });

  it.each<[unknown, string]>([
    [{ location: "global" }, "vertexMessages: project is missing; it must be a text."],
    [{ project: "a/b", location: "global" }, "vertexMessages: project must be a name"],
    [{ project: "p", location: "../x" }, "vertexMessages: location must be a name"],
    [
      { project: "p", location: "global", auth: {} },
      "vertexMessages: auth must be a GoogleAuth, or one of its clients",
    ],
    [
      { project: "p", location: "global", auth: { getClient() {} }, apiKey: "a" },
      "vertexMessages: takes auth or an apiKey, not both.",
    ],
    [
      { project: "p", location: "global", endpoint: "x?y" },
      "vertexMessages: endpoint must be an http or https address",
    ],
  ])("%j are refused by name", (given, words) => {
    expect(() => vertexMessages(given as VertexOptions)).toThrow(words);
  });
});
