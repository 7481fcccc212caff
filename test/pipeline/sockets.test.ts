/** WebSockets of the Responses format: turns, limits, hostile clients, and what is left when a connection ends. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import {
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayGauges,
  type GatewayOptions,
  memoryQuotaStore,
  type MemoryQuotaStore,
  memoryResponseStore,
  type ModelBackend,
} from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { aborted } from "../aborted.ts";
import { errorCodeOf, openSocket, RefusedError, responseOf, type SocketClient, textOf } from "../drivers/socket.ts";

const USAGE = { inputTokens: 3, outputTokens: 5 };

/** Says how many turns it got, and what the last one asks. */
const echo: ModelBackend = {
  async *chat({ messages }) {
    yield `${messages.length}`;
    yield { type: "finish", reason: "stop", usage: USAGE };
  },
};

interface Stage extends AsyncDisposable {
  readonly url: string;
  readonly gateway: Gateway;
  readonly quotas: MemoryQuotaStore;
  readonly failures: Failure[];
  readonly records: CallRecord[];
  open(apiKey?: string): Promise<SocketClient>;
}

async function stage(options: Partial<GatewayOptions> = {}, isWired = true): Promise<Stage> {
  const quotas = memoryQuotaStore([
    { apiKey: "sk-one", id: "one", granted: 1_000_000 },
    { apiKey: "sk-two", id: "two", granted: 1_000_000 },
    { apiKey: "sk-none", id: "none", granted: 0 },
  ]);
  const failures: Failure[] = [];
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend: echo,
    quotas,
    onFailure: (failure) => failures.push(failure),
    onCall: (record) => records.push(record),
    ...options,
  });
  const server = createServer(toNodeHandler(gateway));
  if (isWired) server.on("upgrade", toUpgradeHandler(gateway));
  const url = await listen(server);
  return {
    url,
    gateway,
    quotas,
    failures,
    records,
    open: (apiKey = "sk-one") => openSocket(url, { authorization: `Bearer ${apiKey}` }),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await gateway.close({ deadlineMs: 0 });
    },
  };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const refusalOf = async (opening: Promise<SocketClient>): Promise<RefusedError> => {
  const error: unknown = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof RefusedError) return error;
  throw error ?? new Error("The connection was not refused.");
};

/** Summarizes where it is asked to. Otherwise it tells how many turns it was given. */
const summarizing: ModelBackend = {
  async *chat({ messages }) {
    const asks = JSON.stringify(messages.at(-1)).includes("Write a summary");
    yield asks ? "They plan a launch." : `Turns: ${messages.length}`;
    yield { type: "finish", reason: "stop", usage: USAGE };
  },
};

