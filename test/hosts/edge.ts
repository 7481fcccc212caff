/** workerd as a host: a worker that knows the edge bundle and nothing of Node, before the backend and quota of the tests. */

import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { type Front, openFront } from "./edge/front.ts";
import type { TestHost } from "./host.ts";
import { outcomeOf } from "./remote/exchange.ts";
import { type Handlers, Peer } from "./remote/peer.ts";
import { Stages } from "./remote/stages.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Each request on a connection of its own. workerd closes one that has been idle for five seconds, in which a busy machine may have
 * sent the next request on it already.
 */
const EACH_ALONE = { connection: "close" };

/** A host that workerd runs. */
export function edgeHost(): TestHost {
  let stages: Promise<Stages> | undefined;
  return {
    name: "edge",
    available: existsSync(`${root}node_modules/.bin/workerd`),
    mounts: ["/ai"],
    ownRoutes: true,
    start: async (options, prefix = "") => (await (stages ??= startWorkerd())).open(options, prefix),
  };
}

/** Starts workerd, which holds the gateways of many stages. It ends with the process of the tests. */
async function startWorkerd(): Promise<Stages> {
  const fronts = new Map<number, Front>();
  const stages: Stages = new Stages(async <T>(method: string, ...args: readonly unknown[]): Promise<T> => {
    const [id] = args as readonly [number];
    if (method === "stop") fronts.get(id)?.close();
    if (method !== "open") return worker.call<T>(method, ...args);
    const front = await openFront(Number(port));
    fronts.set(id, front);
    await worker.call("open", id, front.port, args[1]);
    return front.port as T;
  }, EACH_ALONE);
  const { Miniflare } = await import("miniflare");
  const miniflare = new Miniflare({
    ...(await buildWorker()),
    compatibilityDate: "2026-07-01",
    compatibilityFlags: ["enable_request_signal", "no_web_socket_compression"],
    serviceBindings: { TESTS: { external: { address: await answerCalls(stages.handlers), http: {} } } },
    handleRuntimeStdio: reportErrors,
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  });
  const { port } = await miniflare.unsafeGetDirectURL();
  const worker = await connectTo(`ws://127.0.0.1:${port}`);
  return stages;
}

/** Prints what workerd writes, but not its report of a connection that a client has reset: many clients of the tests do that. */
function reportErrors(stdout: Readable, stderr: Readable): void {
  for (const stream of [stdout, stderr])
    createInterface(stream).on("line", (line) => {
      if (!/disconnected: .*(?:Connection reset by peer|Broken pipe)|^stack: /.test(line)) console.error(line);
    });
}

/** Answers what the worker asks of the tests, each call a request. Returns where. */
async function answerCalls(handlers: Handlers): Promise<string> {
  // workerd itself ends the connections that it no longer uses.
  const server = createServer({ keepAliveTimeout: 0 }, (req, res) => {
    void text(req)
      .then((call) => outcomeOf(call, handlers))
      .then((outcome) => res.end(outcome));
  });
  await once(server.listen(0, "127.0.0.1").unref(), "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A connection to the worker, for what the tests ask of it. */
async function connectTo(url: string): Promise<Peer> {
  const socket = new WebSocket(url);
  await once(socket, "open");
  const peer = new Peer((line) => socket.send(line), {});
  socket.addEventListener("message", ({ data }) => peer.receive(String(data)));
  socket.addEventListener("close", () => peer.end(new Error("The worker has ended.")));
  return peer;
}

interface Module {
  readonly type: "ESModule";
  readonly path: string;
  readonly contents?: string;
}

const MAIN = 'import { serve } from "./worker.js"; export default { fetch: serve };';

/** The edge bundle as it is published, and beside it a worker that uses it. */
async function buildWorker(): Promise<{ modulesRoot: string; modules: Module[] }> {
  const [{ build }, { edgeBundle }] = await Promise.all([import("tsdown"), import("../../tsdown.config.ts")]);
  const folder = await mkdtemp(join(tmpdir(), "polygate-edge-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const quietly = { config: false, logLevel: "error", publint: false, checks: { bundlerTimings: false } } as const;
  await build({ ...edgeBundle(folder), ...quietly });
  await build({
    ...quietly,
    entry: { worker: `${root}test/hosts/edge/worker.ts` },
    outDir: folder,
    clean: false,
    platform: "neutral",
    dts: false,
    deps: { neverBundle: [/^cloudflare:/] },
    alias: { "node:timers/promises": `${root}test/hosts/edge/turns.ts` },
    plugins: [{ name: "edge-bundle", resolveId: (id) => (EDGE.test(id) ? { id: "./edge.js", external: true } : null) }],
  });
  return {
    modulesRoot: folder,
    modules: [
      { type: "ESModule", path: join(folder, "main.js"), contents: MAIN },
      ...["worker.js", "edge.js"].map((name): Module => ({ type: "ESModule", path: join(folder, name) })),
    ],
  };
}

/** What the worker imports of the library is to come from its bundle. */
const EDGE = /\/(?:adapters\/edge|src\/index)\.ts$/;
