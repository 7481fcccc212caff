/** Calls that fail: each status and its name, complete and streamed, before the answer and in the middle of it. */

import type { GenerateContentResponse } from "@google/genai";
import { describe, expect, it } from "vitest";
import { errorOf, recordingFetch, say, type Stage, textOf, wireError } from "./sdk.ts";

export function errorsSuite(stage: Stage): void {
  describe.each(["complete", "streamed"] as const)("%s", (form) => {
    beforeSuite(stage, form);
  });
  describe("in the middle of a stream", () => {
    midStreamSuite(stage);
  });
  describe("retries", () => {
    retrySuite(stage);
  });
}

function beforeSuite({ sdk, connect }: Stage, form: "complete" | "streamed"): void {
  const call = async (text: string, { apiKey = "sk-demo", model = "demo-chat" } = {}): Promise<unknown> => {
    const { models } = connect({ apiKey });
    const asked = { ...say(text), model };
    return form === "complete" ? models.generateContent(asked) : models.generateContentStream(asked);
  };

  it.each([
    [400, "INVALID_ARGUMENT"],
    [429, "RESOURCE_EXHAUSTED"],
    [503, "UNAVAILABLE"],
  ])("%i is %s", async (code, status) => {
    const error = await errorOf(call(`/fail ${code}`));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(error.name).toBe("ApiError");
    expect(error.status).toBe(code);
    expect(wireError(error)).toEqual({
      code,
      status,
      message: expect.stringMatching(/\w/) as unknown,
      details: expect.any(Array) as unknown,
    });
  });

  it.each([
    ["sk-nobody", 401, "UNAUTHENTICATED"],
    ["sk-expired", 401, "UNAUTHENTICATED"],
    ["sk-empty", 403, "PERMISSION_DENIED"],
  ])("%s is refused with %i", async (apiKey, code, status) => {
    const error = await errorOf(call("Hello", { apiKey }));
    expect(error.status).toBe(code);
    expect(wireError(error)).toMatchObject({ code, status });
  });
}

function midStreamSuite({ sdk, connect, ask }: Stage): void {
  it.each([
    [429, "RESOURCE_EXHAUSTED"],
    [503, "UNAVAILABLE"],
  ])("%i is an error of its status, after what was said before", async (code, status) => {
    const said: GenerateContentResponse[] = [];
    const read = async (): Promise<void> => {
      const stream = await connect().models.generateContentStream(say(`/break ${code} /repeat 6`));
      for await (const chunk of stream) said.push(chunk);
    };
    const error = await errorOf(read());
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(error.status).toBe(code);
    expect(error.message).toContain(`got status: ${status}.`);
    expect(wireError(error)).toMatchObject({ code, status });
    expect(said.map((chunk) => textOf(chunk)).join("")).toBe("word word word");
  });

  it("is a plain error where the answer was to come complete", async () => {
    expect(await errorOf(ask(say("/break 503 /repeat 6")))).toMatchObject({ name: "ApiError", status: 503 });
  });
}

function retrySuite({ connect }: Stage): void {
  it.each([
    ["/fail 503", 2],
    ["/fail 429", 2],
    ["/fail 400", 1],
    ["/fail 403", 1],
  ])("after %s: %i calls", async (text, calls) => {
    const { fetch, sent } = recordingFetch();
    const retryOptions = { attempts: 2, initialDelay: 0.001, maxDelay: 0.001 };
    await errorOf(connect({ fetch, httpOptions: { retryOptions } }).models.generateContent(say(text)));
    expect(sent).toHaveLength(calls);
  });
}
