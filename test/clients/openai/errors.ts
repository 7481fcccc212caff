/** Errors: the SDK's class for each status, the field that they name, and what is tried again. */

import type { ImageGenerateParamsNonStreaming } from "openai/resources/images";
import { expect, it } from "vitest";
import { patchwork } from "../pixels.ts";
import { errorOf, sdks, type Stage } from "./sdk.ts";

const prompt = "A lighthouse in the rain";
const MIB = 1024 * 1024;

type ApiError = Awaited<ReturnType<typeof errorOf>>;

/** What all errors have: a body that says it all, and the id of the request. */
function expectWhole(error: ApiError): void {
  expect(error.requestID).toMatch(/^req_\w+$/);
  const { message, ...rest } = error.error as { message: string };
  expect(rest).toEqual({ type: error.type, param: error.param, code: error.code });
  expect(error.message).toBe(`${error.status} ${message}`);
}

export function errorsSuite({ sdk, connect }: Stage): void {
  const square = async (): Promise<File> => sdk.toFile(await patchwork(64, 64), "a.png", { type: "image/png" });

  it.each<[param: string, request: Partial<ImageGenerateParamsNonStreaming>]>([
    ["prompt", { prompt: "x".repeat(1_001) }],
    ["n", { n: 0 }],
  ])("BadRequestError names the field %s", async (param, request) => {
    const error = await errorOf(connect({ maxRetries: 2 }).images.generate({ prompt, ...request }));
    expect(error).toBeInstanceOf(sdk.OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param, type: "invalid_request_error", code: "invalid_value" });
    expectWhole(error);
  });

  it.each([
    ["sk-nobody", "invalid_api_key"],
    ["sk-expired", "expired_api_key"],
  ])("AuthenticationError for the key %s", async (apiKey, code) => {
    const client = connect({ apiKey });
    for (const call of [
      async () => client.images.generate({ prompt }),
      async () => client.images.edit({ prompt, image: await square() }),
      async () => client.images.createVariation({ image: await square() }),
    ]) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(sdk.OpenAI.AuthenticationError);
      expect(error).toMatchObject({ status: 401, type: "authentication_error", code, param: null });
      expect(error.message).not.toContain("nobody");
      expectWhole(error);
    }
  });

  it("RateLimitError for a quota that is used up, once and not again", async () => {
    let sent = 0;
    const counting: typeof fetch = (input, init) => {
      sent++;
      return fetch(input, init);
    };
    const client = connect({ apiKey: "sk-empty", maxRetries: 2, fetch: counting });
    const error = await errorOf(client.images.generate({ prompt }));
    expect(error).toBeInstanceOf(sdk.OpenAI.RateLimitError);
    expect(error).toMatchObject({ status: 429, code: "insufficient_quota", type: "rate_limit_error" });
    expect(sent).toBe(1);
    expectWhole(error);
  });

  // To send 60 MiB is the work of the platform's fetch, whatever the major.
  if (sdk !== sdks[0]) return;
  it("413 for a file of which the rest is not even read", async () => {
    const image = await sdk.toFile(Buffer.concat([await patchwork(64, 64), Buffer.alloc(60 * MIB)]), "a.png");
    const error = await errorOf(connect().images.edit({ prompt, image, model: "gpt-image-1" }));
    expect(error).toMatchObject({ status: 413, param: "image", code: "request_too_large" });
    expectWhole(error);
  });
}
