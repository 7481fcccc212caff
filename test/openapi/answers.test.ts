/**
 * Validates real answers of the playground's demo, by the schemas of the OpenAPI document and by the types of the vendors' SDKs. Every object
 * of the document is closed: a field that it lacks shows. By the vendors' types, a field that an answer lacks shows.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createParser } from "eventsource-parser";
import type * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { demoKeys } from "../../playground/keys.ts";
import { demoModel } from "../../src/demo/backend.ts";
import type { OpenAIErrorBody } from "../../src/formats/shared/errors.ts";
import type { OpenAIError } from "../../src/formats/shared/schema.ts";
import { createGateway, type Gateway, memoryQuotaStore, memoryResponseStore } from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { CLEAR } from "../formats/images/pictures.ts";
import { editing, file, formOf } from "../formats/images/requests.ts";
import { answerSchema, closed, judges, operationsOf } from "./reader.ts";
import { schemasOf, wrongBy } from "./vendors.ts";

const failures: string[] = [];
const gateway = createGateway({
  backend: demoModel(),
  quotas: memoryQuotaStore(demoKeys),
  responseStore: memoryResponseStore(),
  responses: { compaction: { keys: [{ name: "one", secret: new Uint8Array(32) }] } },
  onFailure: ({ text }) => void failures.push(text),
});

const document = closed(openApiDocument(gateway));
const judgeOf = judges(document);

interface Sent {
  /** Default: POST with a body, and GET without one. */
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the demo's gateway. */
  readonly through?: Gateway;
}

const HEADERS = { authorization: "Bearer sk-demo", "compat-version": "2023-06-01" };

function ask({
  path,
  body,
  headers = HEADERS,
  method = body === undefined ? "GET" : "POST",
  through = gateway,
}: Sent): Promise<Response> {
  const request = new Request(`http://localhost${path}`, {
    method,
    headers: { ...headers, ...(body instanceof FormData ? {} : { "content-type": "application/json" }) },
    ...(body !== undefined && { body: body instanceof FormData ? body : JSON.stringify(body) }),
  });
  return through.fetch(request);
}

/** Reads the data of a stream's events. Skips `[DONE]`, the end of a stream of chat completions. */
function dataOf(text: string): unknown[] {
  const events: unknown[] = [];
  createParser({
    onEvent: ({ data }) => {
      if (data !== "[DONE]") events.push(JSON.parse(data));
    },
  }).feed(text);
  return events;
}

