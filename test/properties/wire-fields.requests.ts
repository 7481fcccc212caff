/** Requests that have, among them, every field that their formats name. */

const PIXEL = "AAAA";
const schema = { type: "object", properties: { a: { type: "string" } } };

const cache_control = { type: "ephemeral", ttl: "1h" };
const text = { type: "text", text: "Hi", cache_control };
const images = [
  { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL }, cache_control },
  { type: "image", source: { type: "url", url: "https://a.example/1.png" } },
  { type: "image", source: { type: "file", file_id: "file_1" } },
];
const documents = [
  { type: "base64", media_type: "application/pdf", data: PIXEL },
  { type: "text", media_type: "text/plain", data: "Hi" },
  { type: "content", content: [text, ...images] },
  { type: "content", content: "Hi" },
  { type: "url", url: "https://a.example/1.pdf" },
  { type: "file", file_id: "file_1" },
].map((source) => ({
  type: "document",
  source,
  title: "A title",
  context: "A context",
  citations: { enabled: true },
  cache_control,
}));
const custom = {
  type: "custom",
  name: "f",
  description: "A function.",
  input_schema: schema,
  strict: true,
  eager_input_streaming: true,
  cache_control,
};

const asked = { model: "m", max_tokens: 9_000, messages: [{ role: "user", content: "Hi" }] };

export const MESSAGES: readonly object[] = [
  {
    model: "m",
    max_tokens: 9_000,
    messages: [
      {
        role: "user",
        content: [
          text,
          ...images,
          ...documents,
          { type: "search_result", source: "https://a.example", title: "A", content: [] },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm", signature: "c2VhbA==" },
          { type: "redacted_thinking", data: "c2VhbA==" },
          { type: "tool_use", id: "t_1", name: "f", input: { a: "b" }, caller: { type: "direct" }, cache_control },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "t_1",
            content: [text, ...images, ...documents, { type: "tool_reference", tool_name: "f" }],
            is_error: true,
            cache_control,
          },
        ],
      },
    ],
    system: [text],
    metadata: { user_id: "u" },
    stop_sequences: ["END"],
    stream: true,
    temperature: 0.5,
    top_p: 0.5,
    top_k: 5,
    thinking: { type: "enabled", budget_tokens: 2_000, display: "summarized" },
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    tools: [
      custom,
      {
        type: "computer_20241022",
        name: "computer",
        display_width_px: 9,
        display_height_px: 9,
        display_number: 1,
        cache_control,
      },
      { type: "bash_20241022", name: "bash", cache_control },
      { type: "text_editor_20241022", name: "str_replace_editor", cache_control },
      { type: "web_search_20260209", name: "web_search", max_uses: 1, cache_control },
    ],
    service_tier: "auto",
    thread: "t_1",
  },
  {
    ...asked,
    tools: [custom],
    thinking: { type: "adaptive", display: "omitted" },
    tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true },
    output_config: { effort: "low", format: { type: "json_schema", schema } },
  },
  { ...asked, thinking: { type: "between_tools" }, output_config: { effort: "some", format: { type: "grammar" } } },
  {
    ...asked,
    messages: [...asked.messages, { role: "system", content: null, output_config: { effort: "low" } }],
    system: "Be brief.",
    tool_choice: { type: "none" },
    service_tier: 1,
    tools: [{ ...custom, strict: "yes" }],
  },
];

const said = { model: "m", messages: [{ role: "user", content: "Hi" }] };
const named = {
  type: "function",
  function: { name: "f", description: "A function.", parameters: schema, strict: true },
};
const ownTool = { type: "custom", custom: { name: "g", description: "A tool.", format: { type: "text" } } };
const chosen = [
  { type: "function", function: { name: "f" } },
  { type: "custom", custom: { name: "g" } },
];

