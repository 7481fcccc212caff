/** The sources of an answer reach the callers of every format with their titles and places, complete and streamed. */

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { aiSdk } from "../../src/upstreams/ai-sdk/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { fakeModel, FINISH, START } from "../upstreams/ai-sdk/fake-models.ts";

/** The cited text is not ASCII, so bytes, UTF-16 units and characters differ. It begins behind a text in the same block or an own one. */
const [BEFORE, CITED, BEHIND] = ["Où? ", "é 🌞", " Bye."];
const TEXT = BEFORE + CITED + BEHIND;
const CHARS = [4, 7];
const BYTES = [5, 12] as const;
const SOURCE = { url: "https://a.example", title: "A" };

const sse = (frames: readonly object[]): string =>
  frames
    .map((frame) => {
      const name = "type" in frame ? `event: ${String(frame.type)}\n` : "";
      return `${name}data: ${JSON.stringify(frame)}\n\n`;
    })
    .join("");

const range = { start_index: CHARS[0], end_index: CHARS[1] };
const completion = { id: "c", created: 1, model: "m" };
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const annotations = [{ type: "url_citation", url_citation: { ...SOURCE, ...range } }];
const chunk = (delta: object, finish_reason: string | null = null): object => ({
  ...completion,
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, finish_reason }],
});

const item = (text: string, named: readonly object[] = []) => ({
  type: "message",
  id: `msg_${text.length}`,
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: named, logprobs: [] }],
});
const FIRST = "Ñandú. ";
const partOf = (output_index: number) => ({ output_index, item_id: items[output_index]?.id, content_index: 0 });
const items = [item(FIRST), item(TEXT, [{ type: "url_citation", ...SOURCE, ...range }])];
const response = (fields: object): object => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "m",
  status: "completed",
  output: [],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  ...fields,
});

const location = { type: "web_search_result_location", ...SOURCE, cited_text: "Sun.", encrypted_index: "E1" };
const message = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };
const blocks = [BEFORE, CITED, BEHIND].map((text) => ({
  type: "text",
  text,
  citations: text === CITED ? [location] : [],
}));

const grounded = {
  groundingChunks: [{ web: { uri: SOURCE.url, title: SOURCE.title } }],
  groundingSupports: [{ segment: { startIndex: BYTES[0], endIndex: BYTES[1] }, groundingChunkIndices: [0] }],
};
const candidates = (text: string, fields: object): object => ({
  candidates: [{ index: 0, content: { role: "model", parts: [{ text }] }, ...fields }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
});

const UPSTREAMS: Readonly<
  Record<"chat-completions" | "responses" | "messages" | "generate-content", { answer: object; frames: object[] }>
> = {
  "chat-completions": {
    answer: {
      ...completion,
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: TEXT, annotations } }],
      usage,
    },
    frames: [
      chunk({ role: "assistant", content: TEXT.slice(0, 6) }),
      chunk({ content: TEXT.slice(6) }),
      chunk({ annotations }),
      { ...chunk({}, "stop"), usage },
    ],
  },
  responses: {
    answer: response({ output: items }),
    frames: [
      { type: "response.created", response: response({ status: "in_progress" }) },
      ...items.flatMap((whole, output_index) => [
        { type: "response.output_item.added", output_index, item: { ...whole, content: [] } },
        { type: "response.content_part.added", ...partOf(output_index), part: item("").content[0] },
        ...(output_index === 0 ? [FIRST] : [TEXT.slice(0, 6), TEXT.slice(6)]).map((delta) => ({
          type: "response.output_text.delta",
          ...partOf(output_index),
          delta,
        })),
        { type: "response.output_item.done", output_index, item: whole },
      ]),
      { type: "response.completed", response: response({ output: items }) },
    ].map((frame, sequence_number) => ({ ...frame, sequence_number })),
  },
  messages: {
    answer: { ...message, content: blocks, stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } },
    frames: [
      { type: "message_start", message: { ...message, content: [], usage: { input_tokens: 1, output_tokens: 0 } } },
      ...blocks.flatMap(({ text, citations }, index) => [
        { type: "content_block_start", index, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index, delta: { type: "text_delta", text } },
        ...citations.map((citation) => ({
          type: "content_block_delta",
          index,
          delta: { type: "citations_delta", citation },
        })),
        { type: "content_block_stop", index },
      ]),
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    ],
  },
  "generate-content": {
    answer: candidates(TEXT, { finishReason: "STOP", groundingMetadata: grounded }),
    frames: [
      candidates(TEXT.slice(0, 6), {}),
      candidates(TEXT.slice(6), { finishReason: "STOP", groundingMetadata: grounded }),
    ],
  },
};
type Format = keyof typeof UPSTREAMS & RelayFormat;
const FORMATS = Object.keys(UPSTREAMS) as Format[];

