/** A prompt that is too long is recognised in the errors of all upstreams, with the token counts that they tell. */

import { describe, expect, it } from "vitest";
import { type ContextTokens, GatewayError } from "../../src/errors.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/index.ts";
import { generateContentCodec } from "../../src/formats/generate-content/index.ts";
import { messagesCodec } from "../../src/formats/messages/index.ts";

const google = (code: number, message: string, status: string, details: readonly object[] = []): object => ({
  error: { code, message, status, details },
});
const anthropic = (type: string, message: string): object => ({ type: "error", error: { type, message } });
const openai = (message: string, more: object = {}): object => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...more },
});

/** The errors of upstreams for a prompt that is too long, as their users have reported them. */
const TOO_LONG: readonly (readonly [upstream: string, status: number, body: unknown, context: ContextTokens])[] = [
  [
    "Anthropic",
    400,
    anthropic("invalid_request_error", "prompt is too long: 219898 tokens > 200000 maximum"),
    { inputTokens: 219_898, maxTokens: 200_000 },
  ],
  [
    "Anthropic, with the output limit",
    400,
    anthropic(
      "invalid_request_error",
      "input length and `max_tokens` exceed context limit: 186433 + 20000 > 200000, decrease input length or `max_tokens` and try again",
    ),
    { inputTokens: 186_433, outputTokens: 20_000, maxTokens: 200_000 },
  ],
  ["Vertex", 413, anthropic("request_too_large", "Prompt is too long"), {}],
  [
    "Google",
    400,
    google(
      400,
      "The input token count (3475108) exceeds the maximum number of tokens allowed (1048576).",
      "INVALID_ARGUMENT",
    ),
    { inputTokens: 3_475_108, maxTokens: 1_048_576 },
  ],
  [
    "OpenAI",
    400,
    openai(
      "This model's maximum context length is 4097 tokens. However, your messages resulted in 13393 tokens. Please reduce the length of the messages.",
      { param: "messages", code: "context_length_exceeded" },
    ),
    { inputTokens: 13_393, maxTokens: 4_097 },
  ],
  ["OpenAI, by its code alone", 400, openai("Sorry.", { code: "context_length_exceeded" }), {}],
  ["OpenAI, without a code", 400, openai("Your input exceeds the context window of this model."), {}],
  [
    "Azure",
    400,
    openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 309104 tokens."),
    { inputTokens: 309_104, maxTokens: 272_000 },
  ],
  [
    "DeepSeek",
    400,
    openai(
      "This model's maximum context length is 102400 tokens. However, you requested 107837 tokens (99645 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
      { code: "invalid_request_error" },
    ),
    { inputTokens: 99_645, outputTokens: 8_192, maxTokens: 102_400 },
  ],
  [
    "vLLM",
    400,
    {
      object: "error",
      message:
        "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
    { inputTokens: 9_591, outputTokens: 10_000, maxTokens: 16_384 },
  ],
  [
    "vLLM, which stops counting",
    400,
    openai(
      "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
    ),
    { inputTokens: 134_145, maxTokens: 134_144 },
  ],
  [
    "vLLM, with the longest input",
    400,
    openai(
      "You passed 134145 input tokens and requested 128000 output tokens. However, the model's context length is only 262144 tokens, resulting in a maximum input length of 134144 tokens. Please reduce the length of the input prompt.",
    ),
    { inputTokens: 134_145, maxTokens: 134_144 },
  ],
  [
    "SGLang",
    400,
    {
      object: "error",
      message: "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
    { inputTokens: 61_709, maxTokens: 40_960 },
  ],
  [
    "a proxy of vLLM",
    400,
    openai(
      "Requested token count exceeds the model's maximum context length of 262144 tokens. You requested a total of 262462 tokens: 230462 tokens from the input messages and 32000 tokens for the completion.",
    ),
    { inputTokens: 230_462, outputTokens: 32_000, maxTokens: 262_144 },
  ],
  [
    "llama.cpp",
    400,
    {
      error: {
        code: 400,
        message: "the request exceeds the available context size, try increasing it",
        type: "exceed_context_size_error",
        n_prompt_tokens: 14_429,
        n_ctx: 8_192,
      },
    },
    { inputTokens: 14_429, maxTokens: 8_192 },
  ],
  ["an older llama.cpp", 500, { error: { code: 500, message: "the request exceeds the available context size" } }, {}],
  [
    "llama-cpp-python",
    500,
    { error: { message: "Requested tokens (2285) exceed context window of 2048", type: "internal_server_error" } },
    { inputTokens: 2_285, maxTokens: 2_048 },
  ],
  ["Ollama", 400, { error: "prompt too long; exceeded max context length by 12 tokens" }, {}],
  [
    "OpenRouter",
    400,
    {
      error: {
        code: 400,
        message:
          "This endpoint's maximum context length is 128000 tokens. However, you requested about 200034 tokens (168034 of text input, 32000 in the output). Please reduce the length of either one.",
      },
    },
    { inputTokens: 168_034, maxTokens: 128_000 },
  ],
  [
    "OpenRouter, around a provider's error",
    400,
    {
      error: {
        code: 400,
        message: "Provider returned error",
        metadata: {
          provider_name: "Anthropic",
          raw: JSON.stringify(anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")),
        },
      },
    },
    { inputTokens: 9, maxTokens: 8 },
  ],
  [
    "Mistral",
    400,
    {
      object: "error",
      message: "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      type: "invalid_request_error",
      param: null,
      code: "3051",
    },
    { inputTokens: 65_673, maxTokens: 32_768 },
  ],
  [
    "Groq",
    400,
    openai("Please reduce the length of the messages or completion.", { code: "context_length_exceeded" }),
    {},
  ],
  [
    "xAI",
    400,
    {
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 537,812 tokens.",
    },
    { inputTokens: 537_812, maxTokens: 131_072 },
  ],
  ["Bedrock", 400, { message: "Input is too long for requested model." }, {}],
  ["Bedrock, in bytes", 400, { message: "too many total text bytes: 9000000 > 8000000" }, {}],
  [
    "Together",
    422,
    openai(
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 80125 `inputs` tokens and 4096 `max_new_tokens`",
    ),
    { inputTokens: 80_125, maxTokens: 4_097 },
  ],
  [
    "Qwen",
    400,
    openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", {
      code: "invalid_parameter_error",
    }),
    { maxTokens: 983_616 },
  ],
  [
    "LM Studio",
    400,
    {
      error:
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
    },
    { inputTokens: 15_857, maxTokens: 4_096 },
  ],
  [
    "Moonshot",
    400,
    openai("Your request exceeded model token limit: 262144 (requested: 291351)"),
    { inputTokens: 291_351, maxTokens: 262_144 },
  ],
  [
    "GitHub Copilot",
    400,
    {
      error: {
        message: "prompt token count of 74490 exceeds the limit of 72000",
        code: "model_max_prompt_tokens_exceeded",
      },
    },
    { inputTokens: 74_490, maxTokens: 72_000 },
  ],
  [
    "Volcano",
    400,
    openai("Input length 203743 exceeds the maximum length 202752", { code: "InvalidParameter" }),
    { inputTokens: 203_743, maxTokens: 202_752 },
  ],
  [
    "a gateway that nests JSON in a message",
    400,
    {
      error: {
        message: JSON.stringify(
          google(
            400,
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            "INVALID_ARGUMENT",
          ),
        ),
      },
    },
    { inputTokens: 9, maxTokens: 8 },
  ],
  ["a server that sends a text", 400, "prompt is too long: 9 tokens > 8 maximum", { inputTokens: 9, maxTokens: 8 }],
];

const CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
} as const;

