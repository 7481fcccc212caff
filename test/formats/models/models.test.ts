/** The lists of models, in the shape of the format that asks, as far as the key may use them. */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelInfo } from "../../../src/index.ts";

const MODELS: readonly ModelInfo[] = [
  { id: "chat-1", kinds: ["chat"], displayName: "Chat One", createdAt: 1_700_000_000, maxOutputTokens: 4_096 },
  { id: "chat-2", kinds: ["chat"], maxInputTokens: 100_000, ownedBy: "acme" },
  { id: "image-1", kinds: ["image"] },
  { id: "local:8b", kinds: ["chat"] },
];

const gateway = createGateway({
  backend: {
    models: () => MODELS,
    async *chat() {
      yield "Hello.";
    },
    async *image() {},
  },
  quotas: memoryQuotaStore([{ apiKey: "sk-all" }, { apiKey: "sk-some", models: ["chat-2"] }]),
});

const pictures = createGateway({
  backend: { models: () => [{ id: "image-model-2", kinds: ["image"] }], async *image() {} },
  images: { aliases: { painter: "image-model-2" } },
  quotas: memoryQuotaStore([{ apiKey: "sk-all" }, { apiKey: "sk-painter", models: ["painter"] }]),
});

const get = (path: string, headers: Record<string, string>): Promise<Response> =>
  gateway.fetch(new Request(`http://gateway.test${path}`, { headers }));
const idsOf = async (path: string, headers: Record<string, string>): Promise<unknown> => {
  const { data, models } = (await (await get(path, headers)).json()) as {
    data?: { id: string }[];
    models?: { name: string }[];
  };
  return data?.map(({ id }) => id) ?? models?.map(({ name }) => name);
};

const post = (path: string, body: object, headers: Record<string, string>): Promise<Response> =>
  gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    }),
  );

const MESSAGES = { "x-api-key": "sk-all", "anthropic-version": "2023-06-01" };
/** What a model on offer has beside its name and date. */
const ACTIVE = {
  max_input_tokens: null,
  max_tokens: null,
  lifecycle: "active",
  capabilities: null,
  line: null,
  deprecated_at: null,
  retires_at: null,
};
const CONTENT = { "x-goog-api-key": "sk-all" };

describe("a long list of models", () => {
  const models = Array.from({ length: 2_500 }, (_, at) => ({ id: `model-${at}` }));
  const many = createGateway({
    backend: { models: () => models, async *chat() {} },
    quotas: memoryQuotaStore([{ apiKey: "sk-all" }, { apiKey: "sk-some", models: ["model-7", "model-2499"] }]),
  });
  const listed = (key: string): Promise<Response> =>
    many.fetch(new Request("http://gateway.test/v1/models", { headers: { authorization: `Bearer ${key}` } }));

  it("comes in pieces to a client of OpenAI, whose list has no pages", async () => {
    const { body } = await listed("sk-all");
    const pieces: Uint8Array[] = [];
    for await (const piece of body as ReadableStream<Uint8Array>) pieces.push(piece);
    expect(pieces).toHaveLength(4);
    const whole = Buffer.concat(pieces).toString();
    const { object, data } = JSON.parse(whole) as { object: string; data: readonly { id: string }[] };
    expect(object).toBe("list");
    expect(data.map(({ id }) => id)).toEqual(models.map(({ id }) => id));
    expect(data[0]).toEqual({ id: "model-0", object: "model", created: 0, owned_by: "polygate" });
    await expect.poll(() => many.liveCallCount()).toBe(0);
  });

  it("is as short as the models of a key", async () => {
    expect(await (await listed("sk-some")).json()).toMatchObject({ data: [{ id: "model-7" }, { id: "model-2499" }] });
  });
});