const VENDORS = schemasOf(`
import type { Message, MessageTokensCount, RawMessageStreamEvent } from "@anthropic-ai/sdk/resources/messages/messages.js";
import type { ModelInfo } from "@anthropic-ai/sdk/resources/models.js";
import type { ErrorResponse } from "@anthropic-ai/sdk/resources/shared.js";
import type { ContentEmbedding, CountTokensResponse, EmbedContentResponse, GenerateContentResponse, Model as GeminiModel } from "@google/genai";
import type { ChatCompletion, ChatCompletionChunk } from "openai/resources/chat/completions/completions.js";
import type { Conversation, ConversationDeletedResource } from "openai/resources/conversations/conversations.js";
import type { ConversationItem, ConversationItemList } from "openai/resources/conversations/items.js";
import type { CreateEmbeddingResponse } from "openai/resources/embeddings.js";
import type { ImageEditStreamEvent, ImageGenStreamEvent, ImagesResponse } from "openai/resources/images.js";
import type { Model } from "openai/resources/models.js";
import type { ResponseItemList } from "openai/resources/responses/input-items.js";
import type { InputTokenCountResponse } from "openai/resources/responses/input-tokens.js";
import type { CompactedResponse, FunctionTool, Response, ResponseStreamEvent, Tool } from "openai/resources/responses/responses.js";
import type { ErrorObject } from "openai/resources/shared.js";

/** What Open Responses demands beyond the SDK's types: https://www.openresponses.org, version of 2026-04-24. */
interface OpenResponse extends Omit<Response, "tools"> {
  background: boolean; completed_at: number | null; frequency_penalty: number; max_output_tokens: number | null;
  max_tool_calls: number | null; presence_penalty: number; previous_response_id: string | null; prompt_cache_key: string | null;
  reasoning: { effort: string | null; summary: string | null } | null; safety_identifier: string | null; service_tier: string;
  status: string; store: boolean; text: { format: object }; tools: (Described | Exclude<Tool, FunctionTool>)[]; top_logprobs: number;
  truncation: "auto" | "disabled";
}
interface Described extends FunctionTool { description: string | null }
/** The SDK's type has no user messages, which its description names. */
interface Compacted extends Omit<CompactedResponse, "output"> { output: ConversationItem[] }
interface OpenAIError { error: ErrorObject }
interface GeminiError { error: { code: number; message: string; status: string } }
interface Page<Item> { data: Item[]; has_more: boolean; first_id: string | null; last_id: string | null }
interface Models { object: "list"; data: Model[] }

export type createMessage = Message;
export type createMessageEvent = RawMessageStreamEvent | { type: "ping" } | ErrorResponse;
export type createMessageError = ErrorResponse;
export type countMessageTokens = MessageTokensCount;
export type listModels = Page<ModelInfo> | Models | { models: GeminiModel[] };
export type getModel = ModelInfo | Model;
export type getModelError = ErrorResponse | OpenAIError;
export type generateContent = GenerateContentResponse;
export type generateContentError = GeminiError;
export type streamGenerateContent = (GenerateContentResponse | GeminiError)[];
export type streamGenerateContentEvent = GenerateContentResponse | GeminiError;
export type countTokens = CountTokensResponse;
export type listModelsV1beta = { models: GeminiModel[] };
export type getModelV1beta = GeminiModel;
export type createChatCompletion = ChatCompletion;
export type createChatCompletionEvent = ChatCompletionChunk | OpenAIError;
export type createResponse = OpenResponse;
export type createResponseEvent = ResponseStreamEvent;
export type countResponseTokens = InputTokenCountResponse;
export type compactResponse = Compacted;
export type getResponse = OpenResponse;
export type getResponseEvent = ResponseStreamEvent;
export type cancelResponse = OpenResponse;
export type listInputItems = ResponseItemList;
export type createConversation = Conversation;
export type getConversation = Conversation;
export type updateConversation = Conversation;
export type deleteConversation = ConversationDeletedResource;
export type createConversationItems = ConversationItemList;
export type listConversationItems = ConversationItemList;
export type getConversationItem = ConversationItem;
export type deleteConversationItem = Conversation;
export type createImage = ImagesResponse;
export type createImageEvent = ImageGenStreamEvent;
export type editImage = ImagesResponse;
export type editImageEvent = ImageEditStreamEvent;
export type varyImage = ImagesResponse;
export type createEmbedding = CreateEmbeddingResponse;
export type embedContent = { embedding: ContentEmbedding };
export type batchEmbedContents = EmbedContentResponse;
export type openAIError = OpenAIError;
`);

/** The answers that no SDK has a type for. */
const UNTYPED: ReadonlySet<string> = new Set([
  "getTokenUsage",
  "getTokenUsageError",
  "deleteResponse",
  "varyImageEvent",
]);

/** Lists what is wrong with a body by the vendor's type of a name. */
function wrongByVendor(name: string, body: unknown): readonly string[] {
  if (UNTYPED.has(name)) return [];
  const schema = VENDORS[name] ?? (name.endsWith("Error") ? VENDORS["openAIError"] : undefined);
  if (!schema) return [`${name} has no type`];
  const { response } = body as { readonly response?: unknown };
  const wrong = [...wrongBy(VENDORS, schema, body), ...(response ? wrongByVendor("createResponse", response) : [])];
  return wrong.filter((text) => !EXCEPTIONS.some((pattern) => pattern.test(text)));
}

/** What the vendors' types demand and the gateway does not write. */
const EXCEPTIONS: readonly RegExp[] = [
  // The SDK itself joins this text.
  /output_text is missing$/,
  // Open Responses demands null before the end, as the official service writes.
  /usage: null is not ResponseUsage$/,
  // The spec names the types of errors (7.2).
  /error: .*"type":"server_error"/,
  // The spec names the qualities of image-model-3 (2.1), and the official service streams only newer models.
  /^quality: "standard"/,
  // Only image-model-multi counts tokens (2.4).
  /^usage is missing$/,
];

/** The operations whose answers were judged. */
const judged = new Set<string>();

