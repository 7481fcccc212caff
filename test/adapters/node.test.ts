/** The mount on Node: whose errors are whose, and what becomes of clients that do not read or do not stop sending. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import compression from "compression";
import express from "express";
import Koa from "koa";
import { afterEach, describe, expect, it, vi } from "vitest";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { type NodeHandlerOptions, toNodeHandler } from "../../adapters/node.ts";
import {
  type ChatRequest,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../src/index.ts";

const HEADERS = { "x-api-key": "sk-one", "compat-version": "2023-06-01", "content-type": "application/json" };
const BODY = { model: "m", max_tokens: 1_000_000, messages: [{ role: "user", content: "Hi" }] };

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  servers.push(server);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const openConnections = (): Promise<number> =>
  new Promise((resolve) => servers.at(-1)?.getConnections((_error, count) => resolve(count)));

const gatewayOf = (options: Partial<GatewayOptions> = {}): Gateway =>
  createGateway({
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    backend: {
      async *chat() {
        yield "Hello.";
      },
    },
    ...options,
  });

const serve = (options: Partial<GatewayOptions>, handler?: NodeHandlerOptions): Promise<number> =>
  listen(toNodeHandler(gatewayOf(options), handler));

const ask = (port: number, body: unknown = BODY): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/v1/messages`, { method: "POST", headers: HEADERS, body: JSON.stringify(body) });

/** A connection that has sent a request's head, and from which nothing is read yet. */
async function sendHead(port: number, ...headers: readonly string[]): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  // A write that fails says so itself.
  socket.on("error", () => {}).pause();
  socket.write(headOf(...headers));
  return socket;
}

function headOf(...headers: readonly string[]): string {
  const lines = Object.entries({ host: "gateway.test", ...HEADERS }).map(([name, value]) => `${name}: ${value}`);
  return ["POST /v1/messages HTTP/1.1", ...lines, ...headers, "", ""].join("\r\n");
}

const write = (socket: Socket, data: string): Promise<boolean> =>
  new Promise((resolve) => socket.write(data, (error) => resolve(!error)));

/** What has come once it matches. */
async function readUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let read = "";
  for await (const data of socket.setEncoding("utf8").iterator({ destroyOnReturn: false }) as AsyncIterable<string>) {
    read += data;
    if (pattern.test(read)) return read;
  }
  throw new Error(`The connection was closed after: ${read}`);
}

describe("errors", () => {
  const at: Gateway["at"] = (prefix) => ({
    ...gatewayOf().at(prefix),
    answer: () => Promise.reject(new Error("broken inside")),
  });
  const broken: Gateway = { ...gatewayOf(), at };

  it("of the gateway go to next", async () => {
    const handler = toNodeHandler(broken);
    const port = await listen((req, res) =>
      handler(req, res, (error) => res.writeHead(503).end(error instanceof Error ? error.message : "none")),
    );
    const response = await ask(port);
    expect([response.status, await response.text()]).toEqual([503, "broken inside"]);
  });

  it("of the gateway are a bare 500 where there is no next", async () => {
    const response = await ask(await listen(toNodeHandler(broken)));
    expect([response.status, await response.text()]).toEqual([500, ""]);
  });

  it("of the host's own next are not swallowed", async () => {
    const script = `
      import { toNodeHandler } from ${JSON.stringify(new URL("../../adapters/node.ts", import.meta.url))};
      const handler = toNodeHandler({ at: () => ({ answer: async () => undefined }) });
      handler({ url: "/", headers: {}, rawHeaders: [] }, {}, () => { throw new Error("the host's own"); });
    `;
    const ended = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
    await expect(ended).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("the host's own") as string });
  });
});

const onExpress = (gateway: Gateway): RequestListener =>
  express().use(compression({ threshold: 0 }), toExpressHandler(gateway)) as RequestListener;

function onKoa(gateway: Gateway): RequestListener {
  const app = new Koa();
  app.use(toKoaMiddleware(gateway) as Koa.Middleware);
  const handle = app.callback();
  return (req, res) => void handle(req, res);
}

