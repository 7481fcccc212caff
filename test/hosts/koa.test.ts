/** The gateway among Koa's middleware: before it, behind it, and under koa-mount. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import mount from "koa-mount";
import { afterEach, expect, it } from "vitest";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { having, MINIMAL } from "../conformance/messages/bodies.ts";
import { KEY, plays, post } from "../conformance/stage.ts";

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
  const routes = { ...gateway, handle: () => Promise.reject(new Error("The mount is broken.")) };
  app.use(async (context, next) => {
    await next().catch((error: Error) => (context.body = error.message));
  });
  app.use(toKoaMiddleware({ ...gateway, at: () => routes }));
  expect(await (await fetch(`${await listen(app)}/v1/messages`, post(MINIMAL))).text()).toBe("The mount is broken.");
});
