/** The gateway in Fastify, beside a route of its own. */

import type { AddressInfo } from "node:net";
import fastify from "fastify";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const app = fastify();
const ai = toNodeHandler(gateway, { prefix: "/ai" });
app.addHook("onRequest", (request, reply, done) => {
  // The gateway writes its answer without Fastify, so copy the headers that plugins have set.
  for (const [name, value = ""] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
  ai(request.raw, reply.raw, done);
});
app.server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
app.get("/", () => "Fastify is at home.");

await app.listen({ host: hostname, port });
ready((app.server.address() as AddressInfo).port, () => app.close());
