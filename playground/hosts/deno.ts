/** The gateway in Deno, beside a route of its own. */

import { toDenoHandler } from "../../adapters/deno.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const own = (request: Request): Response =>
  URL.parse(request.url)?.pathname === "/" ? new Response("Deno is at home.") : new Response(null, { status: 404 });

const listening = { hostname, port, onListen: () => {} };
const server = Deno.serve(listening, toDenoHandler(gateway, { prefix: "/ai", fallback: own }));
ready(server.addr.port, () => server.shutdown());
