/** The gateway in Koa, beside a route of its own. */

import type { AddressInfo } from "node:net";
import Koa from "koa";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { closed, gateway, hostname, port, ready } from "./gateway.ts";

const app = new Koa();
app.use(toKoaMiddleware(gateway, { prefix: "/ai" }));
app.use((context) => {
  if (context.path === "/") context.body = "Koa is at home.";
});

const server = app.listen(port, hostname, () => ready((server.address() as AddressInfo).port, () => closed(server)));
server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