/** Lists the errors of an answer: a wrong status, or a body that its schema refuses. */
async function wrongWith(operationId: string, sent: Sent, status = 200): Promise<readonly unknown[]> {
  const response = await ask(sent);
  const type = response.headers.get("content-type")?.split(";")[0] ?? "";
  const text = await response.text();
  if (response.status !== status) return [response.status, text];
  if (response.ok) judged.add(operationId);
  const judge = judgeOf(answerSchema(document, operationId, status, type));
  const bodies = type === "text/event-stream" ? dataOf(text) : [JSON.parse(text)];
  if (bodies.length === 0) return ["no events"];
  const vendors = `${operationId}${type === "text/event-stream" ? "Event" : status >= 400 ? "Error" : ""}`;
  return bodies.flatMap((body) => [judge(body) ?? [], wrongByVendor(vendors, body)].flat());
}

const said = (content: unknown, more: object = {}): object => ({
  model: "demo-chat",
  max_tokens: 2_000,
  messages: [{ role: "user", content }],
  ...more,
});
const TOOLS = {
  tools: [{ name: "get_weather", input_schema: { type: "object", properties: { place: { type: "string" } } } }],
};
const THINKING = { thinking: { type: "enabled", budget_tokens: 1_024 } };

const contents = (text: string, more: object = {}): object => ({
  contents: [{ role: "user", parts: [{ text }] }],
  ...more,
});
const DECLARED = {
  tools: [{ functionDeclarations: [{ name: "get_weather", parameters: { type: "OBJECT", properties: {} } }] }],
};
const MODEL = "/v1beta/models/demo-chat";
const asked = (input: unknown, more: object = {}): object => ({ model: "demo-chat", input, ...more });

describe("messages", () => {
  it.each<[name: string, body: object]>([
    ["a text", said("Hello")],
    ["a tool call", said("What is the weather?", { ...TOOLS, tool_choice: { type: "any" } })],
    ["thinking", said("Why?", THINKING)],
    ["an empty answer", said("/repeat 0")],
    ["a stop sequence", said("one two three", { stop_sequences: ["two"] })],
  ])("are answered as described: %s", async (_name, body) => {
    expect(await wrongWith("createMessage", { path: "/v1/messages", body })).toEqual([]);
    expect(await wrongWith("createMessage", { path: "/v1/messages", body: { ...body, stream: true } })).toEqual([]);
  });

  it("tell of a failure in the middle as described", async () => {
    const body = said("/break 500 Hello there, all of you", { stream: true });
    expect(await wrongWith("createMessage", { path: "/v1/messages", body })).toEqual([]);
  });

  it.each<[status: number, sent: Partial<Sent>]>([
    [400, { body: said("") }],
    [401, { headers: { "compat-version": "1" } }],
    [429, { headers: { "x-api-key": "sk-empty", "compat-version": "1" } }],
    [503, { body: said("/fail 503") }],
    [504, { body: said("/fail 504") }],
  ])("are refused as described: %s", async (status, sent) => {
    expect(await wrongWith("createMessage", { path: "/v1/messages", body: said("Hi"), ...sent }, status)).toEqual([]);
  });

  it("are counted, and their models listed, as described", async () => {
    const body = said("Hello");
    expect(await wrongWith("countMessageTokens", { path: "/v1/messages/count_tokens", body })).toEqual([]);
    expect(await wrongWith("listModels", { path: "/v1/models" })).toEqual([]);
    expect(await wrongWith("getModel", { path: "/v1/models/demo-chat" })).toEqual([]);
    expect(await wrongWith("getModel", { path: "/v1/models/other" }, 404)).toEqual([]);
  });
});