describe("the messages format", () => {
  it("lists models page by page", async () => {
    const first = await (await get("/v1/models?limit=2", MESSAGES)).json();
    expect(first).toEqual({
      data: [
        {
          type: "model",
          id: "chat-1",
          display_name: "Chat One",
          created_at: "2023-11-14T22:13:20Z",
          ...ACTIVE,
          max_tokens: 4_096,
        },
        {
          type: "model",
          id: "chat-2",
          display_name: "chat-2",
          created_at: "1970-01-01T00:00:00Z",
          ...ACTIVE,
          max_input_tokens: 100_000,
        },
      ],
      has_more: true,
      first_id: "chat-1",
      last_id: "chat-2",
    });
    expect(await idsOf("/v1/models?after_id=chat-2", MESSAGES)).toEqual(["image-1", "local:8b"]);
    expect(await idsOf("/v1/models?before_id=image-1&limit=1", MESSAGES)).toEqual(["chat-2"]);
  });

  it("tells one model, or that there is none", async () => {
    expect(await (await get("/v1/models/chat-1", MESSAGES)).json()).toMatchObject({ type: "model", id: "chat-1" });
    const missing = await get("/v1/models/none", MESSAGES);
    expect([missing.status, await missing.json()]).toMatchObject([
      404,
      { type: "error", error: { code: "not_found" } },
    ]);
  });

  it.each(["0", "x", "1.5", "1001"])("refuses a limit of %s", async (limit) => {
    expect((await get(`/v1/models?limit=${limit}`, MESSAGES)).status).toBe(400);
  });

  it("is read by the official client", async () => {
    const client = new Anthropic({
      apiKey: "sk-all",
      baseURL: "http://gateway.test",
      fetch: (url, init) => gateway.fetch(new Request(url, init)),
    });
    const ids: string[] = [];
    for await (const { id } of client.models.list({ limit: 1 })) ids.push(id);
    expect(ids).toEqual(["chat-1", "chat-2", "image-1", "local:8b"]);
  });
});

describe("the generate-content format", () => {
  it.each(["/v1beta/models", "/v1/models"])("lists models at %s", async (path) => {
    const body = await (await get(`${path}?pageSize=2`, CONTENT)).json();
    expect(body).toMatchObject({
      models: [
        { name: "models/chat-1", displayName: "Chat One", outputTokenLimit: 4_096 },
        { name: "models/chat-2", inputTokenLimit: 100_000 },
      ],
      nextPageToken: "2",
    });
    expect(await idsOf(`${path}?pageToken=2`, CONTENT)).toEqual(["models/image-1", "models/local:8b"]);
  });

  it("tells one model, or that there is none", async () => {
    expect(await (await get("/v1beta/models/chat-2", CONTENT)).json()).toMatchObject({
      name: "models/chat-2",
      supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
    });
    const missing = await get("/v1beta/models/none?key=sk-all", {});
    expect([missing.status, await missing.json()]).toMatchObject([404, { error: { status: "NOT_FOUND" } }]);
  });

  it("finds a model by its resource's name, and one whose name has a colon", async () => {
    for (const name of ["models/chat-2", "models%2Fchat-2", "local:8b"])
      expect((await get(`/v1beta/models/${name}`, CONTENT)).status).toBe(200);
    expect((await get("/v1/models/local:8b", MESSAGES)).status).toBe(200);
  });

  it("takes the spec's key", async () => {
    expect(await idsOf("/v1/models?key=sk-some", {})).toEqual(["models/chat-2"]);
  });

  it("is read by the official client", async () => {
    const { fetch } = globalThis;
    globalThis.fetch = (input, init) => gateway.fetch(new Request(input, init));
    try {
      const client = new GoogleGenAI({ apiKey: "sk-all", httpOptions: { baseUrl: "http://gateway.test" } });
      const names: unknown[] = [];
      for await (const { name } of await client.models.list()) names.push(name);
      expect(names).toEqual(["models/chat-1", "models/chat-2", "models/image-1", "models/local:8b"]);
    } finally {
      globalThis.fetch = fetch;
    }
  });
});

describe("the chat-completions format", () => {
  const BEARER = { authorization: "Bearer sk-all" };

  it("lists models, and tells one", async () => {
    expect(await (await get("/v1/models", BEARER)).json()).toMatchObject({
      object: "list",
      data: [
        { id: "chat-1", object: "model", created: 1_700_000_000 },
        { id: "chat-2" },
        { id: "image-1" },
        { id: "local:8b" },
      ],
    });
    expect(await (await get("/v1/models/chat-2", BEARER)).json()).toMatchObject({ id: "chat-2", object: "model" });
    const missing = await get("/v1/models/none", BEARER);
    expect([missing.status, await missing.json()]).toMatchObject([404, { error: { code: "model_not_found" } }]);
  });

  it("tells the owner of a model", async () => {
    const headers = { authorization: "Bearer sk-all" };
    const { data } = (await (await get("/v1/models", headers)).json()) as { data: { owned_by: string }[] };
    expect(data.map((model) => model.owned_by)).toEqual(["polygate", "acme", "polygate", "polygate"]);
    expect(await (await get("/v1/models/chat-2", headers)).json()).toMatchObject({ owned_by: "acme" });
  });

  it("is read by the official client", async () => {
    const client = new OpenAI({
      apiKey: "sk-all",
      baseURL: "http://gateway.test/v1",
      fetch: (url, init) => gateway.fetch(new Request(url, init)),
    });
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(["chat-1", "chat-2", "image-1", "local:8b"]);
  });
});

