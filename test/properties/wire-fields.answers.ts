/** Answers of upstreams that have, among them, every field that is read of their formats. */

const usage = {
  input_tokens: 9,
  output_tokens: 9,
  cache_creation_input_tokens: 3,
  cache_read_input_tokens: 2,
  output_tokens_details: { thinking_tokens: 4 },
  cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
  server_tool_use: { web_search_requests: 1 },
  service_tier: "priority",
  speed: "fast",
  inference_geo: "us",
  iterations: [{ type: "compaction", input_tokens: 5, output_tokens: 6 }],
};
const cited = { type: "web_search_result_location", url: "https://a.example", title: "A", cited_text: "Hi" };
const quoted = { type: "search_result_location", source: "https://a.example" };
const located = { type: "char_location", document_title: "Tale", cited_text: "Hi" };
const blocks = [
  { type: "thinking", thinking: "Hm", signature: "c2VhbA==" },
  { type: "redacted_thinking", data: "c2VhbA==" },
  { type: "text", text: "Hi", citations: [cited, quoted, located] },
  { type: "tool_use", id: "t_1", name: "f", input: { a: 1 }, caller: { type: "direct" } },
  { type: "server_tool_use", id: "s_1", name: "web_search", input: { a: 1 } },
];
const message = { id: "msg_1", type: "message", role: "assistant", model: "m", usage };

export const MESSAGE: object = {
  ...message,
  content: blocks,
  stop_reason: "stop_sequence",
  stop_sequence: "END",
};

/** How a block begins, and what is added to it. */
const GROWING: readonly (readonly [content_block: object, deltas: readonly object[]])[] = [
  ...blocks.map((content_block) => [content_block, []] as const),
  [
    { type: "thinking", thinking: "H" },
    [
      { type: "thinking_delta", thinking: "Hm" },
      { type: "signature_delta", signature: "c2VhbA==" },
    ],
  ],
  [
    { type: "text", text: "H" },
    [
      { type: "text_delta", text: "Hi" },
      { type: "citations_delta", citation: cited },
      { type: "citations_delta", citation: quoted },
      { type: "citations_delta", citation: located },
      { type: "moon_delta", moon: "full" },
    ],
  ],
  [
    { type: "tool_use", id: "t_2", name: "f", caller: { type: "direct" } },
    [{ type: "input_json_delta", partial_json: '{"a":1}' }],
  ],
];

export const MESSAGE_FRAMES: readonly object[] = [
  { type: "message_start", message },
  ...GROWING.flatMap(([content_block, deltas], index) => [
    { type: "content_block_start", index, content_block },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ]),
  { type: "moon_rise", moon: "full" },
  { type: "message_delta", delta: { stop_reason: "stop_sequence", stop_sequence: "END", usage } },
  { type: "message_delta", delta: {}, usage },
  { type: "message_stop" },
];

const logprob = { token: "Hi", logprob: -1 };
const said = {
  role: "assistant",
  content: "Hi",
  refusal: "No",
  reasoning_content: "Hm",
  tool_calls: [
    {
      index: 0,
      type: "function",
      id: "c_1",
      function: { name: "f", arguments: "{}" },
      extra_content: { google: { thought_signature: "s" } },
    },
    { index: 1, type: "custom", id: "c_2", custom: { name: "g", input: "Hi" } },
  ],
  annotations: [
    { type: "url_citation", url_citation: { url: "https://a.example", title: "A", start_index: 1, end_index: 2 } },
  ],
  extra_content: { google: { thought_signature: "s" } },
  audio: { data: "AAAA", transcript: "Hi" },
  images: [
    { type: "image_url", index: 0, image_url: { url: "data:image/png;base64,AAAA" } },
    { type: "image_url", index: 1, image_url: { url: "https://a.example/1.png" } },
  ],
};
const chat = {
  object: "chat.completion",
  created: 1,
  id: "chatcmpl_1",
  model: "m",
  service_tier: "flex",
  usage: {
    prompt_tokens: 9,
    completion_tokens: 9,
    total_tokens: 18,
    prompt_tokens_details: {
      cached_tokens: 2,
      cache_write_tokens: 1,
      audio_tokens: 1,
      image_tokens: 1,
      video_tokens: 1,
      web_search_requests: 1,
    },
    completion_tokens_details: {
      reasoning_tokens: 1,
      audio_tokens: 1,
      image_tokens: 1,
      video_tokens: 1,
      accepted_prediction_tokens: 1,
      rejected_prediction_tokens: 1,
    },
  },
};
const toolCounts = {
  num_search_queries: 1,
  server_tool_use: { web_fetch_requests: 1 },
  server_side_tool_usage_details: { x_search_calls: 1 },
};
const logprobs = { content: [{ ...logprob, bytes: [72, 105], top_logprobs: [{ ...logprob, bytes: [72, 105] }] }] };