describe("generate-content", () => {
  it.each<[name: string, body: object]>([
    ["a text", contents("Hello")],
    ["a function call", contents("What is the weather?", DECLARED)],
    ["code", contents("Count to three", { tools: [{ codeExecution: {} }] })],
    ["several candidates", contents("Hello", { generationConfig: { candidateCount: 2 } })],
    ["log probabilities", contents("Hello", { generationConfig: { responseLogprobs: true, logprobs: 2 } })],
    ["thoughts", contents("Why?", { generationConfig: { thinkingConfig: { includeThoughts: true } } })],
    ["a blocked prompt", contents("/block")],
    ["a failure in the middle", contents("/break 500 Hello there, all of you")],
  ])("is answered as described: %s", async (name, body) => {
    const status = name === "a failure in the middle" ? 500 : 200;
    expect(await wrongWith("generateContent", { path: `${MODEL}:generateContent`, body }, status)).toEqual([]);
    const path = `${MODEL}:streamGenerateContent`;
    expect(await wrongWith("streamGenerateContent", { path: `${path}?alt=sse`, body })).toEqual([]);
    expect(await wrongWith("streamGenerateContent", { path, body })).toEqual([]);
  });

  it.each<[status: number, sent: Partial<Sent>]>([
    [400, { body: { contents: [] } }],
    [401, { headers: {} }],
    [403, { headers: { "x-goog-api-key": "sk-empty" } }],
    [404, { path: "/v1beta/models/other:generateContent" }],
    [503, { body: contents("/fail 503") }],
    [504, { body: contents("/fail 504") }],
  ])("is refused as described: %s", async (status, sent) => {
    const path = `${MODEL}:generateContent`;
    expect(await wrongWith("generateContent", { path, body: contents("Hi"), ...sent }, status)).toEqual([]);
  });

  it("is counted, and its models listed, as described", async () => {
    expect(await wrongWith("countTokens", { path: `${MODEL}:countTokens`, body: contents("Hello") })).toEqual([]);
    expect(await wrongWith("listModelsV1beta", { path: "/v1beta/models" })).toEqual([]);
    expect(await wrongWith("getModelV1beta", { path: MODEL })).toEqual([]);
    const headers = { "x-goog-api-key": "sk-demo" };
    expect(await wrongWith("listModels", { path: "/v1/models", headers })).toEqual([]);
  });
});

describe("chat completions", () => {
  const path = "/v1/chat/completions";
  const headers = { authorization: "Bearer sk-demo" };
  const FUNCTION = { tools: [{ type: "function", function: { name: "get_weather", parameters: {} } }] };
  it.each<[name: string, body: object]>([
    ["a text", said("Hello")],
    ["a tool call", said("What is the weather?", { ...FUNCTION, tool_choice: "required" })],
    ["several choices", said("Hello", { n: 2 })],
    ["log probabilities", said("Hello", { logprobs: true, top_logprobs: 2 })],
    ["reasoning", said("Why?", { reasoning_effort: "high" })],
    ["a sound", said("Hello", { modalities: ["text", "audio"], audio: { voice: "any", format: "wav" } })],
    ["an empty answer", said("/repeat 0")],
    ["a blocked prompt", said("/block")],
    ["a failure in the middle", said("/break 500 Hello there, all of you")],
  ])("are answered as described: %s", async (name, body) => {
    const status = name === "a failure in the middle" ? 500 : 200;
    expect(await wrongWith("createChatCompletion", { path, headers, body }, status)).toEqual([]);
    for (const stream_options of [null, { include_usage: true }]) {
      const streamed = { ...body, stream: true, stream_options };
      expect(await wrongWith("createChatCompletion", { path, headers, body: streamed })).toEqual([]);
    }
  });

  it.each<[status: number, sent: Partial<Sent>]>([
    [400, { body: said(1) }],
    [401, { headers: {} }],
    [404, { body: said("Hi", { model: "other" }) }],
    [429, { headers: { authorization: "Bearer sk-empty" } }],
    [503, { body: said("/fail 503") }],
  ])("are refused as described: %s", async (status, sent) => {
    const body = said("Hi");
    expect(await wrongWith("createChatCompletion", { path, headers, body, ...sent }, status)).toEqual([]);
  });

  it("list their models as described", async () => {
    const judge = judges(document)({ $ref: "#/components/schemas/ChatCompletionsModelList" });
    expect(judge(await (await ask({ path: "/v1/models", headers })).json())).toBeUndefined();
    expect(await wrongWith("getModel", { path: "/v1/models/demo-chat", headers })).toEqual([]);
    expect(await wrongWith("getModel", { path: "/v1/models/other", headers }, 404)).toEqual([]);
  });
});

