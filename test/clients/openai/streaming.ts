/** Pictures as they are made: the SDK's events, and what they bring. */

import type { ImageEditStreamEvent, ImageGenStreamEvent } from "openai/resources/images";
import { expect, it } from "vitest";
import { headerOf, patchwork } from "../pixels.ts";
import { type Stage } from "./sdk.ts";

const prompt = "A lighthouse in the rain";

async function eventsOf<Event extends ImageGenStreamEvent | ImageEditStreamEvent>(
  stream: AsyncIterable<Event>,
): Promise<Event[]> {
  const events: Event[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

export function streamingSuite({ sdk, connect }: Stage): void {
  it("brings unfinished pictures, the finished one, and what it took", async () => {
    const request = { prompt, model: "gpt-image-1", stream: true, partial_images: 2, size: "1024x1024" } as const;
    const events = await eventsOf(await connect().images.generate({ ...request, quality: "low" }));
    expect(events.map(({ type }) => type)).toEqual([
      "image_generation.partial_image",
      "image_generation.partial_image",
      "image_generation.completed",
    ]);
    const steps = events.map((event) =>
      event.type === "image_generation.partial_image" ? event.partial_image_index : -1,
    );
    expect(steps).toEqual([0, 1, -1]);
    for (const event of events) {
      expect(await headerOf(Buffer.from(event.b64_json, "base64"))).toMatchObject({ width: 1024, height: 1024 });
      expect(event).toMatchObject({ size: "1024x1024", quality: "low", background: "auto", output_format: "png" });
      expect(event.created_at).toEqual(expect.any(Number));
    }
    expect(events.at(-1)).toMatchObject({ usage: { total_tokens: expect.any(Number), output_tokens: 272 } });
  });

  it("brings an edit", async () => {
    const image = await sdk.toFile(await patchwork(64, 64), "a.png", { type: "image/png" });
    const request = { prompt, image, model: "gpt-image-1", stream: true, partial_images: 1, n: 2 } as const;
    const events = await eventsOf(await connect().images.edit(request));
    const types = ["image_edit.partial_image", "image_edit.completed"];
    expect(events.map(({ type }) => type).toSorted()).toEqual([types[1], types[1], types[0], types[0]]);
    // The client's type has it on every picture; all of it is on the last.
    const usages = events.flatMap((event) => ("usage" in event ? [event.usage?.total_tokens] : []));
    expect(usages).toEqual([0, expect.toSatisfy((tokens: number) => tokens > 0)]);
  });

  it("can be broken off", async () => {
    const stream = await connect().images.generate({ prompt, model: "gpt-image-1", stream: true, partial_images: 3 });
    const types: string[] = [];
    for await (const { type } of stream) {
      types.push(type);
      break;
    }
    expect(types).toEqual(["image_generation.partial_image"]);
  });
}
