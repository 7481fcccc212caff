/** Request lines and host headers that make no URL together, over a socket: each is an answer, and none a 500. */

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import express from "express";
import Koa from "koa";
import { toNodeHandler as toNodeHandlerOfSrvx } from "srvx/node";
import { describe, expect, it } from "vitest";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import { adminHandler } from "../../src/admin/http/index.ts";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";

const express4 = createRequire(import.meta.url)("express-4") as typeof express;

const HOSTS: readonly (readonly [name: string, of: (gateway: Gateway) => RequestListener])[] = [
  ["node", (gateway) => toNodeHandler(gateway)],
  ["express", (gateway) => express().use(toExpressHandler(gateway)) as RequestListener],
  ["koa", (gateway) => new Koa().use(toKoaMiddleware(gateway) as Koa.Middleware).callback()],
];

async function statusesOf(listener: RequestListener, heads: readonly string[]): Promise<string[]> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const ask = async (head: string): Promise<string> => {
    const socket = connect(port, "127.0.0.1");
    socket.write(`${head}\r\nauthorization: Bearer sk-one\r\nconnection: close\r\n\r\n`);
    return /^HTTP\/1\.1 (\d+)/.exec(await text(socket))?.[1] ?? "none";
  };
  try {
    return await Promise.all(heads.map(ask));
  } finally {
    server.close().closeAllConnections();
  }
}

/** Hosts that give the requests of srvx to the gateway, as h3, Nitro and srvx itself do. */
const HOSTS_OF_SRVX: readonly (readonly [name: string, of: (gateway: Gateway) => RequestListener])[] = [
  ["fetch", (gateway) => toNodeHandlerOfSrvx((request) => gateway.fetch(request)) as RequestListener],
  [
    "fetch below a prefix",
    (gateway) => toNodeHandlerOfSrvx((request) => gateway.at("/ai").fetch(request)) as RequestListener,
  ],
  ["the app", (gateway) => toNodeHandlerOfSrvx((request) => gateway.app.fetch(request)) as RequestListener],
  [
    "the app below a prefix",
    (gateway) => toNodeHandlerOfSrvx((request) => gateway.at("/ai").app.fetch(request)) as RequestListener,
  ],
  [
    "the admin",
    () => {
      const { keys } = memoryQuotaStore();
      return toNodeHandlerOfSrvx(adminHandler(keys, { authorize: () => undefined }).fetch) as RequestListener;
    },
  ],
];

/** Targets that make no URL with a host header such as `a:99999`. */
const TARGETS = ["/..", "/v1/x/../messages", "/v1/%2e/models", String.raw`/\x`];

describe.each(HOSTS_OF_SRVX)("on srvx, %s", (_name, listenerOf) => {
  it("answers a target that makes no URL with its host header, and does not end the process", async () => {
    const gateway = createGateway({
      quotas: memoryQuotaStore(),
      backend: {
        async *chat() {
          yield "Hello.";
        },
      },
    });
    const heads = TARGETS.map((target) => `GET ${target} HTTP/1.1\r\nhost: a:99999`);
    expect(await statusesOf(listenerOf(gateway), heads)).toEqual(TARGETS.map(() => "404"));
  });
});

it.each([
  ["Express", express],
  ["Express 4", express4],
])(
  "a slash more behind the path of a mount in %s leads to no path of it, because no guard of the host knows it",
  async (_name, framework) => {
    const seen: string[] = [];
    const { keys } = memoryQuotaStore();
    const admin = adminHandler(keys, {
      authorize({ url }) {
        seen.push(new URL(url).pathname);
        return { name: "ann" };
      },
    });
    const app = framework() as express.Application;
    app
      .use("/admin", toExpressHandler(admin))
      .use("/ai", toExpressHandler(createGateway({ backend: { async *chat() {} }, quotas: memoryQuotaStore() })));
    const targets = ["/admin//keys", "/admin///keys", "/ai//v1/models", "/admin/keys", "/admin#x", "/ai/v1/models"];
    const heads = targets.map((target) => `GET ${target} HTTP/1.1\r\nhost: host`);
    expect(await statusesOf(app as RequestListener, heads)).toEqual(["404", "404", "404", "200", "404", "401"]);
    expect(seen.filter((path) => !path.startsWith("/admin//"))).toEqual(["/admin/keys", "/admin/"]);
  },
);

describe.each(HOSTS)("on %s", (_name, listenerOf) => {
  const gateway = createGateway({
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    backend: {
      async *chat() {
        yield "Hello.";
      },
    },
  });

  it("a host header that is none is no matter", async () => {
    const hosts = ["host", "[::1", "a b", "", "http://x", "x/y?z", "::", "%zz", "a:99999999"];
    const heads = hosts.map((host) => `GET /api/usage/token HTTP/1.1\r\nhost: ${host}`);
    const statuses = await statusesOf(listenerOf(gateway), [...heads, "GET /api/usage/token HTTP/1.0"]);
    expect(statuses).toEqual(statuses.map(() => "200"));
  });

  it("a target that is no path of the gateway's is the host's", async () => {
    const targets = ["//", "/%E0%A4%A", "*", "//x/api/usage/token", "/v1beta/models/%E0%A4%A"];
    const statuses = await statusesOf(
      listenerOf(gateway),
      targets.map((target) => `GET ${target} HTTP/1.1\r\nhost: host`),
    );
    expect(statuses).toEqual(targets.map(() => "404"));
  });

  it("a target that a URL would rewrite is no path of the gateway's, because no guard of the host knows it", async () => {
    const targets = [
      "/x/../api/usage/token",
      "/api/%2E/usage/token",
      "/x/.%2e/api/usage/token",
      "http://h/x/../api/usage/token",
    ];
    const written = [String.raw`/api\usage\token`, String.raw`/.\api/usage/token`];
    const statuses = await statusesOf(
      listenerOf(gateway),
      [...targets, ...written, "/api/usage/token?x=/../y"].map((target) => `GET ${target} HTTP/1.1\r\nhost: host`),
    );
    expect(statuses).toEqual([...[...targets, ...written].map(() => "404"), "200"]);
  });

  it("a target that makes no URL with its host header is no path of the gateway's", async () => {
    const statuses = await statusesOf(
      listenerOf(gateway),
      TARGETS.map((target) => `GET ${target} HTTP/1.1\r\nhost: a:99999`),
    );
    expect(statuses).toEqual(TARGETS.map(() => "404"));
  });
});