/** The AI SDK's provider interface: its offsets are those of a text of its own, and it names the source again. */
const source = { type: "source", sourceType: "url", id: "1", ...SOURCE };
const citations = [{ source, startIndex: CHARS[0], endIndex: CHARS[1], citedText: "Sun." }];
const MODEL = aiSdk({
  chat: {
    m: fakeModel({
      stream: [
        START,
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: FIRST },
        { type: "text-end", id: "1" },
        { type: "text-start", id: "2" },
        { type: "text-delta", id: "2", delta: TEXT },
        { type: "text-end", id: "2", citations },
        source,
        { ...source, id: "2", url: "https://b.example", title: "B" },
        FINISH,
      ],
      answer: () => ({
        content: [
          { type: "text", text: FIRST },
          { type: "text", text: TEXT, citations },
          source,
          { ...source, id: "2", url: "https://b.example", title: "B" },
        ],
        finishReason: { unified: "stop" },
        usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
        warnings: [],
      }),
    }),
  },
});

function open(of: Format | ModelBackend) {
  const sent: unknown[] = [];
  const format = typeof of === "string" ? of : undefined;
  const gateway = createGateway({
    backend:
      typeof of === "string"
        ? relay({
            format: of,
            baseUrl: "http://up.test/v1",
            async fetch(url, init) {
              const body = JSON.parse(init?.body as string) as Record<string, unknown>;
              sent.push(body);
              const isStream = body["stream"] === true || url.includes("alt=sse");
              const { answer, frames } = UPSTREAMS[format ?? "messages"];
              const end = format === "chat-completions" ? "data: [DONE]\n\n" : "";
              return new Response(isStream ? sse(frames) + end : JSON.stringify(answer), {
                headers: { "content-type": isStream ? "text/event-stream" : "application/json" },
              });
            },
          })
        : of,
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    onFailure: () => {},
  });
  const fetch = (url: unknown, init?: unknown): Promise<Response> =>
    gateway.fetch(new Request(url as string, init as RequestInit));
  const openai = new OpenAI({ apiKey: "sk-test", baseURL: "http://gateway.test/v1", maxRetries: 0, fetch });
  const anthropic = new Anthropic({ apiKey: "sk-test", baseURL: "http://gateway.test", maxRetries: 0, fetch });
  return { sent, openai, anthropic, fetch };
}
type Clients = ReturnType<typeof open>;

const ASKED = { model: "m", messages: [{ role: "user" as const, content: "Sun?" }] };

/** Returns the citations in an answer to a caller of chat completions, each with its piece of the content. */
async function ofChat({ openai }: Clients, isStream: boolean): Promise<unknown[]> {
  const { choices } = isStream
    ? await openai.chat.completions.stream(ASKED).finalChatCompletion()
    : await openai.chat.completions.create(ASKED);
  const { content, annotations: named } = choices[0]?.message ?? {};
  return (named ?? []).map(({ url_citation: { url, title, start_index, end_index } }) => [
    url,
    title,
    Array.from(content ?? "")
      .slice(start_index, end_index)
      .join(""),
  ]);
}