export const CHAT_COMPLETIONS: readonly object[] = [
  {
    model: "m",
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
      { role: "function", name: "f", content: [{ type: "text", text: "1" }] },
    ],
    functions: [{ name: "f", description: "A function.", parameters: schema }],
    function_call: { name: "f" },
  },
  {
    model: "m",
    messages: [
      { role: "system", content: [{ type: "text", text: "Be brief." }] },
      { role: "developer", content: "Be kind.", name: "d" },
      {
        role: "user",
        name: "u",
        content: [
          { type: "text", text: "Hi" },
          { type: "image_url", image_url: { url: "https://a.example/1.png", detail: "high" } },
          { type: "input_audio", input_audio: { data: PIXEL, format: "wav" } },
          { type: "file", file: { file_data: PIXEL, filename: "a.pdf" } },
          { type: "file", file: { file_id: "file_1", filename: "a.pdf" } },
        ],
      },
      {
        role: "assistant",
        name: "a",
        content: [
          { type: "text", text: "Hi" },
          { type: "refusal", refusal: "No" },
          { type: "thinking", thinking: [{ type: "text", text: "Hm" }], closed: true },
        ],
        refusal: "No",
        reasoning_content: "Hm",
        extra_content: { google: { thought_signature: "s" } },
        tool_calls: [
          {
            type: "function",
            id: "c_1",
            index: 0,
            function: { name: "f", arguments: "{}" },
            extra_content: { google: { thought_signature: "s" } },
          },
          { type: "custom", id: "c_2", custom: { name: "g", input: "Hi" } },
        ],
      },
      { role: "tool", tool_call_id: "c_1", name: "f", content: [{ type: "text", text: "1" }] },
      { role: "tool", tool_call_id: "c_2", content: "1" },
    ],
    max_completion_tokens: 7,
    stream: true,
    stream_options: { include_usage: true },
    stop: ["END"],
    temperature: 0.5,
    top_p: 0.5,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    seed: 5,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    tools: [named, ownTool],
    tool_choice: chosen[0],
    parallel_tool_calls: false,
    response_format: {
      type: "json_schema",
      json_schema: { name: "a", description: "An answer.", schema, strict: true },
    },
    reasoning_effort: "low",
    modalities: ["text", "audio"],
    audio: { voice: "ash", format: "wav" },
    service_tier: "flex",
    user: "u",
    metadata: { team: "a" },
    logit_bias: { "1": -100 },
    prediction: { type: "content", content: "Hi" },
    web_search_options: { search_context_size: "low" },
    store: true,
    verbosity: "low",
  },
  {
    ...said,
    max_tokens: 7,
    stop: "END",
    safety_identifier: "u",
    audio: { voice: { id: "v_1" } },
    response_format: { type: "json_object", schema },
  },
  { ...said, response_format: { type: "text" } },
  { ...said, tools: [named, ownTool], tool_choice: chosen[1] },
  {
    ...said,
    tools: [named, ownTool],
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: chosen } },
  },
  { ...said, tools: [named], tool_choice: "required" },
  {
    ...said,
    messages: [
      { role: "assistant", reasoning: "Hm" },
      {
        role: "assistant",
        reasoning_details: [
          { type: "reasoning.text", text: "Hm", signature: "s", index: 0, id: "r", format: "f" },
          { type: "reasoning.summary", summary: "Hm" },
          { type: "reasoning.encrypted", data: "d" },
        ],
      },
    ],
  },
];

const STRING = { type: "STRING" };
/** Every keyword of the format's schema object. */
const OPENAPI = {
  type: "OBJECT",
  format: "date",
  title: "A title",
  description: "A description.",
  pattern: "a*",
  nullable: true,
  enum: ["a"],
  example: "a",
  default: "a",
  ref: "#/defs/a",
  items: STRING,
  additionalProperties: STRING,
  properties: { a: STRING, b: STRING },
  defs: { a: STRING },
  anyOf: [STRING],
  oneOf: [STRING],
  allOf: [STRING],
  prefixItems: [STRING],
  required: ["a"],
  propertyOrdering: ["b"],
  minimum: 1,
  maximum: 2,
  minItems: 1,
  maxItems: "2",
  minLength: 1,
  maxLength: 2,
  minProperties: 1,
  maxProperties: 2,
};
const LATER = { type: "OBJECT", $ref: "#/$defs/a", $defs: { a: STRING }, additionalProperties: false };

const inlineData = { mimeType: "image/png", data: PIXEL, displayName: "a" };
const fileData = { mimeType: "image/png", fileUri: "https://a.example/1.png", displayName: "a" };
const marks = { thoughtSignature: "c2VhbA==" };
const withConfig = (generationConfig: object): object => ({ contents: "Hi", generationConfig });
const speaking = { prebuiltVoiceConfig: { voiceName: "a" } };

