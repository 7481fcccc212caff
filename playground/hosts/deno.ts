/** The gateway in Deno, beside a route of its own. */

import { toDenoHandler } from "../../adapters/deno.ts";
import { gateway, hostname, port, ready } from "./gateway.ts";

const own = (): Response => new Response("Deno is at home.");

const listening = { hostname, port, onListen: (address: { port: number }) => ready(address.port) };
Deno.serve(listening, toDenoHandler(gateway, { prefix: "/ai", fallback: own }));
