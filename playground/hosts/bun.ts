/** The gateway in Bun, beside a route of its own. */

import { toBunHandler } from "../../adapters/bun.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const own = (): Response => new Response("Bun is at home.");

const server = Bun.serve({ hostname, port, fetch: toBunHandler(gateway, { prefix: "/ai", fallback: own }) });
ready(server.port);
