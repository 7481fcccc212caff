/** What is dear or cannot be undone waits until the caller may have it: links need room before they are paid, pixels a permission. */

import { describe, expect, it } from "vitest";
import {
  createGateway,
  type Failure,
  type GatewayOptions,
  type ImageEvent,
  type ImageStore,
  memoryImageStore,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { CLEAR, OPAQUE, png } from "./pictures.ts";

const HOUR_MS = 3_600_000;
const PICTURE_BYTES = 1_000;
/** What is booked for a picture of 256x256. */
const BOOKED_BYTES = 256 * 256 * 4 + 64 * 1024;
/** Enough for one such picture when another of the same key is kept. */
const ROOM_BYTES = BOOKED_BYTES + PICTURE_BYTES;

const picture: ImageEvent = { type: "image", bytes: new Uint8Array(PICTURE_BYTES).fill(1), mediaType: "image/png" };

type Draw = () => AsyncIterable<ImageEvent>;

const drawsOne: Draw = async function* () {
  yield picture;
};

/** Ends, or does not end, as the promise does. */
const waits = (outcome: () => Promise<never>): Draw => {
  const iterator = { next: outcome };
  return () => ({ [Symbol.asyncIterator]: () => iterator });
};

/** A gateway whose backend draws when it is told to; the key of each caller is metered, 100 units a picture. */
function stageOf({ store, ...options }: Partial<GatewayOptions> & { readonly store?: ImageStore }) {
  const clock = manualClock();
  const quotas = memoryQuotaStore(
    ["a", "b"].map((name) => ({ apiKey: `sk-${name}`, id: name, name, granted: 10_000, models: ["image-model-2"] })),
  );
  const failures: Failure[] = [];
  const backend = {
    /** How many calls it was asked for. */
    asked: 0,
    draw: drawsOne,
    image(): AsyncIterable<ImageEvent> {
      this.asked++;
      return this.draw();
    },
  };
  const gateway = createGateway({
    backend,
    quotas,
    clock,
    imagePrice: () => 100,
    onFailure: (failure) => void failures.push(failure),
    images: { store: store ?? memoryImageStore({ clock, maxBytes: 3 * ROOM_BYTES, maxBytesPerKey: ROOM_BYTES }) },
    ...options,
  });
  return { clock, quotas, failures, backend, gateway };
}
type Stage = ReturnType<typeof stageOf>;

function send(
  { gateway }: Stage,
  path: string,
  body: BodyInit,
  apiKey = "sk-a",
  signal?: AbortSignal,
): Promise<Response> {
  const type = typeof body === "string" ? { "content-type": "application/json" } : {};
  const headers = { authorization: `Bearer ${apiKey}`, ...type };
  const init = { method: "POST", headers, body, ...(signal && { signal }) };
  return gateway.fetch(new Request(`http://host/v1/images/${path}`, init));
}

const generate = (stage: Stage, fields: object = {}, apiKey?: string, signal?: AbortSignal): Promise<Response> =>
  send(stage, "generations", JSON.stringify({ prompt: "A fox", size: "256x256", ...fields }), apiKey, signal);

const errorOf = async (response: Response): Promise<object> => ({
  status: response.status,
  retryAfter: response.headers.get("retry-after"),
  ...((await response.json()) as { error: { code: string; param: string | null } }).error,
});

function release(): never {
  throw new Error("No connection.");
}

const untouched = { used: 0, held: 0, liveHolds: 0 };

describe("a link", () => {
  it("is refused before it is paid where no room is left, until the first one ends", async () => {
    const clock = manualClock();
    const store = memoryImageStore({ clock, maxBytes: BOOKED_BYTES, maxBytesPerKey: BOOKED_BYTES });
    const stage = stageOf({ store, clock });
    expect((await generate(stage)).status).toBe(200);
    await clock.advance(1_000);
    for (const stream of [false, true]) {
      const refusal = await errorOf(await generate(stage, { stream }, "sk-b"));
      expect(refusal).toMatchObject({ status: 503, code: "busy", retryAfter: String(HOUR_MS / 1_000 - 1) });
    }
    expect(stage.backend.asked).toBe(1);
    expect(stage.quotas.report("b")).toMatchObject(untouched);
    await clock.advance(HOUR_MS - 1_000);
    expect((await generate(stage, {}, "sk-b")).status).toBe(200);
  });

  it("needs room, and data alone does not", async () => {
    const stage = stageOf({ store: memoryImageStore({ maxBytes: 1, maxBytesPerKey: 1 }) });
    expect((await generate(stage, { response_format: "b64_json" })).status).toBe(200);
    expect(stage.quotas.report("a")).toMatchObject({ used: 100 });
  });

  it.each([false, true])("has its room whatever others ask for meanwhile (stream: %s)", async (stream) => {
    const stage = stageOf({});
    const cue = Promise.withResolvers<void>();
    stage.backend.draw = async function* () {
      await cue.promise;
      yield picture;
    };
    // Two keys have room for a call each: a third share stays free for keys that hold none.
    const answers = ["sk-a", "sk-b"].map((apiKey) => generate(stage, { stream }, apiKey));
    await stage.clock.advance(0);
    for (const apiKey of ["sk-a", "sk-b"])
      expect(await errorOf(await generate(stage, {}, apiKey))).toMatchObject({ code: "busy", retryAfter: "2" });
    cue.resolve();
    for (const answer of answers) {
      const text = await (await answer).text();
      expect(text).toContain("/v1/images/files/");
    }
    expect(stage.backend.asked).toBe(2);
    // What was booked and not needed is free again.
    for (const apiKey of ["sk-a", "sk-b"]) expect((await generate(stage, {}, apiKey)).status).toBe(200);
  });

  it("gives its room back when the call ends, however it ends", async () => {
    const stage = stageOf({ store: memoryImageStore({ maxBytes: BOOKED_BYTES, maxBytesPerKey: BOOKED_BYTES }) });
    stage.backend.draw = waits(() => Promise.reject(new Error("The artist is ill.")));
    expect((await generate(stage)).status).toBe(500);
    expect((await generate(stage, { n: 11 })).status).toBe(400);
    const hangUp = new AbortController();
    stage.backend.draw = waits(() => {
      hangUp.abort();
      return new Promise(() => {});
    });
    await (await generate(stage, {}, "sk-a", hangUp.signal)).text();
    stage.backend.draw = drawsOne;
    expect((await generate(stage)).status).toBe(200);
    expect(stage.quotas.report("a")).toMatchObject({ used: 100, liveHolds: 0 });
  });

  it("costs nothing where the store fails at booking, which the host hears of", async () => {
    const broken = { ...memoryImageStore(), put: async () => {}, get: async () => undefined };
    const stage = stageOf({ store: { ...broken, book: () => Promise.reject(new Error("No connection.")) } });
    expect(await errorOf(await generate(stage))).toMatchObject({ status: 503, code: "store_unavailable" });
    expect(stage.failures).toHaveLength(1);
    expect(stage.backend.asked).toBe(0);
    expect(stage.quotas.report("a")).toMatchObject(untouched);
  });

  it("is delivered where the store fails at giving the room back", async () => {
    const stage = stageOf({
      store: { put: async () => {}, get: async () => undefined, book: async () => ({ release }) },
    });
    expect((await generate(stage)).status).toBe(200);
    expect(stage.quotas.report("a")).toMatchObject({ used: 100, liveHolds: 0 });
  });
});

/** A PNG whose header is in order and whose pixels are not. */
function broken(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const copy = bytes.slice();
  const at = copy.length - 13;
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

function formOf(
  image: Uint8Array<ArrayBuffer>,
  fields: Readonly<Record<string, string>>,
  mask?: Uint8Array<ArrayBuffer>,
): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries({ prompt: "A hat", ...fields })) form.append(name, value);
  form.append("image", new Blob([image]), "image.png");
  if (mask) form.append("mask", new Blob([mask]), "mask.png");
  return form;
}

