/** The hosts that the conformance suites run on, each over the gateway's public names alone; a new host is one row. */

import { edgeHost } from "./hosts/edge.ts";
import { inProcess } from "./hosts/fetch.ts";
import type { TestHost } from "./hosts/host.ts";
import { onExpress4, onExpress5, onFastify, onHono, onKoa, onNode, overSocket } from "./hosts/node.ts";
import { remoteHost } from "./hosts/remote.ts";

const everywhere = { available: true, mounts: ["/ai"], ownRoutes: true } as const;

export const hosts: readonly TestHost[] = [
  { name: "fetch", ...everywhere, mounts: ["", "/ai"], ownRoutes: false, start: inProcess },
  { name: "node", ...everywhere, mounts: ["", "/ai"], start: overSocket(onNode) },
  { name: "express 4", ...everywhere, start: overSocket(onExpress4) },
  { name: "express 5", ...everywhere, start: overSocket(onExpress5) },
  { name: "koa", ...everywhere, start: overSocket(onKoa) },
  { name: "fastify", ...everywhere, start: overSocket(onFastify) },
  { name: "hono", ...everywhere, start: overSocket(onHono) },
  remoteHost("bun", "bun.ts"),
  remoteHost("deno", "deno.ts", ["run", "--allow-all", "--quiet"]),
  edgeHost(),
];
