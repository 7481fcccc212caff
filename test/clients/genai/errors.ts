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
  fieldsSuite(stage);
}

function beforeSuite({ sdk, connect }: Stage, form: "complete" | "streamed"): void {
  const call = async (text: string, { apiKey = "sk-demo", model = "demo-chat" } = {}): Promise<unknown> => {
    const { models } = connect({ apiKey });
    const asked = { ...say(text), model };
    return form === "complete" ? models.generateContent(asked) : models.generateContentStream(asked);
  };

  it.each([
    [400, "INVALID_ARGUMENT"],
    [401, "UNAUTHENTICATED"],
    [403, "PERMISSION_DENIED"],
    [404, "NOT_FOUND"],
    [413, "PAYLOAD_TOO_LARGE"],
    [429, "RESOURCE_EXHAUSTED"],
    [500, "INTERNAL"],
    [503, "UNAVAILABLE"],
    [504, "DEADLINE_EXCEEDED"],
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

  it("tells a model that is not there from one that a key may not use", async () => {
    expect(wireError(await errorOf(call("Hello", { model: "nobody" })))).toMatchObject({
      code: 404,
      status: "NOT_FOUND",
    });
    const forbidden = await errorOf(call("Hello", { model: "nobody", apiKey: "sk-limited" }));
    expect(wireError(forbidden)).toMatchObject({ code: 403, status: "PERMISSION_DENIED" });
  });

  it("never says the key", async () => {
    expect((await errorOf(call("Hello", { apiKey: "sk-3f9a1c" }))).message).not.toContain("3f9a1c");
  });
}

function midStreamSuite({ sdk, connect, ask }: Stage): void {
  it.each([
    [429, "RESOURCE_EXHAUSTED"],
    [500, "INTERNAL"],
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

function fieldsSuite({ sdk, connect }: Stage): void {
  it.each<[string, Record<string, unknown>, string]>([
    ["a field of the wrong type", { generationConfig: { topP: "much" } }, "generationConfig.topP"],
    ["one in the other spelling", { generation_config: { top_p: "much" } }, "generation_config.top_p"],
    ["one deep inside", { tools: [{ functionDeclarations: [{ name: 7 }] }] }, "tools[0].functionDeclarations[0].name"],
  ])("names %s as the caller spelled it", async (_what, extraBody, field) => {
    const { models } = connect({ httpOptions: { extraBody } });
    const error = await errorOf(models.generateContent({ model: "demo-chat", contents: "Hello" }));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({
      code: 400,
      status: "INVALID_ARGUMENT",
      message: expect.stringContaining(field) as unknown,
      details: [
        {
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          fieldViolations: [{ field, description: expect.stringMatching(/\w/) as unknown }],
        },
      ],
    });
  });

  it("asks for contents", async () => {
    const { models } = connect({ httpOptions: { extraBody: { contents: [] } } });
    const error = await errorOf(models.generateContent({ model: "demo-chat", contents: "Hello" }));
    expect(wireError(error)).toMatchObject({ code: 400, message: expect.stringContaining("contents") as unknown });
  });

  it("says that a cached content is not there", async () => {
    const error = await errorOf(
      connect().models.generateContent(say("Hello", { cachedContent: "cachedContents/nothing" })),
    );
    expect(wireError(error)).toMatchObject({ code: 400, status: "FAILED_PRECONDITION" });
    expect(wireError(error).message).toContain("cachedContents/nothing");
  });
}
