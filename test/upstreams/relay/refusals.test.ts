/** Requests that an upstream refuses, as the official clients of each format read the refusal: complete, and in a stream. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { ApiError } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { GatewayError, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { type Clients, clientsBefore } from "../ai-sdk/stage.ts";

type Format = "messages" | "generate-content" | "chat-completions";

/** What a client reads of an error. */
interface Read {
  readonly status: number | undefined;
  readonly code: unknown;
  readonly param?: unknown;
  readonly message: string;
}

interface Caller {
  /** Sends a request with the model `model-a`. Resolves with the error. */
  readonly ask: (clients: Clients, stream: boolean) => Promise<Read>;
  readonly words: Readonly<Record<"input" | "output" | "none", string>>;
  readonly code: string;
  readonly param?: string;
}

const thrown = async (asked: Promise<unknown>): Promise<unknown> => {
  try {
    await asked;
  } catch (error) {
    return error;
  }
  throw new Error("The call did not fail.");
};

const text = "Hi";
const messages = [{ role: "user" as const, content: text }];
const drained = async (events: AsyncIterable<unknown>): Promise<void> => {
  for await (const event of events) expect(event).toBeDefined();
};

const CALLERS: Readonly<Record<Format, Caller>> = {
  messages: {
    async ask({ anthropic }, stream) {
      const body = { model: "model-a", max_tokens: 100, messages };
      const error = await thrown(
        stream ? anthropic.messages.stream(body).finalMessage() : anthropic.messages.create(body),
      );
      expect(error).toBeInstanceOf(Anthropic.APIError);
      const { status, error: told } = error as InstanceType<typeof Anthropic.APIError>;
      if (status !== undefined) expect(error).toBeInstanceOf(Anthropic.BadRequestError);
      const { type, code, message } = (told as { error: Record<"type" | "code" | "message", string> }).error;
      expect(type).toBe("invalid_request_error");
      return { status, code, message };
    },
    code: "context_length_exceeded",
    words: {
      input: "prompt is too long: 210000 tokens > 200000 maximum",
      output:
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
      none: "prompt is too long",
    },
  },
  "generate-content": {
    async ask({ genai }, stream) {
      const body = { model: "model-a", contents: text };
      const error = await thrown(
        stream ? genai.models.generateContentStream(body).then(drained) : genai.models.generateContent(body),
      );
      expect(error).toBeInstanceOf(ApiError);
      const { status, message: json } = error as ApiError;
      const told = /\{"error":.*\}/s.exec(json)?.[0] ?? "{}";
      const { status: code, message } = (JSON.parse(told) as { error: Record<"status" | "message", string> }).error;
      return { status, code, message };
    },
    code: "INVALID_ARGUMENT",
    words: {
      input: "The input token count (210000) exceeds the maximum number of tokens allowed (200000).",
      output:
        "The input token count (190000) plus the output limit (20000) exceeds the maximum number of tokens allowed (200000).",
      none: "The input token count exceeds the maximum number of tokens allowed.",
    },
  },
  "chat-completions": {
    async ask({ openai }, stream) {
      const body = { model: "model-a", messages };
      const error = await thrown(
        stream
          ? openai.chat.completions.create({ ...body, stream }).then(drained)
          : openai.chat.completions.create(body),
      );
      expect(error).toBeInstanceOf(OpenAI.APIError);
      const { status, code, param, type, error: told } = error as InstanceType<typeof OpenAI.APIError>;
      if (status !== undefined) expect(error).toBeInstanceOf(OpenAI.BadRequestError);
      expect(type).toBe("invalid_request_error");
      return { status, code, param, message: (told as { message: string }).message };
    },
    code: "context_length_exceeded",
    param: "messages",
    words: {
      input:
        "This model's maximum context length is 200000 tokens. However, your messages resulted in 210000 tokens. Please reduce the length of the messages.",
      output:
        "This model's maximum context length is 200000 tokens. However, you requested 210000 tokens (190000 in the messages, 20000 in the completion). Please reduce the length of the messages or completion.",
      none: "Your input exceeds the context window of this model. Please reduce the length of the messages.",
    },
  },
};

