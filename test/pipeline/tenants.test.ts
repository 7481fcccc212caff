/** One tenant cannot starve another: while the first holds all that it may, the second is answered without any time passing. */

import { expect, it } from "vitest";
import {
  createGateway,
  DEFAULT_LIMITS,
  type GatewayOptions,
  type ImageEvent,
  memoryImageStore,
  memoryQuotaStore,
  memoryReplayStore,
} from "../../src/index.ts";
import { BodyRoom } from "../../src/ports/shared-room.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { never, WORD } from "./bench.ts";

const BODY_BYTES = 100_000;
const KEYS = ["first", "second", "modest"] as const;
type Key = (typeof KEYS)[number];

/** A gateway for three keys; the calls of all but the modest one never end. */
function stageOf(options: Partial<GatewayOptions> = {}) {
  const clock = manualClock();
  const quotas = memoryQuotaStore(
    KEYS.map((id) => ({ apiKey: `sk-${id}`, id })),
    { clock },
  );
  const gateway = createGateway({
    backend: {
      async *chat(_request, call) {
        yield WORD;
        if (call.key.id !== "modest") await never;
      },
      async *image(_request, call): AsyncGenerator<ImageEvent> {
        if (call.key.id !== "modest") await never;
        yield { type: "image", bytes: new Uint8Array(10), mediaType: "image/png" };
      },
    },
    quotas,
    clock,
    onFailure: () => {},
    ...options,
  });
  const post = (key: Key, path: string, body: BodyInit, headers: Record<string, string> = {}): Promise<Response> =>
    gateway.fetch(
      new Request(`http://host${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer sk-${key}`,
          "compat-version": "2023-06-01",
          "content-type": "application/json",
          ...headers,
        },
        body,
        duplex: "half",
      } as RequestInit),
    );
  const ask = (key: Key, headers?: Record<string, string>): Promise<Response> =>
    post(key, "/v1/messages", bodyOf({ stream: true }), headers);
  return { clock, gateway, post, ask };
}

const bodyOf = (fields: object): string =>
  JSON.stringify({ model: "m", max_tokens: 50, messages: [{ role: "user", content: "Hi" }], ...fields });

/** Sends far more than a key may have at once, and tells how those were answered that were. */
async function exhaust(
  { clock }: ReturnType<typeof stageOf>,
  send: (nth: number) => Promise<Response>,
): Promise<readonly number[]> {
  const statuses: number[] = [];
  for (let nth = 0; nth < 60; nth++) void send(nth).then(({ status }) => statuses.push(status));
  await clock.advance(0);
  return statuses;
}

const statusNow = async (stage: ReturnType<typeof stageOf>, sent: Promise<Response>): Promise<number | undefined> => {
  let status: number | undefined;
  void sent.then((response) => (status = response.status));
  await stage.clock.advance(0);
  return status;
};

it("in room for bodies", async () => {
  const stage = stageOf({
    limits: {
      maxJsonBytes: 2 * BODY_BYTES,
      maxBodyBytesInFlight: 20 * BODY_BYTES,
      maxBodyBytesPerKey: 10 * BODY_BYTES,
    },
  });
  const withheld = (): ReadableStream =>
    new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(BODY_BYTES - 1).fill(0x20)) });
  for (const key of ["first", "second"] as const)
    expect(await exhaust(stage, () => stage.post(key, "/v1/messages", withheld()))).toContain(503);
  expect(await statusNow(stage, stage.post("modest", "/v1/messages", bodyOf({ system: "x".repeat(BODY_BYTES) })))).toBe(
    200,
  );
});

