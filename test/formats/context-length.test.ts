/** A prompt that is too long is recognised in the errors of all upstreams, with the token counts that they tell. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ContextTokens, GatewayError } from "../../src/errors.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";

const anthropic = (type: string, message: string): object => ({ type: "error", error: { type, message } });
const openai = (message: string, more: object = {}): object => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...more },
});

interface TooLong {
  readonly upstream: string;
  readonly status: number;
  readonly body: unknown;
  readonly context: ContextTokens;
}

/** The errors of upstreams for a prompt that is too long, as their users have reported them. */
const TOO_LONG = JSON.parse(
  readFileSync(join(import.meta.dirname, "../recordings/upstream/context-length.json"), "utf8"),
) as readonly TooLong[];

const CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
} as const;

describe.each(Object.entries(CODECS))("a prompt that is too long for an upstream of %s", (_format, codec) => {
  it.each(TOO_LONG)("has its counts, as $upstream tells them", ({ status, body, context }) => {
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
