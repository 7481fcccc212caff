/** Starts the demo: a gateway with a model that works offline, its page at `/`, its admin at `/admin`, and its metrics at `/metrics`. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { toNodeHandler } from "../adapters/node.ts";
import { toUpgradeHandler } from "../adapters/websocket.ts";
import { listen, onEnd, placeOf, type ServerFlags } from "../src/serve/process.ts";
import { adminOf } from "./admin.ts";
import { demoGateway } from "./gateway.ts";
import { answerWithoutMetrics } from "./metrics.ts";
import { DEMO_KEYS } from "./page/app/demo-keys.ts";
import { pageFiles } from "./page/files.ts";
import { pageHandler } from "./page/handler.ts";
import { KYSELY } from "./quotas.ts";

/** The files of the demo's pages. The package contains them, and a clone builds them with the first request. */
export interface DemoFiles {
  /** The folder with the docs. */
  readonly root: URL;
  /** Resolves with the folder of the page. */
  readonly page: () => Promise<URL>;
  /** Resolves with the folder of the admin's page. */
  readonly adminPage: () => Promise<URL>;
}

/** The time for calls in flight to finish when the demo ends, in milliseconds. */
const END_MS = 1_000;

/**
 * Starts the demo, and prints its address and the first steps. Rejects with the reason when it cannot start.
 *
 * @param flags Default of the store: POLYGATE_STORE, or memory.
 */
export async function startDemo(files: DemoFiles, flags: ServerFlags = {}): Promise<void> {
  const place = placeOf(flags.host, flags.port);
  const { gateway, store, codeRunner, metrics } = await demoGateway(flags.store);
  const answer = toNodeHandler(gateway);
  const admin = adminOf(store, gateway, files.adminPage);
  const page = pageHandler(gateway, async () => pageFiles(await files.page(), files.root));
  const others = (req: IncomingMessage, res: ServerResponse): void => {
    const path = /^[^?]*/.exec(req.url ?? "")?.[0] ?? "";
    if (path === "/metrics") (metrics?.answer ?? answerWithoutMetrics)(req, res);
    else if (path === "/admin" || path.startsWith("/admin/")) admin(req, res);
    else page(req, res);
  };
  const server = createServer((req, res) =>
    answer(req, res, (error) => (error ? void res.writeHead(500).end() : others(req, res))),
  );
  server.on("upgrade", toUpgradeHandler(gateway));

  const end = async (): Promise<void> => {
    server.close();
    // `close` charges the calls that it ends.
    await gateway.close({ deadlineMs: END_MS });
    server.closeAllConnections();
    await codeRunner?.[Symbol.asyncDispose]();
    await store.close();
  };
  const url = await listen(server, place).catch(async (error: unknown) => {
    await store.close();
    throw error;
  });
  onEnd(() => void end());
  const parts = `polygate demo, its admin at /admin${metrics ? ", its metrics at /metrics" : ""}: ${url}`;
  console.log(
    [parts, ...(store.lacksKysely ? [KYSELY] : []), ...(store.hasDemoKeys ? [firstSteps(url)] : [])].join("\n"),
  );
}

/** The keys, and a command to copy. */
const firstSteps = (url: string): string => `
Api keys: ${DEMO_KEYS.map(({ apiKey, about }) => `${apiKey} (${about})`).join(", ")}

curl ${url}/v1/messages \\
  -H "x-api-key: sk-demo" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" \\
  -d '{"model": "demo-chat", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello there"}]}'`;
