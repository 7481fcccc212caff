/** The official clients, unmodified, over a real socket, before a gateway with a hostile upstream: they throw their own typed errors. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import { type Sdk as AnthropicSdk, sdks as anthropicSdks } from "../../clients/anthropic/sdk.ts";
import { type Sdk as GenAiSdk, sdks as genAiSdks, wireError } from "../../clients/genai/sdk.ts";
import { type Sdk as OpenAiSdk, sdks as openAiSdks } from "../../clients/openai/sdk.ts";
import { PROMPT, pairOf, type Pair, type Speaker } from "./hostile.formats.ts";
import { CALLER_KEY, openStage } from "./hostile.stage.ts";
import { head, type RawAnswer, STREAM_HEAD, whole } from "./raw-upstream.ts";

type Kind = "limited" | "server" | "midway";

interface Client {
  readonly name: string;
  readonly pair: Pair;
  /** The client's own class of an error. */
  readonly errors: Readonly<Record<Kind, new (...args: never) => Error>>;
  /** Asks for a complete answer, or for a stream whose pieces go to a callback. Resolves with the whole text. */
  readonly ask: (url: string, maxRetries: number, heard?: (piece: string) => void) => Promise<string>;
  /** Reads an error: its status, its code, and the seconds to wait. */
  readonly told: (error: Error) => { readonly status: unknown; readonly code: unknown; readonly retryAfter: unknown };
}

const messages = [{ role: "user" as const, content: PROMPT }];
const model = "model-a";

async function joined(pieces: AsyncIterable<string>, heard: (piece: string) => void): Promise<string> {
  let text = "";
  for await (const piece of pieces) {
    heard(piece);
    text += piece;
  }
  return text;
}

function anthropic({ name, Anthropic }: AnthropicSdk): Client {
  return {
    name,
    pair: pairOf("messages", "chat-completions"),
    errors: { limited: Anthropic.RateLimitError, server: Anthropic.InternalServerError, midway: Anthropic.APIError },
    async ask(url, maxRetries, heard) {
      const client = new Anthropic({ apiKey: CALLER_KEY, baseURL: url, maxRetries });
      const asked = { model, max_tokens: 100, messages };
      if (!heard) {
        const { content } = await client.messages.create(asked);
        return content.map((block) => (block.type === "text" ? block.text : "")).join("");
      }
      const events = await client.messages.create({ ...asked, stream: true });
      async function* texts(): AsyncGenerator<string> {
        for await (const event of events)
          if (event.type === "content_block_delta" && event.delta.type === "text_delta") yield event.delta.text;
      }
      return joined(texts(), heard);
    },
    told(error) {
      const { status, error: body, headers } = error as InstanceType<typeof Anthropic.APIError>;
      const { error: wire } = body as { readonly error: { readonly code: string } };
      return { status, code: wire.code, retryAfter: headers?.get("retry-after") };
    },
  };
}

function genAi({ name, GoogleGenAI, ApiError }: GenAiSdk): Client {
  return {
    name,
    pair: pairOf("generate-content", "messages"),
    errors: { limited: ApiError, server: ApiError, midway: ApiError },
    async ask(url, _maxRetries, heard) {
      const { models } = new GoogleGenAI({ apiKey: CALLER_KEY, httpOptions: { baseUrl: url } });
      const asked = { model, contents: PROMPT, config: { maxOutputTokens: 100 } };
      if (!heard) return (await models.generateContent(asked)).text ?? "";
      const chunks = await models.generateContentStream(asked);
      async function* texts(): AsyncGenerator<string> {
        for await (const { text } of chunks) if (text) yield text;
      }
      return joined(texts(), heard);
    },
    told(error) {
      const { code, status, details } = wireError(error);
      const [info] = details as readonly { readonly retryDelay: string }[];
      return { status: code, code: status, retryAfter: info?.retryDelay.replace("s", "") ?? null };
    },
  };
}

/** Shared by both endpoints of the openai client. */
const openAiErrors = ({ OpenAI }: OpenAiSdk): Pick<Client, "errors" | "told"> => ({
  errors: { limited: OpenAI.RateLimitError, server: OpenAI.InternalServerError, midway: OpenAI.APIError },
  told(error) {
    const { status, code, headers } = error as InstanceType<typeof OpenAI.APIError>;
    return { status, code, retryAfter: headers?.get("retry-after") };
  },
});

function openAiChat(sdk: OpenAiSdk): Client {
  return {
    name: `${sdk.name}, chat`,
    pair: pairOf("chat-completions", "generate-content"),
    ...openAiErrors(sdk),
    async ask(url, maxRetries, heard) {
      const { chat } = new sdk.OpenAI({ apiKey: CALLER_KEY, baseURL: `${url}/v1`, maxRetries });
      const asked = { model, max_completion_tokens: 100, messages };
      if (!heard) return (await chat.completions.create(asked)).choices[0]?.message.content ?? "";
      const chunks = await chat.completions.create({ ...asked, stream: true });
      async function* texts(): AsyncGenerator<string> {
        for await (const { choices } of chunks) if (choices[0]?.delta.content) yield choices[0].delta.content;
      }
      return joined(texts(), heard);
    },
  };
}

const textIn = (base64: string | undefined): string => Buffer.from(base64 ?? "", "base64").toString();

