/** Recognises a prompt that is too long for the model in the errors of all upstreams, and reads the token counts from their words. */

import type { ContextTokens, GatewayError } from "../../errors.ts";
import type { JsonObject } from "../../model/json.ts";

/** The message of a decoded error. Each format writes words that its own clients recognise in place of it. */
export const PROMPT_TOO_LONG = "The prompt is too long for the model.";

/** Values of `code`, `type` and `error_type` that mean a prompt that is too long. */
const CODES: ReadonlySet<unknown> = new Set([
  "context_length_exceeded", // OpenAI, Azure, Groq, this gateway
  "exceed_context_size_error", // llama.cpp
  "model_max_prompt_tokens_exceeded", // GitHub Copilot
  "model_context_window_exceeded",
  "context_window_exceeded",
  "context_exceeded",
  "prompt_too_long",
]);

/** Parts of messages, in lower case, that mean a prompt that is too long. */
const PHRASES: readonly string[] = [
  "prompt is too long", // Anthropic, Vertex, Fireworks
  "prompt too long", // Ollama
  "exceed context limit", // Anthropic, for the input and `max_tokens` together
  "input is too long", // Bedrock, Databricks
  "too many total text bytes", // Bedrock
  "number of input tokens exceeds maximum length", // Nova
  "maximum context length", // OpenAI, vLLM, SGLang, OpenRouter, DeepSeek, Mistral
  "maximum context limit",
  "maximum input length", // vLLM
  "maximum allowed input length", // Poolside
  "reduce the length of the messages", // Groq
  "reduce the length of the input", // vLLM
  "input tokens exceed the configured limit", // OpenAI, Azure
  "exceeds the maximum number of tokens", // Google
  "maximum prompt length", // xAI
  "longer than the model's context length", // Together, SGLang
  "longer than the maximum model length", // vLLM
  "too long to fit into the model", // vLLM
  "greater than the context length", // LM Studio
  "context length of only", // LM Studio, vLLM
  "`inputs` tokens + `max_new_tokens` must be", // Together, TGI
  "range of input length should be", // Qwen
  "exceeded model token limit", // Moonshot
  "prompt token count of", // GitHub Copilot
  "context window exceeds limit", // MiniMax
  "prompt exceeds max length", // Zhipu
];

