/** The gateway in Hono, beside a route of its own. */

import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { closed, gateway, hostname, port, ready } from "./gateway.ts";

const app = new Hono();
const ai = gateway.at("/ai");
app.use("/ai/*", async (context, next) => (await ai.handle(context.req.raw)) ?? next());
app.get("/", (context) => context.text("Hono is at home."));

const server = serve({ fetch: app.fetch, hostname, port }, (address) => ready(address.port, () => closed(server)));
server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
