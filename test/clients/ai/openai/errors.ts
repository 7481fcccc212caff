/** Calls that fail: what the SDK is told of them. */

import { generateImage } from "ai";
import { expect, it } from "vitest";
import { usageOf } from "../../playground.ts";
import { apiErrorOf } from "../shared.ts";
import type { Stage } from "./stage.ts";

const prompt = "A lighthouse in the rain";

export function errorsSuite({ plain, playground }: Stage): void {
  it.each([
    ["a prompt that is too long", "dall-e-2", "sk-demo", "x".repeat(1_001), 400, "invalid_value", "prompt"],
    ["an unknown key", "gpt-image-1", "sk-nobody", prompt, 401, "invalid_api_key", null],
    ["a model that the key may not use", "gpt-image-1", "sk-limited", prompt, 403, "model_not_allowed", "model"],
    ["a model that is not there", "gpt-image-9", "sk-demo", prompt, 404, "model_not_found", "model"],
  ])("%s is an APICallError", async (_name, id, apiKey, words, status, code, param) => {
    const error = await apiErrorOf(generateImage({ ...plain(id, apiKey), prompt: words }));
    expect(error.statusCode).toBe(status);
    expect(error.isRetryable).toBe(false);
    expect(error.data).toMatchObject({ error: { code, param, message: error.message } });
    expect(error.responseHeaders?.["x-request-id"]).toMatch(/^req_\w+$/);
  });

  it("a quota that is used up is told as such", async () => {
    const error = await apiErrorOf(generateImage({ ...plain("dall-e-2", "sk-empty"), prompt }));
    expect(error.statusCode).toBe(429);
    expect(error.data).toMatchObject({ error: { code: "insufficient_quota" } });
  });

  it("a size that the model has not names the field", async () => {
    const error = await apiErrorOf(generateImage({ ...plain("dall-e-2"), prompt, size: "1792x1024" }));
    expect(error.data).toMatchObject({ error: { code: "invalid_value", param: "size" } });
  });

  it("a call that was aborted before it began costs nothing", async () => {
    const { total_used: before } = await usageOf(playground().url, "sk-metered");
    const abortSignal = AbortSignal.abort();
    const call = generateImage({ ...plain("dall-e-2", "sk-metered"), prompt, abortSignal });
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    expect((await usageOf(playground().url, "sk-metered")).total_used).toBe(before);
  });
}
