/**
 * Every field and type of the official SDKs of messages, beta ones included, and of generate-content: an upstream of the format gets it as it
 * came, and an upstream of another format does not get it in silence. The compiler asks for a row when an SDK has a new one.
 */

import Anthropic from "@anthropic-ai/sdk";
import type * as Beta from "@anthropic-ai/sdk/resources/beta/messages/messages";
import {
  type GenerateContentConfig,
  GoogleGenAI,
  type HarmBlockThreshold,
  type HarmCategory,
  type MediaResolution,
  type ThinkingLevel,
  type Tool,
  type Type,
} from "@google/genai";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type CallRecord } from "../../../src/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";

type Params = Beta.MessageCreateParamsBase;
type OfType<Union, Type> = Union extends { type?: infer Types } ? (Type extends Types ? Union : never) : never;
type Rows<Union extends { type?: string | null }> = {
  readonly [Type in NonNullable<Union["type"]>]: OfType<Union, Type>;
};
type Change = Partial<Params>;

/** The fields that the spec has, and those that the SDK sends as headers. */
type Known = "max_tokens" | "messages" | "model" | "metadata" | "stop_sequences" | "stream" | "system" | "tools";
type Headers = "betas" | "user_profile_id" | "workspace_id";

const HI = { role: "user", content: "Hi" } as const;
const FUNCTION: Beta.BetaTool = { name: "f", input_schema: { type: "object" } };

/** The gateway refuses a `thread`, and the SDK sends `output_format` as `output_config`. */
type NotSent = "thread" | "output_format";

const FIELDS: { readonly [Field in Exclude<keyof Params, Known | Headers | NotSent>]-?: NonNullable<Params[Field]> } = {
  billing_policy: { type: "billing_policy", bill_to: "self" },
  cache_control: { type: "ephemeral", ttl: "1h" },
  compaction: { type: "summarize", instructions: "Be short" },
  container: { id: "container_1", skills: [{ type: "anthropic", skill_id: "xlsx", version: "latest" }] },
  context_management: {
    edits: [
      { type: "clear_tool_uses_20250919", keep: { type: "tool_uses", value: 3 }, exclude_tools: ["memory"] },
      { type: "clear_thinking_20251015", keep: "all" },
      { type: "compact_20260112", trigger: { type: "input_tokens", value: 100_000 } },
    ],
  },
  diagnostics: { previous_message_id: "msg_1" },
  fallback_credit_token: { token: "credit_1", mode: "best_effort" },
  fallbacks: [{ model: "m2", max_tokens: 40, speed: "fast" }],
  inference_geo: "eu",
  mcp_servers: [
    {
      type: "url",
      name: "tracker",
      url: "https://mcp.example",
      authorization_token: "secret",
      tool_configuration: { enabled: true, allowed_tools: ["search"] },
    },
  ],
  output_config: {
    effort: "high",
    format: { type: "json_schema", schema: { type: "object" } },
    task_budget: { type: "tokens", total: 20_000, remaining: 10_000 },
  },
  service_tier: "standard_only",
  speed: "fast",
  thinking: { type: "adaptive", display: "updates", block_binding: { prefix_mismatch_behavior: "drop_block" } },
  tool_choice: { type: "none" },
};

