/** The host that a team would start from: it relays, holds keys to their quota and rates, and writes a row for each call. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../src/admin/open-store.ts";
import { type Playground, startPlayground, usageOf } from "../clients/playground.ts";
import { post } from "../clients/wire.ts";
import { databases, type NewDatabase, newPostgres } from "../stores/sql/databases.ts";

const available = databases.some(({ name, available }) => name === "PostgreSQL" && available);

/** Keys that call one after the other, each far below its rate. */
const LANES: readonly string[] = Array.from({ length: 24 }, (_, index) => `load-${index}`);

/** Says a word to whoever asks, and tells what that took. */
function startUpstream(): Promise<Server> {
  const server = createServer((req, res) => {
    req.resume().on("end", () => {
      const choices = [{ index: 0, message: { role: "assistant", content: "Welcome." }, finish_reason: "stop" }];
      const usage = { prompt_tokens: 11, completion_tokens: 3 };
      res.writeHead(200, { "content-type": "application/json" });
      res.end(JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "upstream-1", choices, usage }));
    });
  }).listen(0, "127.0.0.1");
  return once(server, "listening").then(() => server);
}

describe.skipIf(!available)("npm run host:team", () => {
  let database: NewDatabase;
  let client: Client;
  let upstream: Server;
  let host: Playground;

  beforeAll(async () => {
    database = await newPostgres();
    client = new Client({ connectionString: database.address });
    await client.connect();
    upstream = await startUpstream();
    const { port } = upstream.address() as AddressInfo;
    const env = { DATABASE_URL: database.address, UPSTREAM_URL: `http://127.0.0.1:${port}/v1`, UPSTREAM_KEY: "sk-up" };
    host = await startPlayground(env, [process.execPath, "playground/hosts/team.ts"]);
    const { store, close } = await openStore(database.address).then((opened) => ({
      store: opened.store,
      close: () => opened.close(),
    }));
    await store.add({ id: "team", apiKey: "sk-team", granted: 1_000 });
    await store.add({ id: "busy", apiKey: "sk-busy" });
    for (const id of LANES) await store.add({ id, apiKey: `sk-${id}` });
    await close();
  });
  afterAll(async () => {
    host?.process.child.kill("SIGKILL");
    upstream?.close();
    upstream?.closeAllConnections();
    await client?.end();
    await database?.remove();
  });

  it("answers beside its own route, and charges what the upstream has counted", async () => {
    expect(await (await fetch(new URL("/", host.url))).text()).toBe("The team is at home.");
    const response = await post(host.url, "Hello", { apiKey: "sk-team" });
    expect(response.status).toBe(200);
    expect(await response.text()).toContain("Welcome.");
    expect((await post(host.url, "Hello", { apiKey: "sk-nobody" })).status).toBe(401);
    expect(await usageOf(host.url, "sk-team")).toMatchObject({ total_used: 14, total_available: 986 });
  });

  it("refuses what is over the rate", async () => {
    expect((await post(host.url, "Hello", { apiKey: "sk-busy" })).status).toBe(200);
    // As if it had been the last one of this hour.
    const { rowCount } = await client.query(
      `UPDATE rates SET points = 60, expire = $1 WHERE key LIKE '%requests%busy%'`,
      [Date.now() + 3_600_000],
    );
    expect(rowCount).toBe(1);
    const refused = await post(host.url, "Hello", { apiKey: "sk-busy" });
    expect([refused.status, refused.headers.get("anthropic-ratelimit-requests-remaining")]).toEqual([429, "0"]);
    expect((await post(host.url, "Hello", { apiKey: "sk-team" })).status, "another key is not held back").toBe(200);
  });

  it("survives the loss of its connections under load, and bills what it has charged", async () => {
    const statuses: Record<number, number> = {};
    const over = new AbortController();
    const lane = async (apiKey: string): Promise<void> => {
      while (!over.signal.aborted) {
        const status = await post(host.url, "Hello", { apiKey }).then(
          async (response) => (await response.arrayBuffer(), response.status),
          () => 0,
        );
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    };
    const answered = (): number => statuses[200] ?? 0;
    const load = Promise.all(LANES.map((key) => lane(`sk-${key}`)));
    const others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    for (let cuts = 0; cuts < 3 || !statuses[503]; cuts++) {
      const before = answered();
      await expect.poll(() => answered() > before || host.process.child.exitCode !== null).toBe(true);
      await client.query(`SELECT pg_terminate_backend(pid) ${others}`);
      expect({ code: host.process.child.exitCode, errors: host.process.errors() }).toMatchObject({ code: null });
    }
    const before = answered();
    await expect.poll(() => answered() > before + LANES.length).toBe(true);
    over.abort();
    await load;
    expect(Object.keys(statuses)).toEqual(["200", "503"]);
    const billed = `SELECT sum(units)::int AS units, count(*)::int AS calls FROM calls WHERE key_id LIKE 'load-%' AND units > 0`;
    const charged = `SELECT sum(charged)::int AS charged FROM polygate_keys WHERE id LIKE 'load-%'`;
    await expect
      .poll(async () => [(await client.query(billed)).rows[0], (await client.query(charged)).rows[0]])
      .toEqual([{ units: 14 * answered(), calls: answered() }, { charged: 14 * answered() }]);
  });

  it("has written a row for each call when it ends", async () => {
    await host.stop();
    const { rows } = await client.query(
      `SELECT key_id, model, input_tokens, output_tokens, units, certainty, outcome, count(*) AS calls
       FROM calls WHERE coalesce(key_id, '') NOT LIKE 'load-%' AND outcome <> 'failed' GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY key_id, outcome`,
    );
    const told = { model: "upstream-1", input_tokens: "11", output_tokens: "3", units: "14", certainty: "exact" };
    expect(rows).toMatchObject([
      { key_id: "busy", ...told, outcome: "completed", calls: "1" },
      { key_id: "busy", units: "0", outcome: "refused", calls: "1" },
      { key_id: "team", units: "0", outcome: "completed", calls: "1" },
      { key_id: "team", ...told, outcome: "completed", calls: "2" },
      { key_id: null, units: "0", outcome: "refused", calls: "1" },
    ]);
  });
});