/** Refusals in the words of each upstream's own format, and the beginning of a stream in that format. */
const UPSTREAMS: Readonly<
  Record<Format, { readonly version: string; readonly error: (message: string) => object; readonly begun: string }>
> = {
  messages: {
    version: "/v1",
    error: (message) => ({ type: "error", error: { type: "invalid_request_error", message } }),
    begun: `event: message_start\ndata: ${JSON.stringify({
      type: "message_start",
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        model: "upstream-9",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    })}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Once"}}\n\n`,
  },
  "generate-content": {
    version: "/v1beta",
    error: (message) => ({ error: { code: 400, message, status: "INVALID_ARGUMENT" } }),
    begun: 'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Once"}]},"index":0}]}\n\n',
  },
  "chat-completions": {
    version: "/v1",
    error: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
    begun:
      'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"upstream-9","choices":[{"index":0,"delta":{"role":"assistant","content":"Once"},"finish_reason":null}]}\n\n',
  },
};

const FORMATS = Object.keys(CALLERS) as Format[];
const PAIRS = FORMATS.flatMap((upstream) => FORMATS.map((caller) => ({ upstream, caller })));

/** The place where the upstream says no: before the answer, in place of the first event, or after some text. */
type Place = "before" | "at first" | "in the middle";

function refusing(format: Format, body: object, place: Place): typeof fetch {
  const frame = `data: ${JSON.stringify(body)}\n\n`;
  return () =>
    Promise.resolve(
      place === "before"
        ? Response.json(body, { status: 400 })
        : new Response((place === "at first" ? "" : UPSTREAMS[format].begun) + frame, {
            headers: { "content-type": "text/event-stream" },
          }),
    );
}

const relayOf = (format: Format, message: string, place: Place, options: Partial<RelayOptions> = {}): ModelBackend =>
  relay({
    format,
    baseUrl: `http://upstream.test${UPSTREAMS[format].version}`,
    apiKey: "sk-upstream-0123456789",
    models: { "model-a": "upstream-9" },
    fetch: refusing(format, UPSTREAMS[format].error(message), place),
    ...options,
  });