function openAiImages(sdk: OpenAiSdk): Client {
  return {
    name: `${sdk.name}, images`,
    pair: pairOf("images", "images"),
    ...openAiErrors(sdk),
    async ask(url, maxRetries, heard) {
      const { images } = new sdk.OpenAI({ apiKey: CALLER_KEY, baseURL: `${url}/v1`, maxRetries });
      const asked = { model: "gpt-image-1", prompt: PROMPT, n: 3 };
      if (!heard) return ((await images.generate(asked)).data ?? []).map((one) => textIn(one.b64_json)).join("");
      const events = await images.generate({ ...asked, stream: true });
      async function* pictures(): AsyncGenerator<string> {
        for await (const event of events) yield textIn(event.b64_json);
      }
      return joined(pictures(), heard);
    },
  };
}

const clients: readonly Client[] = [
  ...anthropicSdks.map(anthropic),
  ...genAiSdks.map(genAi),
  ...openAiSdks.flatMap((sdk) => [openAiChat(sdk), openAiImages(sdk)]),
];

/** Resolves with the outcome of a call to a gateway. Fails if the call leaves anything behind. */
async function asked(
  { pair, ask }: Client,
  answer: RawAnswer,
  { calls = 1, heard }: { readonly calls?: number; readonly heard?: (piece: string) => void } = {},
) {
  await using stage = await openStage(pair, answer);
  const server = createServer(toNodeHandler(stage.gateway)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let thrown: unknown;
  const text = await ask(url, calls - 1, heard).catch((error: unknown) => void (thrown = error));
  server.close();
  server.closeAllConnections();
  const { charge, failures } = await stage.atRest(calls, String(thrown) + JSON.stringify(thrown));
  return { text, thrown: thrown as Error, charge, failures };
}

const NOTHING = { used: 0, estimated: 0 };
/** One reason in the spelling of each format. */
const spelt = ({ caller }: Pair, code: string, status: string): string =>
  caller.name === "generate-content" ? status : code;

const limited =
  ({ error }: Speaker, retryAfter: string): RawAnswer =>
  (socket) =>
    socket.end(whole(429, "application/json", JSON.stringify(error(429, "Account 7")), { "retry-after": retryAfter }));

describe.each(clients)("$name", (client) => {
  const { pair, errors, told } = client;
  const { upstream } = pair;

  describe.each([false, true])("streamed: %s", (stream) => {
    const heard = stream ? { heard: () => {} } : {};

    it("throws its own error of a limit, with the time to wait", async () => {
      const { thrown, charge } = await asked(client, limited(upstream, "7"), heard);
      expect(thrown).toBeInstanceOf(errors.limited);
      const code = spelt(pair, "rate_limit_exceeded", "RESOURCE_EXHAUSTED");
      expect(told(thrown)).toEqual({ status: 429, code, retryAfter: "7" });
      expect(charge).toEqual(NOTHING);
    });

    it.each<[string, RawAnswer, number, string, string]>([
      ["dies", (socket) => socket.destroy(), 503, "backend_unavailable", "UNAVAILABLE"],
      [
        "shows a proxy's page",
        (socket) => socket.end(whole(502, "text/html", "<h1>nginx</h1>")),
        503,
        "backend_unavailable",
        "UNAVAILABLE",
      ],
      [
        "redirects",
        (socket) => socket.end(whole(302, "", "", { location: "http://127.0.0.1:1/" })),
        500,
        "backend_failed",
        "INTERNAL",
      ],
      ["speaks no HTTP", (socket) => socket.end("220 ready\r\n"), 500, "backend_failed", "INTERNAL"],
    ])("throws its own error of a server whose upstream %s", async (_what, answer, status, code, name) => {
      const { thrown, charge } = await asked(client, answer, heard);
      expect(thrown).toBeInstanceOf(errors.server);
      expect(told(thrown)).toEqual({ status, code: spelt(pair, code, name), retryAfter: null });
      expect(charge).toEqual(NOTHING);
    });
  });

  it("throws its own error where a stream breaks off, after what had come", async () => {
    const pieces: string[] = [];
    const bytes =
      head(200, { "content-type": "text/event-stream", "content-length": 99_999 }) +
      upstream.frames.slice(0, upstream.begun).join("");
    const { thrown, charge } = await asked(client, (socket) => socket.end(bytes), {
      heard: (piece) => pieces.push(piece),
    });
    expect(thrown).toBeInstanceOf(errors.midway);
    expect(told(thrown)).toMatchObject({ code: spelt(pair, "backend_failed", "INTERNAL") });
    expect(pieces.join("")).toBe(upstream.first);
    expect(charge).toEqual(upstream.costs.first);
  });
});

describe.each(clients.filter(({ pair }) => pair.caller.name !== "generate-content"))("$name", (client) => {
  const { upstream } = client.pair;

  it("tries a limit again by itself, when it is told to, and pays once", async () => {
    let requests = 0;
    const answer: RawAnswer = (socket, request) => {
      if (++requests === 1) return limited(upstream, "0")(socket, request);
      return socket.end(STREAM_HEAD + upstream.frames.join(""));
    };
    const { text, charge } = await asked(client, answer, { calls: 2, heard: () => {} });
    expect(text).toBe(upstream.whole);
    expect([requests, charge]).toEqual([2, upstream.costs.whole]);
  });
});
