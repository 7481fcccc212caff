/** The playground: its gateway on Node's own http server, at the address in PORT and HOST. */

import { createServer } from "node:http";
import { toNodeHandler } from "../adapters/node.ts";
import { codeRunner, gateway } from "./gateway.ts";

// What is set to nothing is not set: nothing for a host would be every address that the machine has.
const port = process.env["PORT"] || "3000";
const host = process.env["HOST"] || "127.0.0.1";

function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}

if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
  fail(`The playground needs a PORT from 0 to 65535, not ${JSON.stringify(port)}.`);

const server = createServer(toNodeHandler(gateway));

server.on("error", ({ message }) => fail(`The playground cannot listen on ${host}:${port}: ${message}`));
server.listen(Number(port), host, () => {
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
