/** Errors: the SDK's class for each status, what it tells, and what is tried again. */

import { describe, expect, it } from "vitest";
import { errorOf, type Params, recordingFetch, say, type Stage } from "./sdk.ts";

type ApiError = Awaited<ReturnType<typeof errorOf>>;

/** What an error's body says (spec 7.2), which must say it all, and name the request as the header does. */
function wireError(error: ApiError): { type: string; message: string; code: string } {
  const requestId = error.headers?.get("request-id");
  expect(requestId).toMatch(/^req_\w+$/);
  expect(error.requestID).toBe(requestId);
  const body = error.error as { error: { type: string; message: string; code: string } };
  expect(body).toEqual({
    type: "error",
    error: {
      type: expect.any(String) as unknown,
      message: expect.any(String) as unknown,
      code: expect.any(String) as unknown,
    },
    request_id: requestId,
  });
  expect(error.type).toBe(body.error.type);
  return body.error;
}

export function errorsSuite(stage: Stage): void {
  describe.each([
    ["400", badRequestSuite],
    ["401", authenticationSuite],
    ["429", rateLimitSuite],
    ["5xx", serverErrorSuite],
    ["in the middle of a stream", midStreamSuite],
  ] as const)("%s", (_status, suite) => {
    suite(stage);
  });
}

function badRequestSuite({ sdk, connect }: Stage): void {
  const call = { type: "tool_use" as const, id: "call_1", name: "a", input: {} };

  it.each<[string, Params]>([
    ["model", say("Hello", { model: "" })],
    ["messages.0.content.0.type", say([call])],
  ])("names the field %s", async (field, params) => {
    const { fetch, sent } = recordingFetch();
    const error = await errorOf(connect({ fetch, maxRetries: 2 }).messages.create(params));
    expect(error).toBeInstanceOf(sdk.Anthropic.BadRequestError);
    expect(error.status).toBe(400);
    const { type, message, code } = wireError(error);
    expect({ type, code }).toEqual({ type: "invalid_request_error", code: "invalid_request" });
    expect(message.slice(0, message.indexOf(":"))).toBe(field);
    expect(sent).toHaveLength(1);
  });

  it.each([
    ["a model that is not there", "sk-demo", "demo-poet", "model_not_found"],
    ["a model that the key may not use", "sk-limited", "image-model-2", "model_not_allowed"],
  ])("is the answer to %s", async (_what, apiKey, model, code) => {
    const error = await errorOf(connect({ apiKey }).messages.create(say("Hello", { model })));
    expect(error).toBeInstanceOf(sdk.Anthropic.BadRequestError);
    expect(wireError(error)).toMatchObject({ type: "invalid_request_error", code });
  });
}

function authenticationSuite({ sdk, connect }: Stage): void {
  it.each([
    ["a key that is not known", "sk-nobody", "invalid_api_key"],
    ["a key that has expired", "sk-expired", "expired_api_key"],
  ])("is the answer to %s", async (_what, apiKey, code) => {
    const { fetch, sent } = recordingFetch();
    const error = await errorOf(connect({ apiKey, fetch, maxRetries: 2 }).messages.create(say("Hello")));
    expect(error).toBeInstanceOf(sdk.Anthropic.AuthenticationError);
    expect(error.status).toBe(401);
    expect(wireError(error)).toMatchObject({ type: "authentication_error", code });
    expect(sent).toHaveLength(1);
  });
}

function rateLimitSuite({ sdk, connect }: Stage): void {
  it.each([false, true])("is final where the quota is used up (stream: %s)", async (stream) => {
    const { fetch, sent } = recordingFetch();
    const client = connect({ apiKey: "sk-empty", fetch, maxRetries: 2 });
    const error = await errorOf(client.messages.create({ ...say("Hello"), stream }));
    expect(error).toBeInstanceOf(sdk.Anthropic.RateLimitError);
    expect(error.status).toBe(429);
    expect(wireError(error)).toMatchObject({ type: "rate_limit_error", code: "insufficient_quota" });
    expect(error.headers?.get("x-should-retry")).toBe("false");
    expect(sent).toHaveLength(1);
  });

  it("is tried again where the rate is too high, after the time that was asked for", async () => {
    const { fetch, sent } = recordingFetch();
    const error = await errorOf(connect({ fetch, maxRetries: 1 }).messages.create(say("/fail 429")));
    expect(error).toBeInstanceOf(sdk.Anthropic.RateLimitError);
    expect(wireError(error)).toMatchObject({ type: "rate_limit_error", code: "rate_limit_exceeded" });
    expect(error.headers?.get("x-should-retry")).toBeNull();
    expect(error.headers?.get("retry-after")).toBe("1");
    expect(error.headers?.get("retry-after-ms")).toBe("1000");
    expect(sent.map(({ headers }) => headers.get("x-stainless-retry-count"))).toEqual(["0", "1"]);
  });
}

function serverErrorSuite({ sdk, connect }: Stage): void {
  it.each([
    [500, "backend_failed"],
    [503, "backend_unavailable"],
    [504, "deadline_exceeded"],
  ])("%i says what the matter is", async (status, code) => {
    for (const stream of [false, true]) {
      const error = await errorOf(connect().messages.create({ ...say(`/fail ${status}`), stream }));
      expect(error).toBeInstanceOf(sdk.Anthropic.InternalServerError);
      expect(error.status).toBe(status);
      expect(wireError(error)).toMatchObject({ type: "server_error", code });
    }
  });
}

function midStreamSuite({ sdk, connect }: Stage): void {
  it.each([
    [500, "server_error", "backend_failed"],
    [503, "server_error", "backend_unavailable"],
    [429, "rate_limit_error", "rate_limit_exceeded"],
  ])("%i is an error of its type, after what was said before", async (status, type, code) => {
    const words: string[] = [];
    const stream = connect({ maxRetries: 2 }).messages.stream(say(`/break ${status} /repeat 6`));
    stream.on("text", (word) => words.push(word));
    const error = await errorOf(stream.finalMessage());
    expect(error).toBeInstanceOf(sdk.Anthropic.APIError);
    expect(error).not.toBeInstanceOf(sdk.Anthropic.APIConnectionError);
    // The status went out with the stream's first byte.
    expect(error.status).toBeUndefined();
    expect(wireError(error)).toMatchObject({ type, code });
    expect(words.join("")).toBe("word word word");
  });

  it("ends the iteration over raw events too", async () => {
    const stream = await connect().messages.create({ ...say("/break 500 /repeat 2"), stream: true });
    const types: string[] = [];
    const read = async (): Promise<void> => {
      for await (const event of stream) types.push(event.type);
    };
    const error = await errorOf(read());
    expect(error).toBeInstanceOf(sdk.Anthropic.APIError);
    expect(wireError(error)).toMatchObject({ type: "server_error", code: "backend_failed" });
    expect(types).toEqual(["message_start", "content_block_start", "content_block_delta"]);
  });

  it("is a plain error where the answer was to come complete", async () => {
    const error = await errorOf(connect().messages.create(say("/break 503 /repeat 6")));
    expect(error).toBeInstanceOf(sdk.Anthropic.InternalServerError);
    expect(error.status).toBe(503);
  });
}
