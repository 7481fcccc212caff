/** The server: the gateway at /ai in Express, its admin and its health. Add your own routes here. */

import type { AddressInfo } from "node:net";
import express from "express";
import { wrongAddress } from "polygate";
import { toExpressHandler } from "polygate/express";
import { toUpgradeHandler } from "polygate/websocket";
import { admin } from "./admin.ts";
import { host, stop, port } from "./env.ts";
import { endWith, gateway } from "./gateway.ts";

const app = express().disable("x-powered-by");
app.use("/ai", toExpressHandler(gateway));
app.use("/admin", toExpressHandler(admin));
app.get("/healthz", (_req, res) => void res.json({ ok: true }));
app.get("/readyz", async (_req, res) => {
  const { ready } = await gateway.health();
  res.status(ready ? 200 : 503).json({ ready });
});
// The last route: tells clients with a wrong base URL which one is right.
app.use((req, res) => void res.status(404).json(wrongAddress(gateway, req.method, req.url, "/ai", req.headers)));

const server = app.listen(port, host, (error) => {
  if (error) stop(`HOST and PORT cannot be used. ${error.message}`);
  console.log(`The gateway is at http://${host}:${(server.address() as AddressInfo).port}/ai`);
});
server.keepAliveTimeout = 72_000; // Longer than a proxy keeps an idle connection.
server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
endWith(() => new Promise((resolve) => server.close(resolve)));
