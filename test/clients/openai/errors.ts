/** Errors: the SDK's class for each status, the field that they name, and what is tried again. */

import type { ImageGenerateParamsNonStreaming } from "openai/resources/images";
import { expect, it } from "vitest";
import { patchwork } from "../pixels.ts";
import { errorOf, type Stage } from "./sdk.ts";

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

export function errorsSuite({ sdk, connect, playground }: Stage): void {
  const square = async (): Promise<File> => sdk.toFile(await patchwork(64, 64), "a.png", { type: "image/png" });

  it.each<[param: string, request: Partial<ImageGenerateParamsNonStreaming>]>([
    ["prompt", { prompt: "x".repeat(1_001) }],
    ["n", { n: 0 }],
    ["n", { n: 2, model: "dall-e-3" }],
    ["size", { size: "1792x1024" }],
    ["quality", { quality: "hd" }],
    ["style", { style: "vivid" }],
    ["background", { model: "dall-e-2", background: "opaque" }],
    ["output_format", { model: "gpt-image-1", output_format: "gif" }],
  ])("BadRequestError names the field %s", async (param, request) => {
    const error = await errorOf(connect({ maxRetries: 2 }).images.generate({ prompt, ...request }));
    expect(error).toBeInstanceOf(sdk.OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param, type: "invalid_request_error", code: "invalid_value" });
    expectWhole(error);
  });

  it("BadRequestError names the file", async () => {
    const oblong = await sdk.toFile(await patchwork(64, 32), "a.png");
    const calls: [string, () => Promise<unknown>][] = [
      ["image", async () => connect().images.edit({ prompt, image: await square() })],
      ["image", async () => connect().images.createVariation({ image: oblong })],
      ["image", async () => connect().images.edit({ prompt, image: await sdk.toFile(Buffer.from("text"), "a.png") })],
      ["mask", async () => connect().images.edit({ prompt, image: await square(), mask: oblong })],
      ["model", async () => connect().images.edit({ prompt, image: await square(), model: "dall-e-3" })],
      [
        "image.1",
        async () => connect().images.edit({ prompt, image: [await square(), await sdk.toFile(Buffer.alloc(9), "b")] }),
      ],
    ];
    for (const [param, call] of calls) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(sdk.OpenAI.BadRequestError);
      expect(error.param).toBe(param);
      expectWhole(error);
    }
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

  it("PermissionDeniedError for a model that the key may not use", async () => {
    const error = await errorOf(connect({ apiKey: "sk-limited" }).images.generate({ prompt }));
    expect(error).toBeInstanceOf(sdk.OpenAI.PermissionDeniedError);
    expect(error).toMatchObject({ status: 403, param: "model", code: "model_not_allowed" });
    expectWhole(error);
  });

  it("NotFoundError for a model that is not there", async () => {
    const error = await errorOf(connect().images.generate({ prompt, model: "gpt-image-9" }));
    expect(error).toBeInstanceOf(sdk.OpenAI.NotFoundError);
    expect(error).toMatchObject({ status: 404, param: "model", code: "model_not_found" });
    expectWhole(error);
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

  it("413 for a file that is too large", async () => {
    const image = await sdk.toFile(Buffer.concat([await patchwork(64, 64), Buffer.alloc(4 * MIB)]), "a.png");
    const error = await errorOf(connect().images.createVariation({ image }));
    expect(error).toBeInstanceOf(sdk.OpenAI.APIError);
    expect(error).toMatchObject({ status: 413, param: "image", code: "request_too_large" });
    expectWhole(error);
  });

  it("413 for a file of which the rest is not even read", async () => {
    const image = await sdk.toFile(Buffer.concat([await patchwork(64, 64), Buffer.alloc(60 * MIB)]), "a.png");
    const error = await errorOf(connect().images.edit({ prompt, image, model: "gpt-image-1" }));
    expect(error).toMatchObject({ status: 413, param: "image", code: "request_too_large" });
    expectWhole(error);
  });

  it("a picture that was never drawn is not there", async () => {
    const response = await fetch(`${playground().url}/v1/images/files/${"A".repeat(32)}`);
    expect([response.status, await response.json()]).toEqual([
      404,
      { error: expect.objectContaining({ code: "image_not_found" }) },
    ]);
  });
}