async function ofResponses({ openai }: Clients, isStream: boolean): Promise<unknown[]> {
  const ask = { model: "m", input: "Sun?" };
  const { output } = isStream ? await openai.responses.stream(ask).finalResponse() : await openai.responses.create(ask);
  return output.flatMap((one) =>
    (one.type === "message" ? one.content : []).flatMap((part) =>
      (part.type === "output_text" ? part.annotations : []).map((named) =>
        named.type === "url_citation"
          ? [
              named.url,
              named.title,
              Array.from(part.type === "output_text" ? part.text : "")
                .slice(named.start_index, named.end_index)
                .join(""),
            ]
          : named,
      ),
    ),
  );
}

async function ofMessages({ anthropic }: Clients, isStream: boolean): Promise<unknown[]> {
  const ask = { ...ASKED, max_tokens: 100 };
  const { content } = isStream
    ? await anthropic.messages.stream(ask).finalMessage()
    : await anthropic.messages.create(ask);
  return content.flatMap((block) =>
    (block.type === "text" ? (block.citations ?? []) : []).map((named) =>
      named.type === "web_search_result_location" ? [named.url, named.title, named.cited_text] : named,
    ),
  );
}

interface Contents {
  readonly candidates: readonly {
    readonly content: { readonly parts: readonly { readonly text: string }[] };
    readonly groundingMetadata?: Partial<typeof grounded>;
  }[];
}

const read = (json: string): Contents => JSON.parse(json) as Contents;