/** Matches sentences such as "exceeds the available context size" (llama.cpp) and "Context size has been exceeded" (LM Studio). */
const EXCEEDED =
  /exceed(?:s|ed)?(?: the| this| its| available| maximum| max| model's){0,4} context (?:window|length|size|limit)|context[ _](?:window|length|size|limit)(?: has been| is)?[ _]exceeded|input length[^.]{1,40} exceeds the maximum|current length is \d{1,12} while limit is/;

/** Matches limits on tokens per minute, whose messages are similar. Waiting helps against these. */
const RATE_LIMIT = /rate.?limit|per.min|\btpm\b|throttl|too many requests/;

/** The most characters of a message that are searched. */
const MAX_CHARS = 4_096;

const anyOf = (...patterns: readonly string[]): RegExp =>
  new RegExp(patterns.map((pattern) => pattern.replace("#", String.raw`(\d[\d,]{0,14})`)).join("|"));

const INPUT = anyOf(
  "too long:? # tokens",
  String.raw`context limit: # \+`,
  String.raw`token count \(?#`,
  "token count of #",
  "# (?:tokens )?in (?:the|your) (?:messages|prompt)",
  "# of text input",
  "# tokens from the input",
  "resulted in # tokens",
  "at least # input tokens",
  "passed # input tokens",
  "(?:request|prompt) contains # tokens",
  String.raw`input length(?: of)? \(?#`,
  String.raw`input \(# tokens`,
  String.raw`tokens \(#\) exceed`,
  String.raw`\(length #\)`,
  "total length #",
  "given: #",
  "keep the first # tokens",
  "current length is #",
  "prompt is # tokens",
  String.raw`\(requested: #`,
);
const OUTPUT = anyOf(
  String.raw`\+ # >`,
  "# (?:tokens )?(?:in|for) the (?:completion|output)",
  "requested # output tokens",
  "and # `max_new_tokens`",
);
const INPUT_AND_OUTPUT = anyOf("requested (?:about |a total of )?# tokens");
const MAX_INPUT = anyOf("maximum (?:allowed )?input length (?:is|of) #", "maximum prompt length is #");
const MAX = anyOf(
  "> #",
  String.raw`tokens allowed \(?#`,
  "context (?:window|length|limit|size) (?:is |of )(?:only )?#",
  String.raw`context (?:window|length|limit|size) \(?#`,
  "maximum model length of #",
  String.raw`exceeds the maximum (?:allowed )?length \(?#`,
  String.raw`should be \[\d{1,3}, ?#`,
  "token limit: #",
  "limit (?:of|is) #",
  "must be <= #",
  "with # maximum",
  "less than # tokens",
);

/**
 * Returns the token counts if the error means that the prompt is too long, as far as the upstream says them; undefined for any other error.
 *
 * @param error The upstream's error object.
 * @param status The HTTP status, or the status that the error object stands for.
 */
export function contextTokensIn(error: JsonObject, status: number): ContextTokens | undefined {
  const { code, type, error_type, message, n_prompt_tokens, n_ctx } = error;
  const text = typeof message === "string" ? message.slice(0, MAX_CHARS).toLowerCase() : "";
  if (![code, type, error_type].some((value) => CODES.has(value))) {
    const mayMean = status === 400 || status === 413 || status === 422 || status >= 500;
    if (!mayMean || RATE_LIMIT.test(text)) return undefined;
    if (!PHRASES.some((phrase) => text.includes(phrase)) && !EXCEEDED.test(text)) return undefined;
  }
  // llama.cpp has the counts as fields.
  return consistent(countOf(n_prompt_tokens), undefined, countOf(n_ctx)) ?? countsIn(text);
}

function countsIn(text: string): ContextTokens {
  if (/bytes|characters/.test(text)) return {};
  const [input, output, maxInput, max] = [INPUT, OUTPUT, MAX_INPUT, MAX].map((pattern) => found(pattern, text));
  if (maxInput !== undefined) return consistent(input, undefined, maxInput) ?? { maxTokens: maxInput };
  if (max === undefined) return input === undefined ? {} : { inputTokens: input };
  // vLLM stops counting at the first token that is too much, so this number is only a lower bound of the prompt.
  const isLowerBound = output !== undefined && output < max && text.includes("at least");
  return (
    (isLowerBound ? consistent(input, undefined, max - output) : consistent(input, output, max)) ??
    consistent(found(INPUT_AND_OUTPUT, text), undefined, max) ?? { maxTokens: max }
  );
}

/** Returns the counts if they are a reason to refuse a prompt. A pattern may have found another number. */
function consistent(
  inputTokens: number | undefined,
  outputTokens: number | undefined,
  maxTokens: number | undefined,
): ContextTokens | undefined {
  if (inputTokens === undefined || maxTokens === undefined) return undefined;
  if (inputTokens > maxTokens) return { inputTokens, maxTokens };
  return inputTokens + (outputTokens ?? 0) > maxTokens
    ? { inputTokens, outputTokens: outputTokens ?? 0, maxTokens }
    : undefined;
}

const found = (pattern: RegExp, text: string): number | undefined =>
  countOf(
    pattern
      .exec(text)
      ?.slice(1)
      .find((digits) => digits !== undefined)
      ?.replaceAll(",", ""),
  );

function countOf(value: unknown): number | undefined {
  const count = typeof value === "number" || typeof value === "string" ? Number(value) : 0;
  return Number.isSafeInteger(count) && count > 0 ? count : undefined;
}

/**
 * Returns the message for a prompt that is too long: the words that the clients of a format recognise, then the error's own message if it
 * says something else.
 */
export function withClientWords({ message }: GatewayError, words: string): string {
  if (message === "" || message === PROMPT_TOO_LONG) return words;
  return message.includes(words) ? message : `${words}${words.endsWith(".") ? "" : "."} ${message}`;
}
