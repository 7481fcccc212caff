/** The gateway among Koa's middleware: before it, behind it, and under koa-mount. */

import { once } from "node:events";
import { createServer, type IncomingMessage, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { json } from "node:stream/consumers";
import Koa from "koa";
import mount from "koa-mount";
import { afterEach, expect, it } from "vitest";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { having, MINIMAL } from "../formats/messages/bodies.ts";
import { drawn, KEY, plays, post } from "./stage.ts";

const gateway = createGateway({ backend: { chat: plays("Hello.") }, quotas: memoryQuotaStore([{ apiKey: KEY }]) });

let stop: (() => void) | undefined;
afterEach(() => stop?.());

async function listen(app: Koa): Promise<string> {
  const handler = app.callback();
  const server = createServer((req, res) => void handler(req, res)).listen(0, "127.0.0.1");
  stop = () => server.close().closeAllConnections();
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it("stands under koa-mount, and leaves the rest to the app", async () => {
  const app = new Koa();
  app.use(mount("/ai", toKoaMiddleware(gateway)));
  app.use((context) => void (context.body = `own ${context.url}`));
  const url = await listen(app);
  expect(await (await fetch(`${url}/ai/v1/messages`, post(MINIMAL))).json()).toMatchObject({ type: "message" });
  expect(await (await fetch(`${url}/ai/other`)).text()).toBe("own /ai/other");
});

it("tells where its pictures are under koa-mount, whatever form the request's target has", async () => {
  const drawing = createGateway({
    backend: {
      async *image() {
        yield drawn(0);
      },
    },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
  });
  const app = new Koa();
  app.use(mount("/ai", toKoaMiddleware(drawing)));
  const url = await listen(app);
  const { method, headers, body } = post({ prompt: "A cat" }, { authorization: `Bearer ${KEY}` });
  const { port } = new URL(url);
  // A proxy is asked by a whole address, any other server by a path; both stand here for the same picture.
  for (const path of [`${url}/ai/v1/images/generations`, "/ai/v1/images/generations"]) {
    const asked = request({ host: "127.0.0.1", port, method, path, headers }).end(body);
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    const { data } = (await json(response)) as { data: [{ url: string }] };
    expect(data[0].url).toContain(`${url}/ai/v1/images/files/`);
    expect(await (await fetch(data[0].url)).text()).toBe("picture 0");
  }
});

it("takes what a body parser has left in Koa's request", async () => {
  const app = new Koa();
  app.use(async (context, next) => {
    let text = "";
    for await (const chunk of context.req.setEncoding("utf8")) text += String(chunk);
    Object.assign(context.request, { body: JSON.parse(text) as unknown });
    await next();
  });
  app.use(toKoaMiddleware(gateway, { prefix: "/ai" }));
  const url = await listen(app);
  const response = await fetch(`${url}/ai/v1/messages`, post(MINIMAL));
  expect(await response.json()).toMatchObject({ type: "message" });
  expect((await fetch(`${url}/ai/v1/messages`, post(null))).status).toBe(400);
});

it("hears a client out that sends all of a body before it reads that it is too large", async () => {
  const small = createGateway({
    backend: { chat: plays("Hello.") },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    limits: { maxJsonBytes: 1_000 },
  });
  const app = new Koa();
  app.use(toKoaMiddleware(small, { prefix: "/ai" }));
  const { port } = new URL(await listen(app));
  const socket = connect(Number(port), "127.0.0.1");
  const head = Object.entries({ ...post({}).headers, host: "host.test", "transfer-encoding": "chunked" });
  socket.write(`POST /ai/v1/messages HTTP/1.1\r\n${head.map((pair) => `${pair.join(": ")}\r\n`).join("")}\r\n`);
  const piece = Buffer.from(`10000\r\n${"x".repeat(0x10000)}\r\n`);
  for (let sent = 0; sent < 400; sent++) if (!socket.write(piece)) await once(socket, "drain");
  socket.write("0\r\n\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
  socket.destroy();
});

it("adds to what the app's middleware varies by", async () => {
  const open = createGateway({
    backend: { chat: plays("Hello.") },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    cors: { origin: ["https://app.example.com"] },
  });
  const app = new Koa();
  app.use(async (context, next) => (context.vary("Cookie"), next()));
  app.use(toKoaMiddleware(open, { prefix: "/ai" }));
  const url = await listen(app);
  for (const stream of [false, true]) {
    const init = post(having({ stream }), { origin: "https://app.example.com" });
    const { headers } = await fetch(`${url}/ai/v1/messages`, init);
    expect(headers.get("vary")?.toLowerCase().split(/, */).toSorted()).toEqual(["cookie", "origin"]);
  }
});

it("is an ordinary answer to the middleware around it", async () => {
  const app = new Koa();
  const seen: unknown[] = [];
  app.use(async (context, next) => {
    context.set("x-before", "1");
    await next();
    context.set("x-behind", "1");
    seen.push(context.status);
  });
  app.use(toKoaMiddleware(gateway, { prefix: "/ai" }));
  const url = await listen(app);
  const complete = await fetch(`${url}/ai/v1/messages`, post(MINIMAL));
  expect([complete.headers.get("x-before"), complete.headers.get("x-behind")]).toEqual(["1", "1"]);
  expect(Number(complete.headers.get("content-length"))).toBe((await complete.arrayBuffer()).byteLength);
  const streamed = await fetch(`${url}/ai/v1/messages`, post(having({ stream: true })));
  expect(streamed.headers.get("x-before")).toBe("1");
  expect(await streamed.text()).toContain("message_stop");
  expect((await fetch(`${url}/ai/v1/messages`, post({}))).status).toBe(400);
  await expect.poll(() => seen).toEqual([200, 200, 400]);
});

it("gives what fails in the mount to the app", async () => {
  const app = new Koa();
  const routes = { ...gateway, answer: () => Promise.reject(new Error("The mount is broken.")) };
  app.use(async (context, next) => {
    await next().catch((error: Error) => (context.body = error.message));
  });
  app.use(toKoaMiddleware({ ...gateway, at: () => routes }));
  expect(await (await fetch(`${await listen(app)}/v1/messages`, post(MINIMAL))).text()).toBe("The mount is broken.");
});
