/** The gateway in Bun, beside a route of its own. */

import { toBunHandler } from "../../adapters/bun.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const own = (request: Request): Response =>
  URL.parse(request.url)?.pathname === "/" ? new Response("Bun is at home.") : new Response(null, { status: 404 });

const server = Bun.serve({ hostname, port, fetch: toBunHandler(gateway, { prefix: "/ai", fallback: own }) });
ready(server.port, () => server.stop());