describe("every format", () => {
  it("shows a key the models that it may use, and asks for a key", async () => {
    expect(await idsOf("/v1/models", { ...MESSAGES, "x-api-key": "sk-some" })).toEqual(["chat-2"]);
    expect((await get("/v1/models/chat-1", { ...MESSAGES, "x-api-key": "sk-some" })).status).toBe(404);
    expect((await get("/v1/models", { "x-api-key": "sk-none" })).status).toBe(401);
  });
});

it.each([
  ["chat-completions", { authorization: "Bearer sk-all" }, { error: { code: "method_not_allowed" } }],
  ["messages", MESSAGES, { type: "error", error: { code: "method_not_allowed" } }],
  ["generate-content", CONTENT, { error: { code: 405, status: "UNIMPLEMENTED" } }],
])("a method that no route has is refused to a client of %s in the client's format", async (_format, headers, body) => {
  for (const path of ["/v1/models", "/v1/models/chat-2", "/v1/models/ft:gpt-4o:acme::abc"])
    for (const method of ["DELETE", "PATCH", ...(path.includes(":") ? [] : ["POST"])]) {
      const refused = await gateway.fetch(new Request(`http://gateway.test${path}`, { method, headers }));
      expect([refused.status, await refused.json()]).toMatchObject([405, body]);
    }
});

describe("a model that does something else", () => {
  const messages = [{ role: "user", content: "Hello" }];

  it("is no such model to a chat", async () => {
    const refused = await post("/v1/messages", { model: "image-1", max_tokens: 5, messages }, MESSAGES);
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: "model_not_found" } }]);
    const content = await post("/v1beta/models/image-1:generateContent", { contents: "Hello" }, CONTENT);
    expect(content.status).toBe(404);
    expect((await post("/v1/messages/count_tokens", { model: "image-1", messages }, MESSAGES)).status).toBe(400);
  });

  it("is no such model to an image endpoint", async () => {
    const refused = await post(
      "/v1/images/generations",
      { model: "chat-1", prompt: "A fox" },
      { authorization: "Bearer sk-all" },
    );
    expect(refused.status).toBe(404);
  });
});

const askPictures = (path: string, key: string): Promise<Response> =>
  pictures.fetch(new Request(`http://gateway.test${path}`, { headers: { authorization: `Bearer ${key}` } }));

describe("an image model's other names", () => {
  it.each(["image-model-2", "dall-e-2", "painter"])("find it: %s", async (id) => {
    const response = await askPictures(`/v1/models/${id}`, "sk-all");
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id, object: "model" });
  });

  it("are none of another model's", async () => {
    expect((await askPictures("/v1/models/dall-e-3", "sk-all")).status).toBe(404);
  });

  it("show it to a key that may use it by one of them", async () => {
    expect(await (await askPictures("/v1/models", "sk-painter")).json()).toMatchObject({
      data: [{ id: "image-model-2" }],
    });
  });
});

const spelled = (config: string, limit: string): [string, string, object] => [
  `${config}.${limit}`,
  "/v1beta/models/chat-1:generateContent",
  { contents: "Hello.", [config]: { [limit]: 5_000 } },
];

describe("a limit above that of the model is refused by the name that the caller wrote", () => {
  const HELLO = { role: "user", content: "Hello." };

  it.each<[field: string, path: string, body: object]>([
    ["max_tokens", "/v1/messages", { max_tokens: 5_000, messages: [HELLO] }],
    ["max_tokens", "/v1/chat/completions", { max_tokens: 5_000, messages: [HELLO] }],
    ["max_tokens", "/v1/chat/completions", { max_completion_tokens: null, max_tokens: 5_000, messages: [HELLO] }],
    ["max_completion_tokens", "/v1/chat/completions", { max_completion_tokens: 5_000, messages: [HELLO] }],
    ["max_output_tokens", "/v1/responses", { max_output_tokens: 5_000, input: "Hello." }],
    spelled("generationConfig", "maxOutputTokens"),
    spelled("generationConfig", "max_output_tokens"),
    spelled("generation_config", "maxOutputTokens"),
    spelled("generation_config", "max_output_tokens"),
  ])("%s of %s", async (field, path, body) => {
    const request = new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: {
        authorization: "Bearer sk-all",
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
      },
      body: JSON.stringify(path.startsWith("/v1beta") ? body : { model: "chat-1", ...body }),
    });
    const { error } = (await (await gateway.fetch(request)).json()) as { error: Record<string, unknown> };
    // Messages has neither of both.
    const { message, param = field, details = [{ fieldViolations: [{ field }] }] } = error;
    expect([message, param]).toEqual([`${field}: must be at most 4096 for the model "chat-1"`, field]);
    expect(details).toMatchObject([{ fieldViolations: [{ field }] }]);
  });
});
