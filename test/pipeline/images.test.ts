/** Images through the pipeline: which key may ask for which model by which name, and the charge when something goes wrong. */

import { describe, expect, it } from "vitest";
import {
  type ApiKeyOptions,
  createGateway,
  type Failure,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { drawn, plays, type ImagePlay } from "../hosts/stage.ts";
import { UNASKED } from "./bench.ts";

interface Asked {
  readonly status: number;
  readonly body: { readonly error?: { readonly code: string }; readonly data?: readonly object[] };
  readonly ledger: object | undefined;
}

async function ask(
  model: string | undefined,
  key: Partial<ApiKeyOptions>,
  options: Partial<GatewayOptions> = {},
  play: ImagePlay = async function* () {
    yield drawn(0);
  },
  n = 1,
): Promise<Asked> {
  const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 10_000, ...key }]);
  const backend = { image: play, chat: plays("Hello.") };
  const gateway = createGateway({ quotas, imagePrice: () => 100, onFailure: () => {}, backend, ...options });
  const response = await gateway.fetch(
    new Request("http://host/v1/images/generations", {
      method: "POST",
      headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
      body: JSON.stringify({ prompt: "A fox.", n, ...(model !== undefined && { model }) }),
    }),
  );
  return { status: response.status, body: (await response.json()) as Asked["body"], ledger: quotas.report("one") };
}

describe("a key or a backend", () => {
  it.each(["dall-e-2", "image-model-2"])("that knows the model as %s is asked by each of its names", async (known) => {
    for (const model of ["dall-e-2", "image-model-2", undefined]) {
      expect((await ask(model, { models: [known] })).status).toBe(200);
      const backend = {
        image: async function* () {
          yield drawn(0);
        },
        models: () => [{ id: known }],
      };
      expect((await ask(model, {}, { backend })).status).toBe(200);
    }
  });

  it.each([
    ["a key", { models: ["dall-e-3"] }, {}, 'This API key may not use the model "gpt-image-1". It may use "dall-e-3".'],
    [
      "a backend",
      {},
      { models: () => [{ id: "dall-e-3" }] },
      'There is no model "gpt-image-1". This API key may use "dall-e-3".',
    ],
  ])("that knows another model, such as %s, says so by the name that was used", async (_who, key, models, message) => {
    const backend = { async *image() {}, ...models };
    expect((await ask("gpt-image-1", key, { backend })).body.error).toMatchObject({ message });
  });

  it("that knows another model is not", async () => {
    expect((await ask("dall-e-2", { models: ["dall-e-3"] })).status).toBe(403);
    expect(
      (await ask("dall-e-2", {}, { backend: { image: async function* () {}, models: () => [{ id: "dall-e-3" }] } }))
        .status,
    ).toBe(404);
  });
});

it("a backend that draws more and more without a pause leaves the event loop to others", async () => {
  const seen = { images: 0, hasTurned: false };
  const { status, body } = await ask("image-model-2", {}, {}, async function* () {
    setImmediate(() => (seen.hasTurned = true));
    for (; seen.images < 10_000 && !seen.hasTurned; seen.images++) yield drawn(0);
  });
  expect([status, body.data?.length]).toEqual([200, 1]);
  expect(seen.images).toBeLessThan(10_000);
});

describe("what goes wrong is not paid for", () => {
  const nothing = { used: 0, held: 0, liveHolds: 0 };

  it.each([
    ["no bytes", undefined],
    ["a text", "not bytes"],
    ["nothing", new Uint8Array()],
  ])("where the backend draws %s", async (_, bytes) => {
    const { status, body, ledger } = await ask(undefined, {}, {}, async function* () {
      yield { ...drawn(0), bytes: bytes as Uint8Array };
    });
    expect([status, body.error?.code]).toEqual([500, "backend_failed"]);
    expect(ledger).toMatchObject(nothing);
  });

  it("where the store of pictures fails, which is no fault of the backend", async () => {
    const store = { put: () => Promise.reject(new Error("The disk is full.")), get: async () => undefined };
    const { status, body, ledger } = await ask(undefined, {}, { images: { store } });
    expect([status, body.error?.code]).toEqual([503, "store_unavailable"]);
    expect(ledger).toMatchObject(nothing);
  });
});

