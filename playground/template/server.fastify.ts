/** The server: the gateway at /ai in Fastify, its admin and its health. Add your own routes here. */

import fastify from "fastify";
import { wrongAddress } from "polygate";
import { toNodeHandler } from "polygate/node";
import { toUpgradeHandler } from "polygate/websocket";
import { admin } from "./admin.ts";
import { host, orStop, port } from "./env.ts";
import { endWith, gateway } from "./gateway.ts";

const app = fastify();
const ai = toNodeHandler(gateway, { prefix: "/ai" });
const adminPage = toNodeHandler(admin, { prefix: "/admin" });
app.addHook("onRequest", (request, reply, done) => {
  // The gateway writes its answer without Fastify, so copy the headers that plugins have set.
  for (const [name, value = ""] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
  ai(request.raw, reply.raw, (error) => (error ? done(error) : adminPage(request.raw, reply.raw, done)));
});
app.server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
app.get("/healthz", () => ({ ok: true }));
app.get("/readyz", async (_request, reply) => {
  const { ready } = await gateway.health();
  return reply.code(ready ? 200 : 503).send({ ready });
});

// Tells clients with a wrong base URL which one is right.
app.setNotFoundHandler((request, reply) =>
  reply.code(404).send(wrongAddress(gateway, request.method, request.url, "/ai", request.headers)),
);

const address = await orStop("HOST and PORT", () => app.listen({ host, port }));
console.log(`The gateway is at ${address}/ai`);
endWith(() => app.close());