describe("the turns of a WebSocket", () => {
  it("are compacted as those over HTTP, and a forged compaction is refused by name", async () => {
    const keys = [{ name: "a", secret: new Uint8Array(32).fill(7) }];
    await using on = await stage({ backend: summarizing, responses: { compaction: { keys } } });
    const client = new OpenAI({ apiKey: "sk-one", baseURL: `${on.url}/v1` });
    const ws = new ResponsesWS(client);
    const items: OpenAI.Responses.ResponseOutputItem[] = [];
    ws.on("response.output_item.done", ({ item }) => items.push(item));
    ws.on("error", () => {});
    const wish = { model: "m", store: false, context_management: [{ type: "compaction", compact_threshold: 100 }] };
    const turn = async (input: OpenAI.Responses.ResponseInput, previous_response_id?: string): Promise<string> => {
      const done = Promise.withResolvers<string>();
      ws.once("response.completed", ({ response }) => done.resolve(response.id));
      ws.once("error", (error) => done.resolve(error.message));
      ws.send({ type: "response.create", ...wish, input, ...(previous_response_id && { previous_response_id }) });
      return done.promise;
    };
    const long = "We plan a launch on Tuesday. ".repeat(40);
    const asked = { role: "user", content: "When?" } as const;
    const first = await turn([{ role: "user", content: long }, { role: "assistant", content: "Yes." }, asked]);
    await turn([asked], first);
    expect(items.map((item) => (item.type === "message" ? item.content : item.type))).toMatchObject([
      "compaction",
      [{ text: "Turns: 1" }],
      [{ text: "Turns: 3" }],
    ]);
    const [item] = items as [OpenAI.Responses.ResponseCompactionItem];
    const forged = { ...item, encrypted_content: item.encrypted_content.replace(/.{4}$/, "AAAA") };
    expect(await turn([forged, asked])).toContain("input.0.encrypted_content");
    ws.close();
    expect(on.records.map(({ units }) => units).filter((units) => units > 0)).toEqual([16, 8]);
  });

  it("are those of the official client", async () => {
    await using on = await stage();
    const client = new OpenAI({ apiKey: "sk-one", baseURL: `${on.url}/v1` });
    const ws = new ResponsesWS(client);
    const texts: string[] = [];
    let id: string | null = null;
    for (const input of ["One.", "Two.", "Three."]) {
      const done = Promise.withResolvers<string>();
      ws.on("response.completed", ({ response }) => done.resolve(response.id));
      ws.on("response.output_text.delta", ({ delta }) => texts.push(delta));
      ws.send({ type: "response.create", model: "m", input, store: false, previous_response_id: id });
      id = await done.promise;
    }
    ws.close();
    expect(texts.slice(0, 1)).toEqual(["1"]);
    expect(new Set(texts)).toEqual(new Set(["1", "3", "5"]));
    expect(on.records.map(({ units }) => units).filter((units) => units > 0)).toEqual([8, 8, 8]);
  });

  it("come one after the other, whatever a client sends at once", async () => {
    await using on = await stage();
    await using client = await on.open();
    for (const input of ["a", "b", "c"]) client.send({ type: "response.create", model: "m", input, store: false });
    const ids = new Set<string>();
    for (let turn = 0; turn < 3; turn++) ids.add(responseOf(await client.rest()).id);
    expect(ids.size).toBe(3);
  });

  it("go on from a prepared response, which costs nothing", async () => {
    await using on = await stage();
    await using client = await on.open();
    const prepared = await client.turn({ input: "Remember this.", generate: false, store: false });
    expect(responseOf(prepared)).toMatchObject({ status: "completed", output: [] });
    const empty = await client.turn({ input: [], generate: false, store: false });
    expect(responseOf(empty)).toMatchObject({ status: "completed", output: [] });
    const again = await client.turn({ input: "Remember this.", generate: false, store: false });
    const events = await client.turn({ input: "What?", store: false, previous_response_id: responseOf(again).id });
    expect(textOf(events)).toBe("1");
    expect((await on.quotas.balance("one"))?.used).toBe(8);
  });

  it("repeat the lane of their message in each event", async () => {
    await using on = await stage();
    await using client = await on.open();
    const events = await client.turn({ input: "a", store: false, stream_id: 'lane "1"' });
    expect(new Set(events.map(({ stream_id }) => stream_id))).toEqual(new Set(['lane "1"']));
    expect((await client.turn({ input: "a", store: false }))[0]).not.toHaveProperty("stream_id");
  });

  it("continue a kept response by its id, also on another connection", async () => {
    await using on = await stage({ responseStore: memoryResponseStore() });
    await using one = await on.open();
    await using other = await on.open();
    const first = responseOf(await one.turn({ input: "a" }));
    const second = responseOf(await one.turn({ input: "b", previous_response_id: first.id }));
    expect(second).toMatchObject({ store: true, previous_response_id: first.id });
    expect(textOf(await other.turn({ input: "c", previous_response_id: second.id }))).toBe("5");
  });

  it("keep a response whole that goes on from one that is not kept", async () => {
    await using on = await stage({ responseStore: memoryResponseStore() });
    await using one = await on.open();
    await using other = await on.open();
    const first = responseOf(await one.turn({ input: "a", store: false }));
    const second = responseOf(await one.turn({ input: "b", previous_response_id: first.id }));
    expect(second).toMatchObject({ store: true, previous_response_id: first.id });
    expect(textOf(await other.turn({ input: "c", previous_response_id: second.id }))).toBe("5");
  });

  it("forget a response whose continuation failed", async () => {
    await using on = await stage();
    await using client = await on.open();
    const { id } = responseOf(await client.turn({ input: "a", store: false }));
    const output = { type: "function_call_output", call_id: "call_none", output: "?" };
    expect(await client.turn({ input: [output], store: false, previous_response_id: id })).toMatchObject([
      { type: "error", status: 400 },
    ]);
    const again = await client.turn({ input: "b", store: false, previous_response_id: id });
    expect(errorCodeOf(again)).toBe("previous_response_not_found");
  });

  it("end when the client cancels, at the charge of what was made", async () => {
    const backend: ModelBackend = {
      async *chat(_request, { signal }) {
        yield "One two three";
        await aborted(signal);
      },
    };
    await using on = await stage({ backend });
    await using client = await on.open();
    client.send({ type: "response.create", model: "m", input: "a", store: false });
    while ((await client.next()).type !== "response.output_text.delta");
    client.send({ type: "response.cancel" });
    expect((await client.rest()).at(-1)).toMatchObject({ type: "response.failed" });
    await expect.poll(async () => (await on.quotas.balance("one"))?.used).toBeGreaterThan(0);
    await expect.poll(() => on.records.at(-1)?.outcome).toBe("client-closed");
    // The connection goes on.
    client.send({ type: "response.create", model: "m", input: "b", store: false });
    expect((await client.next()).type).toBe("response.created");
  });

  it("are not steered, which the client is told at once, and go on", async () => {
    const going = Promise.withResolvers<void>();
    const backend: ModelBackend = {
      async *chat(request, call) {
        yield "One ";
        await going.promise;
        yield* echo.chat?.(request, call) ?? [];
      },
    };
    await using on = await stage({ backend });
    const ws = new ResponsesWS(new OpenAI({ apiKey: "sk-one", baseURL: `${on.url}/v1` }));
    const types: string[] = [];
    const until = async (type: string) => {
      for await (const event of ws.stream())
        if (event.type === "message") {
          types.push(event.message.type);
          if (event.message.type === type) return event.message;
        } else if (event.type === "error") throw event.error;
      throw new Error("The connection has ended.");
    };
    const begun = until("response.output_text.delta");
    ws.send({ type: "response.create", model: "m", input: "a", store: false });
    await begun;
    const steer = (input: string): void => ws.send({ type: "response.steer", previous_response_id: "resp_1", input });
    const refused = () => until("response.steer.failed");
    const LONG = "Long. ".repeat(2_000);
    let next = refused();
    // A long wish waits for the end of the answer, so that the memory for its reply is booked.
    steer(LONG);
    steer("Faster.");
    expect(await next).toMatchObject({
      error: { type: "invalid_request_error", code: "steering_not_supported" },
      steer: { previous_response_id: "resp_1", input: "Faster." },
    });
    next = refused();
    going.resolve();
    expect(await next).toMatchObject({ steer: { input: LONG } });
    expect(types).toContain("response.completed");
    ws.close();
    expect(on.failures).toEqual([]);
    // The connection is a call of its own.
    expect(on.records).toHaveLength(2);
  });

  it("fail alone when the backend fails in their middle, with one last event", async () => {
    const backend: ModelBackend = {
      async *chat() {
        yield "One";
        throw new Error("gone");
      },
    };
    await using on = await stage({ backend });
    await using client = await on.open();
    for (let turn = 0; turn < 2; turn++) {
      const events = await client.turn({ input: "a", store: false });
      expect(events.at(-1)).toMatchObject({ type: "response.failed", response: { status: "failed" } });
      expect(events.filter(({ type }) => type === "error")).toEqual([]);
    }
  });
});

