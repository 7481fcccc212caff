/** A host under load whose server cuts its connections again and again: it answers 503, lives on, and its books stay exact. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { createClient } from "redis";
import { describe, expect, it } from "vitest";
import { type Ledger, sharedStores } from "./ledgers.ts";
import type { HostOrder } from "./outage-host.ts";

/** The units of each call: the usage that `outage-host.ts` reports. */
const UNITS_EACH = 10;
/** The number of calls that the load has under way at once. */
const LANES = 16;
/** The least number of cuts. */
const CUTS = 10;
/** The number of calls in a row that must be answered before the host counts as recovered. */
const RECOVERED = 50;

/** A connection of the test's own to the server, which cuts all connections of the host. */
interface Cutter extends AsyncDisposable {
  /** Cuts all connections, and returns their number. */
  cut(): Promise<number>;
}

const CUTTERS: Readonly<Record<HostOrder["server"], (order: HostOrder) => Promise<Cutter>>> = {
  async postgres({ address }) {
    const client = new Client({ connectionString: address });
    await client.connect();
    const others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    return {
      cut: async () => (await client.query(`SELECT pg_terminate_backend(pid) ${others}`)).rowCount ?? 0,
      [Symbol.asyncDispose]: () => client.end(),
    };
  },
  async mysql({ address }) {
    const client = await createConnection(address);
    const others = "FROM information_schema.processlist WHERE db = database() AND id <> connection_id()";
    return {
      async cut() {
        const [rows] = await client.query(`SELECT id ${others}`);
        const ids = (rows as { id: number }[]).map(({ id }) => id);
        // A connection may have ended by itself meanwhile.
        for (const id of ids) await client.query(`KILL ${id}`).catch(() => {});
        return ids.length;
      },
      [Symbol.asyncDispose]: () => client.end(),
    };
  },
  async redis({ address, clientName }) {
    const client = await createClient({ url: address }).connect();
    return {
      async cut() {
        const listed = (await client.sendCommand<string>(["CLIENT", "LIST"])).split("\n");
        const ids = listed.flatMap((line) =>
          line.includes(`name=${clientName} `) ? [/^id=(\d+)/.exec(line)?.[1]] : [],
        );
        for (const id of ids) await client.sendCommand(["CLIENT", "KILL", "ID", id ?? ""]);
        return ids.length;
      },
      async [Symbol.asyncDispose]() {
        client.destroy();
      },
    };
  },
};

const SERVERS: Readonly<Record<string, HostOrder["server"]>> = {
  PostgreSQL: "postgres",
  "MySQL or MariaDB": "mysql",
  Redis: "redis",
};

/** Calls the host. Returns the status, or 0 when the host does not answer. */
async function call(port: number, apiKey: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "compat-version": "2023-06-01", "content-type": "application/json" },
    body: JSON.stringify({ model: "m", max_tokens: 6, messages: [{ role: "user", content: "x".repeat(16) }] }),
  }).catch(() => undefined);
  await response?.arrayBuffer();
  return response?.status ?? 0;
}

/** Waits for the next message of a process. Rejects when the process ends before. */
async function heard(host: ChildProcess): Promise<unknown> {
  const waiting = new AbortController();
  const { signal } = waiting;
  const ended = once(host, "exit", { signal }).then(([code]) => {
    throw new Error(`The host ended with code ${code}.`);
  });
  try {
    return ((await Promise.race([once(host, "message", { signal }), ended])) as [unknown])[0];
  } finally {
    ended.catch(() => {});
    waiting.abort();
  }
}

async function outage(ledger: Ledger, server: HostOrder["server"]) {
  const { address, prefix } = ledger;
  const apiKey = "sk-outage";
  const keyId = await ledger.store.add({ apiKey, granted: 10 ** 9 });
  const order: HostOrder = { server, address, prefix, clientName: `outage-${process.pid}` };
  await using cutter = await CUTTERS[server](order);
  const host = fork(new URL("outage-host.ts", import.meta.url), [JSON.stringify(order)], { silent: true });
  let said = "";
  host.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  try {
    const port = (await heard(host)) as number;
    const statuses: Record<number, number> = {};
    const over = new AbortController();
    let inARow = 0;
    const lane = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const status = await call(port, apiKey);
        statuses[status] = (statuses[status] ?? 0) + 1;
        inARow = status === 200 ? inARow + 1 : 0;
        if (status === 0) return;
      }
    };
    const load = Promise.all(Array.from({ length: LANES }, lane));
    // Cuts until callers get 503, and at least CUTS times. Each cut waits until the host is at work again.
    let cuts = 0;
    while ((cuts < CUTS || !statuses[503]) && !statuses[0]) {
      const before = statuses[200] ?? 0;
      await expect.poll(() => (statuses[200] ?? 0) > before || (statuses[0] ?? 0) > 0).toBe(true);
      if ((await cutter.cut()) > 0) cuts++;
    }
    inARow = 0;
    await expect.poll(() => inARow >= RECOVERED || (statuses[0] ?? 0) > 0).toBe(true);
    over.abort();
    await load;
    expect({ code: host.exitCode, said }).toMatchObject({ code: null });
    // The gateway tries a failed settlement again some seconds later.
    const settled = async (): Promise<number> => {
      const report = await ledger.store.report(keyId);
      // A reservation whose answer was lost holds its units until its lease ends, and charges nothing.
      return (report?.used ?? 0) - (report?.held ?? 0);
    };
    await expect.poll(settled, { interval: 100 }).toBe((statuses[200] ?? 0) * UNITS_EACH);
    host.send("close");
    await heard(host);
    return { keyId, statuses };
  } finally {
    host.kill("SIGKILL");
  }
}

describe.each(sharedStores.filter(({ name }) => name in SERVERS))("a host on $name", (store) => {
  it.skipIf(!store.available)("survives the loss of its connections under load", async () => {
    const ledger = await store.open();
    try {
      const { keyId, statuses } = await outage(ledger, SERVERS[store.name] ?? "redis");
      const { 503: unavailable = 0, ...others } = statuses;
      expect(Object.keys(others)).toEqual(["200"]);
      expect(unavailable).toBeGreaterThan(0);
      expect(await ledger.differences(keyId)).toEqual([]);
    } finally {
      await ledger.remove();
    }
  });
});