describe("a gateway that closes", () => {
  it.each([
    ["Node", (gateway: Gateway): RequestListener => toNodeHandler(gateway)],
    ["Koa", onKoa],
  ])("ends kept connections with its last answers, in flight and refused, on %s", async (_name, mount) => {
    const [asked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const gateway = gatewayOf({
      backend: {
        async *chat({ model }) {
          if (model === "waits") asked.resolve();
          if (model === "waits") await goOn.promise;
          yield "Hello.";
        },
      },
    });
    const port = await listen(mount(gateway));
    const kept = await ask(port);
    expect([kept.status, kept.headers.get("connection")]).toEqual([200, "keep-alive"]);
    const sent = ask(port, { ...BODY, model: "waits" });
    await asked.promise;
    const closed = gateway.close();
    const refused = await ask(port);
    expect([refused.status, refused.headers.get("connection")]).toEqual([503, "close"]);
    goOn.resolve();
    const last = await sent;
    expect([last.status, last.headers.get("connection")]).toEqual([200, "close"]);
    expect(await last.text()).toContain("Hello.");
    await closed;
  });

  it.each([
    ["Node", (gateway: Gateway): RequestListener => toNodeHandler(gateway)],
    ["Koa", onKoa],
  ])("ends the kept connection of a stream that began before, on %s", async (_name, mount) => {
    const goOn = Promise.withResolvers<void>();
    const gateway = gatewayOf({
      backend: {
        async *chat() {
          yield "Hello.";
          await goOn.promise;
        },
      },
    });
    const port = await listen(mount(gateway));
    const body = JSON.stringify({ ...BODY, stream: true });
    const socket = await sendHead(port, `content-length: ${body.length}`);
    await write(socket, body);
    expect(await readUntil(socket, /Hello\./)).toContain("onnection: keep-alive");
    // Without a timeout, only the mount ends the connection.
    const [server] = servers;
    if (server) server.keepAliveTimeout = 0;
    const [stopped, closed] = [once(server?.close() as Server, "close"), gateway.close()];
    goOn.resolve();
    expect(await text(socket)).toContain("message_stop");
    await Promise.all([stopped, closed]);
  });

  it("refuses a client that still sends only after its last byte, so that the answer is not lost", async () => {
    const gateway = gatewayOf();
    await gateway.close();
    const port = await listen(toNodeHandler(gateway));
    const socket = await sendHead(port, "content-length: 20000000");
    for (let sent = 0; sent < 20; sent++) expect(await write(socket, "a".repeat(1_000_000))).toBe(true);
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1.1 503 /);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    expect(answer).toContain("The gateway is closing.");
  });

  it("leaves HTTP/2 as it is", async () => {
    const gateway = gatewayOf();
    await gateway.close();
    const warnings: string[] = [];
    const warn = ({ message }: Error): void => void warnings.push(message);
    process.on("warning", warn);
    const handler = toNodeHandler(gateway) as unknown as Parameters<typeof createHttp2Server>[1];
    const server = createHttp2Server({}, handler).listen(0, "127.0.0.1");
    await once(server, "listening");
    const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    try {
      for (let at = 0; at < 2; at++) {
        const stream = session.request({ ":method": "POST", ":path": "/v1/messages", ...HEADERS }).end("{}");
        const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
        expect([headers[":status"], headers["connection"]]).toEqual([503, undefined]);
        expect(await text(stream)).toContain("The gateway is closing.");
      }
      expect(warnings).toEqual([]);
    } finally {
      process.off("warning", warn);
      session.close();
      server.close();
    }
  });
});

