/** Under which prefixes a gateway can be mounted: one under which it would answer nothing is refused at the mount. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { describe, expect, it, vi } from "vitest";
import { toBunHandler } from "../../adapters/bun.ts";
import { toDenoHandler } from "../../adapters/deno.ts";
import { toEdgeHandler } from "../../adapters/edge.ts";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";

const backend = {
  async *chat() {
    yield "Hello.";
  },
};
const gateway = createGateway({ backend, quotas: memoryQuotaStore([]) });

describe("a prefix", () => {
  it.each(["ai", "ai/", "team-a/ai"])("%s is refused with the path that was probably meant", (prefix) => {
    const message = `Did you mean "/${prefix.replace(/\/$/, "")}"?`;
    expect(() => gateway.at(prefix)).toThrow(message);
    expect(() => toNodeHandler(gateway, { prefix })).toThrow(message);
  });

  it.each<[name: string, mount: (prefix: string) => unknown]>([
    ["toBunHandler", (prefix) => toBunHandler(gateway, { prefix })],
    ["toDenoHandler", (prefix) => toDenoHandler(gateway, { prefix })],
    ["toEdgeHandler", (prefix) => toEdgeHandler(gateway, { prefix })],
    ["toExpressHandler", (prefix) => toExpressHandler(gateway, { prefix })],
    ["toKoaMiddleware", (prefix) => toKoaMiddleware(gateway, { prefix })],
    ["toNodeHandler", (prefix) => toNodeHandler(gateway, { prefix })],
    ["toUpgradeHandler", (prefix) => toUpgradeHandler(gateway, { prefix })],
  ])("is refused by %s in its own name", (name, mount) => {
    expect(() => mount("ai")).toThrow(new RegExp(`^${name}: "ai" is no prefix`));
  });

  it.each([
    "ai",
    "ai/",
    "https://x/ai",
    "/ai/*",
    "/:team",
    "/ai?",
    "/ai#top",
    "/(ai)",
    "/{ai}",
    "/a\\i",
    "/a i",
    " /ai",
    "/ä",
    '/a"b',
    "/a/../b",
    "//ai",
  ])("%s is refused by what is wrong with it", (prefix) => {
    const message = `${JSON.stringify(prefix)} is no prefix: it must be a path as browsers send it`;
    expect(() => gateway.at(prefix)).toThrow(TypeError);
    expect(() => gateway.at(prefix)).toThrow(message);
  });

  it.each([
    ["", "/v1/messages"],
    ["/", "/v1/messages"],
    ["/ai", "/ai/v1/messages"],
    ["/ai/", "/ai/v1/messages"],
    ["/a.b_c~d/%C3%BC-1", "/a.b_c~d/%C3%BC-1/v1/messages"],
  ])("%j is one", async (prefix, path) => {
    const routes = gateway.at(prefix);
    const asked = new Request(`http://host${path}`, { method: "POST" });
    // Who asks without a key has reached the gateway.
    expect((await routes.fetch(asked)).status).toBe(401);
    expect((await routes.app.fetch(asked)).status).toBe(401);
  });
});

it.each([
  ["/ai/v1", "/ai"],
  ["/v1beta/", "/"],
])("%s is one, of which the gateway warns once, because every route has its own version", (prefix, above) => {
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const other = createGateway({ backend, quotas: memoryQuotaStore([]) });
  for (const _ of ["first", "again"]) toNodeHandler(other, { prefix });
  expect(warned.mock.calls.map(([text]) => String(text))).toEqual([
    expect.stringMatching(
      new RegExp(`^The prefix "${prefix.replace(/\/$/, "")}" ends in a version.* Mount the gateway at "${above}"\\.$`),
    ),
  ]);
  warned.mockRestore();
});

const PREFIX = { prefix: "ai" } as const;

it.each<[string, () => unknown]>([
  ["Bun", () => toBunHandler(gateway, PREFIX)],
  ["Deno", () => toDenoHandler(gateway, PREFIX)],
  ["edge", () => toEdgeHandler(gateway, PREFIX)],
  ["Express", () => toExpressHandler(gateway, PREFIX)],
  ["Koa", () => toKoaMiddleware(gateway, PREFIX)],
  ["Node", () => toNodeHandler(gateway, PREFIX)],
])("the mount for %s refuses a prefix without a slash when it is made", (_name, mount) => {
  expect(mount).toThrow(TypeError);
});

/** Sends requests to a gateway under `/ai`, with a prefix or none, and returns their statuses and the warnings. */
async function statuses(prefix: string | undefined, ...paths: string[]) {
  return statusesAt("/ai", prefix, ...paths);
}