interface Chat extends Readonly<Record<string, unknown>> {
  readonly choices: readonly {
    readonly index: number;
    readonly message: object;
    readonly logprobs?: object;
    readonly usage?: object;
    readonly finish_reason: string;
  }[];
}

/** Each is a chunk of a stream as well, with its messages as deltas. */
export const CHATS: readonly Chat[] = [
  { ...chat, choices: [{ index: 0, message: said, logprobs, finish_reason: "length" }] },
  {
    usage: { ...chat.usage, prompt_tokens_details: {}, prompt_cache_hit_tokens: 2, ...toolCounts },
    choices: [
      {
        index: 0,
        message: {
          content: [{ type: "text", text: "Hi" }],
          reasoning: "Hm",
          function_call: { name: "f", arguments: "{}" },
        },
        finish_reason: "stop",
      },
      { index: 1, message: { thinking: "Hm" }, finish_reason: "stop" },
    ],
  },
  {
    choices: [
      {
        index: 0,
        message: {
          content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }], closed: true }],
          reasoning_details: [
            { type: "reasoning.text", text: "Hm", signature: "s", index: 0 },
            { type: "reasoning.summary", summary: "Hm" },
            { type: "reasoning.encrypted", data: "d" },
          ],
        },
        usage: chat.usage,
        finish_reason: "stop",
      },
    ],
  },
  {
    choices: [
      {
        index: 0,
        message: { content: "Hi" },
        usage: { prompt_tokens: 9, completion_tokens: 9, prompt_cache_hit_tokens: 2, ...toolCounts },
        finish_reason: "stop",
      },
    ],
  },
];

export const CHAT_CHUNKS: readonly (readonly object[])[] = CHATS.map(({ choices, ...chunk }) => [
  {
    obfuscation: "xx",
    ...chunk,
    choices: choices.map(({ index, message: delta, ...end }) => ({ index, delta, ...end })),
  },
]);

const rating = { category: "HARM_CATEGORY_HARASSMENT", probability: "LOW", blocked: true };
const rare = { category: "HARM_CATEGORY_MOON", probability: "FULL" };
const marks = { thoughtSignature: "c2VhbA==" };
const tokens = [
  { modality: "TEXT", tokenCount: 1 },
  { modality: "MOON", tokenCount: 1 },
];
const chosen = { token: "Hi", tokenId: 1, logProbability: -1 };

