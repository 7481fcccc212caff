/** A host as `docs/quota.md` wires it to a store: a gateway behind Node's own server, in a process of its own. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { Kysely, MysqlDialect } from "kysely";
import { createPool } from "mysql2";
import { Pool } from "pg";
import { createClient } from "redis";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, type ModelBackend, type QuotaStore } from "../../src/index.ts";
import { redisQuotaStore } from "../../src/stores/redis/index.ts";
import { nodePostgresDialect, sqlQuotaStore } from "../../src/stores/sql/index.ts";

/** The store of the host, as JSON in the first argument of its process. */
export interface HostOrder {
  readonly server: "postgres" | "mysql" | "redis";
  readonly address: string;
  readonly prefix: string;
  /** The name that Redis lists the host's connections under. */
  readonly clientName: string;
}

const backend: ModelBackend = {
  async *chat() {
    yield "done";
    yield { type: "finish", reason: "stop", usage: { inputTokens: 4, outputTokens: 6 } };
  },
};

const STORES: Readonly<Record<HostOrder["server"], (order: HostOrder) => Promise<QuotaStore>>> = {
  async postgres({ address, prefix }) {
    const pool = new Pool({ connectionString: address });
    return sqlQuotaStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres", prefix });
  },
  async mysql({ address, prefix }) {
    const pool = createPool({ uri: address });
    return sqlQuotaStore({ db: new Kysely({ dialect: new MysqlDialect({ pool }) }), dialect: "mysql", prefix });
  },
  async redis({ address, prefix, clientName }) {
    const client = createClient({ url: address, name: clientName });
    client.on("error", console.error);
    return redisQuotaStore({ client: await client.connect(), prefix });
  },
};

// Nobody would end a process without its parent.
process.on("disconnect", () => process.exit());
const order = JSON.parse(process.argv[2] ?? "") as HostOrder;
const gateway = createGateway({ backend, quotas: await STORES[order.server](order) });
const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
await once(server, "listening");
process.send?.((server.address() as AddressInfo).port);
await once(process, "message");
await gateway.close();
process.send?.("closed");
