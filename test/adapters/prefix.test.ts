/** Under which prefixes a gateway can be mounted: one under which it would answer nothing is refused at the mount. */

import { describe, expect, it } from "vitest";
import { toBunHandler } from "../../adapters/bun.ts";
import { toDenoHandler } from "../../adapters/deno.ts";
import { toEdgeHandler } from "../../adapters/edge.ts";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";

const backend = {
  async *chat() {
    yield "Hello.";
  },
};
const gateway = createGateway({ backend, quotas: memoryQuotaStore([]) });

describe("a prefix", () => {
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
    expect(() => gateway.at(prefix)).toThrow(RangeError);
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

const PREFIX = { prefix: "ai" } as const;

it.each<[string, () => unknown]>([
  ["Bun", () => toBunHandler(gateway, PREFIX)],
  ["Deno", () => toDenoHandler(gateway, PREFIX)],
  ["edge", () => toEdgeHandler(gateway, PREFIX)],
  ["Express", () => toExpressHandler(gateway, PREFIX)],
  ["Koa", () => toKoaMiddleware(gateway, PREFIX)],
  ["Node", () => toNodeHandler(gateway, PREFIX)],
])("the mount for %s refuses a prefix without a slash when it is made", (_name, mount) => {
  expect(mount).toThrow(RangeError);
});
