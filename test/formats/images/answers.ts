/** The complete image answer (spec 2.4): its pictures as links, as data or both, and what they took. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ImageEvent } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { drawn, type ImagePlay, type Mount, openStage } from "../../hosts/stage.ts";
import { requestIdOf } from "../messages/refusal.ts";
import { CLEAR, JPEG } from "./pictures.ts";
import { anyText, refusalOf } from "./refusal.ts";
import { edit, editing, type Fields, file, type FormFields, generate, generating, vary, varying } from "./requests.ts";

const TWO = "image-model-2";
const THREE = "image-model-3";
const MULTI = "image-model-multi";

const draws = (...events: readonly ImageEvent[]): ImagePlay =>
  async function* () {
    yield* events;
  };

const base64Of = (number: number): string => Buffer.from(drawn(number).bytes).toString("base64");
const link = expect.stringMatching(/\/v1\/images\/files\/[\w-]{22,}$/) as string;
const asLink = { url: link };
const asData = { b64_json: base64Of(0) };
const asBoth = { ...asLink, ...asData };

const DELIVERED: readonly (readonly [name: string, fields: Fields, picture: object])[] = [
  ["image-model-2, as a link", { model: TWO }, asLink],
  ["image-model-3, as a link", { model: THREE }, asLink],
  ["image-model-multi, as both", { model: MULTI }, asBoth],
  ["image-model-multi where the format is null, as both", { model: MULTI, response_format: null }, asBoth],
  ...[TWO, THREE, MULTI].flatMap((model) => [
    [`${model}, as the link that was asked for`, { model, response_format: "url" }, asLink] as const,
    [`${model}, as the data that was asked for`, { model, response_format: "b64_json" }, asData] as const,
  ]),
];

const USAGE: ImageEvent = {
  type: "usage",
  usage: { inputTextTokens: 11, inputImageTokens: 300, outputTokens: 1_056 },
};
const WIRE_USAGE = {
  total_tokens: 1_367,
  input_tokens: 311,
  output_tokens: 1_056,
  input_tokens_details: { text_tokens: 11, image_tokens: 300 },
};

const failed = { status: 500, type: "server_error", code: "backend_failed", param: null, message: anyText };

export function answersSuite(mount: Mount): void {
  it.each(DELIVERED)("delivers a picture of %s", async (_name, fields, picture) => {
    const clock = manualClock();
    await using stage = await openStage(mount, { clock });
    const response = await generate(stage, generating(fields));
    requestIdOf(response);
    expect(response.headers.get("content-type")).toBe("application/json");
    const { usage, ...body } = (await response.json()) as { usage?: object };
    expect(body).toEqual({ created: Math.floor(clock.now() / 1000), data: [picture] });
    expect(usage === undefined).toBe(fields["model"] !== MULTI);
  });

  it.each([
    ["an edit", (fields: FormFields) => [edit, editing(fields)] as const],
    ["a variation", (fields: FormFields) => [vary, varying(fields)] as const],
  ])("delivers %s as it is asked for", async (_name, having) => {
    await using stage = await openStage(mount);
    for (const [format, picture] of [
      [undefined, asLink],
      ["null", asLink],
      ["url", asLink],
      ["b64_json", asData],
    ] as const) {
      const [send, fields] = having({ response_format: format });
      expect(await (await send(stage, fields)).json()).toEqual({ created: expect.any(Number), data: [picture] });
    }
  });

  it("delivers an edit by image-model-multi as both, with its usage", async () => {
    await using stage = await openStage(mount, { imagePlay: draws(USAGE, drawn(0)) });
    const response = await edit(stage, editing({ image: [file(CLEAR), file(JPEG)] }));
    expect(await response.json()).toEqual({ created: expect.any(Number), data: [asBoth], usage: WIRE_USAGE });
  });

  it("has its pictures in the order in which they were drawn, each with its own prompt", async () => {
    await using stage = await openStage(mount, {
      imagePlay: draws(drawn(0, "A crimson hat"), drawn(1), drawn(2, "A hat, 赤")),
    });
    const response = await generate(stage, generating({ n: 3, response_format: "b64_json" }));
    const { data } = (await response.json()) as { data: object[] };
    expect(data).toEqual([
      { b64_json: base64Of(0), revised_prompt: "A crimson hat" },
      { b64_json: base64Of(1) },
      { b64_json: base64Of(2), revised_prompt: "A hat, 赤" },
    ]);
  });

  it.each<[string, string | null]>([
    ["was not revised", "A hat"],
    ["is null, as some upstreams have it", null],
  ])("tells no prompt that %s", async (_what, revised) => {
    await using stage = await openStage(mount, { imagePlay: draws({ ...drawn(0), revisedPrompt: revised as string }) });
    const response = await generate(stage, generating({ prompt: "A hat", response_format: "b64_json" }));
    expect(await response.json()).toEqual({ created: expect.any(Number), data: [{ b64_json: base64Of(0) }] });
  });

  it("gives each picture an address of its own", async () => {
    await using stage = await openStage(mount);
    const { data } = (await (await generate(stage, generating({ n: 10 }))).json()) as { data: { url: string }[] };
    expect(new Set(data.map(({ url }) => url)).size).toBe(10);
  });

  it("has as many pictures as were asked for, where the backend draws more", async () => {
    await using stage = await openStage(mount, { imagePlay: draws(drawn(0), drawn(1), drawn(2)) });
    const response = await generate(stage, generating({ n: 2 }));
    expect(await response.json()).toEqual({ created: expect.any(Number), data: [asLink, asLink] });
  });

  it("has no unfinished pictures", async () => {
    const partial = { type: "partial-image", image: 0, step: 0, bytes: CLEAR, mediaType: "image/png" } as const;
    await using stage = await openStage(mount, { imagePlay: draws(partial, drawn(0)) });
    const { data } = (await (await generate(stage, generating({ model: MULTI, partial_images: 1 }))).json()) as {
      data: object[];
    };
    expect(data).toEqual([asBoth]);
  });

  describe("usage", () => {
    it.each([
      [MULTI, WIRE_USAGE],
      [TWO, undefined],
      [THREE, undefined],
    ])("of %s is told as it should be", async (model, usage) => {
      await using stage = await openStage(mount, { imagePlay: draws(USAGE, drawn(0)) });
      expect(((await (await generate(stage, generating({ model }))).json()) as { usage?: object }).usage).toEqual(
        usage,
      );
    });

    it("is the last that was reported, and never a sum", async () => {
      const first: ImageEvent = { type: "usage", usage: { inputTextTokens: 3, inputImageTokens: 0, outputTokens: 5 } };
      const second: ImageEvent = { type: "usage", usage: { outputTokens: 9 } };
      await using stage = await openStage(mount, { imagePlay: draws(first, drawn(0), second) });
      const response = await generate(stage, generating({ model: MULTI }));
      expect(await response.json()).toMatchObject({ usage: { total_tokens: 12, input_tokens: 3, output_tokens: 9 } });
    });

    it("adds up, where the backend has not said what it took", async () => {
      await using stage = await openStage(mount);
      const response = await edit(stage, editing({ model: MULTI, image: [file(CLEAR), file(JPEG)] }));
      const { usage } = (await response.json()) as { usage: typeof WIRE_USAGE };
      expect(usage.input_tokens_details.text_tokens).toBeGreaterThan(0);
      expect(usage.input_tokens_details.image_tokens).toBeGreaterThan(0);
      expect(usage.output_tokens).toBeGreaterThan(0);
      const { text_tokens, image_tokens } = usage.input_tokens_details;
      expect(usage.input_tokens).toBe(text_tokens + image_tokens);
      expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens);
    });
  });

  describe("failures", () => {
    it.each([
      ["that is a stranger's", new Error("10.0.0.7 is down"), failed],
      [
        "that says what it is",
        new GatewayError("backend_unavailable", "The artist is ill."),
        { ...failed, status: 503, code: "backend_unavailable" },
      ],
      [
        "of the backend's rate",
        new GatewayError("rate_limited", "Slower.", { retryAfterMs: 1_500 }),
        { ...failed, status: 429, type: "rate_limit_error", code: "rate_limit_exceeded" },
      ],
      [
        "that names a field",
        new GatewayError("invalid_request", "prompt: is against the rules", { path: ["prompt"] }),
        { ...failed, status: 400, type: "invalid_request_error", code: "invalid_value", param: "prompt" },
      ],
    ])("%s is told", async (_name, error, refusal) => {
      await using stage = await openStage(mount, { imagePlay: failsAfter(error) });
      const answer = await refusalOf(await generate(stage, generating({ n: 2 })));
      expect(answer).toEqual(refusal);
      expect(answer.message).not.toContain("10.0.0.7");
    });

    it("after a picture leaves the pictures that came, and is told to the host", async () => {
      const error = new Error("10.0.0.7 is down");
      await using stage = await openStage(mount, { imagePlay: failsAfter(error, drawn(0)) });
      const response = await generate(stage, generating({ n: 2 }));
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ data: [{ url: expect.any(String) as string }] });
      expect(stage.failures.map((failure) => failure.error.cause)).toEqual([error]);
    });

    it.each([true, false])("with nothing at all is one (streamed: %s)", async (stream) => {
      await using stage = await openStage(mount, { imagePlay: draws() });
      expect(await refusalOf(await generate(stage, generating({ stream })))).toEqual(failed);
    });

    it("without a picture is one", async () => {
      await using stage = await openStage(mount, { imagePlay: draws(USAGE) });
      expect(await refusalOf(await generate(stage, generating()))).toEqual(failed);
    });
  });
}

const failsAfter = (error: Error, ...before: readonly ImageEvent[]): ImagePlay =>
  async function* () {
    yield* before;
    throw error;
  };
