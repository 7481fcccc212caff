/** Gateways and relays whose formats are chosen by import: each serves what the full gateway serves in that format, and nothing else. */

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import OpenAI from "openai";
import { addRoute, createRouter, findRoute } from "rou3";
import { describe, expect, expectTypeOf, it } from "vitest";
import { toNodeHandler } from "../adapters/node.ts";
import {
  checkRelay,
  type CoreGateway,
  type CoreGatewayOptions,
  createGateway,
  memoryReplayStore,
  relay,
  route,
  withCors,
  withHooks,
  withReplays,
} from "../src/core.ts";
import { chatCompletions, chatCompletionsUpstream } from "../src/formats/chat-completions/module.ts";
import { embeddings } from "../src/formats/embeddings/module.ts";
import { generateContent, generateContentUpstream } from "../src/formats/generate-content/module.ts";
import { images, imagesUpstream } from "../src/formats/images/module.ts";
import { messages as messagesCode } from "../src/formats/messages/index.ts";
import { messages, messagesUpstream } from "../src/formats/messages/module.ts";
import { routesOf, TELEMETRY } from "../src/formats/messages/routes.ts";
import { messagesCodec } from "../src/formats/messages/upstream.ts";
import { responses, responsesUpstream } from "../src/formats/responses/module.ts";
import { Lazy, lazyCodec, lazyFormat } from "../src/formats/shared/lazy.ts";
import { tokenUsage } from "../src/formats/token-usage/module.ts";
import { createGateway as createFullGateway, memoryQuotaStore, type ModelBackend } from "../src/index.ts";
import { openApiDocument } from "../src/openapi/index.ts";
import { routerOf } from "../src/routes.ts";
import { manualClock } from "../src/testing/laws/index.ts";
import { relay as relayByName } from "../src/upstreams/relay/index.ts";
import { CLEAR } from "./formats/images/pictures.ts";

const FORMATS = {
  messages,
  "generate-content": generateContent,
  "chat-completions": chatCompletions,
  responses,
  embeddings,
  images,
  "token-usage": tokenUsage,
} as const;

const backend = {
  async *chat({ model }) {
    yield `Hello from ${model}.`;
  },
  async *image({ images: [image] }) {
    yield { type: "image", bytes: image?.bytes ?? CLEAR, mediaType: "image/png" };
  },
  async *embed({ inputs }) {
    for (const _ of inputs) yield new Float32Array([0.5, -0.5]);
  },
  models: () => ["any", "another"].map((id) => ({ id })),
} satisfies ModelBackend;

const quotas = memoryQuotaStore([{ apiKey: "sk-1" }]);
const ports = { backend, quotas };

const post = (path: string, body: unknown, headers: Record<string, string> = {}): Request =>
  new Request(`http://localhost${path}`, {
    method: "POST",
    headers: {
      "x-api-key": "sk-1",
      authorization: "Bearer sk-1",
      "compat-version": "2023-06-01",
      "content-type": "application/json",
      ...headers,
    },
    body: JSON.stringify(body),
  });

const asking = { model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] };

/** Calls a factory as JavaScript does. */
const make = (factory: (...args: never[]) => unknown, options: unknown): unknown => factory(options as never);

