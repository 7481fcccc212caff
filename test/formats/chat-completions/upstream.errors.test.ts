/** What the errors of upstreams of the chat-completions format mean to a caller of the gateway's. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";

const codec = chatCompletionsCodec();

const error = (code: string | null, message = "A secret."): object => ({
  error: { message, type: "t", param: null, code },
});

describe("an error", () => {
  it.each<[status: number, body: unknown, code: string]>([
    [400, error(null), "invalid_request"],
    [400, error("context_length_exceeded"), "context_length_exceeded"],
    [401, error("invalid_api_key"), "backend_refused"],
    [402, error(null), "backend_refused"],
    [403, error(null), "backend_refused"],
    [400, error("failed_precondition"), "failed_precondition"],
    [404, error("model_not_found"), "model_not_found"],
    [404, { error: "A secret." }, "model_not_found"],
    [404, "<html>A secret.</html>", "backend_failed"],
    [404, "404 page not found", "backend_failed"],
    [408, "", "deadline_exceeded"],
    [413, "", "body_too_large"],
    [418, "", "invalid_request"],
    [422, { detail: [{ msg: "A secret." }] }, "invalid_request"],
    [429, error("rate_limit_exceeded"), "rate_limited"],
    [429, error("insufficient_quota"), "backend_refused"],
    [500, { message: "A secret." }, "backend_failed"],
    [502, "<html>A secret.</html>", "backend_unavailable"],
    [503, null, "backend_unavailable"],
    [504, undefined, "deadline_exceeded"],
    [529, [], "backend_overloaded"],
    [302, "", "backend_failed"],
  ])("%i %j is %s", (status, body, code) => {
    const decodedError = codec.decodeError(status, new Headers(), body);
    expect(decodedError).toMatchObject({ code, port: "model-backend" });
    expect(decodedError.message).not.toContain("secret");
    expect(decodedError.cause).toBe(body);
  });

  it("of a conversation that is too long says so, whatever the server calls it", () => {
    const body = error(null, "This model's maximum context length is 8 tokens.");
    expect(codec.decodeError(400, new Headers(), body)).toMatchObject({
      code: "context_length_exceeded",
      path: ["messages"],
      context: { maxTokens: 8 },
    });
  });

  it("of a model that is not there names the field", () => {
    expect(codec.decodeError(404, new Headers(), error(null))).toMatchObject({ path: ["model"] });
  });

  it.each([
    ["backend_unavailable", "backend_unavailable"],
    ["overloaded", "backend_overloaded"],
    ["rate_limit_exceeded", "rate_limited"],
    ["insufficient_quota", "backend_refused"],
    ["something_else", "backend_failed"],
  ])("in the middle of a stream with the code %s is %s", (wire, code) => {
    const data = JSON.stringify({ error: { message: "A secret.", type: "server_error", code: wire } });
    expect(() => codec.answerDecoder().frame(undefined, data)).toThrow(expect.objectContaining({ code }));
  });

  it.each<[Record<string, string>, number | undefined]>([
    [{ "retry-after": "2" }, 2_000],
    [{ "retry-after-ms": "150", "retry-after": "2" }, 150],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:05 GMT", date: "Thu, 01 Jan 2026 00:00:00 GMT" }, 5_000],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:05 GMT" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "99999999999" }, 86_400_000],
    [{}, undefined],
  ])("of the rate with %j keeps how long to wait", (headers, retryAfterMs) => {
    expect(codec.decodeError(429, new Headers(headers), "").retryAfterMs).toBe(retryAfterMs);
  });
});
