/** Nothing dear is done for a caller who cannot pay, and no body takes more room, or stays longer, than it may. */

import { describe, expect, it } from "vitest";
import {
  type Balance,
  createGateway,
  type Gateway,
  type Limits,
  memoryQuotaStore,
  type MemoryQuotaStore,
  memoryReplayStore,
  type QuotaStore,
} from "../../src/index.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { drawn } from "../hosts/stage.ts";
import { verbsOf } from "./bench.ts";

/** Above what is read at once. */
const BODY_BYTES = 100_000;
const ROOM_BYTES = 10 * BODY_BYTES;
const STALL_MS = 30_000;
const LIMITS = {
  maxJsonBytes: 2 * BODY_BYTES,
  maxBodyBytesInFlight: ROOM_BYTES,
  maxBodyBytesPerKey: 3 * BODY_BYTES,
  bodyStallMs: STALL_MS,
  largeBodyBytes: 1_000,
};

interface Bench {
  readonly clock: ManualClock;
  readonly gateway: Gateway;
  readonly store: MemoryQuotaStore;
  /** Whose balance was asked for. */
  readonly asked: string[];
}

/** @param told What the store waits for before it tells a balance. */
function opened(limits: Partial<Limits> = {}, told?: Promise<void>): Bench {
  const clock = manualClock();
  const asked: string[] = [];
  const keys = Array.from({ length: 60 }, (_, index) => ({
    apiKey: `sk-${index}`,
    id: `${index}`,
    granted: 1_000_000,
  }));
  const store = memoryQuotaStore(
    [...keys, { apiKey: "sk-empty", id: "empty", granted: 5, used: 5 }, { apiKey: "sk-free", id: "free" }],
    { clock },
  );
  const balance = async (keyId: string): Promise<Balance | undefined> => {
    asked.push(keyId);
    await told;
    return store.balance(keyId);
  };
  const quotas: QuotaStore = { ...verbsOf(store), balance };
  const backend = {
    async *chat() {
      yield "Hello.";
    },
    async *image() {
      yield drawn(0);
    },
  };
  const gateway = createGateway({
    backend,
    quotas,
    clock,
    limits: { ...LIMITS, ...limits },
    replayStore: memoryReplayStore({ clock }),
    onFailure: () => {},
  });
  return { clock, asked, store, gateway };
}

const textOf = (system: string): string =>
  JSON.stringify({ model: "m", max_tokens: 2, messages: [{ role: "user", content: "Hi" }], system });

/** A messages request of so many bytes. */
function bodyOf(bytes = BODY_BYTES): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(textOf("x".repeat(bytes - textOf("").length)));
}

interface Sending {
  readonly key: string;
  readonly path?: string;
  readonly type?: string;
  readonly headers?: Record<string, string>;
}

