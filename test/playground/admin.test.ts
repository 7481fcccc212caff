/** The playground's admin shows what its own stores have: spend, refusals with their reasons, and the calls that run. */

import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { adminOf, isOfThisMachine } from "../../playground/admin.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { type Playground, startPlayground } from "../clients/playground.ts";
import { post } from "../clients/wire.ts";
import { UNASKED } from "../pipeline/bench.ts";

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

const get = async (path: string): Promise<unknown> => (await fetch(`${playground.url}/admin${path}`)).json();

it("shows spend and refusals", async () => {
  await (await post(playground.url, "Hello", { apiKey: "sk-metered" })).text();
  const refused = (await post(playground.url, "Hello", { apiKey: "sk-empty" })).headers.get("request-id");
  await expect
    .poll(() => get("/usage?by=key"), { timeout: 30_000 })
    .toMatchObject({ rows: expect.arrayContaining([expect.objectContaining({ key: "metered", calls: 1 })]) });
  await expect
    .poll(() => get("/calls?outcome=refused"), { timeout: 30_000 })
    .toMatchObject({ data: [{ requestId: refused, errorCode: "quota_exhausted", reasons: expect.any(Array) }] });
});

it("shows a call that runs, and stops it", async () => {
  const stream = await post(playground.url, "/delay 600000 /repeat 2", { apiKey: "sk-demo", body: { stream: true } });
  const id = stream.headers.get("request-id") ?? "";
  expect(await get("/live")).toMatchObject({ total: 1, data: [{ requestId: id, key: { id: "demo" }, stream: true }] });
  const headers = { "content-type": "application/json" };
  const stop = await fetch(`${playground.url}/admin/live/${id}/stop`, { method: "POST", headers, body: "{}" });
  expect(await stop.json()).toEqual({ requestId: id, stopped: true });
  expect(await stream.text()).toContain("call_stopped");
  expect(await get("/audit")).toMatchObject({
    data: [{ user: "you", action: "live.stop", target: id, state: "done" }],
  });
});

const folder = async (): Promise<URL> => new URL("../../src/admin/page/app/", import.meta.url);

it("says on its page which package is missing", async () => {
  const quotas = memoryQuotaStore([]);
  const gateway = createGateway({ backend: UNASKED, quotas });
  for (const lacksKysely of [true, false]) {
    const admin = adminOf({ directory: quotas.keys, records: {}, lacksKysely }, gateway, folder);
    const server = createServer(admin).listen(0, "127.0.0.1");
    await once(server, "listening");
    const page = await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/admin`)).text();
    expect(page.includes("more package: npm install kysely")).toBe(lacksKysely);
    server.closeAllConnections();
    server.close();
  }
});

it("lets nobody in by the name of another site", async () => {
  const { port } = new URL(playground.url);
  const status = await new Promise((resolve, reject) => {
    const asked = request({ port, path: "/admin/keys", headers: { host: `evil.example:${port}` } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on("error", reject).end();
  });
  expect(status).toBe(401);
});

it.each([
  ["localhost:3000", "127.0.0.1", true],
  ["127.0.0.1", "::ffff:127.0.0.1", true],
  ["[::1]:3000", "::1", true],
  // Another machine can write any name.
  ["localhost:3000", "192.0.2.7", false],
  ["localhost:3000", "::ffff:192.0.2.7", false],
  ["localhost:3000", "127.0.0.1.example", false],
  ["localhost:3000", undefined, false],
  ["evil.example", "127.0.0.1", false],
  [null, "127.0.0.1", false],
])("treats a request for %s from %s as one of this machine: %s", (host, address, expected) => {
  expect(isOfThisMachine(host, address)).toBe(expected);
});
