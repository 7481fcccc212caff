/** The gateway in Express, beside a route of its own. */

import type { AddressInfo } from "node:net";
import express from "express";
import { toExpressHandler } from "../../adapters/express.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { closed, gateway, hostname, port, ready } from "./gateway.ts";

const app = express();
app.use("/ai", toExpressHandler(gateway));
app.get("/", (_req, res) => void res.send("Express is at home."));

const server = app.listen(port, hostname, () => ready((server.address() as AddressInfo).port, () => closed(server)));
server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
