/** The image answer as a stream: an event for each picture, unfinished ones on the way, usage with the last one. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ImageEvent } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { drawn, type ImagePlay, type Mount, openStage } from "../../hosts/stage.ts";
import { requestIdOf } from "../messages/refusal.ts";
import { framesOf } from "./frames.ts";
import { invalidField, refusalOf } from "./refusal.ts";
import { edit, editing, type Fields, generate, generating, vary, varying } from "./requests.ts";

const MULTI = "image-model-multi";
const link = expect.stringMatching(/\/v1\/images\/files\/[\w-]{22,}$/) as string;
const base64Of = (number: number): string => Buffer.from(drawn(number).bytes).toString("base64");

const streaming = (fields: Fields = {}): Fields => generating({ stream: true, ...fields });

const plays = (...events: readonly (ImageEvent | Error)[]): ImagePlay =>
  async function* () {
    for (const event of events)
      if (event instanceof Error) throw event;
      else yield event;
  };

const partial = (step: number): ImageEvent => ({
  type: "partial-image",
  image: 0,
  step,
  bytes: new TextEncoder().encode(`step ${step}`),
  mediaType: "image/webp",
});

const USAGE: ImageEvent = { type: "usage", usage: { inputTextTokens: 1, inputImageTokens: 20, outputTokens: 300 } };
const NO_WIRE_USAGE = {
  total_tokens: 0,
  input_tokens: 0,
  output_tokens: 0,
  input_tokens_details: { text_tokens: 0, image_tokens: 0 },
};
const WIRE_USAGE = {
  total_tokens: 321,
  input_tokens: 21,
  output_tokens: 300,
  input_tokens_details: { text_tokens: 1, image_tokens: 20 },
};

const GONE = new GatewayError("backend_unavailable", "The artist is ill.");
const wireError = { message: "The artist is ill.", type: "server_error", param: null, code: "backend_unavailable" };

export function streamsSuite(mount: Mount): void {
  it("is a stream by its headers", async () => {
    await using stage = await openStage(mount);
    const response = await generate(stage, streaming());
    requestIdOf(response);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    await response.text();
  });

  it("has an event for each picture, each with usage, and all of that with the last", async () => {
    const clock = manualClock();
    const imagePlay = plays(drawn(0, "A crimson\u0085hat"), drawn(1), USAGE);
    await using stage = await openStage(mount, { clock, imagePlay });
    const response = await generate(stage, streaming({ model: MULTI, n: 2, quality: "low", background: "opaque" }));
    const traits = {
      created_at: Math.floor(clock.now() / 1000),
      size: "1024x1024",
      quality: "low",
      background: "opaque",
      output_format: "png",
    };
    const event = "image_generation.completed";
    expect(await framesOf(response)).toEqual([
      {
        event,
        data: {
          type: event,
          b64_json: base64Of(0),
          url: link,
          revised_prompt: "A crimson\u0085hat",
          ...traits,
          usage: NO_WIRE_USAGE,
        },
      },
      { event, data: { type: event, b64_json: base64Of(1), url: link, ...traits, usage: WIRE_USAGE } },
    ]);
  });

  it.each([
    [undefined, { url: link, b64_json: base64Of(0) }],
    ["url", { url: link, b64_json: base64Of(0) }],
    ["b64_json", { b64_json: base64Of(0) }],
  ])("always has the data, for response_format %s", async (response_format, picture) => {
    await using stage = await openStage(mount);
    for (const model of ["image-model-2", "image-model-3", MULTI]) {
      const [frame] = await framesOf(await generate(stage, streaming({ model, response_format })));
      expect(frame?.data).toMatchObject(picture);
      expect("url" in (frame?.data ?? {})).toBe("url" in picture);
      expect("usage" in (frame?.data ?? {})).toBe(model === MULTI);
    }
  });

  it("shows unfinished pictures on the way", async () => {
    await using stage = await openStage(mount, { imagePlay: plays(partial(0), partial(1), drawn(0)) });
    const frames = await framesOf(await generate(stage, streaming({ model: MULTI, partial_images: 2 })));
    const event = "image_generation.partial_image";
    expect(frames.slice(0, 2)).toEqual(
      [0, 1].map((step) => ({
        event,
        data: {
          type: event,
          b64_json: Buffer.from(`step ${step}`).toString("base64"),
          partial_image_index: step,
          created_at: expect.any(Number),
          size: "1024x1024",
          quality: "auto",
          background: "auto",
          output_format: "webp",
        },
      })),
    );
    expect(frames.map((frame) => frame.event).slice(2)).toEqual(["image_generation.completed"]);
  });

  it("of an edit and of a variation has events by their names", async () => {
    await using stage = await openStage(mount, { imagePlay: plays(partial(0), drawn(0)) });
    const edited = await framesOf(await edit(stage, editing({ stream: "true" })));
    expect(edited.map(({ event }) => event)).toEqual(["image_edit.partial_image", "image_edit.completed"]);
    const varied = await framesOf(await vary(stage, varying({ stream: "True" })));
    expect(varied.map(({ event }) => event)).toEqual(["image_variation.partial_image", "image_variation.completed"]);
  });

  it("tells usage that adds up to the whole, however many pictures came", async () => {
    for (const n of [1, 2, 3]) {
      await using stage = await openStage(mount, { imagePlay: plays(USAGE, drawn(0), drawn(1)) });
      const frames = await framesOf(await generate(stage, streaming({ model: MULTI, n })));
      expect(frames.map(({ data }) => data["usage"])).toEqual([...(n > 1 ? [NO_WIRE_USAGE] : []), WIRE_USAGE]);
      expect(frames).toHaveLength(Math.min(n, 2));
    }
  });

  it("has no more pictures than were asked for", async () => {
    await using stage = await openStage(mount, { imagePlay: plays(drawn(0), drawn(1), drawn(2)) });
    expect(await framesOf(await generate(stage, streaming({ n: 2 })))).toHaveLength(2);
  });

  describe("that fails", () => {
    it("before its first event has its true status", async () => {
      await using stage = await openStage(mount, { imagePlay: plays(GONE) });
      expect(await refusalOf(await generate(stage, streaming()))).toEqual({ status: 503, ...wireError });
    });

    it("by its fields has its true status", async () => {
      await using stage = await openStage(mount);
      expect(await refusalOf(await generate(stage, streaming({ n: 11 })))).toEqual(invalidField("n"));
    });

    it("after an unfinished picture says so, and ends", async () => {
      await using stage = await openStage(mount, { imagePlay: plays(partial(0), GONE) });
      const frames = await framesOf(await generate(stage, streaming()));
      expect(frames.map(({ event }) => event)).toEqual(["image_generation.partial_image", "error"]);
      expect(frames.at(-1)).toEqual({ event: "error", data: { error: wireError } });
    });

    it("after one of two pictures has handed over the one that is charged", async () => {
      for (const fields of [{}, { model: MULTI }, { model: MULTI, n: 1 }]) {
        await using stage = await openStage(mount, { imagePlay: plays(drawn(0), GONE) });
        const frames = await framesOf(await generate(stage, streaming({ n: 2, ...fields })));
        expect(frames.map(({ event }) => event)).toEqual(["image_generation.completed", "error"]);
        expect(frames[0]?.data).toMatchObject({ b64_json: base64Of(0) });
      }
    });

    it("by a stranger's error says nothing of it", async () => {
      await using stage = await openStage(mount, { imagePlay: plays(partial(0), new Error("10.0.0.7 is down")) });
      const text = await (await generate(stage, streaming())).text();
      expect(text).toContain("event: error\n");
      expect(text).not.toContain("10.0.0.7");
      expect(stage.failures).toHaveLength(1);
    });

    it("without a picture says so", async () => {
      await using stage = await openStage(mount, { imagePlay: plays(partial(0)) });
      const frames = await framesOf(await generate(stage, streaming()));
      expect(frames.at(-1)).toMatchObject({ event: "error", data: { error: { code: "backend_failed" } } });
    });
  });
}