it("in room for what bodies become once they are parsed, which is far more than they are long", async () => {
  const stage = stageOf({
    limits: { maxBodyBytesInFlight: 20 * BODY_BYTES, maxBodyBytesPerKey: 10 * BODY_BYTES },
  });
  // 2 KB that take 200 KB.
  const extra = Array.from({ length: 500 }, () => ({}));
  const send = (key: Key): Promise<Response> => stage.post(key, "/v1/messages", bodyOf({ stream: true, extra }));
  for (const key of ["first", "second"] as const) {
    const statuses = await exhaust(stage, () => send(key));
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    expect(statuses.filter((status) => status === 200).length).toBeLessThan(5);
  }
  expect(await statusNow(stage, stage.ask("modest"))).toBe(200);
});

it("in calls at once, such as streams", async () => {
  const stage = stageOf({ limits: { maxCallsInFlight: 40 } });
  for (const [key, most] of [
    ["first", 20],
    ["second", 10],
  ] as const) {
    const statuses = await exhaust(stage, () => stage.ask(key));
    expect(statuses.filter((status) => status === 200)).toHaveLength(most);
    expect(statuses.filter((status) => status === 503)).toHaveLength(60 - most);
  }
  expect(await statusNow(stage, stage.ask("modest"))).toBe(200);
});

it("in WebSockets, and in the turns over them", async () => {
  const stage = stageOf({ limits: { maxSockets: 40, maxCallsInFlight: 40 } });
  const routes = stage.gateway.at("");
  const said: Record<string, string[]> = { first: [], second: [], modest: [] };
  const open = async (key: Key): Promise<number> => {
    const headers = { authorization: `Bearer sk-${key}`, upgrade: "websocket" };
    const accepted = await routes.connect(new Request("http://host/v1/responses", { headers }), {});
    if (!accepted || !("message" in accepted)) return accepted?.status ?? 404;
    accepted.open({ send: (message) => void said[key]?.push(message), close: () => {}, terminate: () => {} });
    accepted.message(JSON.stringify({ type: "response.create", model: "m", input: "Hi", store: false }));
    return 101;
  };
  for (const [key, most] of [
    ["first", 20],
    ["second", 10],
  ] as const) {
    const opening = Array.from({ length: 60 }, () => open(key));
    await stage.clock.advance(0);
    const statuses = await Promise.all(opening);
    expect(statuses.filter((status) => status === 101)).toHaveLength(most);
    expect(statuses.filter((status) => status === 503)).toHaveLength(60 - most);
  }
  expect(await open("modest")).toBe(101);
  await expect.poll(() => said["modest"]?.at(-1)).toContain("response.completed");
  for (const key of ["first", "second"]) expect(said[key]?.join("")).not.toContain("response.completed");
});

it("in room for answers that are kept", async () => {
  const stage = stageOf({ replayStore: memoryReplayStore({ maxEntries: 40, clock: manualClock() }) });
  for (const key of ["first", "second"] as const)
    expect(await exhaust(stage, (nth) => stage.ask(key, { "idempotency-key": `${key}-${nth}` }))).toContain(503);
  expect(await statusNow(stage, stage.ask("modest", { "idempotency-key": "own" }))).toBe(200);
});

it("in room for pictures that are linked", async () => {
  // What is booked for a picture of 256x256 is 320 KiB.
  const store = memoryImageStore({ clock: manualClock(), maxBytes: 20 * 320 * 1024 });
  const stage = stageOf({ images: { store } });
  const draw = (key: Key): Promise<Response> =>
    stage.post(key, "/v1/images/generations", JSON.stringify({ prompt: "A fox", size: "256x256" }));
  for (const key of ["first", "second"] as const) expect(await exhaust(stage, () => draw(key))).toContain(503);
  expect(await statusNow(stage, draw("modest"))).toBe(200);
});

it("an upload of the largest size fits into an idle gateway as it is configured by default", () => {
  const { maxBodyBytesInFlight, maxBodyBytesPerKey, maxUploadBytes } = DEFAULT_LIMITS;
  const room = new BodyRoom(maxBodyBytesInFlight, maxBodyBytesPerKey);
  room.lease("one").take(maxUploadBytes);
  expect(room.takenBytes).toBe(maxUploadBytes);
});
