/** A format from outside of `src`: one value in one file is served, relayed, described and measured like the formats of the package. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { SpanKind } from "@opentelemetry/api";
import * as v from "valibot";
import { expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import {
  chatKind,
  createGateway,
  type ChatCodec,
  type ChatVerbs,
  type EndpointOf,
  type FormatModule,
  GatewayError,
  memoryQuotaStore,
  relay,
} from "../../src/core.ts";
import { messages } from "../../src/formats/messages/module.ts";
import type { ModelBackend } from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { collected } from "../telemetry/stage.ts";

const Poem = v.object({ model: v.string(), about: v.string(), stream: v.optional(v.boolean(), false) });
const Verse = v.object({ verse: v.string() });

const TELEMETRY = { provider: "bashō" };

/** The codec for upstreams: the wire of the format, and back. */
const codec: ChatCodec = {
  format: "haiku",
  encodeRequest({ model, stream, messages }) {
    const about = messages.flatMap(({ parts }) => parts).map((part) => ("text" in part ? part.text : ""));
    return { path: "/haiku", headers: {}, body: { model, about: about.join(" "), stream }, conversions: [] };
  },
  answerDecoder() {
    let hasEnded = false;
    const events = (data: string): ReturnType<ReturnType<ChatCodec["answerDecoder"]>["frame"]> => {
      if (data === "end") {
        hasEnded = true;
        return [{ type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 5 } }];
      }
      return [{ type: "text-delta", text: v.parse(Verse, JSON.parse(data)).verse }];
    };
    return {
      frame: (_name, data) => events(data),
      end() {
        if (!hasEnded) throw new GatewayError("backend_failed", "The poem broke off.");
      },
      answer: (body) => [...events(body), ...events("end")],
    };
  },
  decodeError: (status) => new GatewayError(status === 401 ? "backend_refused" : "backend_failed", "No poem came."),
};

const errors = {
  errorStatus: ({ code }: GatewayError): number => (code === "invalid_api_key" ? 401 : 400),
  encodeError: ({ message }: GatewayError): object => ({ refusal: message }),
};

const endpoint: EndpointOf<typeof chatKind> = {
  format: "haiku",
  kind: chatKind,
  method: "POST",
  path: "/v1/haiku",
  maxOutputTokensPaths: [],
  credential: ({ headers }) => headers.get("poet") ?? undefined,
  encodeError: (error) => ({ status: errors.errorStatus(error), body: errors.encodeError(error) }),
  decode(body) {
    const read = v.safeParse(Poem, body);
    if (!read.success) throw new GatewayError("invalid_request", "This is no wish for a poem.");
    const { model, about, stream } = read.output;
    return {
      model,
      stream,
      messages: [{ role: "user", parts: [{ type: "text", text: about }] }],
      system: [],
      tools: [],
      stopSequences: [],
      maxOutputTokens: 17,
    };
  },
  conversionsOfEvent: () => [],
  complete() {
    let verse = "";
    return {
      add: (event) => void (event.type === "text-delta" && (verse += event.text)),
      body: () => ({ verse }),
    };
  },
  stream: () => ({
    contentType: "text/event-stream",
    keepAlive: ":\n\n",
    encode(event) {
      if (event.type === "text-delta") return `data: ${JSON.stringify({ verse: event.text })}\n\n`;
      return event.type === "finish" ? "data: end\n\n" : "";
    },
    error: (error) => `event: error\ndata: ${JSON.stringify(errors.encodeError(error))}\n\n`,
  }),
};

const haiku: FormatModule<"haiku", object, ChatVerbs> = {
  name: "haiku",
  serve: () => ({
    name: "haiku",
    make: () => ({
      name: "haiku",
      telemetry: TELEMETRY,
      endpoints: [endpoint],
    }),
  }),
  upstream: {
    name: "haiku",
    telemetry: TELEMETRY,
    address: { version: "/v1", complete: /\/v\d+$/, route: /\/haiku$/ },
    credential: (apiKey) => ({ poet: apiKey }),
    listPath: "/poets",
    open: (tools) => tools.chat(codec),
  },
  description: {
    name: "haiku",
    tag: { name: "Haiku", description: "Poems of three lines." },
    security: [{ apiKey: [] }],
    errorSchema: "HaikuError",
    errors,
    schemas: () => ({ HaikuRequest: Poem, Haiku: Verse, HaikuError: v.object({ refusal: v.string() }) }),
    examples: { HaikuRequest: { "A frog": { model: "poet", about: "a frog" } } },
    operations: [
      {
        endpoint: "chat POST /v1/haiku",
        operationId: "createHaiku",
        summary: "Asks for a poem.",
        request: "HaikuRequest",
        answer: "Haiku",
        events: "Haiku",
      },
    ],
  },
};