describe("responses", () => {
  const path = "/v1/responses";
  const headers = { authorization: "Bearer sk-demo" };
  const FUNCTION = { tools: [{ type: "function", name: "get_weather", parameters: {} }] };
  const CUSTOM = { tools: [{ type: "custom", name: "get_weather" }], tool_choice: "required" };

  /** Sends a request whose answer has an id, and returns the id. */
  async function idOf(sent: Sent): Promise<string> {
    const { id } = (await (await ask({ headers, ...sent })).json()) as { id: string };
    return id;
  }

  it.each<[name: string, body: object, status?: number]>([
    ["a text", asked("Hello")],
    ["a tool call", asked("What is the weather?", { ...FUNCTION, tool_choice: "required" })],
    ["a call of a custom tool", asked("What is the weather?", CUSTOM)],
    ["a choice of tools", asked("Hello", { ...FUNCTION, tool_choice: { type: "function", name: "get_weather" } })],
    ["log probabilities", asked("Hello", { include: ["message.output_text.logprobs"], top_logprobs: 2 })],
    ["reasoning", asked("Why?", { reasoning: { effort: "high", summary: "auto" } })],
    ["code", asked("Count to three", { tools: [{ type: "code_interpreter", container: { type: "auto" } }] })],
    ["an answer that is cut short", asked("one two three four", { max_output_tokens: 1 })],
    ["an empty answer", asked("/repeat 0")],
    ["a blocked prompt", asked("/block")],
    ["nothing kept", asked("Hello", { store: false, metadata: { topic: "hats" }, user: "someone" })],
    ["a failure in the middle", asked("/break 500 Hello there, all of you"), 500],
  ])("are answered as described: %s", async (_name, body, status = 200) => {
    expect(await wrongWith("createResponse", { path, headers, body }, status)).toEqual([]);
    expect(await wrongWith("createResponse", { path, headers, body: { ...body, stream: true } })).toEqual([]);
  });

  it.each<[status: number, sent: Partial<Sent>]>([
    [400, { body: asked(1) }],
    [401, { headers: {} }],
    [404, { body: asked("Hi", { model: "other" }) }],
    [404, { body: asked("Hi", { previous_response_id: "resp_none" }) }],
    [404, { body: asked("Hi", { conversation: "conv_none" }) }],
    [404, { body: asked([{ type: "item_reference", id: "msg_none" }]) }],
    [429, { headers: { authorization: "Bearer sk-empty" } }],
    [503, { body: asked("/fail 503") }],
  ])("are refused as described: %s %j", async (status, sent) => {
    expect(await wrongWith("createResponse", { path, headers, body: asked("Hi"), ...sent }, status)).toEqual([]);
  });

  it("are counted, kept, listed and deleted as described", async () => {
    const body = asked("Hello");
    expect(await wrongWith("countResponseTokens", { path: `${path}/input_tokens`, headers, body })).toEqual([]);
    const one = `${path}/${await idOf({ path, body })}`;
    expect(await wrongWith("getResponse", { path: one, headers })).toEqual([]);
    expect(await wrongWith("getResponse", { path: `${one}?stream=true`, headers }, 400)).toEqual([]);
    expect(await wrongWith("listInputItems", { path: `${one}/input_items`, headers })).toEqual([]);
    expect(await wrongWith("listInputItems", { path: `${one}/input_items?limit=0`, headers }, 400)).toEqual([]);
    expect(await wrongWith("cancelResponse", { path: `${one}/cancel`, method: "POST", headers }, 400)).toEqual([]);
    expect(await wrongWith("deleteResponse", { path: one, method: "DELETE", headers })).toEqual([]);
    expect(await wrongWith("deleteResponse", { path: one, method: "DELETE", headers }, 404)).toEqual([]);
    expect(await wrongWith("getResponse", { path: one, headers }, 404)).toEqual([]);
    expect(await wrongWith("listInputItems", { path: `${one}/input_items`, headers }, 404)).toEqual([]);
  });

  it("are compacted as described", async () => {
    const items = ["Hello", "there"].map((content) => ({ role: "user", content }));
    expect(await wrongWith("compactResponse", { path: `${path}/compact`, headers, body: asked(items) })).toEqual([]);
    expect(await wrongWith("compactResponse", { path: `${path}/compact`, headers, body: asked(1) }, 400)).toEqual([]);
    for (const stream of [false, true]) {
      const trigger = asked([...items, { type: "compaction_trigger" }], { stream });
      expect(await wrongWith("createResponse", { path, headers, body: trigger })).toEqual([]);
    }
  });

  it("are made in the background, streamed later and cancelled as described", async () => {
    const body = asked("Hello", { background: true });
    expect(await wrongWith("createResponse", { path, headers, body })).toEqual([]);
    const one = `${path}/${await idOf({ path, body })}`;
    expect(await wrongWith("getResponse", { path: `${one}?stream=true`, headers })).toEqual([]);
    expect(await wrongWith("getResponse", { path: `${one}?stream=true&starting_after=1`, headers })).toEqual([]);
    expect(await wrongWith("getResponse", { path: one, headers })).toEqual([]);
    expect(await wrongWith("cancelResponse", { path: `${one}/cancel`, method: "POST", headers })).toEqual([]);
  });

  it("are added to conversations as described", async () => {
    const list = "/v1/conversations";
    const items = [{ role: "user", content: "Hello" }];
    const begun = { path: list, headers, body: { metadata: { topic: "hats" }, items } };
    expect(await wrongWith("createConversation", begun)).toEqual([]);
    expect(await wrongWith("createConversation", { ...begun, body: { items: {} } }, 400)).toEqual([]);
    const conversation = await idOf(begun);
    const one = `${list}/${conversation}`;
    expect(await wrongWith("createResponse", { path, headers, body: asked("Hi", { conversation }) })).toEqual([]);
    expect(await wrongWith("getConversation", { path: one, headers })).toEqual([]);
    expect(await wrongWith("updateConversation", { path: one, headers, body: { metadata: {} } })).toEqual([]);
    expect(await wrongWith("createConversationItems", { path: `${one}/items`, headers, body: { items } })).toEqual([]);
    expect(await wrongWith("listConversationItems", { path: `${one}/items?order=asc`, headers })).toEqual([]);
    const { data } = (await (await ask({ path: `${one}/items`, headers })).json()) as { data: { id: string }[] };
    expect(data).toHaveLength(4);
    const item = `${one}/items/${data[0]?.id}`;
    expect(await wrongWith("getConversationItem", { path: item, headers })).toEqual([]);
    expect(await wrongWith("deleteConversationItem", { path: item, method: "DELETE", headers })).toEqual([]);
    expect(await wrongWith("getConversationItem", { path: item, headers }, 404)).toEqual([]);
    expect(await wrongWith("deleteConversation", { path: one, method: "DELETE", headers })).toEqual([]);
    expect(await wrongWith("getConversation", { path: one, headers }, 404)).toEqual([]);
  });
});