async function statusesAt(mount: string, prefix: string | undefined, ...paths: string[]) {
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const app = express().use(mount, toExpressHandler(gateway, prefix === undefined ? {} : { prefix }));
  app.use("/ai/chat/completions", (_req, res) => void res.end("The host's own."));
  const server = createServer(app.use((_req, res) => void res.status(404).end())).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const found: number[] = [];
  for (const path of paths) found.push((await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST" })).status);
  server.close();
  const warnings = warned.mock.calls.map(([text]) => String(text));
  warned.mockRestore();
  return { found, warnings };
}

describe("Express, which removes the path of a mount itself,", () => {
  it("warns once where a mount repeats the path as its prefix", async () => {
    const { found, warnings } = await statuses("/ai/", "/ai/other", "/ai/v1/messages", "/ai/v1/messages");
    expect(found).toEqual([404, 404, 404]);
    expect(warnings).toEqual([
      'POST /ai… did not reach the gateway: Express removes "/ai" from the address itself, and the mount expects it again. Leave out the prefix: app.use("/ai", toExpressHandler(gateway)).',
    ]);
  });

  it.each([
    ["/ai/v1/v1/messages", "has its version twice"],
    ["/ai/messages", "lacks its version, such as /v1"],
    ["/ai/v1/v1beta/models/m:generateContent", "has its version twice"],
    ["/ai/models/m:generateContent", "lacks its version, such as /v1"],
  ])("warns once where a client's base URL is wrong, and leaves the answer to the host: %s", async (path, fault) => {
    const { found, warnings } = await statuses(undefined, "/ai/v1/messages", path, path);
    expect(found).toEqual([401, 404, 404]);
    expect(warnings).toEqual([`A request of a client missed the gateway and got 404: the client's base URL ${fault}.`]);
  });

  it.each([
    ["/ai/v1", "/ai/v1/chat/completions", "/ai"],
    ["/v1", "/v1/messages", "/"],
    ["/ai/v1beta/", "/ai/v1beta/models/m:generateContent", "/ai"],
  ])("warns once of a mount at %s, which clients ask for %s", async (mount, path, above) => {
    const { found, warnings } = await statusesAt(mount, undefined, path, path);
    expect(found).toEqual([404, 404]);
    expect(warnings).toEqual([
      `A request of a client missed the gateway and got 404: the path of the mount, "${mount.replace(/\/$/, "")}", ends in a version, and the routes of the gateway begin with theirs. Write app.use("${above}", toExpressHandler(gateway)).`,
    ]);
  });

  it.each(["/ai/other", "/ai/v1/other", "/ai/v1/v1/other"])("does not warn of any other route: %s", async (path) => {
    expect(await statuses(undefined, path)).toEqual({ found: [404], warnings: [] });
  });

  it("does not warn of a route of the host's own", async () => {
    expect(await statuses(undefined, "/ai/chat/completions")).toEqual({ found: [200], warnings: [] });
  });

  it.each([
    ["/team", "/ai/team/v1/messages", 401],
    ["/team", "/ai/v1/messages", 404],
    ["/ai", "/ai/ai/v1/messages", 401],
    ["/ai", "/ai/other", 404],
  ])("serves the prefix %s below the path without a warning: %s", async (prefix, path, status) => {
    expect(await statuses(prefix, path)).toEqual({ found: [status], warnings: [] });
  });
});
