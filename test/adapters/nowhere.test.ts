/** A mount without a host behind it answers a wrong address with the body that the client's SDK shows. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { toBunHandler } from "../../adapters/bun.ts";
import { toDenoHandler } from "../../adapters/deno.ts";
import { toEdgeHandler } from "../../adapters/edge-mount.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import { adminHandler } from "../../src/admin/http/index.ts";
import { createGateway, type Gateway, memoryQuotaStore, type Mountable } from "../../src/index.ts";
import { UNASKED } from "../pipeline/bench.ts";

const ORIGIN = "https://page.test";
const gateway = createGateway({ backend: UNASKED, quotas: memoryQuotaStore([]), cors: { origin: [ORIGIN] } });
const prefix = "/ai";

type Ask = (mounted: Mountable, request: Request) => Response | Promise<Response>;

const MOUNTS: Readonly<Record<string, Ask>> = {
  node: async (mounted, request) => {
    const server = createServer(toNodeHandler(mounted, { prefix })).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const { method, headers } = request;
      const { pathname, search } = new URL(request.url);
      const response = await fetch(`http://127.0.0.1:${port}${pathname}${search}`, { method, headers });
      return new Response((await response.text()) || null, response);
    } finally {
      server.close().closeAllConnections();
    }
  },
  bun: (mounted, request) => toBunHandler(mounted, { prefix })(request, { timeout: () => {} }),
  deno: (mounted, request) => toDenoHandler(mounted, { prefix })(request, undefined),
  edge: (mounted, request) => toEdgeHandler(mounted, { prefix })(request),
  fetch: (mounted, request) => mounted.at(prefix).fetch(request),
};

const asked = (method: string, path: string, headers: Record<string, string> = {}): Request =>
  new Request(`http://host${path}`, { method, headers });

describe.each([
  ...Object.entries(MOUNTS),
  ["the h3 app", (mounted: Mountable, request: Request) => (mounted as Gateway).at(prefix).app.fetch(request)] as const,
])("%s", (_name, ask) => {
  it.each([
    [
      asked("POST", "/ai/chat/completions", { authorization: "Bearer sk-1" }),
      "POST /ai/v1/chat/completions?",
      { type: "invalid_request_error", code: "not_found", param: null },
    ],
    [asked("GET", "/v1/models", { "x-api-key": "sk-1" }), "GET /ai/v1/models?", { type: "not_found_error" }],
    [asked("GET", "/models?key=sk-1"), "GET /ai/v1/models?", { code: 404, status: "NOT_FOUND" }],
  ])("says which address was meant", async (request, meant, fields) => {
    const response = await ask(gateway, request.clone());
    expect([response.status, response.headers.get("content-type")]).toEqual([404, "application/json"]);
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ error: fields });
    expect(text).toContain(`Did you mean ${meant}`);
    expect(text).not.toContain("sk-1");
  });
});

describe.each(Object.entries(MOUNTS))("%s", (_name, ask) => {
  it("lets a page of the gateway's origins read it, and sends a HEAD request no body", async () => {
    const preflight = { origin: ORIGIN, "access-control-request-method": "POST" };
    expect((await ask(gateway, asked("OPTIONS", "/v1/messages", preflight))).status).toBe(204);
    const { headers } = await ask(gateway, asked("POST", "/v1/messages", { origin: ORIGIN }));
    expect(headers.get("access-control-allow-origin")).toBe(ORIGIN);
    const head = await ask(gateway, asked("HEAD", "/v1/models"));
    expect([head.status, await head.text()]).toEqual([404, ""]);
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(100);
  });

  it("says where the admin is", async () => {
    const admin = adminHandler(memoryQuotaStore([]).keys, { authorize: () => undefined });
    const response = await ask(admin, asked("GET", "/keys"));
    expect([response.status, await response.json()]).toMatchObject([
      404,
      { error: { message: "The admin is at /ai/." } },
    ]);
  });
});