describe("what was drawn is paid for", () => {
  it("where a host's price fails once quota is held", async () => {
    let asked = 0;
    const imagePrice = (): number => (asked++ === 0 ? 100 : Number.NaN);
    const failures: Failure[] = [];
    const onFailure = (failure: Failure): void => void failures.push(failure);
    const { status, ledger } = await ask(undefined, {}, { imagePrice, onFailure });
    expect([status, ledger]).toMatchObject([200, { used: 100, estimated: 100, held: 0 }]);
    expect(failures).toMatchObject([{ error: { code: "internal" } }]);
  });

  it.each([
    ["and its end did not come", 2, 200],
    ["but not behind the last one", 1, 100],
  ])("where its unfinished versions were shown, %s", async (_when, n, used) => {
    const { bytes, mediaType } = drawn(0);
    const unfinished = (image: number, step: number) =>
      ({ type: "partial-image", image, step, bytes, mediaType }) as const;
    const play: ImagePlay = async function* () {
      yield unfinished(0, 0);
      yield drawn(0);
      yield unfinished(1, 0);
      yield unfinished(1, 1);
      throw new Error("Gone.");
    };
    const { status, ledger } = await ask(undefined, {}, {}, play, n);
    expect([status, ledger]).toMatchObject([200, { used, held: 0 }]);
  });
});

it("pictures in an answer take room of their key until the client has read them, and are never refused", async () => {
  const BYTES = 1_500_000;
  const clock = manualClock();
  const gateway = createGateway({
    backend: {
      async *image() {
        yield { type: "image", bytes: new Uint8Array(BYTES), mediaType: "image/png" };
      },
    },
    quotas: memoryQuotaStore(["sk-one", "sk-two"].map((apiKey) => ({ apiKey }))),
    limits: { maxBodyBytesInFlight: 16_000_000, maxBodyBytesPerKey: 8_000_000 },
    clock,
  });
  const draw = (apiKey: string): Promise<Response> =>
    gateway.fetch(
      new Request("http://host/v1/images/generations", {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ prompt: "A fox.", response_format: "b64_json" }),
      }),
    );
  const unread: Response[] = [];
  for (let count = 0; count < 10; count++) unread.push(await draw("sk-one"));
  const opened = unread.filter(({ status }) => status === 200);
  expect([opened.length, unread.at(-1)?.status, (await draw("sk-two")).status]).toEqual([4, 503, 200]);
  const [left, cancelled, ...read] = opened;
  await cancelled?.body?.cancel();
  for (const response of read) {
    const text = await response.text();
    expect([String(text.length), text.length > BYTES]).toEqual([response.headers.get("content-length"), true]);
  }
  expect((await draw("sk-one")).status).toBe(200);
  await clock.advance(24 * 3_600_000);
  await expect(left?.text().then(({ length }) => length)).rejects.toThrow("The call is over.");
  expect((await gateway.health()).calls).toBe(0);
});

describe("a link to a picture", () => {
  const BYTES = 1_000_000;
  const open = (copies: boolean) => {
    const image = {
      id: "a",
      bytes: new Uint8Array(BYTES).fill(7),
      mediaType: "image/png",
      expiresAt: Date.now() + 60_000,
    };
    const gateway = createGateway({
      backend: { async *image() {} },
      quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
      limits: { maxBodyBytesInFlight: 16 * BYTES, maxBodyBytesPerKey: 8 * BYTES },
      images: {
        store: {
          put: () => Promise.resolve(),
          get: () => Promise.resolve(copies ? { ...image, bytes: image.bytes.slice() } : image),
        },
      },
    });
    const get = (init: RequestInit = {}): Promise<Response> =>
      gateway.fetch(new Request("http://host/v1/images/files/a", init));
    return { gateway, get };
  };

  it("that its clients do not read takes no more room than a key's, and gives it back", async () => {
    const { gateway, get } = open(true);
    const unread: Response[] = [];
    for (let count = 0; count < 20; count++) unread.push(await get());
    const opened = unread.filter(({ status }) => status === 200);
    expect([opened.length > 1, opened.length <= 8]).toEqual([true, true]);
    expect(unread.filter(({ status }) => status === 503)).toHaveLength(20 - opened.length);
    const [first, ...others] = opened;
    await first?.body?.cancel();
    for (const response of others) expect((await response.arrayBuffer()).byteLength).toBe(BYTES);
    const again = await get();
    expect([again.status, new Uint8Array(await again.arrayBuffer()).every((byte) => byte === 7)]).toEqual([200, true]);
    expect([(await get({ method: "HEAD" })).headers.get("content-length"), (await gateway.health()).calls]).toEqual([
      String(BYTES),
      0,
    ]);
  });

  it("takes room once for all who read the bytes of a store in memory", async () => {
    const { get } = open(false);
    const unread = await Promise.all(Array.from({ length: 50 }, () => get()));
    expect(new Set(unread.map(({ status }) => status))).toEqual(new Set([200]));
    for (const response of unread) await response.arrayBuffer();
  });
});

describe("images.publicUrl", () => {
  it.each(["", "not a url", "ftp://example.com", "https://example.com/ai?k=1"])("cannot be %o", (publicUrl) => {
    const make = () => createGateway({ backend: UNASKED, quotas: memoryQuotaStore([]), images: { publicUrl } });
    expect(make).toThrow(TypeError);
  });
});
