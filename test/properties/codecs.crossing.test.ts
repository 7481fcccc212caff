/** Answers that cross from one format into another keep what both can say; and what an upstream's errors mean to the caller. */

import { describe, expect, it } from "vitest";
import { unwrapSeal } from "../../src/formats/shared/seal.ts";
import type { ChatEvent, GatewayErrorCode } from "../../src/index.ts";
import {
  CODECS,
  completedText,
  decodedText,
  meant,
  metered,
  recording,
  requestOf,
  streamedText,
} from "./upstream-answers.ts";

const SECRET = "The key sk-upstream at 10.0.0.7 is wrong";

interface Told {
  id: string | undefined;
  text: string;
  thoughts: string;
  seals: string[];
  calls: { id: string; name: string; input: unknown }[];
  reason: string | undefined;
  usage: object;
}

/** What an answer comes to, however it came. */
function told(events: readonly ChatEvent[]): Told {
  const seen: Told = { id: undefined, text: "", thoughts: "", seals: [], calls: [], reason: undefined, usage: {} };
  const json = new Map<string, string>();
  for (const event of meant(events)) {
    if (event.type === "start") seen.id = event.id;
    if (event.type === "text-delta") seen.text += event.text;
    if (event.type === "reasoning-delta") seen.thoughts += event.text;
    if (event.type === "reasoning-signature") seen.seals.push(unwrapSeal(event.signature)?.value ?? event.signature);
    // Not the signatures of calls, which only some formats have a field for.
    if (event.type === "redacted-reasoning" && unwrapSeal(event.data)?.kind !== "call") seen.seals.push(event.data);
    if (event.type === "tool-call-start") seen.calls.push({ id: event.id, name: event.name, input: undefined });
    if (event.type === "tool-call") seen.calls.push({ id: event.id, name: event.name, input: event.input });
    if (event.type === "tool-call-delta") json.set(event.id, (json.get(event.id) ?? "") + event.json);
    if (event.type === "finish") seen.reason = event.reason;
    if ("usage" in event) seen.usage = { ...seen.usage, ...event.usage };
  }
  const calls = seen.calls.map(({ input, ...call }) => ({
    ...call,
    input: input ?? JSON.parse(json.get(call.id) ?? "{}"),
  }));
  return { ...seen, calls };
}

const OTHER = { messages: "generate-content", "generate-content": "messages" } as const;
type From = keyof typeof OTHER;

/** The same answer, as a caller of the other format gets it. */
function crossed(from: From, file: string, form: "streamed" | "complete"): Told {
  const [name, stream] = [OTHER[from], form === "streamed"];
  const request = requestOf(name, { stream });
  const answer = metered(decodedText(from, recording(from, `${file}.txt`)), request);
  if (stream) return told(decodedText(name, streamedText(name, answer, request)));
  return told(CODECS[name].answerDecoder().answer(completedText(name, answer, request)));
}

const FILES: readonly (readonly [from: From, file: string, reason: string])[] = [
  ["messages", "thinking-tools", "tool-calls"],
  ["messages", "web-search", "other"],
  ["messages", "refusal", "content-filter"],
  ["messages", "window", "length"],
  ["messages", "empty", "stop"],
  ["messages", "stop-sequence", "stop"],
  ["messages", "unknown", "other"],
  ["generate-content", "thinking-tools", "tool-calls"],
  ["generate-content", "grounding", "stop"],
  ["generate-content", "safety", "refusal"],
  ["generate-content", "one-chunk", "stop"],
  ["generate-content", "unknown", "stop"],
];

describe.each(FILES)("an answer of %s, %s", (from, file, reason) => {
  const origin = told(decodedText(from, recording(from, `${file}.txt`)));

  it.each(["streamed", "complete"] as const)("keeps what it says: %s", (form) => {
    const { usage, id, ...arrived } = crossed(from, file, form);
    const { usage: counted, id: foreign, ...said } = origin;
    expect(arrived).toEqual({ ...said, reason });
    // An id of another format is none in the caller's.
    expect(id).toMatch(/^(?:msg|resp)_/);
    expect(id).not.toBe(foreign);
    const { inputTokens, outputTokens, cacheReadTokens = 0 } = counted as Record<string, number>;
    expect({ cacheReadTokens: 0, ...usage }).toMatchObject({ inputTokens, outputTokens, cacheReadTokens });
  });
});

