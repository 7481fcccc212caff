/** OpenAI's formats on Azure, before a mock that checks keys and tokens. */

import { ManagedIdentityCredential } from "@azure/identity";
import OpenAI from "openai";
import { describe, expect, it, vi } from "vitest";
import {
  type AzureCredential,
  azureChatCompletions,
  type AzureOptions,
  azureResponses,
  azureToken,
} from "../../src/clouds/azure.ts";
import { describeError } from "../../src/errors.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { type Cloud, cloud, front, json, TEXT } from "./stage.ts";

const KEY = "azure-key-0123456789abcdef";
const USAGE = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 };

const COMPLETION = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "gpt-5-2025-08-07",
  prompt_filter_results: [{ prompt_index: 0, content_filter_results: { hate: { filtered: false, severity: "safe" } } }],
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: TEXT, refusal: null },
      finish_reason: "stop",
      logprobs: null,
      content_filter_results: { hate: { filtered: false, severity: "safe" } },
    },
  ],
  usage: USAGE,
};

/** The chunks of a stream, with those of Azure's filters. */
const CHUNKS = [
  { ...COMPLETION, object: "", id: "", model: "", created: 0, choices: [], usage: undefined },
  {
    choices: [
      { index: 0, delta: { role: "assistant", content: "Bonjour, " }, finish_reason: null, content_filter_results: {} },
    ],
  },
  { choices: [{ index: 0, delta: { content: "世界!" }, finish_reason: null, content_filter_results: {} }] },
  { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
  { choices: [], usage: USAGE },
].map((chunk) => ({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-5", ...chunk }));

const RESPONSE = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "gpt-5",
  output: [
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: TEXT, annotations: [] }],
    },
  ],
  usage: { input_tokens: 12, output_tokens: 5, total_tokens: 17 },
};

interface Azure extends Cloud {
  /** The tokens that were given out. Only the newest is valid. */
  readonly tokens: string[];
}