describe.each(Object.entries(CODECS))("a prompt that is too long for an upstream of %s", (_format, codec) => {
  it.each(TOO_LONG)("has its counts, as %s tells them", (_upstream, status, body, context) => {
    const error = codec.decodeError(status, new Headers(), body);
    expect(error).toMatchObject({ code: "context_length_exceeded", message: "The prompt is too long for the model." });
    expect(error.context).toEqual(context);
    expect(error.cause).toBe(body);
  });

  it.each<[string, number, unknown, string]>([
    ["a limit of tokens per minute", 429, openai("Too many tokens, please wait before trying again."), "rate_limited"],
    [
      "a request above the limit of a minute",
      413,
      openai("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 14810", {
        type: "tokens",
        code: "rate_limit_exceeded",
      }),
      "body_too_large",
    ],
    [
      "too many bytes",
      413,
      anthropic("request_too_large", "Request exceeds the maximum allowed number of bytes."),
      "body_too_large",
    ],
    [
      "an output limit that is too large",
      400,
      openai("max_tokens must be less than or equal to 16384, the maximum value for this model"),
      "invalid_request",
    ],
    ["a key that names the context", 401, openai("prompt is too long"), "backend_refused"],
  ])("is not taken for %s", (_name, status, body, code) => {
    expect(codec.decodeError(status, new Headers(), body).code).toBe(code);
  });

  it("is found in the longest of hostile texts at once", () => {
    for (const piece of [
      "9",
      "exceeds the",
      "context length ",
      "input length 1",
      "requested 1",
      " tokens (",
      "{",
      "[[",
    ])
      expect(codec.decodeError(400, new Headers(), { error: piece.repeat(64 * 1024) })).toBeInstanceOf(GatewayError);
  });
});