it("code and what it printed are told in words to callers whose format has none", () => {
  expect(crossed("generate-content", "code", "streamed").text).toBe(
    "\n```python\nprint(2+2)\n```\n\n```\n4\n```\nIt is 4.",
  );
});

it("an upstream's own blocks are not written into another format", () => {
  const request = requestOf("generate-content");
  const answer = metered(decodedText("messages", recording("messages", "web-search.txt")), request);
  expect(streamedText("generate-content", answer, request)).not.toContain("srvtoolu_01");
  const other = requestOf("messages");
  const chunks = metered(decodedText("generate-content", recording("generate-content", "unknown.txt")), other);
  expect(streamedText("messages", chunks, other)).not.toContain("hologram");
});

it("writes by time to live what was put into a cache", () => {
  const events = meant(decodedText("messages", recording("messages", "thinking-tools.txt")));
  const request = requestOf("messages");
  const body = JSON.parse(completedText("messages", metered(events, request), request)) as { usage: object };
  expect(body.usage).toMatchObject({
    input_tokens: 21,
    output_tokens: 187,
    cache_creation_input_tokens: 2048,
    cache_read_input_tokens: 512,
    cache_creation: { ephemeral_5m_input_tokens: 1024, ephemeral_1h_input_tokens: 1024 },
    service_tier: "standard",
  });
});

it("keeps to the spec's four reasons where no upstream of the format gave another", () => {
  const request = requestOf("messages");
  const answer = metered(
    [
      { type: "text-delta", text: "Hi" },
      { type: "finish", reason: "pause" },
    ],
    request,
  );
  expect(JSON.parse(completedText("messages", answer, request))).toMatchObject({ stop_reason: "end_turn" });
});

it("a messages call that is cut short in its arguments is closed, streamed and complete", () => {
  const request = requestOf("messages");
  const answer = metered(
    [
      { type: "tool-call-start", id: "a", name: "f" },
      { type: "tool-call-delta", id: "a", json: '{"x": 1, "y' },
      { type: "finish", reason: "length" },
    ],
    request,
  );
  expect(streamedText("messages", answer)).toContain('"stop_reason":"max_tokens"');
  expect(JSON.parse(completedText("messages", answer))).toMatchObject({
    content: [{ type: "tool_use", id: "a", name: "f", input: {} }],
    stop_reason: "max_tokens",
  });
});