async function ofContents({ fetch }: Clients, isStream: boolean): Promise<unknown[]> {
  const verb = isStream ? "streamGenerateContent?alt=sse" : "generateContent";
  const answer = await fetch(`http://gateway.test/v1beta/models/m:${verb}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-goog-api-key": "sk-test" },
    body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Sun?" }] }] }),
  });
  const whole = await answer.text();
  const pieces = isStream
    ? Array.from(whole.matchAll(/^data: (.*)$/gm), ([, json]) => read(json ?? ""))
    : [read(whole)];
  const parts = pieces.flatMap(({ candidates: [one] }) => one?.content.parts ?? []);
  const bytes = new TextEncoder().encode(parts.map(({ text }) => text).join(""));
  const { groundingChunks = [], groundingSupports = [] } = pieces.at(-1)?.candidates[0]?.groundingMetadata ?? {};
  const named = new Set(groundingSupports.flatMap(({ groundingChunkIndices: [index] }) => index));
  return [
    ...groundingSupports.map(({ segment, groundingChunkIndices: [index = 0] }) => [
      groundingChunks[index]?.web.uri,
      groundingChunks[index]?.web.title,
      new TextDecoder().decode(bytes.slice(segment.startIndex, segment.endIndex)),
    ]),
    ...groundingChunks.flatMap(({ web }, index) => (named.has(index) ? [] : [[web.uri, web.title, ""]])),
  ];
}

const CALLERS = { "chat-completions": ofChat, responses: ofResponses, "generate-content": ofContents };
const WAYS = [
  ["complete", false],
  ["streamed", true],
] as const;
const CROSSINGS = Object.entries(CALLERS).flatMap(([caller, read]) =>
  WAYS.map(([way, isStream]) => [`${caller}, ${way}`, read, isStream] as const),
);

describe.each(FORMATS)("the sources of an upstream of %s", (format) => {
  it.each(CROSSINGS)("stand in %s, with their title and place", async (_name, read, isStream) => {
    expect(await read(open(format), isStream)).toEqual([[SOURCE.url, SOURCE.title, CITED]]);
  });

  it.each(WAYS)("stand at the text of messages, %s", async (_name, isStream) => {
    const quote = format === "messages" ? "Sun." : "";
    expect(await ofMessages(open(format), isStream)).toEqual([[SOURCE.url, SOURCE.title, quote]]);
  });
});

describe("the sources of a model of the AI SDK", () => {
  it.each(CROSSINGS)("stand in %s: those of a text with its place, and each once", async (_name, read, isStream) => {
    expect(await read(open(MODEL), isStream)).toEqual([
      [SOURCE.url, SOURCE.title, CITED],
      ["https://b.example", "B", ""],
    ]);
  });

  it.each(WAYS)("stand at the text of messages with their quote, %s", async (_name, isStream) => {
    expect(await ofMessages(open(MODEL), isStream)).toEqual([
      [SOURCE.url, SOURCE.title, "Sun."],
      ["https://b.example", "B", ""],
    ]);
  });
});

const support = (start: number, end: number) => ({ chunkIndices: [0], segment: { start, end } });

it("stand once in a text of messages that a source supports several times", async () => {
  const named = { uri: SOURCE.url, title: SOURCE.title };
  const backend: ModelBackend = {
    async *chat() {
      yield { type: "text-delta", text: TEXT };
      yield {
        type: "annotation",
        annotation: { type: "grounding", chunks: [named, {}], supports: [support(0, 2), support(2, 4)] },
      };
      yield { type: "finish", reason: "stop" };
    },
  };
  expect(await ofMessages(open(backend), false)).toEqual([[SOURCE.url, SOURCE.title, ""]]);
});

describe("the sources of a text with a signature", () => {
  const chunks = [{ uri: SOURCE.url, title: SOURCE.title }];
  const backend: ModelBackend = {
    async *chat() {
      yield { type: "start", maker: "generate-content" };
      yield { type: "text-delta", text: TEXT, signature: "c2VhbA==", maker: "generate-content" };
      yield { type: "annotation", annotation: { type: "grounding", chunks, supports: [support(...BYTES)] } };
      yield { type: "finish", reason: "stop" };
    },
  };

  it.each(CROSSINGS)("stand in %s", async (_name, read, isStream) => {
    expect(await read(open(backend), isStream)).toEqual([[SOURCE.url, SOURCE.title, CITED]]);
  });

  it.each(WAYS)("stand in messages, %s", async (_name, isStream) => {
    expect(await ofMessages(open(backend), isStream)).toEqual([[SOURCE.url, SOURCE.title, ""]]);
  });
});

it.each<[Format, typeof ofResponses]>([
  ["responses", ofResponses],
  ["chat-completions", ofChat],
])("keep their place behind the text of an upstream of %s that breaks off", async (format, read) => {
  const begun = UPSTREAMS[format].frames.slice(0, format === "responses" ? 8 : 1);
  const broken = relay({
    format,
    baseUrl: "http://up.test/v1",
    fetch: () => Promise.resolve(new Response(sse(begun), { headers: { "content-type": "text/event-stream" } })),
  });
  const other: ModelBackend = {
    async *chat() {
      yield { type: "text-delta", text: TEXT.slice(6) };
      const place = { start: 0, end: Buffer.byteLength(CITED.slice(2)) };
      yield { type: "annotation", annotation: { type: "citations", citations: [{ uri: SOURCE.url, ...place }] } };
      yield { type: "finish", reason: "stop" };
    },
  };
  const upstreams = [
    { backend: broken, weight: 1 },
    { backend: other, weight: 0 },
  ];
  const backend = route({ routes: { "*": { upstreams, onBreak: "continue" } }, retry: { share: 1 } });
  expect(await read(open(backend), true)).toEqual([[SOURCE.url, SOURCE.url, CITED.slice(2)]]);
});

it("go back to an upstream of messages only if it has made them", async () => {
  const foreign = { type: "web_search_result_location" as const, ...SOURCE, cited_text: "", encrypted_index: "" };
  const own = { ...foreign, cited_text: "Sun.", encrypted_index: "E1" };
  const { anthropic, sent } = open("messages");
  await anthropic.messages.create({
    model: "m",
    max_tokens: 100,
    messages: [
      { role: "user", content: "Sun?" },
      { role: "assistant", content: [{ type: "text", text: TEXT, citations: [foreign, own] }] },
      { role: "user", content: "And?" },
    ],
  });
  expect(sent).toMatchObject([{ messages: [{}, { content: [{ text: TEXT, citations: [own] }] }, {}] }]);
});
