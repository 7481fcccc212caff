/** The gateway among Fastify's hooks and plugins: behind its body parsers, and with the headers that plugins have set. */

import type { AddressInfo } from "node:net";
import fastify, { type FastifyInstance } from "fastify";
import { afterEach, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { having, MINIMAL } from "../formats/messages/bodies.ts";
import { KEY, plays, post } from "./stage.ts";

const heard: string[] = [];
const gateway = createGateway({
  backend: { chat: plays("Hello.") },
  quotas: memoryQuotaStore([{ apiKey: KEY }]),
  onFailure: ({ text }) => heard.push(text),
});
const ai = toNodeHandler(gateway, { prefix: "/ai" });

let app: FastifyInstance;
afterEach(() => app.close());

async function listening(): Promise<string> {
  await app.listen({ host: "127.0.0.1", port: 0 });
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}

it("takes what Fastify has parsed, in a hook behind its parsers", async () => {
  app = fastify();
  app.addHook("preHandler", (request, reply, done) => {
    ai(Object.assign(request.raw, { body: request.body }), reply.raw, done);
  });
  app.post("/ai/*", () => "own");
  const url = await listening();
  expect(await (await fetch(`${url}/ai/v1/messages`, post(MINIMAL))).json()).toMatchObject({ type: "message" });
  expect(await (await fetch(`${url}/ai/v1/messages`, post(having({ stream: true })))).text()).toContain("message_stop");
  expect(await (await fetch(`${url}/ai/other`, post(MINIMAL))).text()).toBe("own");
  expect((await fetch(`${url}/ai/v1/messages`, post(null))).status).toBe(400);
});

it("answers what a test injects", async () => {
  app = fastify();
  app.addHook("onRequest", (request, reply, done) => ai(request.raw, reply.raw, done));
  const { headers, body: payload } = post(having({ stream: true }));
  const answer = await app.inject({ method: "POST", url: "/ai/v1/messages", headers, payload });
  expect(answer.statusCode).toBe(200);
  expect(answer.body).toContain("message_stop");
  const { body } = post(MINIMAL);
  const closing = { ...headers, connection: "close" };
  const whole = await app.inject({ method: "POST", url: "/ai/v1/messages", headers: closing, payload: body });
  expect(whole.json()).toMatchObject({ type: "message" });
});

it("tells the host what to do where Fastify has parsed a body and nobody has handed it on", async () => {
  app = fastify();
  app.addHook("preHandler", (request, reply, done) => ai(request.raw, reply.raw, done));
  app.post("/ai/*", () => "own");
  const response = await fetch(`${await listening()}/ai/v1/messages`, post(MINIMAL));
  expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("middleware")]);
  expect(heard).toEqual([expect.stringContaining("let it leave what it has parsed in req.body")]);
});

it("answers with what plugins have set, where the host hands that on", async () => {
  app = fastify();
  app.addHook("onRequest", (_request, reply, done) => {
    reply.header("x-plugin", "set");
    done();
  });
  app.addHook("onRequest", (request, reply, done) => {
    for (const [name, value = ""] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
    ai(request.raw, reply.raw, done);
  });
  const response = await fetch(`${await listening()}/ai/v1/messages`, post(MINIMAL));
  expect([response.status, response.headers.get("x-plugin")]).toEqual([200, "set"]);
});