export const GENERATE_CONTENT: readonly object[] = [
  {
    model: "models/m",
    contents: [
      {
        role: "user",
        parts: [
          { text: "Hi", thought: false, ...marks, videoMetadata: { startOffset: "1s", endOffset: "2s" } },
          { inlineData, mediaResolution: { numTokens: 9 } },
          { inlineData: { mimeType: "text/csv", data: PIXEL } },
          { fileData },
        ],
      },
      {
        role: "model",
        parts: [
          { functionCall: { id: "c_1", name: "f", args: { a: 1 }, partialArgs: [{}], willContinue: true }, ...marks },
          { executableCode: { id: "e_1", language: "PYTHON", code: "1" } },
          { codeExecutionResult: { id: "e_1", outcome: "OUTCOME_OK", output: "1" } },
          { toolCall: { toolType: "GOOGLE_SEARCH", id: "t_1", args: { a: 1 } } },
          { toolResponse: { toolType: "GOOGLE_SEARCH", id: "t_1", response: { a: 1 } } },
          { audioTranscription: { text: "Hi", finished: true, languageCode: "de" } },
        ],
      },
      {
        role: "user",
        parts: [
          {
            functionResponse: {
              id: "c_1",
              name: "f",
              response: { a: 1 },
              parts: [{ inlineData }, { fileData }],
              willContinue: true,
            },
          },
        ],
      },
    ],
    tools: [
      {
        functionDeclarations: [
          { name: "f", description: "A function.", parameters: OPENAPI, response: OPENAPI, responseJsonSchema: schema },
          { name: "g", parametersJsonSchema: schema },
          { name: "h", parameters: LATER, response: LATER },
        ],
        codeExecution: { timeout: 1 },
        googleSearch: { excludeDomains: ["a"] },
        googleSearchRetrieval: { dynamicRetrievalConfig: {} },
        urlContext: { a: 1 },
        googleMaps: { a: 1 },
        computerUse: { a: 1 },
        fileSearch: { a: 1 },
        enterpriseWebSearch: { a: 1 },
        parallelAiSearch: { a: 1 },
        mcpServers: { a: 1 },
      },
    ],
    toolConfig: {
      functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f", "g"] },
      retrievalConfig: { languageCode: "de", latLng: { latitude: 1 } },
    },
    safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
    systemInstruction: { role: "system", parts: [{ text: "Be brief.", thought: false, ...marks }] },
    generationConfig: {
      stopSequences: ["END"],
      responseMimeType: "application/json",
      responseSchema: { ...OPENAPI, additionalProperties: STRING },
      responseModalities: ["TEXT"],
      candidateCount: 2,
      maxOutputTokens: 7,
      temperature: 0.5,
      topP: 0.5,
      topK: 5,
      seed: 5,
      presencePenalty: 0.5,
      frequencyPenalty: 0.5,
      responseLogprobs: true,
      logprobs: 3,
      enableEnhancedCivicAnswers: true,
      speechConfig: { voiceConfig: speaking, languageCode: "de-DE" },
      imageConfig: { aspectRatio: "1:1", imageSize: "1K" },
      thinkingConfig: { includeThoughts: true, thinkingBudget: 5 },
      mediaResolution: "MEDIA_RESOLUTION_LOW",
    },
    cachedContent: "cachedContents/1",
    serviceTier: "flex",
  },
  withConfig({ responseMimeType: "application/json", responseSchema: LATER, thinkingConfig: { thinkingLevel: "low" } }),
  withConfig({
    responseMimeType: "application/json",
    responseJsonSchema: schema,
    thinkingConfig: { thinkingLevel: "?" },
  }),
  withConfig({ responseMimeType: "text/x.enum", responseSchema: { type: "STRING", format: "enum", enum: ["a", "b"] } }),
  withConfig({
    speechConfig: { multiSpeakerVoiceConfig: { speakerVoiceConfigs: [{ speaker: "a", voiceConfig: speaking }] } },
  }),
  { contents: "Hi", systemInstruction: "Be brief.", toolConfig: { functionCallingConfig: { mode: "VALIDATED" } } },
];