describe("what a message may be", () => {
  it.each<[name: string, message: object | string, error: object]>([
    ["no JSON", "{", { status: 400, error: { code: "malformed_body" } }],
    ["another type", { type: "session.update" }, { status: 400, error: { param: "type" } }],
    ["no object", "[]", { status: 400 }],
    ["in the background", { type: "response.create", background: true }, { error: { param: "background" } }],
    ["in a lane without a name", { type: "response.create", stream_id: 7 }, { error: { param: "stream_id" } }],
    ["without a model", { type: "response.create", input: "a" }, { error: { param: "model" } }],
    [
      "prepared without a model",
      { type: "response.create", input: "a", generate: false },
      { error: { param: "model" } },
    ],
  ])("%s: an error by name, and the connection goes on", async (_name, message, error) => {
    await using on = await stage();
    await using client = await on.open();
    client.ws.send(typeof message === "string" ? message : JSON.stringify(message));
    expect(await client.rest()).toMatchObject([{ type: "error", ...error }]);
    expect(textOf(await client.turn({ input: "a", store: false }))).toBe("1");
  });

  it("takes a stream flag, and messages in bytes", async () => {
    await using on = await stage();
    await using client = await on.open();
    client.ws.send(Buffer.from(JSON.stringify({ type: "response.create", model: "m", input: "é", stream: true })));
    expect(textOf(await client.rest())).toBe("1");
  });

  it("is refused for a key that cannot pay, message by message", async () => {
    await using on = await stage();
    await using client = await on.open("sk-none");
    const events = await client.turn({ input: "a", store: false });
    expect([events[0]?.["status"], errorCodeOf(events)]).toEqual([429, "insufficient_quota"]);
  });
});

