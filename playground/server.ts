/** The playground: its gateway on Node's own http server, at the address in PORT and HOST. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../adapters/node.ts";
import { fail, hostname, port, urlOf } from "./address.ts";
import { codeRunner, gateway } from "./gateway.ts";

const server = createServer(toNodeHandler(gateway));

server.on("error", ({ message }) => fail(`The playground cannot listen on ${hostname}:${port}: ${message}`));
server.listen(port, hostname, () => {
  console.log(`polygate playground: ${urlOf((server.address() as AddressInfo).port)}`);
});

for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
    void codeRunner[Symbol.asyncDispose]();
  });