export const CONTENTS: object[] = [
  {
    responseId: "resp_1",
    modelVersion: "m",
    promptFeedback: { blockReason: "SAFETY", safetyRatings: [rating, rare] },
    usageMetadata: {
      promptTokenCount: 9,
      cachedContentTokenCount: 2,
      candidatesTokenCount: 3,
      toolUsePromptTokenCount: 1,
      thoughtsTokenCount: 1,
      totalTokenCount: 18,
      promptTokensDetails: tokens,
      cacheTokensDetails: tokens,
      candidatesTokensDetails: tokens,
      toolUsePromptTokensDetails: tokens,
      serviceTier: "flex",
      billedToolCalls: [{ tool: "google_search", successfulToolCallCount: 2 }],
    },
    candidates: [
      {
        index: 0,
        finishReason: "MAX_TOKENS",
        content: {
          role: "model",
          parts: [
            { text: "Hm", thought: true, ...marks },
            { text: "Hi", ...marks },
            { inlineData: { mimeType: "image/png", data: "AAAA" }, thought: true, ...marks },
            { functionCall: { id: "c_1", name: "f", args: { a: 1 } }, ...marks },
            { functionCall: { name: "f", partialArgs: [{ jsonPath: "$.a", numberValue: 1 }], willContinue: true } },
            { executableCode: { id: "e_1", language: "PYTHON", code: "1" } },
            { executableCode: { language: "MOON", code: "1" } },
            { codeExecutionResult: { id: "e_1", outcome: "OUTCOME_OK", output: "1" } },
            { codeExecutionResult: { outcome: "OUTCOME_MOON" } },
            { toolCall: { id: "t_1" } },
          ],
        },
        safetyRatings: [rating, rare],
        citationMetadata: {
          citationSources: [{ startIndex: 1, endIndex: 2, uri: "https://a.example", license: "MIT" }],
        },
        tokenCount: 3,
        groundingAttributions: [
          {
            sourceId: {
              groundingPassage: { passageId: "p", partIndex: 1 },
              semanticRetrieverChunk: { source: "s", chunk: "c" },
            },
            content: { parts: [{ text: "Hi" }] },
          },
        ],
        groundingMetadata: {
          groundingChunks: [{ web: { uri: "https://a.example", title: "A" } }],
          groundingSupports: [
            {
              groundingChunkIndices: [0],
              confidenceScores: [0.5],
              segment: { partIndex: 1, startIndex: 1, endIndex: 2, text: "Hi" },
            },
          ],
          webSearchQueries: ["a"],
          searchEntryPoint: { renderedContent: "<b>", sdkBlob: "AAAA" },
          retrievalMetadata: { googleSearchDynamicRetrievalScore: 0.5 },
        },
        avgLogprobs: -1,
        logprobsResult: { topCandidates: [{ candidates: [chosen] }], chosenCandidates: [chosen] },
        urlRetrievalMetadata: { urlRetrievalContexts: [{ retrievedUrl: "https://a.example" }] },
        urlContextMetadata: {
          urlMetadata: [
            { retrievedUrl: "https://a.example", urlRetrievalStatus: "URL_RETRIEVAL_STATUS_SUCCESS" },
            { retrievedUrl: "https://b.example", urlRetrievalStatus: "URL_RETRIEVAL_STATUS_MOON" },
          ],
        },
      },
    ],
  },
];

CONTENTS.push({
  usageMetadata: { trafficType: "ON_DEMAND_PRIORITY" },
  candidates: [{ index: 0, finishReason: "STOP", content: { role: "model", parts: [{ text: "Hi" }] } }],
});

const likely = { token: "Hi", logprob: -1, bytes: [72, 105] };
const heard = {
  type: "output_text",
  text: "Hi there",
  annotations: [{ type: "url_citation", url: "https://a.example", title: "A", start_index: 1, end_index: 2 }],
  logprobs: [{ ...likely, top_logprobs: [likely] }],
};
const OUTPUT: readonly object[] = [
  {
    type: "reasoning",
    id: "rs_1",
    status: "completed",
    summary: [{ type: "summary_text", text: "Hm." }],
    content: [{ type: "reasoning_text", text: "Hm, hm." }],
    encrypted_content: "seal",
  },
  { type: "message", id: "msg_1", role: "assistant", content: [heard, { type: "refusal", refusal: "No" }] },
  { type: "function_call", id: "fc_1", call_id: "call_1", namespace: "n", name: "f", arguments: "{}" },
  { type: "custom_tool_call", id: "ctc_1", call_id: "call_2", name: "g", input: "Hi" },
  {
    type: "code_interpreter_call",
    id: "ci_1",
    code: "1",
    container_id: "cntr_1",
    outputs: [
      { type: "logs", logs: "1" },
      { type: "image", url: "https://a.example/1.png" },
    ],
  },
  { type: "image_generation_call", id: "ig_1", result: "AAAA", quality: "low", output_format: "png" },
  { type: "web_search_call", id: "ws_1", action: { query: "Hi" } },
];

/** A complete answer of Responses. */
export const RESPONSE: object = {
  id: "resp_1",
  model: "m",
  status: "incomplete",
  error: null,
  incomplete_details: { reason: "content_filter" },
  output: OUTPUT,
  usage: {
    input_tokens: 5,
    output_tokens: 7,
    total_tokens: 12,
    input_tokens_details: { cached_tokens: 1, cache_write_tokens: 1 },
    output_tokens_details: { reasoning_tokens: 2 },
    server_tool_use: { web_fetch_requests: 1 },
    server_side_tool_usage_details: { x_search_calls: 1 },
  },
  tool_usage: { web_search: { num_requests: 2 }, image_gen: { input_tokens: 1, output_tokens: 9 } },
  tools: [{ type: "image_generation", model: "model-b" }],
  service_tier: "flex",
};
