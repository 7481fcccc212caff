/** The process of a contestant: a gateway on the store in its first argument (JSON), or in memory. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../../adapters/node.ts";
import { openStore } from "../../../src/admin/open-store.ts";
import { createGateway, memoryQuotaStore, type QuotaStore } from "../../../src/index.ts";
import { answerParent } from "../../trial/child.ts";
import type { ServerState } from "../server.ts";
import { API_KEY, backend } from "../workload.ts";

/** The address of the store, which already has the key. */
export interface StoreAt {
  readonly address: string;
  readonly prefix: string;
}

/** The connections to a server, as many as pools usually have. */
const CONNECTIONS = 10;

async function quotasAt(store: StoreAt | undefined): Promise<QuotaStore> {
  if (!store) return memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
  const { address, prefix } = store;
  return (await openStore(address, { prefix, connections: CONNECTIONS, forGateway: true })).store;
}

const given = process.argv[2];
const quotas = await quotasAt(given === undefined ? undefined : (JSON.parse(given) as StoreAt));
const server = createServer(toNodeHandler(createGateway({ backend, quotas })));
await once(server.listen(0, "127.0.0.1"), "listening");

answerParent(async (_question: "state"): Promise<ServerState> => {
  const { user, system } = process.cpuUsage();
  return { port: (server.address() as AddressInfo).port, cpuMicros: user + system };
});