describe("images", () => {
  const HAT = { prompt: "A red hat", size: "256x256" };
  it.each<[operationId: string, path: string, body: unknown]>([
    ["createImage", "/v1/images/generations", HAT],
    ["createImage", "/v1/images/generations", { ...HAT, response_format: "b64_json" }],
    ["createImage", "/v1/images/generations", { prompt: "A hat", model: "image-model-multi", quality: "low" }],
    ["createImage", "/v1/images/generations", { ...HAT, stream: true }],
    [
      "createImage",
      "/v1/images/generations",
      { prompt: "A hat", model: "image-model-multi", quality: "low", stream: true, partial_images: 1 },
    ],
    ["editImage", "/v1/images/edits", formOf(editing({ size: "256x256" }))],
    ["varyImage", "/v1/images/variations", formOf({ image: file(CLEAR), size: "256x256" })],
    ["editImage", "/v1/images/edits", formOf(editing({ size: "256x256", stream: "true" }))],
    ["varyImage", "/v1/images/variations", formOf({ image: file(CLEAR), size: "256x256", stream: "true" })],
  ])("are answered as described: %s %s %j", async (operationId, path, body) => {
    expect(await wrongWith(operationId, { path, body })).toEqual([]);
  });

  it("are refused as described", async () => {
    const path = "/v1/images/generations";
    expect(await wrongWith("createImage", { path, body: {} }, 400)).toEqual([]);
    expect(await wrongWith("createImage", { path, body: HAT, headers: {} }, 401)).toEqual([]);
    expect(await wrongWith("createImage", { path, body: { ...HAT, model: "other" } }, 404)).toEqual([]);
    expect(await wrongWith("getImageFile", { path: "/v1/images/files/none" }, 404)).toEqual([]);
  });
});

/** A question to each format: complete, and the changes that ask for a stream. */
const CALLERS: readonly [
  format: RelayFormat,
  operationId: string,
  version: string,
  sent: Sent,
  streamed: Partial<Sent>,
][] = [
  [
    "messages",
    "createMessage",
    "/v1",
    { path: "/v1/messages", body: said("Why?", { ...TOOLS, ...THINKING }) },
    { body: said("Why?", { ...TOOLS, ...THINKING, stream: true }) },
  ],
  [
    "generate-content",
    "generateContent",
    "/v1beta",
    { path: `${MODEL}:generateContent`, body: contents("Why?", DECLARED) },
    { path: `${MODEL}:streamGenerateContent?alt=sse` },
  ],
  [
    "chat-completions",
    "createChatCompletion",
    "/v1",
    { path: "/v1/chat/completions", body: said("Why?", { reasoning_effort: "high" }) },
    { body: said("Why?", { stream: true, stream_options: { include_usage: true } }) },
  ],
  [
    "responses",
    "createResponse",
    "/v1",
    { path: "/v1/responses", body: asked("Why?", { reasoning: { summary: "auto" } }) },
    { body: asked("Why?", { reasoning: { summary: "auto" }, stream: true }) },
  ],
];
const RECORDINGS = join(import.meta.dirname, "..", "recordings", "upstream");