const ask = (body: object, key = "sk-1"): Request =>
  new Request("http://localhost/v1/haiku", {
    method: "POST",
    headers: { poet: key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
const FROG = { model: "poet", about: "a frog" };

const backend = {
  async *chat({ messages }) {
    const [part] = messages[0]?.parts ?? [];
    yield "An old silent pond, ";
    yield `and ${part?.type === "text" ? part.text : "nothing"}.`;
  },
} satisfies ModelBackend;
const quotas = memoryQuotaStore([{ apiKey: "sk-1" }]);
const VERSE = "An old silent pond, and a frog.";

it("serves, beside a format of the package", async () => {
  const gateway = createGateway({ backend, quotas, formats: [messages(), haiku.serve()] });
  expect(gateway.endpoints[0]).toEqual({ format: "haiku", kind: "chat", method: "POST", path: "/v1/haiku" });
  expect(await (await gateway.fetch(ask(FROG))).json()).toEqual({ verse: VERSE });
  const streamed = await (await gateway.fetch(ask({ ...FROG, stream: true }))).text();
  expect(streamed).toBe('data: {"verse":"An old silent pond, "}\n\ndata: {"verse":"and a frog."}\n\ndata: end\n\n');
  const refused = await gateway.fetch(ask(FROG, "sk-2"));
  expect([refused.status, await refused.json()]).toEqual([401, { refusal: "The API key is not valid." }]);
  expect(await (await gateway.fetch(ask({ model: "poet" }))).json()).toEqual({
    refusal: "This is no wish for a poem.",
  });
});

it("is relayed and measured, and translated for callers of another format", async () => {
  const below = createGateway({ backend, quotas, formats: [haiku.serve()] });
  const server = createServer(toNodeHandler(below)).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { observer, spans } = collected();
    const format = haiku.upstream;
    if (!format) throw new Error("The format has a side for upstreams.");
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const upstream = relay({ format, baseUrl, apiKey: "sk-1" });
    const gateway = createGateway({ backend: upstream, quotas, observer, formats: [haiku.serve(), messages()] });
    expect(await (await gateway.fetch(ask(FROG))).json()).toEqual({ verse: VERSE });
    const translated = await gateway.fetch(
      new Request("http://localhost/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "poet", max_tokens: 17, messages: [{ role: "user", content: "a frog" }] }),
      }),
    );
    expect(await translated.json()).toMatchObject({ content: [{ text: VERSE }], usage: { output_tokens: 5 } });
    const told = spans().map(({ name, kind, attributes }) => [
      name,
      SpanKind[kind],
      attributes["gen_ai.provider.name"],
      attributes["gen_ai.operation.name"],
    ]);
    expect(told).toEqual([
      ["chat", "CLIENT", "bashō", "chat"],
      ["POST /v1/haiku", "SERVER", "bashō", "chat"],
      ["chat", "CLIENT", "bashō", "chat"],
      ["POST /v1/messages", "SERVER", "anthropic", "chat"],
    ]);
    await upstream.close();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

it("is described", () => {
  const gateway = createGateway({ backend, quotas, formats: [haiku.serve()] });
  const { paths, tags, components } = openApiDocument(gateway, { formats: [haiku] });
  expect(tags).toEqual([haiku.description?.tag]);
  expect(Object.keys(paths)).toEqual(["/v1/haiku"]);
  expect(Object.keys(components.schemas)).toEqual(["Haiku", "HaikuError", "HaikuRequest"]);
  expect(paths["/v1/haiku"]?.["post"]?.responses["401"]?.content?.["application/json"]?.examples).toHaveProperty(
    "invalid_api_key",
  );
  expect(() => openApiDocument(gateway)).toThrow("There is no description of haiku's endpoint POST /v1/haiku.");
});
