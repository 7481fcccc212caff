/** The server: the gateway at /ai in Bun, its admin and its health. Add your own routes here. */

import { toBunHandler, toBunWebSocket } from "polygate/bun";
import { admin } from "./admin.ts";
import { host, orStop, port } from "./env.ts";
import { endWith, gateway } from "./gateway.ts";

// Tells clients with a wrong base URL which one is right, too.
const ai = toBunHandler(gateway, { prefix: "/ai" });

const server = await orStop("HOST and PORT", () =>
  Bun.serve({
    hostname: host,
    port,
    websocket: toBunWebSocket(),
    routes: {
      "/ai/*": ai,
      "/healthz": () => Response.json({ ok: true }),
      "/readyz": async () => {
        const { ready } = await gateway.health();
        return Response.json({ ready }, { status: ready ? 200 : 503 });
      },
    },
    fetch: toBunHandler(admin, { prefix: "/admin", fallback: ai }),
  }),
);

console.log(`The gateway is at http://${host}:${server.port}/ai`);
endWith(() => server.stop());
