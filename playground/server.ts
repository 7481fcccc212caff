/** The playground: a gateway with the demo backend on Node's own http server, at the address in PORT and HOST. */

import { createServer } from "node:http";
import { toNodeHandler } from "../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../src/index.ts";
import { demoBackend } from "./demo/backend.ts";
import { demoKeys } from "./keys.ts";
import { pythonRunner } from "./python/runner.ts";

const port = Number(process.env["PORT"] ?? 3000);
const host = process.env["HOST"] ?? "127.0.0.1";

const codeRunner = pythonRunner();
const gateway = createGateway({ backend: demoBackend(), quotas: memoryQuotaStore(demoKeys), codeRunner });
const server = createServer(toNodeHandler(gateway));

server.on("error", (error) => {
  console.error(`The playground cannot listen on ${host}:${port}: ${error.message}`);
  process.exitCode = 1;
});
server.listen(port, host, () => {
  const address = server.address();
  const bound = typeof address === "object" && address ? address.port : port;
  console.log(`polygate playground: http://${host.includes(":") ? `[${host}]` : host}:${bound}`);
});

for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
    void codeRunner[Symbol.asyncDispose]();
  });
