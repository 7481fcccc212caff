/** The hosts that run on Node, in the process of the tests: each mounts a gateway the way its users do, before a route of its own. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler, type UpgradeHandler } from "../../adapters/websocket.ts";
import { createGateway, type Gateway } from "../../src/index.ts";
import { ownAnswer, type TestHost } from "./host.ts";

/** Makes the listener of a host that a gateway is mounted in. */
export type Listen = (gateway: Gateway, prefix: string) => Listener | Promise<Listener>;

type Listener = (req: IncomingMessage, res: ServerResponse) => unknown;

/** A host that listens on loopback, asked by the platform's own client. */
export function overSocket(listen: Listen): TestHost["start"] {
  return async (options, prefix = "") => {
    const gateway = createGateway(options);
    const { url, stop } = await listenWith(await listen(gateway, prefix), toUpgradeHandler(gateway, { prefix }));
    return { url, stop, gateway, request: (path, init) => fetch(`${url}${path}`, init) };
  };
}

export const onNode: Listen = (gateway, prefix) => {
  const handler = toNodeHandler(gateway, { prefix });
  return (req, res) => handler(req, res, () => void answerBy(req, res));
};

/** The host's own route. A client may be gone in the middle of its body. */
const answerBy = (req: IncomingMessage, res: ServerResponse): Promise<unknown> =>
  textOf(req).then(
    (body) => res.end(ownAnswer(req.url ?? "", body)),
    () => res.destroy(),
  );

const inExpress =
  (framework: typeof express): Listen =>
  (gateway, prefix) => {
    const app = framework();
    app.use(prefix || "/", toExpressHandler(gateway));
    app.use((req, res) => void answerBy(req, res));
    return app;
  };

export const onExpress5: Listen = inExpress(express);
// Typed as the other: what a mount touches is the same in both.
export const onExpress4: Listen = inExpress(createRequire(import.meta.url)("express-4") as typeof express);

export const onKoa: Listen = (gateway, prefix) => {
  const app = new Koa();
  // It reports each connection that is reset as an error of the app.
  app.silent = true;
  app.use(toKoaMiddleware(gateway, { prefix }));
  app.use(async (context) => void (context.body = ownAnswer(context.url, await textOf(context.req))));
  return app.callback();
};

export const onFastify: Listen = async (gateway, prefix) => {
  const handler = toNodeHandler(gateway, { prefix });
  const app = fastify({
    // Fastify refuses an address that is not percent-encoded as it should be, and tells it back, with a key that may be in it.
    frameworkErrors: (error, request, reply) => {
      reply.hijack();
      handler(request.raw, reply.raw, () => reply.raw.writeHead(error.statusCode ?? 400).end());
    },
  });
  app.addHook("onRequest", (request, reply, done) => handler(request.raw, reply.raw, done));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.all("/*", async ({ raw }) => ownAnswer(raw.url ?? "", await textOf(raw)));
  await app.ready();
  return (req, res) => app.routing(req, res);
};

export const onHono: Listen = (gateway, prefix) => {
  const app = new Hono();
  const ai = gateway.at(prefix);
  app.use(`${prefix}/*`, async ({ req }, next) => (await ai.handle(req.raw)) ?? next());
  app.all("*", async ({ req }) => {
    const { pathname, search } = new URL(req.url);
    return new Response(ownAnswer(pathname + search, await req.text()));
  });
  return getRequestListener(app.fetch);
};

interface Listening {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** A Node server on a free port of loopback. */
function listenWith(listener: Listener, upgrade: UpgradeHandler): Promise<Listening> {
  // On a slow machine a client's next request may come later than the five seconds that Node keeps a connection for.
  const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => void listener(req, res));
  server.on("upgrade", upgrade);
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      resolve({ url: `http://127.0.0.1:${port}`, stop: () => close(server) });
    });
  });
}

const close = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => {
    server.close((error) => (error ? reject(error) : resolve()));
    server.closeAllConnections();
  });

async function textOf(req: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of req.setEncoding("utf8")) text += String(chunk);
  return text;
}