const CALLERS = ["direct", "code_execution_20260120"] as const;
const TOOLS: Rows<Beta.BetaToolUnion> = {
  custom: {
    type: "custom",
    ...FUNCTION,
    allowed_callers: [...CALLERS],
    defer_loading: true,
    input_examples: [{ a: 1 }],
    eager_input_streaming: true,
  },
  bash_20241022: { type: "bash_20241022", name: "bash" },
  bash_20250124: { type: "bash_20250124", name: "bash", strict: true },
  code_execution_20250522: { type: "code_execution_20250522", name: "code_execution" },
  code_execution_20250825: { type: "code_execution_20250825", name: "code_execution" },
  code_execution_20260120: { type: "code_execution_20260120", name: "code_execution" },
  code_execution_20260521: { type: "code_execution_20260521", name: "code_execution" },
  browser_toolset_20260801: { type: "browser_toolset_20260801", configs: { navigate: { enabled: true } } },
  computer_20241022: { type: "computer_20241022", name: "computer", display_height_px: 600, display_width_px: 800 },
  memory_20250818: { type: "memory_20250818", name: "memory", input_examples: [{ command: "view" }] },
  computer_20250124: { type: "computer_20250124", name: "computer", display_height_px: 600, display_width_px: 800 },
  text_editor_20241022: { type: "text_editor_20241022", name: "str_replace_editor" },
  computer_20251124: {
    type: "computer_20251124",
    name: "computer",
    display_height_px: 600,
    display_width_px: 800,
    enable_zoom: true,
  },
  computer_toolset_20260801: { type: "computer_toolset_20260801", configs: { zoom: { enabled: true } } },
  text_editor_20250124: { type: "text_editor_20250124", name: "str_replace_editor" },
  text_editor_20250429: { type: "text_editor_20250429", name: "str_replace_based_edit_tool" },
  text_editor_20250728: {
    type: "text_editor_20250728",
    name: "str_replace_based_edit_tool",
    max_characters: 1_000,
  },
  web_search_20250305: { type: "web_search_20250305", name: "web_search", max_uses: 2 },
  web_fetch_20250910: { type: "web_fetch_20250910", name: "web_fetch", citations: { enabled: true } },
  web_search_20260209: { type: "web_search_20260209", name: "web_search" },
  web_fetch_20260209: { type: "web_fetch_20260209", name: "web_fetch" },
  web_fetch_20260309: { type: "web_fetch_20260309", name: "web_fetch", use_cache: false },
  web_search_20260318: { type: "web_search_20260318", name: "web_search" },
  web_fetch_20260318: { type: "web_fetch_20260318", name: "web_fetch", response_inclusion: "excluded" },
  advisor_20260301: { type: "advisor_20260301", name: "advisor", model: "m2", max_uses: 1 },
  tool_search_tool_bm25_20251119: { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" },
  tool_search_tool_bm25: { type: "tool_search_tool_bm25", name: "tool_search_tool_bm25" },
  tool_search_tool_regex_20251119: { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" },
  tool_search_tool_regex: { type: "tool_search_tool_regex", name: "tool_search_tool_regex" },
  mcp_toolset: {
    type: "mcp_toolset",
    mcp_server_name: "tracker",
    default_config: { enabled: false },
    configs: { search: { enabled: true } },
  },
};

const TEXT = { type: "text", text: "Four" } as const;
const CALLER = { type: "code_execution_20260120", tool_id: "srvtoolu_1" } as const;
const ID = { tool_use_id: "srvtoolu_1" } as const;

/** The blocks that only this format has. The spec's own are converted, with fields that are not. */
const BLOCKS: Rows<Beta.BetaContentBlockParam> = {
  text: {
    ...TEXT,
    citations: [
      {
        type: "char_location",
        cited_text: "4",
        document_index: 0,
        document_title: null,
        start_char_index: 0,
        end_char_index: 1,
      },
    ],
  },
  image: {
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" },
    transformations: { oversized_image: "downsize" },
  },
  document: { type: "document", source: { type: "file", file_id: "file_1" }, title: "A" },
  search_result: { type: "search_result", source: "https://a.example", title: "A", content: [TEXT] },
  thinking: { type: "thinking", thinking: "Hm", signature: "sig" },
  redacted_thinking: { type: "redacted_thinking", data: "xyz" },
  tool_use: { type: "tool_use", id: "toolu_1", name: "f", input: {}, caller: CALLER },
  tool_result: {
    type: "tool_result",
    tool_use_id: "toolu_0",
    toolset_name: "browser_toolset",
    content: [
      { type: "tool_reference", tool_name: "f" },
      { type: "browser_state", tabs: [{ tab_id: "1", url: "https://a.example", title: "A", active: true }] },
    ] as unknown as Beta.BetaToolResultBlockParam["content"] & unknown[],
  },
  server_tool_use: { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "q" } },
  web_search_tool_result: {
    type: "web_search_tool_result",
    ...ID,
    content: [{ type: "web_search_result", url: "https://a.example", title: "A", encrypted_content: "x" }],
  },
  web_fetch_tool_result: {
    type: "web_fetch_tool_result",
    ...ID,
    content: { type: "web_fetch_tool_result_error", error_code: "unavailable" },
  },
  advisor_tool_result: { type: "advisor_tool_result", ...ID, content: { type: "advisor_result", text: "Do" } },
  code_execution_tool_result: {
    type: "code_execution_tool_result",
    ...ID,
    content: {
      type: "code_execution_result",
      stdout: "4",
      stderr: "",
      return_code: 0,
      content: [{ type: "code_execution_output", file_id: "file_1" }],
    },
  },
  bash_code_execution_tool_result: {
    type: "bash_code_execution_tool_result",
    ...ID,
    content: { type: "bash_code_execution_result", stdout: "4", stderr: "", return_code: 0, content: [] },
  },
  text_editor_code_execution_tool_result: {
    type: "text_editor_code_execution_tool_result",
    ...ID,
    content: { type: "text_editor_code_execution_create_result", is_file_update: false },
  },
  tool_search_tool_result: {
    type: "tool_search_tool_result",
    ...ID,
    content: {
      type: "tool_search_tool_search_result",
      tool_references: [{ type: "tool_reference", tool_name: "f" }],
    },
  },
  mcp_tool_use: { type: "mcp_tool_use", id: "mcptoolu_1", name: "search", server_name: "tracker", input: {} },
  mcp_tool_result: { type: "mcp_tool_result", tool_use_id: "mcptoolu_1", content: [TEXT] },
  container_upload: { type: "container_upload", file_id: "file_1" },
  compaction: { type: "compaction", content: "They said hi", encrypted_content: "x", signature: "s" },
  tool_addition: { type: "tool_addition", tool: { type: "tool_reference", name: "f" } },
  tool_removal: { type: "tool_removal", tool: { type: "tool_reference", name: "f" } },
  mcp_tool_listing: {
    type: "mcp_tool_listing",
    mcp_server_name: "tracker",
    tools: [{ name: "search", input_schema: {} }],
  },
  fallback: { type: "fallback", from: { model: "m" }, to: { model: "m2" } },
};
/** The blocks of the user. All others are the assistant's. */
const OF_USER: ReadonlySet<string> = new Set([
  "image",
  "document",
  "search_result",
  "tool_result",
  "container_upload",
  "tool_addition",
  "tool_removal",
]);
/** The blocks that other formats have, too. */
const CONVERTED: ReadonlySet<string> = new Set(["document", "thinking", "redacted_thinking"]);

const conversation = (block: Beta.BetaContentBlockParam): Params["messages"] =>
  OF_USER.has(block.type)
    ? [
        HI,
        { role: "assistant", content: [{ type: "tool_use", id: "toolu_0", name: "f", input: {} }] },
        { role: "user", content: [block, TEXT] },
      ]
    : [HI, { role: "assistant", content: [block, TEXT] }, HI];

const entries = <Rows extends object>(rows: Rows): [keyof Rows & string, Rows[keyof Rows & string]][] =>
  Object.entries(rows) as [keyof Rows & string, Rows[keyof Rows & string]][];

/** The conversion to other formats: `named` as lost, `exact`, or `refused`, because it cannot be left out. */
type Outcome = "named" | "exact" | "refused";

const CHANGES: readonly (readonly [name: string, change: Change, outcome: Outcome])[] = [
  ...entries(FIELDS).map(([field, value]): [string, Change, Outcome] => [
    field,
    { [field]: value },
    field === "tool_choice" || field === "service_tier" ? "exact" : "named",
  ]),
  ...entries(TOOLS).map(([type, tool]): [string, Change, Outcome] => [`tool ${type}`, { tools: [tool] }, "named"]),
  ...entries(BLOCKS).map(([type, block]): [string, Change, Outcome] => [
    `block ${type}`,
    { tools: [FUNCTION], messages: conversation(block) },
    type === "compaction" ? "refused" : CONVERTED.has(type) ? "exact" : "named",
  ]),
  ["thinking between tools", { thinking: { type: "between_tools" } }, "named"],
  [
    "a choice among the tools of a server",
    { tools: [TOOLS.mcp_toolset], mcp_servers: FIELDS.mcp_servers, tool_choice: { type: "tool", name: "search" } },
    "refused",
  ],
  [
    "settings in between",
    {
      messages: [
        HI,
        { role: "system", content: "Be short", clear_at: "next_user_message" },
        { role: "assistant", content: "Yes" },
        { role: "system", output_config: { effort: "low" } },
        HI,
      ],
    },
    "named",
  ],
];

const USAGE = { input_tokens: 11, output_tokens: 7 };
const ANSWERS: Readonly<Record<Exclude<RelayFormat, "images">, object>> = {
  messages: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [TEXT],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: USAGE,
  },
  "generate-content": {
    candidates: [{ content: { role: "model", parts: [{ text: "Four" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, cachedContentTokenCount: 6 },
  },
  "chat-completions": {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "Four" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
  },
  responses: {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "m",
    status: "completed",
    output: [
      {
        id: "msg_1",
        type: "message",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: "Four", annotations: [] }],
      },
    ],
    usage: { ...USAGE, total_tokens: 18 },
  },
};

const OTHERS = ["generate-content", "chat-completions", "responses"] as const;

function open(format: keyof typeof ANSWERS, answer: object | string = ANSWERS[format], strict = false) {
  const sent: { readonly body: Record<string, unknown>; readonly headers: globalThis.Headers; readonly url: string }[] =
    [];
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend: relay({
      format,
      strict,
      baseUrl: "http://up.test/v1",
      async fetch(url, init) {
        sent.push({
          url,
          body: JSON.parse(init?.body as string) as Record<string, unknown>,
          headers: new globalThis.Headers(init?.headers as Record<string, string>),
        });
        if (url.endsWith("/count_tokens")) return Response.json({ input_tokens: 5 });
        const head = { headers: { "content-type": "text/event-stream" } };
        return typeof answer === "string" ? new Response(answer, head) : Response.json(answer);
      },
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    messages: { imageSources: "vendor" },
    onCall: (record) => void records.push(record),
    onFailure: () => {},
  });
  const received: unknown[] = [];
  const fetch = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(url, init);
    received.push(await request.clone().json());
    return gateway.fetch(request);
  };
  const baseUrl = "http://gateway.test";
  const { messages } = new Anthropic({ apiKey: "sk-test", baseURL: baseUrl, maxRetries: 0, fetch }).beta;
  const { models } = new GoogleGenAI({ apiKey: "sk-test", httpOptions: { baseUrl, fetch } });
  return { messages, models, sent, received, records };
}

const BASE = { model: "m", max_tokens: 50, messages: [HI] } satisfies Partial<Params>;

const namedIn = (headers: Readonly<Record<string, string>> = {}): Outcome =>
  headers["polygate-dropped"] === undefined && headers["polygate-approximated"] === undefined ? "exact" : "named";
const refusedAs400 = (error: unknown): Outcome => {
  if ((error as { readonly status?: unknown }).status === 400) return "refused";
  throw error;
};

describe.each(CHANGES)("%s", (_name, change, outcome) => {
  it("reaches an upstream of the format as it came, with its betas", async () => {
    const { messages, sent } = open("messages");
    const asked = { ...BASE, ...change };
    await messages.create({ ...asked, betas: ["new-2026-11-01", "newer-2026-11-02"] });
    expect(sent[0]?.body).toEqual(asked);
    expect(sent[0]?.headers.get("anthropic-beta")).toBe("new-2026-11-01,newer-2026-11-02");
  });

  it.each(outcome === "exact" ? [] : OTHERS)("is named where the upstream speaks %s", async (format) => {
    const strict = open(format, undefined, true);
    await expect(strict.messages.create({ ...BASE, ...change })).rejects.toMatchObject({ status: 400 });
    expect(strict.sent).toEqual([]);
    const asking = open(format).messages.create({ ...BASE, ...change });
    const told = await asking.asResponse().then(({ headers }) => namedIn(Object.fromEntries(headers)), refusedAs400);
    expect(told).toBe(outcome);
  });
});

const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
const NO_CACHE = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
const CONTEXT = {
  applied_edits: [{ type: "clear_tool_uses_20250919", cleared_tool_uses: 8, cleared_input_tokens: 900 }],
};
const ITERATIONS = [
  {
    type: "compaction",
    input_tokens: 5_000,
    output_tokens: 2_000,
    cache_creation_input_tokens: 30,
    cache_read_input_tokens: 400,
    cache_creation: { ephemeral_1h_input_tokens: 30 },
  },
  { type: "advisor_message", model: "m2", input_tokens: 600, output_tokens: 70, ...NO_CACHE },
  { type: "message", ...USAGE, ...NO_CACHE },
  { type: "new" },
];
const COMPACTED = {
  ...ANSWERS.messages,
  content: [{ type: "compaction", content: "They said hi", encrypted_content: "x" }],
  container: { id: "container_1", expires_at: "2026-12-01T00:00:00Z", skills: null },
  context_management: CONTEXT,
  stop_reason: "compaction",
  usage: { ...USAGE, ...NO_CACHE, iterations: ITERATIONS },
};
const COMPACTED_STREAM = [
  event("message_start", {
    message: { ...COMPACTED, content: [], stop_reason: null, usage: { ...USAGE, ...NO_CACHE, output_tokens: 0 } },
  }),
  event("content_block_start", { index: 0, content_block: { type: "compaction", content: null } }),
  event("content_block_delta", {
    index: 0,
    delta: { type: "compaction_delta", content: "They said hi", encrypted_content: "x" },
  }),
  event("content_block_stop", { index: 0 }),
  event("message_delta", {
    delta: { stop_reason: "compaction", stop_sequence: null, usage: USAGE },
    context_management: CONTEXT,
    usage: COMPACTED.usage,
  }),
  event("message_stop", {}),
].join("");

it.each([false, true])(
  "a summary of the context and the advice of another model are charged, and shown as they came (stream: %s)",
  async (isStream) => {
    const { messages, records } = open("messages", isStream ? COMPACTED_STREAM : COMPACTED);
    const asked = { ...BASE, context_management: FIELDS.context_management, tools: [TOOLS.advisor_20260301] };
    const answer = isStream
      ? await messages.stream({ ...asked, betas: ["compact-2026-01-12"] }).finalMessage()
      : await messages.create(asked);
    expect(answer).toMatchObject({
      stop_reason: "compaction",
      context_management: CONTEXT,
      content: [{ type: "compaction", content: "They said hi", encrypted_content: "x" }],
      usage: { ...USAGE, iterations: ITERATIONS },
    });
    expect(records).toMatchObject([
      {
        certainty: "exact",
        usage: {
          inputTokens: 11 + 5_000 + 30 + 400 + 600,
          outputTokens: 7 + 2_000 + 70,
          cacheReadTokens: 400,
          cacheWriteTokens: 30,
          cacheWritesByTtl: { "1h": 30 },
        },
        units: 11 + 5_430 + 600 + 7 + 2_070,
      },
    ]);
  },
);

/** The fields that the official service takes in a count of tokens. */
const COUNTED = {
  billing_policy: true,
  cache_control: true,
  compaction: true,
  context_management: true,
  mcp_servers: true,
  output_config: true,
  speed: true,
  thinking: true,
  tool_choice: true,
} satisfies Partial<Record<keyof typeof FIELDS & keyof Beta.MessageCountTokensParams, true>>;

it("a count of tokens has the fields that the service takes in one, and no other", async () => {
  const { messages, sent } = open("messages");
  // The gateway also counts a whole request before it sends it.
  await messages.countTokens({ ...BASE, ...FIELDS, tools: [TOOLS.memory_20250818] });
  expect(sent.map(({ url }) => url)).toEqual(["http://up.test/v1/messages/count_tokens"]);
  expect(Object.keys(sent[0]?.body ?? {}).toSorted()).toEqual(
    ["messages", "model", "tools", ...Object.keys(COUNTED)].toSorted(),
  );
});

/** The fields that the SDK keeps for itself, and those that only Google's cloud takes, which the SDK does not send here. */
type OfClient =
  | "httpOptions"
  | "abortSignal"
  | "automaticFunctionCalling"
  | "automaticContinuation"
  | "routingConfig"
  | "modelSelectionConfig"
  | "labels"
  | "audioTimestamp"
  | "modelArmorConfig"
  | "generationOutputConfig";
type Config = Required<Omit<GenerateContentConfig, OfClient>>;

const CONFIG: { readonly [Field in keyof Config]: readonly [value: Config[Field], outcome?: Outcome] } = {
  serviceTier: ["flex" as Config["serviceTier"], "exact"],
  systemInstruction: ["Be short", "exact"],
  temperature: [0.5, "exact"],
  topP: [0.5, "exact"],
  topK: [5, "exact"],
  candidateCount: [1, "exact"],
  maxOutputTokens: [50, "exact"],
  stopSequences: [["."], "exact"],
  responseLogprobs: [true, "exact"],
  logprobs: [2, "exact"],
  presencePenalty: [0.5, "exact"],
  frequencyPenalty: [0.5, "exact"],
  seed: [7, "exact"],
  responseMimeType: ["application/json", "exact"],
  responseSchema: [{ type: "OBJECT" as Type, properties: { a: { type: "STRING" as Type } } }, "exact"],
  responseJsonSchema: [{ type: "object" }, "exact"],
  safetySettings: [
    [{ category: "HARM_CATEGORY_HARASSMENT" as HarmCategory, threshold: "BLOCK_NONE" as HarmBlockThreshold }],
  ],
  tools: [[{ googleMaps: {} }]],
  toolConfig: [{ retrievalConfig: { languageCode: "de" }, includeServerSideToolInvocations: true }],
  cachedContent: ["cachedContents/abc", "refused"],
  responseModalities: [["TEXT", "IMAGE"]],
  mediaResolution: ["MEDIA_RESOLUTION_LOW" as MediaResolution],
  speechConfig: [{ voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } }],
  thinkingConfig: [{ thinkingLevel: "HIGH" as ThinkingLevel, includeThoughts: true }, "exact"],
  audioTranscriptionConfig: [{}, "exact"],
  imageConfig: [{ aspectRatio: "16:9", imageSize: "2K" }],
  enableEnhancedCivicAnswers: [true],
  continuationToken: ["token"],
  store: [true],
};
/** The tools that only Google's cloud has, and those that other formats have, too. */
type NotAsked =
  | "retrieval"
  | "enterpriseWebSearch"
  | "exaAiSearch"
  | "parallelAiSearch"
  | "functionDeclarations"
  | "codeExecution";