describe("an upgrade", () => {
  it("is answered with 426 where the host has not wired WebSockets", async () => {
    await using on = await stage({}, false);
    const refused = await refusalOf(on.open());
    expect([refused.status, refused.headers["upgrade"]]).toEqual([426, "websocket"]);
    expect(JSON.parse(refused.body)).toMatchObject({ error: { code: "upgrade_required" } });
  });

  it("of another path gets a 404, or goes to the host's other listener", async () => {
    await using on = await stage();
    const other = openSocket(on.url, { authorization: "Bearer sk-one" }, "/other");
    const refused = await refusalOf(other);
    const asked = await fetch(`${on.url}/other`, { headers: { authorization: "Bearer sk-one" } });
    expect([refused.status, refused.headers["content-type"]]).toEqual([404, asked.headers.get("content-type")]);
    expect(JSON.parse(refused.body)).toEqual(await asked.json());
    const unversioned = openSocket(on.url, { authorization: "Bearer sk-one" }, "/responses");
    expect((await refusalOf(unversioned)).body).toContain("Did you mean GET /v1/responses?");
    const server = createServer();
    server.on("upgrade", toUpgradeHandler(on.gateway));
    server.on("upgrade", (_req, socket) => socket.end("HTTP/1.1 418 Mine\r\n\r\n"));
    const url = await listen(server);
    expect((await refusalOf(openSocket(url, {}, "/other"))).status).toBe(418);
    server.close();
  });

  it("to HTTP/2, as Java's client asks for it, is told to leave the header out", async () => {
    await using on = await stage();
    const { hostname, port } = new URL(on.url);
    const socket = connect(Number(port), hostname);
    const upgrade = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk";
    socket.write(`POST /v1/responses HTTP/1.1\r\nhost: h\r\n${upgrade}\r\ncontent-length: 2\r\n\r\n{}`);
    expect(await text(socket)).toContain("send the request without the header upgrade");
  });

  it("whose host header and path make no URL gets a 404, without a key, and harms nobody", async () => {
    await using on = await stage();
    const { hostname, port } = new URL(on.url);
    for (const path of ["/..", "/v1/responses/%2e", "/v1/responses?#", "/v1/responses"]) {
      const socket = connect(Number(port), hostname);
      const upgrade = "connection: upgrade\r\nupgrade: websocket\r\nauthorization: Bearer sk-one";
      socket.write(`GET ${path} HTTP/1.1\r\nhost: h:99999\r\n${upgrade}\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1\.1 404 /);
    }
    await using client = await on.open();
    expect(textOf(await client.turn({ input: "Still there?", store: false }))).toBe("1");
  });

  it.each(["/none", "/v1/responses"])(
    "to %s behind a request that has no answer yet ends the connection, and harms nobody",
    async (path) => {
      await using on = await stage();
      const { hostname, port } = new URL(on.url);
      const upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13";
      const key = "authorization: Bearer sk-one\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
      const socket = connect(Number(port), hostname);
      socket.write(
        `GET /none HTTP/1.1\r\nhost: h\r\n\r\nGET ${path} HTTP/1.1\r\nhost: h\r\n${upgrade}\r\n${key}\r\n\r\n`,
      );
      expect(await text(socket)).not.toContain("101 Switching");
      await using client = await on.open();
      expect(textOf(await client.turn({ input: "Still there?", store: false }))).toBe("1");
    },
  );

  it("beyond the room gets a 503, in all and for one key, until another one ends", async () => {
    await using on = await stage({ limits: { maxSockets: 4, maxSocketsPerKey: 2 } });
    const clients = [await on.open(), await on.open()];
    const refused = await refusalOf(on.open());
    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "10"]);
    await using other = await on.open("sk-two");
    expect(textOf(await other.turn({ input: "a", store: false }))).toBe("1");
    for (const client of clients) await client[Symbol.asyncDispose]();
    await expect.poll(() => on.open().then((client) => client[Symbol.asyncDispose]().then(() => true))).toBe(true);
  });

  it("ends after its longest life, behind the running answer", async () => {
    const clock = manualClock(Date.now());
    await using on = await stage({ clock, limits: { socketLifeMs: 60_000 } });
    await using client = await on.open();
    await client.turn({ input: "a", store: false });
    await clock.advance(60_001);
    expect(await client.rest()).toMatchObject([{ error: { code: "websocket_connection_limit_reached" } }]);
    expect((await client.closed)[0]).toBe(1000);
  });

  it("lives on through the pings and pongs of a quiet client", async () => {
    const clock = manualClock(Date.now());
    await using on = await stage({ clock, limits: { bodyStallMs: 1_000 } });
    await using client = await on.open();
    client.ws.ping();
    await once(client.ws, "pong");
    await clock.advance(10_000);
    // Nothing is left of a message in pieces either, with a ping between them.
    client.ws.send("[", { fin: false });
    client.ws.ping();
    client.ws.send("]".repeat(200), { fin: true });
    expect(await client.rest()).toMatchObject([{ type: "error", status: 400 }]);
    await clock.advance(10_000);
    expect(textOf(await client.turn({ input: "a", store: false }))).toBe("1");
  });

  it("answers no message that waits when its longest life ends", async () => {
    const clock = manualClock(Date.now());
    const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let asked = 0;
    const backend: ModelBackend = {
      async *chat() {
        asked++;
        begun.resolve();
        await release.promise;
        yield "One";
      },
    };
    await using on = await stage({ backend, clock, limits: { socketLifeMs: 60_000 } });
    await using client = await on.open();
    // A client that never answers the close keeps its connection for a while.
    client.ws.pause();
    for (const input of ["a", "b"]) client.send({ type: "response.create", model: "m", input, store: false });
    await begun.promise;
    await clock.advance(60_001);
    release.resolve();
    await expect.poll(() => on.records.filter(({ units }) => units > 0).length).toBe(1);
    await expect.poll(async () => (await on.gateway.health()).calls).toBe(0);
    expect(asked).toBe(1);
  });
});

const longLength = (bytes: number): Buffer => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes));
  return length;
};

describe("a hostile client", () => {
  const UPGRADE = [
    "GET /v1/responses HTTP/1.1",
    "Host: localhost",
    "Authorization: Bearer sk-one",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Extensions: permessage-deflate",
    "",
    "",
  ].join("\r\n");

  async function raw(url: string): Promise<{ socket: Socket; head: string }> {
    const { port } = new URL(url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    socket.write(UPGRADE);
    const [head] = (await once(socket, "data")) as [Buffer];
    return { socket, head: head.toString() };
  }

  const MASK = Buffer.from([0, 0, 0, 0]);
  /** Returns a frame whose mask changes nothing. */
  const frame = (first: number, payload: Buffer): Buffer => {
    const length =
      payload.length < 126
        ? Buffer.from([0x80 | payload.length])
        : Buffer.concat([Buffer.from([0x80 | 127]), longLength(payload.length)]);
    return Buffer.concat([Buffer.from([first]), length, MASK, payload]);
  };

  it("gets no compression, and loses the connection for a compressed frame", async () => {
    await using on = await stage();
    const { socket, head } = await raw(on.url);
    expect(head).not.toContain("permessage-deflate");
    socket.write(frame(0xc1, Buffer.alloc(100)));
    await once(socket, "close");
  });

  it("loses the connection for a message that is too large, or cannot be booked", async () => {
    await using on = await stage({ limits: { maxJsonBytes: 100_000 } });
    await using large = await on.open();
    large.ws.send("x".repeat(100_001));
    expect((await large.closed)[0]).toBe(1009);
    await using tight = await stage({ limits: { maxBodyBytesInFlight: 50_000, maxBodyBytesPerKey: 50_000 } });
    await using client = await tight.open();
    client.ws.send("x".repeat(200_000));
    expect((await client.closed)[0]).toBe(1013);
    await using after = await tight.open();
    expect(textOf(await after.turn({ input: "a", store: false }))).toBe("1");
  });

  const START = frame(0x81, Buffer.alloc(1_000_000, 0x20)).subarray(0, 6_000);
  it.each([
    ["", START],
    [", behind a message that is complete", Buffer.concat([frame(0x81, Buffer.from("{}")), START])],
    [", in fragments", Buffer.concat([frame(0x01, Buffer.from("{")), frame(0x89, Buffer.alloc(9))])],
  ])("loses the connection for a message whose rest does not come%s", async (_name, bytes) => {
    const clock = manualClock(Date.now());
    await using on = await stage({ clock, limits: { bodyStallMs: 1_000 } });
    const { socket } = await raw(on.url);
    socket.resume().write(bytes);
    await expect.poll(() => clock.advance(500).then(() => socket.closed), { interval: 20 }).toBe(true);
  });

  it("loses the connection for a message that comes too slowly", async () => {
    const clock = manualClock(Date.now());
    await using on = await stage({ clock, limits: { bodyStallMs: 86_400_000, minBodyBytesPerSecond: 1_000 } });
    const { socket } = await raw(on.url);
    socket.resume().write(START);
    const drip = (): Promise<boolean> => {
      socket.write(" ");
      return clock.advance(2_000).then(() => socket.closed);
    };
    await expect.poll(drip, { interval: 20, timeout: 10_000 }).toBe(true);
  });

  it("fills no memory with pings that it does not read the answers of", async () => {
    await using on = await stage();
    const { socket } = await raw(on.url);
    socket.pause();
    const pings = Buffer.concat(Array.from({ length: 1_000 }, () => frame(0x89, Buffer.alloc(100))));
    for (let count = 0; count < 100; count++) if (!socket.write(pings)) await once(socket, "drain");
    await using client = await on.open("sk-two");
    expect(textOf(await client.turn({ input: "a", store: false }))).toBe("1");
    socket.destroy();
  });

  it("cannot go on from another tenant's response", async () => {
    await using on = await stage({ responseStore: memoryResponseStore() });
    await using one = await on.open();
    await using two = await on.open("sk-two");
    const { id } = responseOf(await one.turn({ input: "a" }));
    const stolen = await two.turn({ input: "b", previous_response_id: id });
    expect(errorCodeOf(stolen)).toBe("previous_response_not_found");
  });

  it("waits with at most so many messages", async () => {
    const backend: ModelBackend = {
      async *chat(_request, { signal }) {
        yield "One";
        await aborted(signal);
      },
    };
    await using on = await stage({ backend });
    await using client = await on.open();
    for (let count = 0; count < 20; count++) client.send({ type: "response.create", model: "m", input: "a" });
    expect((await client.closed)[0]).toBe(1013);
  });

  it("gets no further answer behind a close that it does not answer", async () => {
    const cut = Promise.withResolvers<void>();
    let asked = 0;
    const backend: ModelBackend = {
      async *chat(_request, { signal }) {
        asked++;
        yield "One";
        await aborted(signal);
        cut.resolve();
      },
    };
    await using on = await stage({ backend });
    await using client = await on.open();
    client.ws.pause();
    const turn = { type: "response.create", model: "m", input: "a" };
    client.send(turn);
    // Messages that come together close the connection before the backend is asked.
    await expect.poll(() => asked).toBe(1);
    for (let count = 1; count < 20; count++) client.send(turn);
    await cut.promise;
    await expect.poll(async () => (await on.gateway.health()).calls).toBe(0);
    expect(asked).toBe(1);
  });
});

it.each([
  ["behind its turn", "x".repeat(100_000), ""],
  ["in the middle of a message, beside a running turn", "wait", "y".repeat(50_000)],
])("a connection that ends %s leaves no body booked and no call", async (_name, input, rest) => {
  let gauges: GatewayGauges | undefined;
  const backend: ModelBackend = {
    async *chat({ messages }, { signal }) {
      yield "One";
      const [part] = messages[0]?.parts ?? [];
      if (part?.type === "text" && part.text !== "wait") return;
      await aborted(signal);
    },
  };
  const observer = { watchGateway: (shown: GatewayGauges) => void (gauges = shown), begin: () => undefined };
  await using on = await stage({ backend, observer });
  const client = await on.open();
  client.send({ type: "response.create", model: "m", input, store: false });
  while (!/delta$|completed$/.test((await client.next()).type));
  const booked = rest === "" ? 0 : (gauges?.bodyBytes ?? 0) + rest.length;
  client.ws.send(rest, { fin: false });
  await expect.poll(() => gauges?.bodyBytes).toBeGreaterThanOrEqual(booked);
  await client[Symbol.asyncDispose]();
  await expect.poll(async () => (await on.gateway.health()).calls).toBe(0);
  await expect.poll(() => gauges?.bodyBytes).toBe(0);
  expect(on.failures).toEqual([]);
});
