/** The playground: its gateway on Node's own http server, at the address in PORT and HOST, its page and its metrics beside it. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../adapters/node.ts";
import { toUpgradeHandler } from "../adapters/websocket.ts";
import { fail, hostname, port, urlOf } from "./address.ts";
import { answerAdmin } from "./admin.ts";
import { codeRunner, gateway, store } from "./gateway.ts";
import { answerMetrics } from "./metrics.ts";
import { DEMO_KEYS } from "./page/app/demo-keys.ts";
import { pageHandler } from "./page/handler.ts";

const answer = toNodeHandler(gateway);
const answerPage = pageHandler(gateway);
const server = createServer((req, res) =>
  answer(req, res, (error) => {
    if (error) res.writeHead(500).end();
    else if (!answerMetrics(req, res) && !answerAdmin(req, res)) answerPage(req, res);
  }),
);

server.on("upgrade", toUpgradeHandler(gateway));
server.on("error", ({ message }) => fail(`The playground cannot listen on ${hostname}:${port}: ${message}`));
server.listen(port, hostname, () => {
  const url = urlOf((server.address() as AddressInfo).port);
  console.log(
    `polygate playground, its admin at /admin, its metrics at /metrics: ${url}${store.hasDemoKeys ? firstSteps(url) : ""}`,
  );
});

/** The keys, and a command to copy. */
const firstSteps = (url: string): string => `

Api keys: ${DEMO_KEYS.map(({ apiKey, about }) => `${apiKey} (${about})`).join(", ")}

curl ${url}/v1/messages \\
  -H "x-api-key: sk-demo" -H "compat-version: 2023-06-01" -H "content-type: application/json" \\
  -d '{"model": "demo-chat", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello there"}]}'`;

for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
    void codeRunner[Symbol.asyncDispose]();
    // What the calls that were cut have used is charged first.
    void gateway.close({ deadlineMs: 0 }).then(() => store.close());
  });
