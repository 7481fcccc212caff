/** The gateway behind Hono's middleware that reads the body: what is left for it, and who hears where nothing is. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono, type HonoRequest } from "hono";
import { afterEach, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { MINIMAL } from "../formats/messages/bodies.ts";
import { KEY, plays, post } from "./stage.ts";

let stop: (() => void) | undefined;
afterEach(() => stop?.());

const gatewayTelling = (heard: string[]): Gateway =>
  createGateway({
    backend: { chat: plays("Hello.") },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    onFailure: ({ text }) => heard.push(text),
  });

/** An app whose middleware reads before the gateway does. */
function appOf(gateway: Gateway, read: (request: HonoRequest) => Promise<unknown>): Hono {
  const ai = gateway.at("/ai");
  return new Hono()
    .use(async ({ req }, next) => (await read(req), next()))
    .use("/ai/*", async ({ req }, next) => (await ai.handle(req.raw)) ?? next());
}

async function askOnNode(app: Hono): Promise<Response> {
  const listener = getRequestListener(app.fetch);
  const server = createServer((req, res) => void listener(req, res)).listen(0, "127.0.0.1");
  stop = () => server.close().closeAllConnections();
  await once(server, "listening");
  return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/ai/v1/messages`, post(MINIMAL));
}

const RUNTIMES = [
  ["fetch", async (app: Hono): Promise<Response> => app.request("/ai/v1/messages", post(MINIMAL))],
  ["Node", askOnNode],
] as const;

it.each(RUNTIMES)("tells the host, not the caller, of middleware that leaves no body: on %s", async (_runtime, ask) => {
  const heard: string[] = [];
  const response = await ask(appOf(gatewayTelling(heard), (request) => request.json()));
  expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("middleware")]);
  expect(heard).toEqual([expect.stringContaining("Mount the gateway before that middleware")]);
});

it.each(RUNTIMES)("serves behind middleware that reads a clone: on %s", async (_runtime, ask) => {
  const heard: string[] = [];
  const response = await ask(appOf(gatewayTelling(heard), ({ raw }) => raw.clone().json()));
  expect([response.status, heard]).toEqual([200, []]);
});