describe("a gateway of chosen formats", () => {
  const full = createFullGateway(ports);

  it.each(Object.entries(FORMATS))("serves the endpoints of %s alone, as the full gateway does", (name, format) => {
    const { endpoints } = createGateway({ ...ports, formats: [format()] });
    expect(endpoints.length).toBeGreaterThan(0);
    expect(endpoints).toEqual(full.endpoints.filter((endpoint) => endpoint.format === name));
  });

  it("answers, and leaves the routes of other formats to the host", async () => {
    const gateway = createGateway({ ...ports, formats: [messages()] });
    const answer = await gateway.fetch(post("/v1/messages", asking));
    expect(await answer.json()).toMatchObject({
      content: [{ type: "text", text: "Hello from any.", citations: [] }],
    });
    for (const path of ["/v1/images/generations", "/v1/chat/completions", "/v1/embeddings", "/api/usage/token", "/"])
      expect([path, gateway.handle(post(path, {}))]).toEqual([path, undefined]);
  });

  it("asks the formats in one order, whatever the order of the list", async () => {
    const chosen = [tokenUsage(), chatCompletions(), generateContent(), messages()];
    const gateway = createGateway({ ...ports, formats: chosen });
    const reversed = createGateway({ ...ports, formats: chosen.toReversed() });
    expect(gateway.endpoints).toEqual(reversed.endpoints);
    for (const headers of [{ "x-api-key": "sk-1" }, { "x-goog-api-key": "sk-1" }, { authorization: "Bearer sk-1" }]) {
      const listed = async ({ fetch }: Pick<CoreGateway, "fetch">) =>
        (await fetch(new Request("http://localhost/v1/models", { headers }))).json();
      const [one, other, whole] = await Promise.all([listed(gateway), listed(reversed), listed(full)]);
      expect([one, other]).toEqual([whole, whole]);
    }
  });

  it("takes the options of a format in the format's own call, also for the OpenAPI document", async () => {
    const one = { ...asking, max_tokens: 1 };
    const strict = createGateway({ ...ports, formats: [messages()] });
    const wide = createGateway({ ...ports, formats: [messages({ ranges: "vendor" })] });
    expect((await strict.fetch(post("/v1/messages", one))).status).toBe(400);
    expect((await wide.fetch(post("/v1/messages", one))).status).toBe(200);
    expect(wide.formats).toEqual({ messages: { ranges: "vendor" } });
    const { paths, tags } = openApiDocument(wide);
    expect(Object.keys(paths)).toEqual([
      "/v1/messages",
      "/v1/messages/count_tokens",
      "/v1/models",
      "/v1/models/{model}",
    ]);
    expect(tags).toHaveLength(1);
  });

  it("edits and links images, with a store of its own by default", async () => {
    const gateway = createGateway({
      backend: { image: (request) => backend.image(request) },
      quotas,
      formats: [images({ publicUrl: "https://pictures.example" })],
    });
    const form = new FormData();
    form.set("model", "gpt-image-1");
    form.set("prompt", "Nothing");
    form.set("image", new File([CLEAR], "clear.png", { type: "image/png" }));
    const headers = { authorization: "Bearer sk-1" };
    const request = new Request("http://localhost/v1/images/edits", { method: "POST", headers, body: form });
    const edited = await (await gateway.fetch(request)).json();
    expect(edited).toMatchObject({ data: [{ b64_json: Buffer.from(CLEAR).toString("base64") }] });

    const wanted = { model: "image-model-2", prompt: "Nothing", response_format: "url" };
    const linked = (await (await gateway.fetch(post("/v1/images/generations", wanted))).json()) as {
      data: { url: string }[];
    };
    const link = linked.data[0]?.url ?? "";
    expect(link).toMatch(/^https:\/\/pictures\.example\/v1\/images\/files\//);
    expect(await (await gateway.fetch(new Request(link))).bytes()).toEqual(new Uint8Array(CLEAR));
  });

  it("mounts on Node, beside the server's own routes", async () => {
    const gateway = createGateway({ ...ports, formats: [messages(), tokenUsage()] });
    const mount = toNodeHandler(gateway, { prefix: "/ai" });
    await using host = await listening((req, res) => mount(req, res, () => res.end("The server's own.")));
    const client = new Anthropic({ apiKey: "sk-1", baseURL: `${host.url}/ai` });
    const { content } = await client.messages.create({ ...asking, messages: [{ role: "user", content: "Hello" }] });
    expect(content).toEqual([{ type: "text", text: "Hello from any.", citations: [] }]);
    expect(await (await fetch(`${host.url}/ai/v1/embeddings`, { method: "POST" })).text()).toBe("The server's own.");
  });

  it.each<[string, unknown, string]>([
    ["no list", undefined, "createGateway: formats is missing; it must be a list."],
    ["a name", "messages", "createGateway: formats must be a list, not a text."],
    ["an empty list", [], "createGateway: formats is empty; it must have a format, such as messages()"],
    ["a name in the list", ["messages"], "createGateway: formats[0] must be a format, such as messages() of"],
    ["nothing in the list", [messages(), null], "createGateway: formats[1] must be a format, such as messages() of"],
    [
      "a function",
      [messages],
      "createGateway: formats[0] is a function that makes a format; call it, as in messages().",
    ],
    ["the format of an upstream", [messagesUpstream], "createGateway: formats[0] must be a format, such as"],
    ["a format twice", [messages(), messages({})], "createGateway: formats has the format messages twice."],
  ])("refuses %s", (_what, formats, message) => {
    expect(() => make(createGateway, { ...ports, formats })).toThrow(TypeError);
    expect(() => make(createGateway, { ...ports, formats })).toThrow(message);
  });

  it("needs its formats, by its types", () => {
    expectTypeOf<{ backend: typeof backend; quotas: typeof quotas }>().not.toExtend<CoreGatewayOptions>();
    expectTypeOf<readonly string[]>().not.toExtend<CoreGatewayOptions["formats"]>();
    expectTypeOf<typeof messages>().not.toExtend<CoreGatewayOptions["formats"][number]>();
    expectTypeOf<CoreGatewayOptions>().not.toHaveProperty("messages");
    expectTypeOf<CoreGateway>().not.toHaveProperty("app");
  });
});

describe("an option whose code is imported", () => {
  const formats = [messages()];

  it.each([
    ["cors", { cors: { origin: "*" as const } }, "withCors"],
    ["hooks", { hooks: [] }, "withHooks"],
    ["replayStore", { replayStore: memoryReplayStore() }, "withReplays"],
  ])("%s is refused without its code", (name, option, feature) => {
    const message = `createGateway: ${name} needs its code: import ${feature}, and write features: [${feature}].`;
    expect(() => createGateway({ ...ports, formats, ...option })).toThrow(new TypeError(message));
  });

  it("works with its code", async () => {
    const gateway = createGateway({
      ...ports,
      formats,
      features: [withCors, withHooks, withReplays],
      cors: { origin: ["https://page.example"] },
      hooks: [{ before: (request) => ({ ...request, model: "another" }) }],
      replayStore: memoryReplayStore(),
    });
    const ask = () =>
      gateway.fetch(post("/v1/messages", asking, { "idempotency-key": "1", origin: "https://page.example" }));
    const [first, second] = [await ask(), await ask()];
    expect(first.headers.get("access-control-allow-origin")).toBe("https://page.example");
    const body = (await first.json()) as { id: string };
    expect(body).toMatchObject({ content: [{ text: "Hello from another." }] });
    expect(await second.json()).toEqual(body);
    await gateway.close();
  });
});

describe("a path", () => {
  const paths = [...new Set(createFullGateway(ports).endpoints.map(({ path }) => path))];

  it("leads where h3's own router leads", () => {
    const router = createRouter<string>();
    for (const path of paths) addRoute(router, "", path, path);
    const routeOf = routerOf(paths);
    const segment = fc.constantFrom(
      "",
      "v1",
      "v1beta",
      "models",
      "messages",
      "count_tokens",
      "files",
      "a%2Fb",
      "..",
      "*",
      "**",
    );
    const roots = [...paths.map((path) => path.replace("/**", "")), "", "/v1", "/v1/image"];
    const path = fc
      .tuple(fc.constantFrom(...roots), fc.constantFrom("", "x", "/"), fc.array(segment, { maxLength: 4 }))
      .map(([root, joint, segments]) => (root + joint + segments.join("/")).replace(/^(?!\/)/, "/"));
    fc.assert(
      fc.property(path, (written) => {
        const found = findRoute(router, "", written);
        expect(routeOf(written)).toEqual(found && { path: found.data, wildcardPath: found.params?.["_"] ?? "" });
      }),
      { numRuns: 1_000 },
    );
  });
});

type RequiredKeys<T> = { [Key in keyof T]-?: object extends Pick<T, Key> ? never : Key }[keyof T];
/** What every relay has. */
type Common = "name" | "upstreamsOf" | "status" | "close";

describe("a relay of a chosen format", () => {
  it("has the functions of its format, by its types and in fact", () => {
    const of = { baseUrl: "https://up.example", apiKey: "sk-up" };
    const chats = relay({ ...of, format: messagesUpstream });
    const embeds = relay({ ...of, format: chatCompletionsUpstream });
    const draws = relay({ ...of, format: imagesUpstream });
    expectTypeOf<RequiredKeys<typeof chats>>().toEqualTypeOf<Common | "chat" | "countInputTokens">();
    expectTypeOf<RequiredKeys<typeof embeds>>().toEqualTypeOf<Common | "chat" | "countInputTokens" | "embed">();
    expectTypeOf<RequiredKeys<typeof draws>>().toEqualTypeOf<Common | "image">();
    for (const [chosen, name] of [
      [chats, "messages"],
      [embeds, "chat-completions"],
      [draws, "images"],
      [relay({ ...of, format: responsesUpstream }), "responses"],
      [relay({ ...of, format: generateContentUpstream }), "generate-content"],
    ] as const) {
      const named = Object.keys(relayByName({ ...of, format: name })).filter((key) => key !== "check");
      expect([name, ...Object.keys(chosen)]).toEqual([name, ...named]);
    }
  });

  it("is checked by a function of its own, as a relay by name checks itself", async () => {
    await using below = await listening(toNodeHandler(createFullGateway(ports)));
    const of = { baseUrl: `${below.url}/v1`, format: messagesUpstream } as const;
    expect(await checkRelay({ ...of, apiKey: "sk-1" })).toEqual({
      ok: true,
      problem: undefined,
      models: ["any", "another"],
    });
    const refused = await checkRelay({ ...of, apiKey: "sk-2" });
    const named = await relayByName({ ...of, format: "messages", apiKey: "sk-2" }).check();
    const [one, other] = [refused, named].map(({ problem }) => problem?.replace(/req_\w+/, ""));
    expect(one).toBe(other);
    expect(refused.problem).toContain("The upstream refuses the relay's credential.");
    expect(() => make(checkRelay, { ...of, apikey: "sk-1" })).toThrow("checkRelay: apikey does not exist");
  });

  it.each<[string, unknown]>([
    ["a name", "messages"],
    ["nothing", undefined],
    ["the format of a gateway", messages()],
  ])("refuses %s", (_what, format) => {
    const message =
      "relay: format must be the format of an upstream, such as messagesUpstream of polygate/formats/messages";
    const options = { baseUrl: "https://up.example", format };
    expect(() => make(relay, options)).toThrow(TypeError);
    expect(() => make(relay, options)).toThrow(message);
  });

  it("refuses an option that does not exist, and a wrong word", () => {
    const of = { baseUrl: "https://up.example", format: messagesUpstream };
    expect(() => make(relay, { ...of, apikey: "sk-up" })).toThrow("relay: apikey does not exist; did you mean apiKey?");
    expect(() => make(relay, { ...of, reasoning: "much" })).toThrow('relay: reasoning must be one of "none"');
  });

  it.each([
    ["messages", messagesUpstream],
    ["chat-completions", chatCompletionsUpstream],
    ["responses", responsesUpstream],
  ] as const)("translates between the formats of its gateway and an upstream of %s", async (name, format) => {
    const asked: string[] = [];
    const upstream = toNodeHandler(createFullGateway({ ...ports, onCall: (record) => asked.push(record.format) }));
    await using below = await listening(upstream);
    const relayed = relay({ format, baseUrl: `${below.url}/v1`, apiKey: "sk-1" });
    const gateway = createGateway({ formats: [messages(), chatCompletions()], backend: relayed, quotas });
    await using above = await listening(toNodeHandler(gateway));

    const anthropic = new Anthropic({ apiKey: "sk-1", baseURL: above.url });
    const content = "Hello";
    const streamed = anthropic.messages.stream({ model: "any", max_tokens: 9, messages: [{ role: "user", content }] });
    expect(await streamed.finalText()).toBe("Hello from any.");
    const openai = new OpenAI({ apiKey: "sk-1", baseURL: `${above.url}/v1` });
    const answer = await openai.chat.completions.create({ model: "any", messages: [{ role: "user", content }] });
    expect(answer.choices[0]?.message.content).toBe("Hello from any.");
    expect(asked).toEqual([name, name]);
    await relayed.close();
  });
});

function gatewayWith(failures?: number): { readonly gateway: CoreGateway; readonly loads: () => number } {
  const { lazy, loads } = loaded(messagesCode, failures);
  return { gateway: gatewayOf(lazy), loads };
}

function gatewayOf(lazy: Lazy<typeof messagesCode>, options: Partial<CoreGatewayOptions> = {}): CoreGateway {
  const make = () =>
    lazyFormat({ name: "messages", telemetry: TELEMETRY }, Object.values(routesOf()), lazy, (code) => code().endpoints);
  return createGateway({ formats: [{ ...messages(), make }], ...ports, onFailure: () => undefined, ...options });
}

describe("the code of a format", () => {
  it("is loaded once, by the first requests to its routes", async () => {
    const { gateway, loads } = gatewayWith();
    expect(loads()).toBe(0);
    expect(await statuses(ask(gateway), ask(gateway))).toEqual([200, 200]);
    expect(await statuses(ask(gateway))).toEqual([200]);
    expect(loads()).toBe(1);
  });

  it("is tried again after a load that failed, whose requests are refused in the format", async () => {
    const { gateway, loads } = gatewayWith(1);
    const refused = await ask(gateway);
    expect(refused.status).toBe(500);
    expect(await refused.json()).toMatchObject({ type: "error", error: { type: "server_error" } });
    expect(await statuses(ask(gateway))).toEqual([200]);
    expect(loads()).toBe(2);
  });

  it("is waited for as a part of the call: up to the deadline, and when the gateway closes", async () => {
    const clock = manualClock();
    const code = Promise.withResolvers<typeof messagesCode>();
    const told: string[] = [];
    const onCall: CoreGatewayOptions["onCall"] = ({ outcome }) => told.push(outcome);
    const gateway = gatewayOf(new Lazy(() => code.promise), { clock, onCall, limits: { deadlineMs: 1_000 } });
    const late = ask(gateway);
    await clock.advance(1_000);
    expect((await late).status).toBe(504);
    const waiting = ask(gateway);
    const closed = gateway.close().then(() => told.push("closed"));
    await clock.advance(0);
    code.resolve(messagesCode);
    expect(await statuses(waiting)).toEqual([200]);
    await closed;
    expect(told).toEqual(["deadline", "completed", "closed"]);
  });

  it("is loaded by load, which tells of a failure and may be called again", async () => {
    const { gateway, loads } = gatewayWith(1);
    await expect(gateway.load()).rejects.toThrow("no such file");
    await gateway.load();
    expect(loads()).toBe(2);
    expect(await statuses(ask(gateway))).toEqual([200]);
    await gateway.load();
    expect(loads()).toBe(2);
  });

  it("of an upstream is loaded by the first call to it, and by load", async () => {
    await using upstream = await listening(toNodeHandler(createFullGateway(ports)));
    const { lazy, loads } = loaded(messagesCodec, 1);
    const format = {
      ...messagesUpstream,
      load: () => lazy.get(),
      open: (tools, options) => tools.chat(lazyCodec(lazy, (codec) => codec(options))),
    } satisfies typeof messagesUpstream;
    const relayed = relay({ format, baseUrl: `${upstream.url}/v1`, apiKey: "sk-1" });
    const backend = route({ routes: { "*": relayed }, retry: { rounds: 0 } });
    const gateway = createGateway({ formats: [messages()], backend, quotas, onFailure: () => undefined });
    const [failed] = await statuses(ask(gateway));
    expect(failed).toBeGreaterThanOrEqual(500);
    await gateway.load();
    expect(loads()).toBe(2);
    expect(await statuses(ask(gateway), ask(gateway))).toEqual([200, 200]);
    expect(loads()).toBe(2);
    await relayed.close();
  });
});

/** Code that is there after `failures` loads that fail, and the number of loads so far. */
function loaded<Code>(code: Code, failures = 0): { readonly lazy: Lazy<Code>; readonly loads: () => number } {
  let loads = 0;
  const load = (): Promise<Code> =>
    loads++ < failures ? Promise.reject(new Error("no such file")) : Promise.resolve(code);
  return { lazy: new Lazy(load), loads: () => loads };
}

/** Asks for a message. */
const ask = ({ fetch }: CoreGateway): Promise<Response> =>
  fetch(
    new Request("https://gateway.example/v1/messages", {
      method: "POST",
      headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({ model: "any", max_tokens: 9, messages: [{ role: "user", content: "Hello" }] }),
    }),
  );

/** Returns the statuses of answers. */
const statuses = async (...answers: Promise<Response>[]): Promise<number[]> =>
  (await Promise.all(answers)).map(({ status }) => status);

/** A server on a port of its own. */
async function listening(handler: RequestListener): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