describe.each(CALLERS)("answers of upstreams of %s", (format, _operationId, version) => {
  /** The answer of the upstream. Undefined lets the demo answer. */
  let recorded: { readonly text: string; readonly type: string } | undefined;
  const through = createGateway({
    backend: relay({
      format,
      baseUrl: `http://localhost${version}`,
      apiKey: "sk-demo",
      fetch: async (url, init) =>
        recorded
          ? new Response(recorded.text, { headers: { "content-type": recorded.type } })
          : gateway.fetch(new Request(url, init)),
    }),
    quotas: memoryQuotaStore(demoKeys),
    onFailure: () => {},
  });

  it.each(CALLERS.filter(([caller]) => caller !== format))(
    "are answered as described to callers of %s",
    async (_caller, operationId, _version, sent, streamed) => {
      const wrong: Record<string, unknown> = {};
      const judge = async (name: string, isStream: boolean): Promise<void> => {
        const id = isStream && operationId === "generateContent" ? "streamGenerateContent" : operationId;
        const found = await wrongWith(id, { ...sent, ...(isStream && streamed), through });
        // An upstream that fails is another test's.
        if (found.length > 0 && typeof found[0] !== "number")
          wrong[`${name}, ${isStream ? "streamed" : "complete"}`] = found;
      };
      recorded = undefined;
      await judge("the demo", false);
      await judge("the demo", true);
      for (const name of readdirSync(join(RECORDINGS, format)).filter((file) => /\.(?:txt|json)$/.test(file))) {
        const isStream = name.endsWith("txt");
        const text = readFileSync(join(RECORDINGS, format, name), "utf8");
        recorded = { text, type: isStream ? "text/event-stream" : "application/json" };
        await judge(name, isStream);
      }
      expect(wrong).toEqual({});
    },
  );
});

it("embeddings are answered as described", async () => {
  const model = "models/demo-embedding";
  const content = { parts: [{ text: "Hello" }] };
  const body = { model: "demo-embedding", input: ["Hello", "there"] };
  expect(await wrongWith("createEmbedding", { path: "/v1/embeddings", body })).toEqual([]);
  const one = { path: `/v1beta/${model}:embedContent`, body: { content } };
  expect(await wrongWith("embedContent", one)).toEqual([]);
  const batch = { path: `/v1beta/${model}:batchEmbedContents`, body: { requests: [{ model, content }] } };
  expect(await wrongWith("batchEmbedContents", batch)).toEqual([]);
});

it("token usage is answered and refused as described", async () => {
  const path = "/api/usage/token";
  expect(await wrongWith("getTokenUsage", { path })).toEqual([]);
  expect(await wrongWith("getTokenUsage", { path, headers: {} }, 401)).toEqual([]);
  expect(await wrongWith("getTokenUsage", { path, headers: { authorization: "Bearer sk-none" } }, 401)).toEqual([]);
});

it("a field that no schema has would be seen", () => {
  const judge = judgeOf(answerSchema(document, "getTokenUsage", 401, "application/json"));
  expect(judge({ success: false, message: "No." })).toBeUndefined();
  expect(judge({ success: false, message: "No.", more: 1 })).toContain("must NOT have additional properties");
});

it("the types that the encoders write are those of the schemas", () => {
  expectTypeOf<OpenAIErrorBody>().toExtend<v.InferInput<typeof OpenAIError>>();
});

it("an answer of every operation is judged", () => {
  const ids = operationsOf(document).map(({ operation }) => operation.operationId);
  // A file is no JSON.
  expect(ids.filter((id) => !judged.has(id) && id !== "getImageFile")).toEqual([]);
});

it("tells the host of no failure but those that the demo was asked for", () => {
  expect(failures.filter((text) => !text.includes("The demo was asked to fail"))).toEqual([]);
  expect(failures).not.toEqual([]);
});
