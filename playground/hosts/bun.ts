/** The gateway in Bun, beside a route of its own. */

import { toBunHandler, toBunWebSocket } from "../../adapters/bun.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const own = (request: Request): Response =>
  URL.parse(request.url)?.pathname === "/" ? new Response("Bun is at home.") : new Response(null, { status: 404 });

const fetch = toBunHandler(gateway, { prefix: "/ai", fallback: own });
const server = Bun.serve({ hostname, port, fetch, websocket: toBunWebSocket() });
ready(server.port, () => server.stop());