function requestOf(
  body: BodyInit,
  { key, path = "/v1/messages", type = "application/json", headers }: Sending,
): Request {
  return new Request(`http://host${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "compat-version": "2023-06-01", "content-type": type, ...headers },
    body,
    duplex: "half",
  } as RequestInit);
}

const declared = { "content-length": String(BODY_BYTES) };

/** A body whose last byte does not come. */
const withheld = (): ReadableStream<Uint8Array> =>
  new ReadableStream({ start: (controller) => controller.enqueue(bodyOf().slice(0, -1)) });

/** Statuses as their answers come. */
function statusesOf(answers: readonly Promise<Response>[]): (number | undefined)[] {
  const statuses: (number | undefined)[] = answers.map(() => undefined);
  for (const [index, answer] of answers.entries()) void answer.then(({ status }) => (statuses[index] = status));
  return statuses;
}

const count = (statuses: readonly (number | undefined)[], status: number | undefined): number =>
  statuses.filter((one) => one === status).length;

describe("a declared length that is none", () => {
  // No server lets it pass, but a host may make its own Request.
  it.each(["-1", "1.5", "1e3", "0x10", "Infinity", "many", "99999999999999999999"])(
    "%s is not believed: nothing is booked by it, and no large body passes for a small one",
    async (length) => {
      const { gateway, asked } = opened({ largeBodyBytes: 500 });
      const headers = { "content-length": length };
      const isTooLarge = Number(length) > LIMITS.maxJsonBytes && /^\d+$/.test(length);
      const charged = await gateway.fetch(requestOf(bodyOf(400), { key: "sk-1", headers }));
      expect(charged.status).toBe(isTooLarge ? 413 : 200);
      expect((await gateway.fetch(requestOf(bodyOf(), { key: "sk-empty", headers }))).status).toBe(429);
      expect(asked).toEqual(["1", "empty"]);
    },
  );
});

describe("bodies whose last byte is withheld", () => {
  it.each([
    ["of a declared length", declared],
    ["of no declared length", undefined],
  ])("%s take no more than the room, are ended, and leave it whole", async (_what, headers) => {
    const { clock, gateway } = opened();
    const send = (body: BodyInit, key: number): Promise<Response> =>
      gateway.fetch(requestOf(body, { key: `sk-${key}`, ...(headers && { headers }) }));
    const statuses = statusesOf(Array.from({ length: 60 }, (_, key) => send(withheld(), key)));
    await clock.advance(0);
    expect([count(statuses, undefined), count(statuses, 503)]).toEqual([9, 51]);

    const other = await send(bodyOf(), 7);
    expect([other.status, other.headers.get("retry-after")]).toEqual([503, "2"]);
    await clock.advance(STALL_MS - 1);
    expect(count(statuses, undefined)).toBe(9);
    await clock.advance(1);
    expect([count(statuses, 504), count(statuses, 503)]).toEqual([9, 51]);
    expect(clock.pending).toBe(0);

    const again = statusesOf(Array.from({ length: 10 }, (_, key) => send(withheld(), key)));
    await clock.advance(0);
    expect([count(again, undefined), count(again, 503)]).toEqual([9, 1]);
  });

  it("of one key take no more than its share, and leave the others theirs", async () => {
    const { clock, gateway } = opened();
    const send = (body: BodyInit, key: string): Promise<Response> =>
      gateway.fetch(requestOf(body, { key, headers: declared }));
    const statuses = statusesOf(Array.from({ length: 20 }, () => send(withheld(), "sk-1")));
    await clock.advance(0);
    expect([count(statuses, undefined), count(statuses, 503)]).toEqual([3, 17]);
    expect((await send(bodyOf(), "sk-2")).status).toBe(200);
    expect((await send(bodyOf(), "sk-1")).status).toBe(503);
    await clock.advance(STALL_MS);
    expect((await send(bodyOf(), "sk-1")).status).toBe(200);
    expect(clock.pending).toBe(0);
  });
});

describe("room", () => {
  it("is taken until the call has ended, and is whole after every kind of end", async () => {
    const { clock, gateway } = opened();
    const sendings: readonly (readonly [status: number, body: BodyInit, sending: Sending])[] = [
      [200, bodyOf(), { key: "sk-1", headers: declared }],
      [400, bodyOf().fill(0x20), { key: "sk-1", headers: declared }],
      [413, bodyOf(3 * BODY_BYTES), { key: "sk-1" }],
      [415, bodyOf(), { key: "sk-1", headers: declared, type: "text/plain" }],
      [429, bodyOf(), { key: "sk-empty", headers: declared }],
      [
        400,
        bodyOf(),
        { key: "sk-1", headers: declared, path: "/v1/images/edits", type: "multipart/form-data; boundary=b" },
      ],
    ];
    for (let round = 0; round < 30; round++)
      for (const [status, body, sending] of sendings)
        expect((await gateway.fetch(requestOf(body, sending))).status).toBe(status);
    expect((await gateway.fetch(requestOf(bodyOf(), { key: "sk-1", headers: declared }))).status).toBe(200);
    expect(clock.pending).toBe(0);
  });
});

/** A body that would be refused as malformed if it were parsed, and of which it can be told how much was read. */
function unparsed(bytes: number): { readonly body: ReadableStream; readonly read: () => boolean } {
  let isRead = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        isRead = true;
        controller.enqueue(new Uint8Array(bytes).fill(0x78));
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return { body, read: () => isRead };
}

describe("a key with nothing left", () => {
  const FORM = "multipart/form-data; boundary=b";

  it.each<[what: string, sending: Omit<Sending, "key">]>([
    ["JSON of a declared length", { headers: declared }],
    ["JSON of no declared length", {}],
    ["a form of a declared length", { path: "/v1/images/edits", type: FORM, headers: declared }],
    ["a form of no declared length", { path: "/v1/images/edits", type: FORM }],
    ["a form of variations", { path: "/v1/images/variations", type: FORM }],
    ["a picture's prompt", { path: "/v1/images/generations", headers: declared }],
    ["a stream's contents", { path: "/v1beta/models/m:streamGenerateContent?alt=sse&key=sk-empty", headers: declared }],
  ])("is refused before %s is read", async (_what, sending) => {
    const { gateway, asked, clock } = opened();
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled++;
          controller.enqueue(new Uint8Array(1_000));
        },
      },
      { highWaterMark: 0 },
    );
    const response = await gateway.fetch(requestOf(body, { key: "sk-empty", ...sending }));
    expect(response.status).toBe(sending.path?.startsWith("/v1beta") ? 403 : 429);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect([pulled, asked, clock.pending]).toEqual([0, ["empty"], 0]);
  });

  const MEDIUM_BYTES = 600;

  it("has a body of middle size read while its balance is asked for, and not parsed", async () => {
    const told = Promise.withResolvers<void>();
    const { gateway, asked, clock } = opened({ mediumBodyBytes: 500 }, told.promise);
    const { body, read } = unparsed(MEDIUM_BYTES);
    const headers = { "content-length": String(MEDIUM_BYTES) };
    const answer = gateway.fetch(requestOf(body, { key: "sk-empty", headers }));
    await clock.advance(0);
    expect([read(), asked]).toEqual([true, ["empty"]]);
    told.resolve();
    expect((await answer).status).toBe(429);
    const charged = gateway.fetch(requestOf(unparsed(MEDIUM_BYTES).body, { key: "sk-1", headers }));
    expect((await charged).status, "the body of a key that can pay is parsed").toBe(400);
  });

  it("is remembered for a while: its small bodies are not parsed either, until it has something again", async () => {
    const { gateway, asked, store, clock } = opened();
    const headers = { "content-length": "500" };
    const send = (body: BodyInit): Promise<Response> => gateway.fetch(requestOf(body, { key: "sk-empty", headers }));
    expect((await send(unparsed(500).body)).status, "not known yet").toBe(400);
    expect((await send(bodyOf(500))).status).toBe(429);
    expect((await send(unparsed(500).body)).status).toBe(429);
    expect(asked).toEqual(["empty"]);
    store.remove("empty");
    store.add({ apiKey: "sk-empty", id: "empty", granted: 1_000_000 });
    expect((await send(bodyOf(500))).status, "nobody is refused by what was true before").toBe(200);
    expect((await send(bodyOf(500))).status).toBe(200);
    expect(asked).toEqual(["empty", "empty"]);
    expect(clock.pending).toBe(0);
  });

  it("is still answered again what it has paid for", async () => {
    const { gateway, store, asked } = opened();
    const headers = { "content-length": "500", "idempotency-key": "once" };
    const send = (more: object = {}): Promise<Response> =>
      gateway.fetch(requestOf(bodyOf(500), { key: "sk-1", headers: { ...headers, ...more } }));
    const first = await send();
    store.remove("1");
    store.add({ apiKey: "sk-1", id: "1", granted: 5, used: 5 });
    expect((await send({ "idempotency-key": "other" })).status).toBe(429);
    const again = await send();
    expect([again.status, again.headers.get("polygate-replayed")]).toEqual([200, first.headers.get("request-id")]);
    expect(asked, "the repetition alone, which does not depend on it").toEqual(["1"]);
  });

  it("is forgotten after a while", async () => {
    const { gateway, asked, clock } = opened();
    const headers = { "content-length": "500" };
    const send = (): Promise<Response> => gateway.fetch(requestOf(bodyOf(500), { key: "sk-empty", headers }));
    await send();
    await clock.advance(60_000);
    expect((await send()).status).toBe(429);
    expect(asked).toEqual([]);
  });

  it("may still count tokens, which is free, of a small body", async () => {
    const { gateway } = opened();
    const headers = { "content-length": "500" };
    const path = "/v1/messages/count_tokens";
    expect((await gateway.fetch(requestOf(bodyOf(500), { key: "sk-empty", headers }))).status).toBe(429);
    expect((await gateway.fetch(requestOf(bodyOf(500), { key: "sk-empty", headers, path }))).status).toBe(200);
  });

  it("has a small body read, and is refused when it reserves", async () => {
    const { gateway, asked } = opened();
    const small = bodyOf(500);
    const headers = { "content-length": "500" };
    expect((await gateway.fetch(requestOf(small, { key: "sk-empty", headers }))).status).toBe(429);
    expect(asked).toEqual([]);
  });
});

it("a key without a limit is not asked for its balance", async () => {
  const { gateway, asked } = opened();
  expect((await gateway.fetch(requestOf(bodyOf(), { key: "sk-free", headers: declared }))).status).toBe(200);
  expect(asked).toEqual([]);
});
