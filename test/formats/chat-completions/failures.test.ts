/** Chat-completions calls that fail: the status before an answer, and the frame within one. */

import { describe, expect, it } from "vitest";
import { GatewayError, type GatewayErrorCode } from "../../../src/index.ts";
import { fails, framesOf, having, openStage, plays } from "./stage.ts";

describe("a failure", () => {
  it.each<[GatewayErrorCode, number, string, string]>([
    ["invalid_request", 400, "invalid_request_error", "invalid_value"],
    ["model_not_allowed", 403, "permission_error", "model_not_allowed"],
    ["model_not_found", 404, "invalid_request_error", "model_not_found"],
    ["body_too_large", 413, "invalid_request_error", "request_too_large"],
    ["quota_exhausted", 429, "rate_limit_error", "insufficient_quota"],
    ["rate_limited", 429, "rate_limit_error", "rate_limit_exceeded"],
    ["backend_failed", 500, "server_error", "backend_failed"],
    ["backend_refused", 500, "server_error", "backend_failed"],
    ["backend_unavailable", 503, "server_error", "backend_unavailable"],
    ["deadline_exceeded", 504, "server_error", "deadline_exceeded"],
  ])("%s is %i before the answer, and a frame within it", async (code, status, type, wireCode) => {
    const error = new GatewayError(code, "It failed.", { path: ["n"] });
    const body = { error: { message: "It failed.", type, param: "n", code: wireCode } };
    for (const stream of [false, true]) {
      const response = await openStage(fails(error)).ask(having({ stream }));
      expect([response.status, await response.json()]).toEqual([status, body]);
    }
    const frames = await framesOf(await openStage(fails(error, "Hi")).ask(having({ stream: true })));
    expect(JSON.parse(frames.at(-1) ?? "")).toEqual(body);
  });

  it("of the key's quota is 429 and not tried again", async () => {
    const keys = [{ apiKey: "sk-empty", granted: 5, used: 5 }];
    const response = await openStage(plays("Hi"), { keys }).ask(having(), { authorization: "Bearer sk-empty" });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([429, "false"]);
    expect(await response.json()).toMatchObject({ error: { code: "insufficient_quota" } });
  });
});
