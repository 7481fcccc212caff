/** The models that callers find in the lists of all formats, and the names that errors suggest. */

import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend, type ModelInfo } from "../../src/index.ts";
import { scriptedBackend } from "../../src/testing/index.ts";
import { route } from "../../src/upstreams/route/index.ts";

const CHAT = [{ role: "user", content: "Hello" }];
const CONTENTS = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };

/** A request for a model in each format, and the error that its clients parse. */
const FORMATS = {
  messages: {
    notAllowed: 400,
    ask: (model: string) => ["/v1/messages", { model, max_tokens: 9, messages: CHAT }],
    notFound: (message: string) => ({
      status: 400,
      body: { type: "error", error: { type: "invalid_request_error", code: "model_not_found", message } },
    }),
  },
  "generate-content": {
    notAllowed: 403,
    ask: (model: string) => [`/v1beta/models/${model}:generateContent`, CONTENTS],
    notFound: (message: string) => ({ status: 404, body: { error: { code: 404, status: "NOT_FOUND", message } } }),
  },
  "chat-completions": {
    notAllowed: 403,
    ask: (model: string) => ["/v1/chat/completions", { model, messages: CHAT }],
    notFound: openAi,
  },
  responses: {
    notAllowed: 403,
    ask: (model: string) => ["/v1/responses", { model, input: "Hello" }],
    notFound: openAi,
  },
  embeddings: {
    notAllowed: 403,
    ask: (model: string) => ["/v1/embeddings", { model, input: "Hello" }],
    notFound: openAi,
  },
} satisfies Record<string, { notAllowed: number; ask(model: string): unknown; notFound(message: string): object }>;

function openAi(message: string): object {
  return {
    status: 404,
    body: { error: { type: "invalid_request_error", code: "model_not_found", param: "model", message } },
  };
}

const embedding = async function* () {
  yield [1, 2];
} as unknown as NonNullable<ModelBackend["embed"]>;