const asker = { model: "m", max_output_tokens: 900 };
const given = { id: "item_1", status: "completed" };
const shapes = [
  { type: "input_text", text: "Hi" },
  { type: "text", text: "Hi" },
  { type: "output_text", text: "Hi", annotations: [{ type: "file_citation" }], logprobs: [{ token: "Hi" }] },
  { type: "input_image", image_url: "https://a.example/1.png", detail: "low" },
  { type: "input_image", file_id: "file_1", detail: "original" },
  { type: "input_file", file_data: PIXEL, filename: "a.pdf" },
  { type: "input_file", file_url: "https://a.example/1.pdf" },
  { type: "input_file", file_id: "file_1" },
  { type: "input_audio", input_audio: { data: PIXEL, format: "mp3" } },
  { type: "refusal", refusal: "No" },
];

/** A function and a tool that takes a text. */
const responseTools = (prefix = ""): object[] => [
  { type: "function", name: `${prefix}f`, description: "A function.", parameters: schema, strict: true },
  {
    type: "custom",
    name: `${prefix}g`,
    description: "A tool.",
    format: { type: "grammar", syntax: "regex", definition: "a" },
  },
];
const responseSpace = (name: string): object => ({
  type: "namespace",
  name,
  description: "Both.",
  tools: responseTools(),
});

export const RESPONSES: readonly object[] = [
  {
    ...asker,
    instructions: "Be brief.",
    input: [
      { type: "message", role: "user", content: shapes, phase: "commentary", ...given },
      { role: "developer", content: "Be kind." },
      { role: "assistant", content: "Hi" },
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "Hm." }],
        content: [{ type: "reasoning_text", text: "Hm, hm." }],
        encrypted_content: "seal",
        ...given,
      },
      { type: "function_call", call_id: "call_1", name: "f", arguments: "{}", ...given },
      { type: "function_call_output", call_id: "call_1", output: shapes, ...given },
      { type: "custom_tool_call", call_id: "call_2", name: "g", input: "Hi", ...given },
      { type: "custom_tool_call_output", call_id: "call_2", output: shapes, ...given },
      { type: "web_search_call", id: "ws_1", action: { query: "Hi" } },
    ],
    tools: [...responseTools(), { type: "file_search", vector_store_ids: ["vs_1"] }],
    tool_choice: {
      type: "allowed_tools",
      mode: "auto",
      tools: [
        { type: "function", name: "f" },
        { type: "custom", name: "g" },
      ],
    },
    context_management: [{ type: "compaction", compact_threshold: 1_000 }],
    parallel_tool_calls: true,
    text: {
      format: { type: "json_schema", name: "n", schema, strict: true, description: "A format." },
      verbosity: "low",
    },
    reasoning: { effort: "low", summary: "auto" },
    temperature: 0.5,
    top_p: 0.5,
    top_logprobs: 3,
    include: ["message.output_text.logprobs"],
    stream: false,
    stream_options: { include_obfuscation: false },
    service_tier: "auto",
    user: "u",
    safety_identifier: "s",
    metadata: { a: "b" },
    store: false,
    background: false,
    background_options: { completion_window: "8h", continuation_id: "c" },
    truncation: "auto",
    prompt_cache_key: "k",
    prompt_cache_retention: "24h",
    max_tool_calls: 3,
  },
  { ...asker, input: "Hi", tools: [{ type: "function", name: "f" }], tool_choice: { type: "function", name: "f" } },
  {
    ...asker,
    input: [
      { type: "additional_tools", role: "developer", tools: [...responseTools("a"), responseSpace("b")], ...given },
      { type: "function_call", call_id: "call_1", name: "f", namespace: "s", arguments: "{}" },
      { type: "custom_tool_call", call_id: "call_2", name: "g", namespace: "s", input: "Hi" },
    ],
    tools: [responseSpace("s")],
    tool_choice: { type: "function", name: "f", namespace: "s" },
  },
  {
    ...asker,
    input: "Hi",
    tools: [responseSpace("s")],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "custom", name: "g", namespace: "s" }] },
  },
  { ...asker, input: "Hi", previous_response_id: "resp_1", reasoning: { generate_summary: "auto" } },
  { ...asker, input: "Hi", conversation: { id: "conv_1" }, text: { format: { type: "json_object", schema } } },
];
