/** Calls that fail: refused, broken off, aborted. */

import { generateText, streamText } from "ai";
import { describe, expect, it } from "vitest";
import { abortSuite, refusedStreamSuite } from "../shared.suites.ts";
import { apiErrorOf, partsOf } from "../shared.ts";
import type { Stage } from "./stage.ts";

export function errorsSuite(stage: Stage): void {
  refusedSuite(stage);
  streamedSuite(stage);
  describe("abort", () => {
    abortSuite(stage);
  });
}

function refusedSuite({ plain, modelFor }: Stage): void {
  it.each([
    ["/fail 400", 400, false, "INVALID_ARGUMENT"],
    ["/fail 401", 401, false, "UNAUTHENTICATED"],
    ["/fail 403", 403, false, "PERMISSION_DENIED"],
    ["/fail 404", 404, false, "NOT_FOUND"],
    ["/fail 429", 429, true, "RESOURCE_EXHAUSTED"],
    ["/fail 500", 500, true, "INTERNAL"],
    ["/fail 503", 503, true, "UNAVAILABLE"],
    ["/fail 504", 504, true, "DEADLINE_EXCEEDED"],
    ["/break 500", 500, true, "INTERNAL"],
  ])("%s is an APICallError with its status", async (prompt, statusCode, isRetryable, status) => {
    const error = await apiErrorOf(generateText({ ...plain(), prompt }));
    expect(error).toMatchObject({ statusCode, isRetryable });
    expect(error.data).toMatchObject({ error: { code: statusCode, status, message: error.message } });
    expect(error.responseHeaders?.["request-id"]).toMatch(/^req_\w+$/);
  });

  it.each([
    ["sk-nobody", 401],
    ["sk-expired", 401],
    ["sk-empty", 403],
  ])("%s is refused with its status", async (apiKey, statusCode) => {
    const error = await apiErrorOf(generateText({ ...plain(apiKey), prompt: "Hi" }));
    expect(error).toMatchObject({ statusCode, isRetryable: false });
  });

  it("names the model that is not there", async () => {
    const error = await apiErrorOf(generateText({ ...plain(), model: modelFor("sk-demo", "nobody"), prompt: "Hi" }));
    expect(error).toMatchObject({ statusCode: 404, isRetryable: false });
    expect(error.message).toContain('"nobody"');
  });
}

function streamedSuite(stage: Stage): void {
  const { plain } = stage;
  refusedStreamSuite(stage);

  it("come in the middle of a stream after what was said before", async () => {
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }): void => void errors.push(error);
    const parts = await partsOf(streamText({ ...plain(), prompt: "/break 503 /repeat 4", onError }).fullStream);
    expect(parts.map((part) => (part.type === "text-delta" ? part.text : "")).join("")).toBe("word word");
    expect(errors).toMatchObject([{ data: { code: 503, status: "UNAVAILABLE" } }]);
    expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: "error" });
  });
}
