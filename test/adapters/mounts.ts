/** Every mount of the gateway, called as its runtime calls it: those on Node over a socket, the others in process. */

import { once } from "node:events";
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import express from "express";
import Koa from "koa";
import { toBunHandler } from "../../adapters/bun.ts";
import { toDenoHandler } from "../../adapters/deno.ts";
import { toEdgeHandler } from "../../adapters/edge.ts";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import type { Gateway } from "../../src/index.ts";

/** What the tests' host knows of a caller. */
export interface Caller {
  readonly name: string | null;
}

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

export interface Got {
  readonly status: number;
  readonly headers: Record<string, string | undefined>;
  readonly body: string;
}

/** The host's context by one of its headers. */
export type NameOf = (name: string | null) => Caller;

export interface MountCase {
  readonly name: string;
  /** The address that the mount tells of a caller. */
  readonly address: string | undefined;
  /** Sends one request to a host with this gateway under `/ai`, and `own` for what is the host's. */
  readonly ask: (gateway: Gateway<Caller>, nameOf: NameOf | undefined, sent: Sent) => Promise<Got>;
}

const OWN = "the host's own";
const FAILED = "the host's own error";

type Listen = (gateway: Gateway<Caller>, nameOf: NameOf | undefined) => RequestListener;

/** A mount on Node's server, asked over a socket. */
const onNode = (name: string, listen: Listen): MountCase => ({
  name,
  address: "127.0.0.1",
  async ask(gateway, nameOf, sent) {
    const server = createServer(listen(gateway, nameOf)).listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      return await exchange((server.address() as AddressInfo).port, sent);
    } finally {
      server.close().closeAllConnections();
    }
  },
});

function exchange(port: number, { method, path, headers, body }: Sent): Promise<Got> {
  return new Promise((resolve, reject) => {
    const req = httpRequest(
      { port, host: "127.0.0.1", method, path, headers: { ...headers, connection: "close" } },
      (res) => {
        let text = "";
        res.setEncoding("utf8").on("data", (data: string) => (text += data));
        res.on("end", () =>
          resolve({
            status: res.statusCode ?? 0,
            headers: res.headers as Record<string, string | undefined>,
            body: text,
          }),
        );
      },
    );
    req.on("error", reject).end(body);
  });
}

const fromNode = (nameOf: NameOf | undefined) =>
  nameOf && { context: (req: { headers: Record<string, unknown> }) => nameOf(String(req.headers["x-user"])) };

const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).send(FAILED);

function withExpress(make: typeof express): Listen {
  return (gateway, nameOf) => {
    const app = make();
    app.use("/ai", toExpressHandler(gateway, { ...fromNode(nameOf) }));
    app.use((_req, res) => void res.send(OWN));
    app.use(failed);
    return app as RequestListener;
  };
}

const withKoa: Listen = (gateway, nameOf) => {
  const app = new Koa();
  app.use(async (context, next) => {
    try {
      await next();
    } catch {
      context.status = 500;
      context.body = FAILED;
    }
  });
  const context = nameOf && { context: (koa: object) => nameOf((koa as Koa.Context).get("x-user")) };
  app.use(toKoaMiddleware(gateway, { prefix: "/ai", ...context }) as Koa.Middleware);
  app.use((koa) => void (koa.body = OWN));
  const handle = app.callback();
  return (req, res) => void handle(req, res);
};

const withNode: Listen = (gateway, nameOf) => {
  const handler = toNodeHandler(gateway, { prefix: "/ai", ...fromNode(nameOf) });
  return (req, res) => handler(req, res, (error) => void res.writeHead(error ? 500 : 200).end(error ? FAILED : OWN));
};

/** A handler that takes a request and gives a response. */
type Handler = (request: Request) => Response | Promise<Response>;

const inProcess = (
  name: string,
  address: string | undefined,
  handlerOf: (gateway: Gateway<Caller>, nameOf: NameOf | undefined) => Handler,
): MountCase => ({
  name,
  address,
  async ask(gateway, nameOf, { method, path, headers, body }) {
    const request = new Request(`http://host${path}`, {
      method,
      ...(headers && { headers }),
      ...(body !== undefined && { body }),
    });
    let response: Response;
    try {
      response = await handlerOf(gateway, nameOf)(request);
    } catch {
      // What such a handler throws is answered by its runtime, by the host's own rules.
      response = new Response(FAILED, { status: 500 });
    }
    return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
  },
});

const fallback = (): Response => new Response(OWN);
const ofRequest = (nameOf: NameOf | undefined) =>
  nameOf && { context: (request: Request) => nameOf(request.headers.get("x-user")) };

export const MOUNTS: readonly MountCase[] = [
  onNode("node", withNode),
  onNode("express 5", withExpress(express)),
  onNode("express 4", withExpress(createRequire(import.meta.url)("express-4") as typeof express)),
  onNode("koa", withKoa),
  inProcess("bun", "192.0.2.1", (gateway, nameOf) => {
    const handler = toBunHandler(gateway, { prefix: "/ai", fallback, ...ofRequest(nameOf) });
    return (request) => handler(request, { timeout() {}, requestIP: () => ({ address: "192.0.2.1" }) });
  }),
  inProcess("deno", "192.0.2.2", (gateway, nameOf) => {
    const handler = toDenoHandler(gateway, { prefix: "/ai", fallback, ...ofRequest(nameOf) });
    return (request) => handler(request, { remoteAddr: { hostname: "192.0.2.2" } });
  }),
  inProcess("edge", undefined, (gateway, nameOf) => {
    const handler = toEdgeHandler(gateway, { prefix: "/ai", fallback, ...ofRequest(nameOf) });
    return (request) => handler(request);
  }),
  inProcess("handle", "192.0.2.3", (gateway, nameOf) => (request) => {
    const context = (): Caller | undefined => nameOf?.(request.headers.get("x-user"));
    const mounted = {
      get context() {
        return context();
      },
      clientAddress: "192.0.2.3",
    };
    return gateway.at("/ai").handle(request, mounted) ?? fallback();
  }),
];

export const isOwn = ({ body }: Got): boolean => body === OWN;
export const isFailed = ({ status, body }: Got): boolean => status === 500 && body === FAILED;