function gatewayOver(backend: ModelBackend, models?: readonly string[], causes?: unknown[]) {
  const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", ...(models && { models }) }]);
  const { fetch } = createGateway({
    backend: { ...backend, embed: embedding },
    quotas,
    ...(causes && { onFailure: ({ error }) => void causes.push(error.cause) }),
  });
  const headers = {
    authorization: "Bearer sk-one",
    "x-api-key": "sk-one",
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
  };
  return async (path: string, body?: unknown, left: readonly string[] = []) => {
    const kept = Object.entries(headers).filter(([name]) => !left.includes(name));
    const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const answer = await fetch(new Request(`http://gateway.test${path}`, { headers: kept, ...post }));
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
}

const listing = (...ids: readonly string[]): ModelBackend => ({
  ...scriptedBackend("Hello."),
  models: () => ids.map((id): ModelInfo => ({ id })),
});

const OPEN = route({ routes: { fast: scriptedBackend("Hello."), "claude-*": scriptedBackend("Hello.") } });

describe("a route with a pattern", () => {
  it.each([
    ["messages", "/v1/models", []],
    ["chat-completions", "/v1/models", ["x-api-key", "anthropic-version"]],
    ["generate-content", "/v1beta/models", []],
  ] as const)("lists its exact names in %s", async (_format, path, left) => {
    const { status, body } = await gatewayOver(OPEN)(path, undefined, left);
    const listed = (body["data"] ?? body["models"]) as readonly { readonly id?: string; readonly name?: string }[];
    expect([status, listed.map(({ id, name }) => id ?? name?.replace("models/", ""))]).toEqual([200, ["fast"]]);
  });

  it.each(["messages", "generate-content", "chat-completions", "responses"] as const)(
    "answers the names of the pattern, and refuses all others, in %s",
    async (format) => {
      const send = gatewayOver(OPEN);
      const { ask, notFound } = FORMATS[format];
      for (const model of ["claude-9", "fast"])
        expect(await send(...(ask(model) as [string, unknown]))).toMatchObject({ status: 200 });
      const refused = await send(...(ask("fsat") as [string, unknown]));
      expect(refused).toMatchObject(notFound('There is no model "fsat". Did you mean "fast"?'));
    },
  );
});

describe.each(Object.entries(FORMATS))("a model that no pattern has, in %s", (_format, { ask, notFound }) => {
  it.each<[string, limits: readonly string[] | undefined, others: string]>([
    ["of others that no list has", undefined, " and others"],
    ["of no others, where the key has a list of its own", ["fast", "zebra"], ""],
  ])("is refused with a word %s", async (_what, limits, others) => {
    const refused = await gatewayOver(OPEN, limits)(...(ask("zebra") as [string, unknown]));
    expect(refused).toMatchObject(notFound(`There is no model "zebra". This API key may use "fast"${others}.`));
  });
});

describe.each(Object.entries(FORMATS))("an unknown model in %s", (_format, { ask, notAllowed, notFound }) => {
  it("is refused with the nearest name that the key may use, or with the first ones", async () => {
    const send = gatewayOver(listing("claude-sonnet", "other"));
    const refused = await send(...(ask("claude-sonet") as [string, unknown]));
    expect(refused).toMatchObject(notFound('There is no model "claude-sonet". Did you mean "claude-sonnet"?'));
    const far = ask("zebra") as [string, unknown];
    expect(await send(...far)).toMatchObject(
      notFound('There is no model "zebra". This API key may use "claude-sonnet" and "other".'),
    );
    const many = listing(...Array.from({ length: 600 }, (_, at) => `m-${at}`), "x".repeat(300));
    expect(await gatewayOver(many)(...far)).toMatchObject(
      notFound(
        'There is no model "zebra". This API key may use "m-0", "m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7" and many more.',
      ),
    );
    expect(await gatewayOver(listing("x".repeat(300)))(...far)).toMatchObject(notFound('There is no model "zebra".'));
  });

  it("is answered by a backend that takes unlisted models, and by none that answers with no truth value", async () => {
    const taking = gatewayOver({ ...listing("a"), takesUnlisted: true });
    expect(await taking(...(ask("b") as [string, unknown]))).toMatchObject({ status: 200 });
    // The casts are mistakes of the host. A promise is no answer, also one that rejects.
    for (const told of [() => Promise.resolve(false), () => Promise.reject(new Error("away")), () => "no"]) {
      const causes: unknown[] = [];
      const lying = gatewayOver(
        { ...listing("a"), takesUnlisted: told as unknown as () => boolean },
        undefined,
        causes,
      );
      expect(await lying(...(ask("b") as [string, unknown]))).toMatchObject({ status: 500 });
      expect(String(causes)).toMatch(
        /takesUnlisted of a backend must be, or return, true or false, not a (?:Promise|text)/,
      );
      expect(await lying(...(ask("a") as [string, unknown]))).toMatchObject({ status: 200 });
    }
  });

  it("is refused with no name that the list of the key does not show", async () => {
    const send = gatewayOver(listing("claude-sonnet", "mine"), ["claude-sonet", "mine"]);
    const refused = await send(...(ask("claude-sonet") as [string, unknown]));
    expect(refused).toMatchObject(notFound('There is no model "claude-sonet". This API key may use "mine".'));
  });

  it("is refused with the models of the key, the nearest first, for a key that may not use it", async () => {
    const models = ["a", "claude-sonnet", ...Array.from({ length: 10 }, (_, at) => `m-${at}`), "x".repeat(300)];
    const send = gatewayOver(listing("claude-opus"), models);
    const { status, body } = await send(...(ask("claude-sonet") as [string, unknown]));
    expect(status).toBe(notAllowed);
    expect((body["error"] as { readonly message: string }).message).toBe(
      'This API key may not use the model "claude-sonet". It may use "claude-sonnet", "a", "m-0", "m-1", "m-2", "m-3", "m-4", "m-5" and 5 more.',
    );
    const long = await gatewayOver(listing("a"), ["x".repeat(200)])(...(ask("a") as [string, unknown]));
    expect(long.body).toMatchObject({
      error: { message: 'This API key may not use the model "a". It may use one model, of a long name.' },
    });
    const { body: none } = await gatewayOver(listing("a"), [])(...(ask("a") as [string, unknown]));
    expect(none).toMatchObject({
      error: { message: 'This API key may not use the model "a". It may use no model.' },
    });
  });
});

it("suggests a name for an unknown image model, and for an unknown model in an address", async () => {
  const image: ModelBackend = {
    image: async function* () {},
    models: () => [{ id: "image-model-3" }, { id: "hidden" }],
  };
  const send = gatewayOver(image, ["image-model-3"]);
  expect(await send("/v1/images/generations", { model: "image-modle-3", prompt: "A cat" })).toMatchObject(
    openAi('There is no image model "image-modle-3". Did you mean "image-model-3"?'),
  );
  expect(await send("/v1/images/generations", { model: "zebra", prompt: "A cat" })).toMatchObject(
    openAi('There is no image model "zebra". This API key may use "image-model-3".'),
  );
  const openOnes = '"image-model-2", "image-model-3" and "image-model-multi"';
  for (const [models, known] of [
    [undefined, openOnes],
    [["zebra", "image-model-2"], '"image-model-2"'],
  ] as const) {
    const unlisted = gatewayOver({ image: async function* () {} }, models);
    expect(await unlisted("/v1/images/generations", { model: "zebra", prompt: "A cat" })).toMatchObject(
      openAi(`There is no image model "zebra". This API key may use ${known}.`),
    );
  }
  const others: readonly [Partial<ModelBackend>, models: readonly string[]][] = [
    [{}, ["zebra"]],
    [{ models: () => [] }, ["zebra"]],
    [{ models: () => [{ id: "image-model-3" }] }, []],
  ];
  for (const [backend, models] of others)
    expect(
      await gatewayOver({ ...image, models: undefined, ...backend } as ModelBackend, models)("/v1/images/generations", {
        model: "image-modle-3",
        prompt: "A cat",
      }),
    ).toMatchObject(openAi('There is no image model "image-modle-3".'));
  for (const path of ["/v1/models/image-modle-3", "/v1beta/models/image-modle-3"])
    expect((await send(path)).body).toMatchObject({
      error: { message: 'There is no model "image-modle-3". Did you mean "image-model-3"?' },
    });
  expect((await send("/v1/models/hiden")).body).toMatchObject({
    error: { message: 'There is no model "hiden". This API key may use "image-model-3".' },
  });
});
