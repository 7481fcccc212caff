/** A body that lets its upstream choose another model: a key that is limited to some models uses no other, and none at the price of another. */

import { expect, it } from "vitest";
import { type ApiKeyOptions, createGateway, type GatewayOptions, memoryQuotaStore } from "../../../src/index.ts";
import { type PriceRows, priceTable } from "../../../src/prices/index.ts";
import { relay, type RelayFormat, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";

interface Case {
  readonly path: string;
  readonly format: RelayFormat;
  readonly ask: object;
  /** Fields by which an upstream may choose a model, by the paths that a refusal names; `big` is the other model. */
  readonly changes: Readonly<Record<string, object>>;
  /** The caller's own names, which choose nothing. */
  readonly own: object;
  readonly answer?: (model: string) => object;
}

const schema = { type: "object", properties: { model: { type: "string", enum: ["big"] }, models: { enum: ["big"] } } };
const spoken = { role: "assistant", content: "Hi" };
const ADVISOR = { type: "advisor_1", name: "advisor", model: "big" };
const FALLBACKS: Case["changes"] = {
  "models.1": { models: ["small", "big"] },
  route: { route: "fallback" },
  preset: { preset: "mine" },
  "fallbacks.0": { fallbacks: ["big"] },
  "fallbacks.0.small.0": { fallbacks: [{ small: ["big"] }] },
  "fallbacks.0.model": { fallbacks: [{ model: "big" }] },
  "providerOptions.gateway.models.0": { providerOptions: { gateway: { models: ["big"] } } },
  Model: { Model: "big" },
};

const CASES: Readonly<Record<string, Case>> = {
  "chat-completions": {
    path: "/v1/chat/completions",
    format: "chat-completions",
    ask: { model: "small", messages: [{ role: "user", content: "Hi" }] },
    changes: {
      ...FALLBACKS,
      "tools.0.parameters.model": { tools: [{ type: "openrouter:draw", name: "x", parameters: { model: "big" } }] },
      "tools.0.model": { tools: [{ type: "draw", model: "big" }] },
      "plugins.0.allowed_models.0": { plugins: [{ id: "auto-router", allowed_models: ["big"] }] },
      "compound_custom.models.answering_model": { compound_custom: { models: { answering_model: "big" } } },
      "data_sources.0.parameters.embedding_dependency.deployment_name": {
        data_sources: [{ type: "search", parameters: { embedding_dependency: { deployment_name: "big" } } }],
      },
    },
    own: {
      models: ["small"],
      metadata: { model: "big" },
      tools: [{ type: "function", function: { name: "model", parameters: schema } }],
      response_format: { type: "json_schema", json_schema: { name: "model", schema } },
    },
    answer: (model) => ({
      id: "c_1",
      object: "chat.completion",
      created: 1,
      model,
      choices: [{ index: 0, message: spoken, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 },
    }),
  },
  messages: {
    path: "/v1/messages",
    format: "messages",
    ask: { model: "small", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] },
    changes: {
      ...FALLBACKS,
      fallbacks: { fallbacks: "default" },
      "tools.0.model": { tools: [ADVISOR] },
      "messages.1.content.1.tool.definition.model": {
        messages: [
          { role: "user", content: "Hi" },
          {
            role: "system",
            content: [
              { type: "text", text: "Ask." },
              { type: "tool_addition", tool: { type: "tool_definition", definition: ADVISOR } },
            ],
          },
          { role: "user", content: "Hi" },
        ],
      },
    },
    own: {
      tools: [{ name: "model", input_schema: schema, input_examples: [{ model: "big" }] }],
      fallbacks: [
        { model: "small", speed: "big", max_tokens: 9, thinking: { type: "big" }, output_config: { effort: "big" } },
      ],
    },
  },
  responses: {
    path: "/v1/responses",
    format: "responses",
    ask: { model: "small", input: "Hi" },
    changes: {
      ...FALLBACKS,
      "tools.0.model": { tools: [{ type: "image_generation", model: "big" }] },
      "input.1.tools.0.model": {
        input: [
          { role: "user", content: "Hi" },
          { type: "additional_tools", role: "developer", tools: [{ type: "image_generation", model: "big" }] },
        ],
      },
    },
    own: {
      metadata: { model: "big" },
      tools: [{ type: "function", name: "model", parameters: schema, strict: null }],
      text: { format: { type: "json_schema", name: "model", schema } },
    },
  },
  "generate-content": {
    path: "/v1beta/models/small:generateContent",
    format: "generate-content",
    ask: { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
    changes: {
      ...FALLBACKS,
      "generationConfig.routingConfig": { generationConfig: { routingConfig: { manualMode: { modelName: "big" } } } },
      "generationConfig.modelConfig.modelName": { generationConfig: { modelConfig: { modelName: "big" } } },
    },
    own: {
      models: ["models/small"],
      labels: { model: "big" },
      tools: [
        {
          functionDeclarations: [
            {
              name: "model",
              parametersJsonSchema: schema,
              response: { type: "OBJECT", properties: { model: { type: "STRING" } } },
            },
          ],
        },
      ],
      generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema },
    },
  },
  embeddings: {
    path: "/v1/embeddings",
    format: "chat-completions",
    ask: { model: "small", input: "Hi" },
    changes: FALLBACKS,
    own: { user: "model" },
    answer: (model) => ({
      object: "list",
      model,
      data: [{ object: "embedding", index: 0, embedding: [1] }],
      usage: { prompt_tokens: 10, total_tokens: 10 },
    }),
  },
  "batches of embeddings": {
    path: "/v1beta/models/small:batchEmbedContents",
    format: "generate-content",
    ask: { requests: [{ model: "models/small", content: { parts: [{ text: "Hi" }] } }] },
    changes: {
      models: { models: "big" },
      "requests.0.fallbacks.0": { requests: [{ fallbacks: ["big"], content: { parts: [{ text: "Hi" }] } }] },
    },
    own: { requests: [{ model: "models/big", content: { parts: [{ text: "Hi" }] } }] },
  },
  images: {
    path: "/v1/images/generations",
    format: "images",
    ask: { model: "image-model-3", prompt: "A fox." },
    changes: { ...FALLBACKS, "models.1": { models: ["image-model-3", "big"] } },
    own: { metadata: { model: "big" } },
  },
};

function open(
  of: Case,
  key: Omit<ApiKeyOptions, "apiKey">,
  options: Partial<GatewayOptions> = {},
  answering = "small",
) {
  const sent: Record<string, unknown>[] = [];
  const quotas = memoryQuotaStore([{ apiKey: "sk-test", id: "one", ...key }]);
  const gateway = createGateway({
    backend: relay({
      format: of.format,
      baseUrl: "http://up.test/v1",
      fetch(_url, init) {
        sent.push(JSON.parse(init?.body as string) as Record<string, unknown>);
        const answer = of.answer?.(answering);
        return Promise.resolve(answer ? Response.json(answer) : Response.json({ error: {} }, { status: 500 }));
      },
    }),
    quotas,
    onFailure: () => {},
    ...options,
  });
  const headers = {
    authorization: "Bearer sk-test",
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
  };
  const ask = (change: object): Promise<Response> =>
    gateway.fetch(
      new Request(`http://gateway.test${of.path}`, {
        method: "POST",
        headers,
        body: JSON.stringify({ ...of.ask, ...change }),
      }),
    );
  return { ask, sent, used: async () => (await quotas.balance("one"))?.used };
}

it.each(Object.entries(CASES))("a limited key of %s chooses no other model by any field", async (_name, of) => {
  const models = ["small", "image-model-3"];
  const limited = open(of, { models });
  for (const [path, change] of Object.entries(of.changes)) {
    const refused = await limited.ask(change);
    const text = await refused.text();
    expect([path, text, [400, 403].includes(refused.status)]).toEqual([path, expect.stringContaining(path), true]);
  }
  expect(limited.sent).toEqual([]);
  await (await limited.ask(of.own)).text();
  expect(limited.sent.length).toBeGreaterThan(0);
  // A key of all models passes, and so does one that may use the other model too.
  for (const rights of [{}, { models: [...models, "big"] }]) {
    const { ask, sent } = open(of, rights);
    const named = Object.entries(of.changes).filter(([path]) => !/route|preset|routing|fallbacks$/.test(path));
    for (const [, change] of named) await (await ask(change)).text();
    expect(sent.length).toBeGreaterThanOrEqual(named.length);
  }
});

it.each(Object.entries(CASES))(
  "a limited key of %s chooses no other model in a body that comes again",
  async (_name, of) => {
    const limited = open(of, { models: ["small", "image-model-3"] });
    // The gateway keeps what it knows of the tools and turns of a long body.
    const long = { user: "long".repeat(4_096) };
    for (const [path, change] of Object.entries(of.changes))
      for (let time = 0; time < 3; time++) {
        const refused = await limited.ask({ ...long, ...change });
        const text = await refused.text();
        expect([path, text, [400, 403].includes(refused.status)]).toEqual([path, expect.stringContaining(path), true]);
      }
    expect(limited.sent).toEqual([]);
  },
);

it("the model of a body of generate-content is that of its address", async () => {
  const of = CASES["generate-content"] as Case;
  const { ask, sent } = open(of, {});
  await (await ask({ model: "models/big" })).text();
  expect(sent[0]).toMatchObject({ model: "models/small" });
});

const ROWS: PriceRows = {
  small: { input: 1, output: 1, unit: "unit", per: 1 },
  big: { input: 100, output: 100, unit: "unit", per: 1 },
};

it.each(["chat-completions", "embeddings"] as const)(
  "%s: another model that answers has its own price",
  async (name) => {
    const of = CASES[name] as Case;
    const tokens = name === "embeddings" ? 10 : 20;
    const costs = async (change: object, answering: string): Promise<unknown> => {
      const { ask, used } = open(of, { granted: 1_000_000_000 }, priceTable(ROWS), answering);
      const { status } = await ask(change);
      return [status, await used()];
    };
    expect(await costs({}, "small")).toEqual([200, tokens]);
    expect(await costs({ models: ["small", "big"] }, "big")).toEqual([200, 100 * tokens]);
    // A model that none of the names tells may be the dearest of them.
    expect(await costs({ models: ["small", "big"] }, "big-2026")).toEqual([200, 100 * tokens]);
    // The price of an embedding is that of the dearest.
    expect(await costs({ models: ["big"] }, "small")).toEqual([200, name === "embeddings" ? 1_000 : tokens]);
    expect(await costs({ models: ["unpriced"] }, "unpriced")).toEqual([404, 0]);
    const poor = open(of, { granted: 50 }, priceTable(ROWS), "big");
    expect([(await poor.ask({ models: ["big"], max_tokens: 10 })).status, poor.sent]).toEqual([429, []]);
  },
);

it.each<[name: string, models: Pick<RelayOptions, "models">, own: string]>([
  ["relay", { models: { small: "vendor-small" } }, "vendor-small"],
  ["route", {}, "vendor-small"],
])("a model that a %s renames has its own price, and so has the other one", async (name, models, own) => {
  const costs = async (answering: string): Promise<unknown> => {
    const { answer } = CASES["chat-completions"] as Case;
    const upstream = relay({
      format: "chat-completions",
      baseUrl: "http://up.test/v1",
      fetch: async () => Response.json(answer?.(answering)),
      ...models,
    });
    const renamed = route({ routes: { small: { upstreams: [{ backend: upstream, model: own }] } } });
    const backend = name === "route" ? renamed : upstream;
    const prices = priceTable({ ...ROWS, [own]: { input: 2, output: 2, unit: "unit", per: 1 } });
    const { ask, used } = open(CASES["chat-completions"] as Case, { granted: 1_000_000_000 }, { backend, ...prices });
    const response = await ask({ models: ["big"] });
    expect(await response.json()).toMatchObject({ model: "small" });
    return used();
  };
  expect([await costs(own), await costs("big")]).toEqual([40, 2_000]);
});

it.each<[path: string, body: object]>([
  ["/v1/chat/completions", { models: ["big"] }],
  ["/v1/chat/completions", { providerOptions: { gateway: { models: ["big"] } } }],
  ["/v1/messages", { max_tokens: 100, fallbacks: [{ model: "big" }] }],
])("a model that %s names to an upstream of another format has not answered: %j", async (path, body) => {
  const answer = {
    candidates: [{ content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10 },
    modelVersion: "small-001",
  };
  const backend = relay({
    format: "generate-content",
    baseUrl: "http://up.test",
    fetch: async () => Response.json(answer),
  });
  const of = { ...(CASES["chat-completions"] as Case), path };
  const { ask, used } = open(of, { granted: 1_000_000_000 }, { backend, ...priceTable(ROWS) });
  expect((await ask(body)).status).toBe(200);
  expect(await used()).toBe(20);
});
