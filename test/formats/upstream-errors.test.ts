/** The meaning of an upstream's error to a caller of the gateway: by its status, its shape and its words. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { decodeError } from "../../src/formats/images/relay.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";

const CHAT_CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
} as const;
const CODECS = { ...CHAT_CODECS, images: { decodeError } } as const;

const CODE_OF_STATUS = [
  [401, "backend_refused"],
  [402, "backend_refused"],
  [403, "backend_refused"],
  [405, "backend_failed"],
  [407, "backend_failed"],
  [408, "deadline_exceeded"],
  [409, "backend_unavailable"],
  [413, "body_too_large"],
  [415, "backend_failed"],
  [418, "invalid_request"],
  [422, "invalid_request"],
  [429, "rate_limited"],
  [500, "backend_failed"],
  [502, "backend_unavailable"],
  [503, "backend_unavailable"],
  [504, "deadline_exceeded"],
  [520, "backend_failed"],
  [529, "backend_overloaded"],
] as const;

describe.each(Object.entries(CODECS))("an error of an upstream that speaks %s", (_format, codec) => {
  it.each(CODE_OF_STATUS)("of status %i is %s, in the gateway's own words", (status, code) => {
    const body = { error: { message: "A secret." } };
    const error = codec.decodeError(status, new Headers(), body);
    expect(error).toMatchObject({ code, port: "model-backend" });
    expect(error.message).not.toContain("secret");
  });
});

const google = (code: number, message: string, status: string, details: readonly object[] = []): object => ({
  error: { code, message, status, details },
});
const anthropic = (type: string, message: string): object => ({ type: "error", error: { type, message } });
const openai = (message: string, more: object = {}): object => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...more },
});

const CHAT = Object.entries(CHAT_CODECS);

/** The shapes of an error in place of a frame, or of a complete answer. */
const SHAPES: readonly (readonly [shape: string, event: string | undefined, body: unknown, code: string])[] = [
  ["an object in `error`", undefined, { error: { message: "No.", code: 429 } }, "rate_limited"],
  ["a text in `error`", undefined, { error: "prompt is too long" }, "context_length_exceeded"],
  [
    "an error beside content",
    undefined,
    { id: "a", choices: [], error: { code: 502, message: "No." } },
    "backend_unavailable",
  ],
  [
    "an object of the type",
    undefined,
    { object: "error", message: "No.", type: "BadRequestError", code: 400 },
    "invalid_request",
  ],
  ["an object of Anthropic's", "error", anthropic("overloaded_error", "Overloaded"), "backend_overloaded"],
  [
    "a type without an inner object",
    undefined,
    { type: "error", message: "No.", code: "model_not_found" },
    "model_not_found",
  ],
  [
    "an error without a mark",
    undefined,
    { message: "No.", type: "invalid_request_error", param: "n" },
    "invalid_request",
  ],
  ["a message alone", undefined, { message: "No.", code: 503 }, "backend_unavailable"],
  ["an event of this name", "error", { detail: "No." }, "backend_failed"],
  ["an event of this name, with an object", "error", { error: { type: "authentication_error" } }, "backend_refused"],
  ["Google's names", undefined, { error: { message: "No.", status: "RESOURCE_EXHAUSTED" } }, "rate_limited"],
  [
    "a nested error",
    undefined,
    { error: { error: { message: "No.", type: "overloaded_error" } } },
    "backend_overloaded",
  ],
];

describe.each(CHAT)("an error in the middle of a stream of %s", (_format, codec) => {
  it.each(SHAPES)("in the shape of %s", (_shape, event, body, code) => {
    expect(() => codec.answerDecoder().frame(event, JSON.stringify(body))).toThrow(expect.objectContaining({ code }));
  });

  it.each(SHAPES.filter(([, event]) => event === undefined))(
    "and in place of an answer: %s",
    (_shape, _event, body, code) => {
      expect(() => codec.answerDecoder().answer(JSON.stringify(body))).toThrow(expect.objectContaining({ code }));
    },
  );
});

describe("the field that an upstream names", () => {
  it.each<[string, unknown, (string | number)[] | undefined]>([
    ["OpenAI's", openai("No.", { param: "messages[0].content" }), ["messages", 0, "content"]],
    ["Anthropic's", anthropic("invalid_request_error", "messages.0.content.1: No."), ["messages", 0, "content", 1]],
    [
      "Google's",
      google(400, "No.", "INVALID_ARGUMENT", [{ fieldViolations: [{ field: "contents[0].parts" }] }]),
      ["contents", 0, "parts"],
    ],
    ["FastAPI's", { detail: [{ loc: ["body", "messages", 0], msg: "No." }] }, ["messages", 0]],
    ["no name", openai("No.", { param: "a b" }), undefined],
    ["a name without end", openai("No.", { param: "a.".repeat(1_000) }), undefined],
    ["a sentence", anthropic("invalid_request_error", "Sorry, but: no."), undefined],
  ])("is the path of the error: %s", (_name, body, path) => {
    for (const [, codec] of CHAT) expect(codec.decodeError(400, new Headers(), body).path).toEqual(path);
  });
});

describe("an error about the host's own account", () => {
  it.each<[string, unknown]>([
    ["an empty balance", anthropic("invalid_request_error", "Your credit balance is too low to access the API.")],
    ["a wrong key", openai("Incorrect API key provided: xa***yz.")],
    ["Google's wrong key", google(400, "No.", "INVALID_ARGUMENT", [{ reason: "API_KEY_INVALID" }])],
    ["a type", anthropic("authentication_error", "No.")],
  ])("is not the caller's, even with the status of a wrong request: %s", (_name, body) => {
    for (const [, codec] of CHAT) expect(codec.decodeError(400, new Headers(), body).code).toBe("backend_refused");
  });

  it.each<[string, unknown]>([
    ["OpenAI", openai("Invalid value: 'invalid api key'.", { param: "tools[0].type" })],
    ["Anthropic", anthropic("invalid_request_error", "tools.0.type: no tag 'current quota'.")],
    ["vLLM", { detail: [{ loc: ["body", "tools", 0], msg: "Not 'insufficient funds'." }] }],
  ])("is none that names a field and repeats the caller's words: %s", (_name, body) => {
    for (const [, codec] of CHAT) expect(codec.decodeError(400, new Headers(), body).code).toBe("invalid_request");
  });
});
