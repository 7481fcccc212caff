/** The hosts that the suites run on, each over the gateway's public names alone; a new host is one row. */

import { edgeHost } from "./edge.ts";
import { inProcess } from "./fetch.ts";
import type { TestHost } from "./host.ts";
import { onExpress4, onExpress5, onFastify, onHono, onKoa, onNode, overSocket } from "./node.ts";
import { remoteHost } from "./remote.ts";

const everywhere = { available: true, mounts: ["/ai"], ownRoutes: true } as const;

/** No host at all: the gateway's own fetch. */
export const bare: TestHost = {
  name: "fetch",
  ...everywhere,
  mounts: ["", "/ai"],
  ownRoutes: false,
  start: inProcess,
};

/** The hosts on Node, in the process of the tests. */
export const hostsOnNode: readonly TestHost[] = [
  { name: "node", ...everywhere, mounts: ["", "/ai"], start: overSocket(onNode) },
  { name: "express 4", ...everywhere, start: overSocket(onExpress4) },
  { name: "express 5", ...everywhere, start: overSocket(onExpress5) },
  { name: "koa", ...everywhere, start: overSocket(onKoa) },
  { name: "fastify", ...everywhere, start: overSocket(onFastify) },
  { name: "hono", ...everywhere, start: overSocket(onHono) },
];

/** The hosts in a runtime of their own. */
export const runtimes: readonly TestHost[] = [
  remoteHost("bun", "bun.ts"),
  remoteHost("deno", "deno.ts", ["run", "--allow-all", "--quiet", "--unstable-no-legacy-abort"]),
  edgeHost(),
];