describe("the pixels of a file", () => {
  it("are looked at after the key's permission, and cost nothing", async () => {
    const stage = stageOf({});
    const forbidden = formOf(broken(CLEAR), { model: "image-model-multi" });
    expect(await errorOf(await send(stage, "edits", forbidden))).toMatchObject({ status: 403, param: "model" });
    const allowed = formOf(broken(CLEAR), {});
    expect(await errorOf(await send(stage, "edits", allowed))).toMatchObject({ status: 400, param: "image" });
    expect(stage.quotas.report("a")).toMatchObject(untouched);
  });

  it("are looked at before room is looked for: a broken file is 400 where the store is full", async () => {
    const store = memoryImageStore({ maxBytes: BOOKED_BYTES, maxBytesPerKey: BOOKED_BYTES });
    await store.book({ keyId: "other", bytes: BOOKED_BYTES });
    const stage = stageOf({ store });
    const edit = (image: Uint8Array<ArrayBuffer>): Promise<Response> =>
      send(stage, "edits", formOf(image, { size: "256x256" }));
    expect(await errorOf(await edit(broken(CLEAR)))).toMatchObject({ status: 400, param: "image" });
    expect(await errorOf(await edit(CLEAR))).toMatchObject({ status: 503, code: "busy" });
    expect(stage.quotas.report("a")).toMatchObject(untouched);
  });

  it("are looked at after the header of every file", async () => {
    const stage = stageOf({});
    const mask = png({ width: 9, last: [0, 0, 0, 0] });
    const refusal = await errorOf(await send(stage, "edits", formOf(broken(OPAQUE), {}, mask)));
    expect(refusal).toMatchObject({ status: 400, param: "mask" });
  });
});