describe("a client that does not read", () => {
  it.each([
    ["while its backend would go on", {}],
    ["after the deadline has ended the call", { deadlineMs: 20 }],
  ])("loses its connection %s, and its backend is stopped", async (_when, limits) => {
    const stopped = Promise.withResolvers<string>();
    const backend = {
      async *chat() {
        try {
          // More than any buffer takes.
          for (;;) yield "word ".repeat(10_000);
        } finally {
          stopped.resolve("stopped");
        }
      },
    };
    const port = await serve({ backend, limits, onFailure: () => {} }, { patienceMs: 50 });
    const body = JSON.stringify({ ...BODY, stream: true });
    const socket = await sendHead(port, `content-length: ${body.length}`);
    await write(socket, body);
    expect(await stopped.promise).toBe("stopped");
    await expect.poll(openConnections, { timeout: 9_000 }).toBe(0);
    socket.destroy();
  });

  it.each([
    ["a complete answer", {}],
    ["a stream", { stream: true }],
  ])("loses its connection by %s that was ready before the one in front of it", async (_what, more) => {
    const other = Promise.withResolvers<void>();
    const backend = {
      async *chat({ model }: ChatRequest) {
        if (model === "first") await other.promise;
        else other.resolve();
        // More than any buffer takes.
        yield model === "first" ? "word" : "word ".repeat(5_000_000);
      },
    };
    const port = await serve({ backend }, { patienceMs: 50 });
    const first = JSON.stringify({ ...BODY, model: "first" });
    const second = JSON.stringify({ ...BODY, max_tokens: 100_000_000, ...more });
    const socket = await sendHead(port, `content-length: ${first.length}`);
    await write(socket, first + headOf(`content-length: ${second.length}`) + second);
    await other.promise;
    await expect.poll(openConnections).toBe(0);
    socket.destroy();
  });

  it("is not mistaken for one that has nothing to read", async () => {
    const quiet = Promise.withResolvers<void>();
    const backend = {
      async *chat() {
        yield "Wait.";
        await quiet.promise;
        yield "Thanks.";
      },
    };
    const handler = toNodeHandler(gatewayOf({ backend }), { patienceMs: 20 });
    const port = await listen((req, res) => {
      res.once("timeout", quiet.resolve);
      handler(req, res);
    });
    expect(await (await ask(port, { ...BODY, stream: true })).text()).toContain("Thanks.");
  });

  it("leaves the next request of its connection all its time", async () => {
    const handler = toNodeHandler(gatewayOf(), { patienceMs: 20 });
    const timeouts: (number | undefined)[] = [];
    const port = await listen((req, res) => {
      timeouts.push(req.socket.timeout);
      handler(req, res);
    });
    for (const server of servers) server.keepAliveTimeout = 0;
    const body = JSON.stringify(BODY);
    const socket = await sendHead(port, `content-length: ${body.length}`);
    socket.write(body);
    await readUntil(socket, /\}$/);
    socket.write("GET /none HTTP/1.1\r\nhost: gateway.test\r\n\r\n");
    await readUntil(socket, / 404 /);
    expect(timeouts.map((timeout) => timeout ?? 0)).toEqual([0, 0]);
    socket.destroy();
  });
});

describe("a refusal on a connection that ends with it", () => {
  const CLOSING = ["content-length: 20000000", "connection: close", "accept-encoding: gzip"];
  const stranger = gatewayOf({ quotas: memoryQuotaStore() });

  describe.each([
    ["Node", (gateway: Gateway): RequestListener => toNodeHandler(gateway)],
    ["Express, behind compression", onExpress],
    ["Koa", onKoa],
  ])("on %s", (_name, mount) => {
    it("reaches a client that reads only behind its last byte", async () => {
      const socket = await sendHead(await listen(mount(stranger)), ...CLOSING);
      for (let sent = 0; sent < 20; sent++) expect(await write(socket, "a".repeat(1_000_000))).toBe(true);
      expect(await text(socket)).toMatch(/^HTTP\/1.1 401 [^]*"code":"/);
    });

    it("comes at once, with its length, to a client that sends nothing before", async () => {
      const socket = await sendHead(await listen(mount(stranger)), ...CLOSING);
      expect(await readUntil(socket, /\}$/)).toMatch(/^HTTP\/1.1 401 [^]*content-length: \d/i);
      socket.destroy();
    });
  });
});

