/** Calls that fail: refused, broken off, aborted. */

import { generateText, streamText } from "ai";
import { describe, expect, it } from "vitest";
import { abortSuite, refusedStreamSuite } from "../shared.suites.ts";
import { apiErrorOf, partsOf } from "../shared.ts";
import type { Stage } from "./stage.ts";

export function errorsSuite(stage: Stage): void {
  const { plain, modelFor } = stage;
  it.each([
    ["/fail 400", 400, false, "invalid_request_error"],
    ["/fail 401", 401, false, "authentication_error"],
    ["/fail 429", 429, true, "rate_limit_error"],
    ["/fail 500", 500, true, "server_error"],
    ["/fail 503", 503, true, "server_error"],
    ["/fail 504", 504, true, "server_error"],
    ["/break 500", 500, true, "server_error"],
  ])("%s is an APICallError with its status", async (prompt, statusCode, isRetryable, type) => {
    const error = await apiErrorOf(generateText({ ...plain(), prompt }));
    expect(error).toMatchObject({ statusCode, isRetryable });
    expect(error.data).toMatchObject({ type: "error", error: { type, message: error.message } });
    expect(error.responseHeaders?.["request-id"]).toMatch(/^req_\w+$/);
  });

  it.each([
    ["sk-nobody", 401, "invalid_api_key"],
    ["sk-expired", 401, "expired_api_key"],
    ["sk-empty", 429, "insufficient_quota"],
  ])("%s is refused with its status", async (apiKey, statusCode, code) => {
    const error = await apiErrorOf(generateText({ ...plain(apiKey), prompt: "Hi" }));
    expect(error.statusCode).toBe(statusCode);
    expect(JSON.parse(error.responseBody ?? "")).toMatchObject({ error: { code } });
  });

  it("names the model that is not there", async () => {
    const error = await apiErrorOf(generateText({ ...plain(), model: modelFor("sk-demo", "nobody"), prompt: "Hi" }));
    expect(error).toMatchObject({ statusCode: 400, isRetryable: false });
    expect(error.message).toContain('"nobody"');
  });

  refusedStreamSuite(stage);

  it("come in the middle of a stream after what was said before", async () => {
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }): void => void errors.push(error);
    const parts = await partsOf(streamText({ ...plain(), prompt: "/break 500 /repeat 4", onError }).fullStream);
    expect(parts.map((part) => (part.type === "text-delta" ? part.text : "")).join("")).toBe("word word");
    expect(errors).toMatchObject([{ data: { type: "server_error", code: "backend_failed" } }]);
    expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: "error" });
  });

  describe("abort", () => {
    abortSuite(stage);
  });
}