const SERVICES: { readonly [Kind in keyof Required<Omit<Tool, NotAsked>>]: object } = {
  googleMaps: { enableWidget: true },
  mcpServers: [{ name: "tracker", streamableHttpTransport: { url: "https://mcp.example" } }],
  computerUse: { environment: "ENVIRONMENT_BROWSER" },
  googleSearch: { timeRangeFilter: { startTime: "2026-01-01T00:00:00Z", endTime: "2026-02-01T00:00:00Z" } },
  googleSearchRetrieval: { dynamicRetrievalConfig: { mode: "MODE_DYNAMIC" } },
  urlContext: {},
  fileSearch: { fileSearchStoreNames: ["fileSearchStores/a"], topK: 2 },
};

const CONFIGS: readonly (readonly [name: string, config: GenerateContentConfig, outcome: Outcome])[] = [
  ...entries(CONFIG).map(([field, [value, outcome = "named"]]): [string, GenerateContentConfig, Outcome] => {
    // A schema and probabilities need other fields.
    const schema = field.startsWith("response") && field.endsWith("Schema") && { responseMimeType: "application/json" };
    const probabilities = field === "logprobs" && { responseLogprobs: true };
    return [field, { ...schema, ...probabilities, [field]: value }, outcome];
  }),
  ...entries(SERVICES).map(([kind, service]): [string, GenerateContentConfig, Outcome] => [
    `tool ${kind}`,
    { tools: [{ [kind]: service }] },
    "named",
  ]),
];

describe.each(CONFIGS)("%s of generate-content", (_name, config, outcome) => {
  const asked = { model: "m", contents: "Hi", config };

  it("reaches an upstream of the format as it came", async () => {
    const { models, sent, received, records } = open("generate-content");
    await models.generateContent(asked);
    expect(sent[0]?.body).toMatchObject(received[0] as object);
    expect(records).toMatchObject([{ usage: { inputTokens: 11, cacheReadTokens: 6, outputTokens: 7 } }]);
  });

  it.each(outcome === "exact" ? [] : (["messages", "chat-completions", "responses"] as const))(
    "is named where the upstream speaks %s",
    async (format) => {
      const strict = open(format, undefined, true);
      await expect(strict.models.generateContent(asked)).rejects.toMatchObject({ status: 400 });
      expect(strict.sent).toEqual([]);
      const asking = open(format).models.generateContent(asked);
      const told = await asking.then(({ sdkHttpResponse }) => namedIn(sdkHttpResponse?.headers), refusedAs400);
      expect(told).toBe(outcome);
    },
  );
});
