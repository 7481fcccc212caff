/** The server: the gateway at /ai in Bun, and its health. Add your own routes here. */

import { toBunHandler, toBunWebSocket } from "polygate/bun";
import { endWith, gateway, host, port } from "./gateway.ts";

const server = Bun.serve({
  hostname: host,
  port,
  websocket: toBunWebSocket(),
  routes: {
    "/ai/*": toBunHandler(gateway, { prefix: "/ai" }),
    "/healthz": () => Response.json({ ok: true }),
    "/readyz": async () => {
      const health = await gateway.health();
      return Response.json(health, { status: health.ready ? 200 : 503 });
    },
  },
});

console.log(`The gateway is at http://${host}:${server.port}/ai`);
endWith(() => server.stop());