describe("a body beyond the limit, of no declared length", () => {
  const limits = { maxJsonBytes: 100_000 };
  const CHUNK = `4000\r\n${" ".repeat(0x4000)}\r\n`;

  it("is answered to a client that sends all of it first, and the connection serves on", async () => {
    const port = await serve({ limits });
    const socket = await sendHead(port, "transfer-encoding: chunked");
    // Far more than fits between the two.
    for (let sent = 0; sent < 2_000; sent++) expect(await write(socket, CHUNK)).toBe(true);
    await write(socket, "0\r\n\r\n");
    expect(await readUntil(socket, /\}$/)).toMatch(/^HTTP\/1\.1 413 /);
    socket.write("GET /none HTTP/1.1\r\nhost: gateway.test\r\n\r\n");
    expect(await readUntil(socket, /\r\n\r\n/)).toMatch(/^HTTP\/1\.1 404 /);
    socket.destroy();
  });

  it("is answered to fetch", async () => {
    const port = await serve({ limits });
    const chunk = new TextEncoder().encode(" ".repeat(0x4000));
    const body = new ReadableStream({ pull: (controller) => controller.enqueue(chunk) });
    const init = { method: "POST", headers: HEADERS, body, duplex: "half" };
    expect((await fetch(`http://127.0.0.1:${port}/v1/messages`, init)).status).toBe(413);
  });

  it("ends the connection of a client that does not stop", async () => {
    const socket = await sendHead(await serve({ limits }, { patienceMs: 50 }), "transfer-encoding: chunked");
    const answer = readUntil(socket, / 413 /);
    while (await write(socket, CHUNK));
    expect(await answer).toMatch(/^HTTP/);
  });
});

/** What `express.json()` does. */
const parsed = async (req: IncomingMessage & { body?: unknown }): Promise<void> => {
  req.body = JSON.parse(await text(req));
};
const after =
  (read: (req: IncomingMessage) => Promise<unknown>, gateway: Gateway) =>
  (req: IncomingMessage, res: ServerResponse): void =>
    void read(req).then(() => toNodeHandler(gateway)(req, res));

describe("a client that hangs up in the middle of its body", () => {
  it("is waited for no longer", async () => {
    const patienceMs = 54_321;
    const timers = vi.spyOn(globalThis, "setTimeout");
    const [arrived, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const gateway = gatewayOf();
    const watched: Gateway["at"] = (prefix) => ({
      ...gateway.at(prefix),
      answer(...args) {
        const answer = gateway.at(prefix).answer(...args);
        arrived.resolve();
        void answer?.finally(answered.resolve);
        return answer;
      },
    });
    const port = await listen(toNodeHandler({ ...gateway, at: watched }, { patienceMs }));
    const socket = await sendHead(port, "content-length: 1000");
    await arrived.promise;
    socket.destroy();
    await answered.promise;
    await new Promise((resolve) => void setImmediate(resolve));
    expect(timers).not.toHaveBeenCalledWith(expect.anything(), patienceMs);
    timers.mockRestore();
  });
});

describe("behind a body parser", () => {
  it("takes what it has parsed", async () => {
    const response = await ask(await listen(after(parsed, gatewayOf())));
    expect(await response.json()).toMatchObject({ content: [{ text: "Hello." }] });
  });

  it("holds it to the gateway's own limits", async () => {
    const limits = { maxJsonDepth: 2 };
    expect((await ask(await listen(after(parsed, gatewayOf({ limits }))))).status).toBe(400);
  });

  it("tells the host what to reorder where nothing is left, and the caller that the service is at fault", async () => {
    const heard: string[] = [];
    const onFailure = (failure: Failure): void => void heard.push(failure.text);
    const response = await ask(await listen(after(text, gatewayOf({ onFailure }))));
    expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("middleware")]);
    expect(heard).toEqual([expect.stringContaining("Mount the gateway before that middleware")]);
  });
});