const KINDS = [
  ["input", "prompt is too long: 210000 tokens > 200000 maximum"],
  ["output", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"],
  ["none", "Input is too long for requested model."],
] as const;

describe.each(PAIRS)("before an upstream of $upstream, a client of $caller", ({ upstream, caller: name }) => {
  const caller = CALLERS[name];

  it.each(KINDS)("recognises a prompt that is too long: %s", async (kind, message) => {
    for (const showUpstreamMessages of [undefined, false, true])
      for (const place of ["before", "at first", "in the middle"] as const)
        for (const stream of place === "before" ? [false, true] : [true]) {
          const shown = showUpstreamMessages === undefined ? {} : { showUpstreamMessages };
          const clients = clientsBefore(relayOf(upstream, message, place, shown));
          const read = await caller.ask(clients, stream);
          expect(read.code).toBe(caller.code);
          // A stream that has begun keeps the status 200. The client of generate-content reads the status in the error.
          expect(read.status).toBe(place === "in the middle" && name !== "generate-content" ? undefined : 400);
          // Words that the host shows stand behind the words that the client knows.
          const { length } = caller.words[kind];
          expect(read.message.slice(0, length)).toBe(caller.words[kind]);
          expect(read.message.length > length && showUpstreamMessages !== true).toBe(false);
          expect(read.param).toBe(caller.param);
        }
  });

  it("reads which parameter was refused, and nothing of the host's", async () => {
    const message =
      "temperature: upstream-9 (org-AbC123xyz at https://vllm.internal:8000) takes no sk-upstream-0123456789.";
    const cleaned = "temperature: model-a ([account] at [address]) takes no [redacted].";
    for (const place of ["before", "at first"] as const) {
      const read = await caller.ask(clientsBefore(relayOf(upstream, message, place)), true);
      expect(read.message).toBe(cleaned);
      const hidden = relayOf(upstream, message, place, { showUpstreamMessages: false });
      expect((await caller.ask(clientsBefore(hidden), true)).message).toMatch(
        upstream === "messages"
          ? /^temperature: the model backend does not take this\.$/
          : /^The model backend does not take this request\.$/,
      );
      const all = relayOf(upstream, message, place, { showUpstreamMessages: true, showUpstreamModel: true });
      expect((await caller.ask(clientsBefore(all), true)).message).toBe(
        message.replace("sk-upstream-0123456789", "[redacted]"),
      );
    }
  });
});

describe.each(FORMATS)("before a provider of the ai SDK, a client of %s", (name) => {
  const caller = CALLERS[name];
  const PROVIDERS = {
    messages: (fetch: typeof globalThis.fetch) =>
      createAnthropic({ apiKey: "none", baseURL: "http://upstream.test/v1", fetch })("upstream-9"),
    "generate-content": (fetch: typeof globalThis.fetch) =>
      createGoogle({ apiKey: "none", baseURL: "http://upstream.test/v1beta", fetch })("upstream-9"),
    "chat-completions": (fetch: typeof globalThis.fetch) =>
      createOpenAI({ apiKey: "none", baseURL: "http://upstream.test/v1", fetch }).chat("upstream-9"),
  };
  const backendOf = (format: Format, message: string): ModelBackend =>
    aiSdk({ chat: { "model-a": PROVIDERS[format](refusing(format, UPSTREAMS[format].error(message), "before")) } });

  it.each(KINDS)("recognises a prompt that is too long: %s", async (kind, message) => {
    for (const format of FORMATS)
      for (const stream of [false, true]) {
        const read = await caller.ask(clientsBefore(backendOf(format, message)), stream);
        expect(read).toMatchObject({ status: 400, code: caller.code, message: caller.words[kind] });
      }
  });

  it("reads which parameter was refused, and nothing of the host's", async () => {
    for (const format of FORMATS) {
      const backend = backendOf(format, "temperature: upstream-9 at https://vllm.internal:8000 takes none.");
      const { message } = await caller.ask(clientsBefore(backend), false);
      expect(message).toBe("temperature: model-a at [address] takes none.");
    }
  });
});

describe.each(FORMATS)("a host's own backend, before a client of %s", (name) => {
  const { ask, words } = CALLERS[name];

  it("says that a prompt is too long, in words that clients know and in its own", async () => {
    const context = { inputTokens: 210_000, maxTokens: 200_000 };
    const known = words.input.endsWith(".") ? words.input : `${words.input}.`;
    for (const [message, expected] of [
      ["The prompt is too long for the model.", words.input],
      ["Try model-b.", `${known} Try model-b.`],
      [`Sorry, ${words.input}`, `Sorry, ${words.input}`],
    ] as const) {
      const backend: ModelBackend = {
        async *chat() {
          await Promise.reject(new GatewayError("context_length_exceeded", message, { context }));
          yield "";
        },
      };
      expect((await ask(clientsBefore(backend), false)).message).toBe(expected);
    }
  });
});

/** Sends a request before an upstream that refuses it, and resolves with the error that the official client throws. */
const REASONS = {
  async messages(clients: Clients): Promise<unknown> {
    const asked = clients.anthropic.messages.create({ model: "model-a", max_tokens: 100, messages });
    const error = (await thrown(asked)) as InstanceType<typeof Anthropic.APIError>;
    return { errorCode: error.errorCode, details: error.details };
  },
  async "chat-completions"(clients: Clients): Promise<unknown> {
    const asked = clients.openai.chat.completions.create({ model: "model-a", messages });
    const { code } = (await thrown(asked)) as InstanceType<typeof OpenAI.APIError>;
    return code;
  },
} as const;

const reasonFrom = (format: keyof typeof REASONS, backend: ModelBackend): Promise<unknown> =>
  REASONS[format](clientsBefore(backend));

describe("the vendor's own reason of a refusal", () => {
  const SIZE = {
    error_code: "image_dimensions_too_large",
    max_side_length_pixels: 8000,
    paths: ["messages.0.content.1"],
  };
  const message = "messages.0.content.1: the image is too large.";
  const backendOf = (format: Format, error: object, show?: boolean): ModelBackend =>
    relay({
      format,
      baseUrl: `http://upstream.test${UPSTREAMS[format].version}`,
      apiKey: "sk-upstream-0123456789",
      fetch: refusing(format, { error: { message, type: "invalid_request_error", ...error } }, "before"),
      ...(show !== undefined && { showUpstreamMessages: show }),
    });
  const code = "string_above_max_length";

  it("is what the vendor's client looks for", async () => {
    expect(await reasonFrom("messages", backendOf("messages", { details: SIZE }))).toEqual({
      errorCode: "image_dimensions_too_large",
      details: SIZE,
    });
    expect(await reasonFrom("chat-completions", backendOf("chat-completions", { param: null, code }))).toBe(code);
    const fetch = refusing(
      "messages",
      { type: "error", error: { type: "invalid_request_error", message, details: SIZE } },
      "before",
    );
    const provided = createAnthropic({ apiKey: "none", baseURL: "http://upstream.test/v1", fetch })("upstream-9");
    expect(await reasonFrom("messages", aiSdk({ chat: { "model-a": provided } }))).toMatchObject({ details: SIZE });
  });

  it("is not told to clients of another vendor", async () => {
    expect(await reasonFrom("chat-completions", backendOf("messages", { details: SIZE }))).toBe("invalid_value");
    expect(await reasonFrom("messages", backendOf("chat-completions", { param: null, code }))).toEqual({
      errorCode: null,
      details: null,
    });
  });

  it.each([
    ["an address", { ...SIZE, paths: ["https://vllm.internal:8000/image"] }],
    ["very many texts", { ...SIZE, paths: Array.from({ length: 1_000 }, String) }],
    ["an account in a field of its own", { ...SIZE, account_id: "Acme" }],
    ["an account in a field in camel case", { ...SIZE, accountId: "Acme" }],
    ["a project", { ...SIZE, gcp_project_id: "acme-prod" }],
    ["the number of a project", { ...SIZE, project: 12345678 }],
    ["an address in a second line", { ...SIZE, paths: ["see\n10.0.0.1"] }],
    ["a code about the account", { error_code: "credit_balance_too_low" }],
    ["no code", { paths: SIZE.paths }],
  ])("stays hidden with %s", async (_, details) => {
    const hidden = { errorCode: null, details: null };
    expect(await reasonFrom("messages", backendOf("messages", { details }))).toEqual(hidden);
  });

  it.each(["invalid_api_key", "billing_hard_limit_reached", "accountDeactivated"])(
    "stays hidden if it is about the host's account: %s",
    async (own) => {
      const backend = backendOf("chat-completions", { param: null, code: own });
      expect(await reasonFrom("chat-completions", backend)).toBe("invalid_value");
    },
  );

  it.each([{ key: "sk-upstream-0123456789" }, { "sk-upstream-0123456789": 1 }])(
    "never tells the host's key: %j",
    async (paths) => {
      const error = { type: "invalid_request_error", message, details: { ...SIZE, paths: [paths] } };
      for (const place of ["before", "at first"] as const) {
        const backend = relay({
          format: "messages",
          baseUrl: "http://upstream.test/v1",
          apiKey: "sk-upstream-0123456789",
          fetch: refusing("messages", { type: "error", error }, place),
        });
        const { anthropic } = clientsBefore(backend);
        const asked = anthropic.messages.stream({ model: "model-a", max_tokens: 100, messages }).finalMessage();
        const told = (await thrown(asked)) as InstanceType<typeof Anthropic.APIError>;
        expect(told).toMatchObject({ status: 400, apiMessage: message });
        expect(JSON.stringify(told.error)).not.toContain("sk-upstream");
      }
    },
  );

  it("stays hidden with the upstream's messages", async () => {
    expect(await reasonFrom("messages", backendOf("messages", { details: SIZE }, false))).toMatchObject({
      details: null,
    });
    expect(await reasonFrom("chat-completions", backendOf("chat-completions", { param: null, code }, false))).toBe(
      "invalid_value",
    );
  });
});