const ERRORS: readonly (readonly [
  From,
  status: number,
  headers: Record<string, string>,
  body: unknown,
  seen: object,
])[] = [
  [
    "messages",
    429,
    { "retry-after": "7" },
    messagesError("rate_limit_error"),
    { code: "rate_limited", retryAfterMs: 7_000 },
  ],
  ["messages", 429, { "retry-after-ms": "250", "retry-after": "1" }, "", { code: "rate_limited", retryAfterMs: 250 }],
  [
    "messages",
    429,
    { "retry-after": "Sun, 22 Nov 2026 10:00:05 GMT", date: "Sun, 22 Nov 2026 10:00:00 GMT" },
    "",
    { code: "rate_limited", retryAfterMs: 5_000 },
  ],
  ["messages", 429, { "retry-after": "soon" }, null, { code: "rate_limited", retryAfterMs: undefined }],
  ["messages", 529, {}, messagesError("overloaded_error"), { code: "backend_overloaded" }],
  ["messages", 500, {}, messagesError("overloaded_error"), { code: "backend_overloaded" }],
  ["messages", 401, {}, messagesError("authentication_error"), { code: "backend_refused" }],
  ["messages", 403, {}, messagesError("permission_error"), { code: "backend_refused" }],
  ["messages", 402, {}, messagesError("billing_error"), { code: "backend_refused" }],
  ["messages", 400, {}, messagesError("invalid_request_error"), { code: "invalid_request" }],
  ["messages", 413, {}, messagesError("request_too_large"), { code: "body_too_large" }],
  ["messages", 400, {}, coded("model_not_found"), { code: "model_not_found", path: ["model"] }],
  ["messages", 400, {}, coded("model_not_allowed"), { code: "backend_refused" }],
  ["messages", 429, {}, coded("insufficient_quota"), { code: "backend_refused" }],
  ["messages", 400, {}, coded("failed_precondition"), { code: "failed_precondition" }],
  ["messages", 404, {}, messagesError("not_found_error"), { code: "model_not_found" }],
  ["messages", 404, {}, "<html>Not here</html>", { code: "backend_failed" }],
  ["messages", 500, {}, messagesError("api_error"), { code: "backend_failed" }],
  ["messages", 502, {}, "Bad gateway", { code: "backend_unavailable" }],
  ["messages", 504, {}, messagesError("timeout_error"), { code: "deadline_exceeded" }],
  [
    "generate-content",
    429,
    {},
    googleError(429, "RESOURCE_EXHAUSTED", { "@type": "RetryInfo", retryDelay: "1.5s" }),
    { code: "rate_limited", retryAfterMs: 1_500 },
  ],
  ["generate-content", 400, {}, googleError(400, "INVALID_ARGUMENT"), { code: "invalid_request" }],
  [
    "generate-content",
    400,
    {},
    googleError(400, "INVALID_ARGUMENT", { "@type": "ErrorInfo", reason: "API_KEY_INVALID" }),
    { code: "backend_refused" },
  ],
  ["generate-content", 400, {}, googleError(400, "FAILED_PRECONDITION"), { code: "failed_precondition" }],
  ["generate-content", 403, {}, googleError(403, "PERMISSION_DENIED"), { code: "backend_refused" }],
  ["generate-content", 404, {}, [googleError(404, "NOT_FOUND")], { code: "model_not_found" }],
  ["generate-content", 404, {}, "nothing", { code: "backend_failed" }],
  ["generate-content", 503, {}, googleError(503, "UNAVAILABLE"), { code: "backend_unavailable" }],
  ["generate-content", 500, {}, null, { code: "backend_failed" }],
];

function messagesError(type: string): object {
  return { type: "error", error: { type, message: SECRET }, request_id: "req_1" };
}

/** The same from a gateway of this kind, whose fine reason is a code. */
function coded(code: string): object {
  return { type: "error", error: { type: "invalid_request_error", message: SECRET, code }, request_id: "req_1" };
}

function googleError(code: number, status: string, ...details: object[]): object {
  return { error: { code, message: SECRET, status, details } };
}

describe("an upstream's error", () => {
  it.each(ERRORS)("of %s, %i %o %o", (name, status, headers, body, seen) => {
    const error = CODECS[name].decodeError(status, new Headers(headers), body);
    expect(error).toMatchObject({ ...seen, port: "model-backend" });
    expect(error.message).not.toContain("10.0.0.7");
    expect(JSON.stringify(error.cause ?? "").includes(SECRET)).toBe(JSON.stringify(body).includes(SECRET));
  });

  it.each([
    ["overloaded_error", "backend_overloaded"],
    ["rate_limit_error", "rate_limited"],
    ["api_error", "backend_failed"],
    ["authentication_error", "backend_refused"],
    ["invalid_request_error", "invalid_request"],
    ["no_such_error", "backend_failed"],
  ] satisfies [string, GatewayErrorCode][])("in the middle of a messages stream: %s", (type, code) => {
    const decoder = CODECS.messages.answerDecoder();
    expect(() => decoder.frame("error", JSON.stringify(messagesError(type)))).toThrow(
      expect.objectContaining({ code }),
    );
  });

  it("in the middle of a messages stream, with its fine reason", () => {
    const decoder = CODECS.messages.answerDecoder();
    expect(() => decoder.frame("error", JSON.stringify(coded("backend_unavailable")))).toThrow(
      expect.objectContaining({ code: "backend_unavailable" }),
    );
  });
});