/** Serves a resource of Azure, and the endpoint of a managed identity. */
async function azure(): Promise<Azure> {
  const tokens: string[] = [];
  const served = await cloud(({ path, headers, body }, res) => {
    if (path.startsWith("/identity?")) {
      const isRight =
        headers["x-identity-header"] === "identity-secret" && path.includes("cognitiveservices.azure.com");
      if (!isRight) return json(res, 400, { error: "invalid" });
      tokens.push(`eyJ.token-${tokens.length + 1}-0123456789`);
      const expires_on = String(Math.floor(Date.now() / 1_000) + 3_600);
      return json(res, 200, { access_token: tokens.at(-1), expires_on, resource: "r", token_type: "Bearer" });
    }
    const isKnown = headers["api-key"] === KEY || headers["authorization"] === `Bearer ${tokens.at(-1)}`;
    if (!isKnown)
      return json(res, 401, { error: { code: "401", message: "Access denied due to invalid subscription key." } });
    const stream = (frames: readonly string[]): void => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.end(frames.join(""));
    };
    const isStream = body["stream"] === true;
    switch (path) {
      case "/openai/v1/chat/completions":
      case "/openai/deployments/my-gpt%205/chat/completions?api-version=2024-10-21":
        if (!isStream) return json(res, 200, COMPLETION);
        return stream([...CHUNKS.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"]);
      case "/openai/v1/embeddings":
      case "/openai/deployments/my-embedding/embeddings?api-version=2024-10-21":
        return json(res, 200, {
          object: "list",
          model: "text-embedding-3-small",
          data: [{ object: "embedding", index: 0, embedding: [0.5, -1] }],
          usage: { prompt_tokens: 1, total_tokens: 1 },
        });
      case "/openai/v1/responses":
      case "/openai/v1/responses?api-version=preview":
        if (!isStream) return json(res, 200, RESPONSE);
        return stream([
          `event: response.created\ndata: ${JSON.stringify({ type: "response.created", sequence_number: 0, response: { ...RESPONSE, status: "in_progress", output: [] } })}\n\n`,
          `event: response.completed\ndata: ${JSON.stringify({ type: "response.completed", sequence_number: 1, response: RESPONSE })}\n\n`,
        ]);
      case "/openai/v1/responses/input_tokens?api-version=preview":
        return json(res, 200, { object: "response.input_tokens", input_tokens: 42 });
      default:
        return json(res, 404, {
          error: { code: "DeploymentNotFound", message: "The API deployment for this resource does not exist." },
        });
    }
  });
  return { ...served, tokens };
}

const clientOf = (url: string): OpenAI => new OpenAI({ apiKey: "sk-1", baseURL: `${url}/v1`, maxRetries: 0 });
const messages = [{ role: "user" as const, content: "Hello" }];

async function chatted(client: OpenAI): Promise<readonly [string | null | undefined, string]> {
  const whole = await client.chat.completions.create({ model: "gpt-5", messages });
  let text = "";
  for await (const { choices } of await client.chat.completions.create({ model: "gpt-5", messages, stream: true }))
    text += choices[0]?.delta.content ?? "";
  return [whole.choices[0]?.message.content, text];
}

describe("chat completions on Azure", () => {
  it.each([
    ["by deployment", "2024-10-21", "/openai/deployments/my-gpt%205/chat/completions?api-version=2024-10-21"],
    ["of version 1", undefined, "/openai/v1/chat/completions"],
  ])("%s answer the official client, complete and streamed, and embed", async (_name, apiVersion, path) => {
    await using upstream = await azure();
    const backend = relay({
      ...azureChatCompletions({ endpoint: upstream.url, apiKey: KEY, apiVersion }),
      models: { "gpt-5": "my-gpt 5", embedding: "my-embedding" },
    });
    await using stage = await front(backend);
    const client = clientOf(stage.url);
    expect(await chatted(client)).toEqual([TEXT, TEXT]);
    const embedded = await client.embeddings.create({ model: "embedding", input: "Hello", encoding_format: "float" });
    expect(embedded.data[0]?.embedding).toEqual([0.5, -1]);
    expect(upstream.received.map((request) => request.path)).toEqual([
      path,
      path,
      path.replace("my-gpt%205", "my-embedding").replace("chat/completions", "embeddings"),
    ]);
    expect(upstream.received[0]?.body).toMatchObject({ model: "my-gpt 5" });
    expect(upstream.received[0]?.headers["authorization"]).toBeUndefined();
    expect(stage.records.map(({ usage }) => usage)).toMatchObject([
      { outputTokens: 5 },
      { outputTokens: 5 },
      { inputTokens: 1 },
    ]);
    expect(stage.failures).toEqual([]);
    expect(await backend.check()).toMatchObject({ ok: true });
  });

  it("tell a caller of a deployment that does not exist, and the host of a wrong key", async () => {
    await using upstream = await azure();
    const models = ["gpt-5"];
    const options = { endpoint: upstream.url, apiVersion: "2024-10-21" };
    await using unknown = await front(relay({ ...azureChatCompletions({ ...options, apiKey: KEY }), models }));
    await expect(clientOf(unknown.url).chat.completions.create({ model: "gpt-5", messages })).rejects.toMatchObject({
      status: 404,
    });
    const wrong = `${KEY.slice(0, -1)}g`;
    await using refused = await front(relay({ ...azureChatCompletions({ ...options, apiKey: wrong }), models }));
    await expect(clientOf(refused.url).chat.completions.create({ model: "gpt-5", messages })).rejects.toMatchObject({
      status: 500,
    });
    expect(describeError(refused.failures[0]?.error)).toContain("Access denied due to invalid subscription key.");
  });
});

describe("Responses on Azure", () => {
  it.each([undefined, "preview"])(
    "answer the official client, complete and streamed (version %s)",
    async (apiVersion) => {
      await using upstream = await azure();
      const backend = relay({
        ...azureResponses({ endpoint: `${upstream.url}/openai/v1/`, apiKey: KEY, apiVersion }),
        models: ["gpt-5"],
      });
      await using stage = await front(backend);
      const client = clientOf(stage.url);
      expect((await client.responses.create({ model: "gpt-5", input: "Hello" })).output_text).toBe(TEXT);
      const { output } = await client.responses.stream({ model: "gpt-5", input: "Hello" }).finalResponse();
      expect(output).toMatchObject([{ content: [{ text: TEXT }] }]);
      const path = `/openai/v1/responses${apiVersion === undefined ? "" : "?api-version=preview"}`;
      expect(upstream.received.map((request) => request.path)).toEqual([path, path]);
    },
  );

  it("count tokens at the same version", async () => {
    await using upstream = await azure();
    const backend = relay(azureResponses({ endpoint: upstream.url, apiKey: KEY, apiVersion: "preview" }));
    await using stage = await front(backend);
    expect(await clientOf(stage.url).responses.inputTokens.count({ model: "gpt-5", input: "Hello" })).toMatchObject({
      input_tokens: 42,
    });
  });
});

describe("a credential of @azure/identity", () => {
  it("brings tokens to the official client, kept until they expire", async () => {
    await using upstream = await azure();
    vi.stubEnv("IDENTITY_ENDPOINT", `${upstream.url}/identity`);
    vi.stubEnv("IDENTITY_HEADER", "identity-secret");
    try {
      const credential = new ManagedIdentityCredential();
      await using stage = await front(
        relay({ ...azureChatCompletions({ endpoint: upstream.url, credential }), models: ["gpt-5"] }),
      );
      expect(await chatted(clientOf(stage.url))).toEqual([TEXT, TEXT]);
      expect(upstream.tokens).toHaveLength(1);
      expect(stage.failures).toEqual([]);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("is asked for its scope, and again when Azure refuses its token", async () => {
    await using upstream = await azure();
    upstream.tokens.push("token-two");
    const clock = manualClock();
    const asked: string[] = [];
    const credential: AzureCredential = {
      getToken(scope) {
        asked.push(scope);
        const token = asked.length === 1 ? "token-one" : "token-two";
        return Promise.resolve({ token, expiresOnTimestamp: clock.now() + 3_600_000 });
      },
    };
    const options = { endpoint: upstream.url, credential, scope: "https://ai.azure.com/.default", clock };
    await using stage = await front(relay({ ...azureResponses(options), models: ["gpt-5"] }));
    expect((await clientOf(stage.url).responses.create({ model: "gpt-5", input: "Hello" })).output_text).toBe(TEXT);
    expect(asked).toEqual(["https://ai.azure.com/.default", "https://ai.azure.com/.default"]);
  });

  it("without a token fails the call", async () => {
    await expect(Promise.resolve(azureToken({ getToken: () => Promise.resolve(null) })())).rejects.toThrow(
      "has no token",
    );
  });
});

describe("the options", () => {
  it.each<[unknown, string]>([
    [{ apiKey: KEY }, "azureResponses: endpoint is missing; it must be a text."],
    [{ endpoint: "my-resource", apiKey: KEY }, "azureResponses: endpoint must be an http or https address"],
    [
      { endpoint: "https://a.test/openai/v1/responses", apiKey: KEY },
      "azureResponses: endpoint must end before /responses.",
    ],
    [
      { endpoint: "https://a.test/openai/deployments/mine/chat/completions/", apiKey: KEY },
      "azureResponses: endpoint must end before /openai/deployments/mine/chat/completions.",
    ],
    [{ endpoint: "https://a.test" }, "azureResponses: needs a credential or an apiKey, and not both."],
    [
      { endpoint: "https://a.test", apiKey: KEY, credential: { getToken() {} } },
      "azureResponses: needs a credential or an apiKey",
    ],
    [
      { endpoint: "https://a.test", credential: {} },
      "azureResponses: credential must be a credential of @azure/identity",
    ],
    [
      { endpoint: "https://a.test", apiKey: KEY, apiVersion: "2024-10-21" },
      "azureResponses: apiVersion must be no date",
    ],
    [undefined, "azureResponses: expects an object of options"],
  ])("%j are refused by name", (given, words) => {
    expect(() => azureResponses(given as AzureOptions)).toThrow(words);
  });
});
