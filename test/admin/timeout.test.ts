/** Commands whose database does not answer, because others hold its tables. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exitCodeOf } from "../../src/admin/command-line.ts";
import { REDIS, redisAnswers } from "../stores/redis/servers.ts";
import { databases, type TestPlace } from "../stores/sql/databases.ts";

async function polygate(store: string, ...args: readonly string[]) {
  let [stdout, stderr] = ["", ""];
  const code = await exitCodeOf([...args, "--store", store], {
    env: {},
    print: (line) => void (stdout += `${line}\n`),
    warn: (line) => void (stderr += `${line}\n`),
    read: async () => "",
    home: { manifest: { version: "1.2.3" }, root: "" } as never,
    servers: {} as never,
  });
  return { code, stdout, stderr };
}

const UNKNOWN = "The change may have been made or not: look before you repeat it.";

// PGlite has a single connection.
describe.each(databases.filter(({ name }) => name !== "PGlite"))("a command on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    const { dialect } = database;
    let place: TestPlace;
    let run: (...args: readonly string[]) => ReturnType<typeof polygate>;

    beforeAll(async () => {
      place = await database.place();
      const address = dialect === "sqlite" ? `sqlite:${place.address}` : (place.address ?? "");
      run = (...args) => polygate(address, ...args, "--prefix", place.prefix);
    });
    afterAll(() => place.remove());

    /** Runs a command while another connection holds the table of keys. */
    async function whileHeld(...args: readonly string[]) {
      const keys = sql.table(`${place.prefix}keys`);
      return place
        .connect()
        .connection()
        .execute(async (db) => {
          const held = { sqlite: sql`BEGIN IMMEDIATE`, postgres: sql`BEGIN`, mysql: sql`LOCK TABLES ${keys} WRITE` };
          await held[dialect].execute(db);
          if (dialect === "postgres") await sql`LOCK TABLE ${keys}`.execute(db);
          try {
            return await run(...args, "--timeout", "1s");
          } finally {
            await (dialect === "mysql" ? sql`UNLOCK TABLES` : sql`ROLLBACK`).execute(db);
          }
        });
    }

    it("that changes something ends after its time, and changes nothing afterwards", async () => {
      const made = await whileHeld("keys", "create", "--id", "late", "--granted", "5", "--currency", "");
      expect(made).toEqual({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(/^\w+:\S+ cannot be used: no answer in 1 s\. Perhaps others lock its tables\. /),
      });
      expect(made.stderr).toContain(`${UNKNOWN} To wait longer, add --timeout, such as --timeout 10m.`);
      expect(JSON.parse((await run("keys", "list", "--json", "--timeout", "30s")).stdout)).toEqual([]);
    });

    it("that only reads says that nothing was changed, on SQLite answers", async () => {
      const { code, stdout, stderr } = await whileHeld("keys", "list", "--json");
      const nothing = { error: expect.stringContaining("Nothing was changed."), code: "unavailable" };
      // Readers of SQLite do not wait for writers.
      expect([code, JSON.parse(stdout || stderr)]).toEqual(dialect === "sqlite" ? [0, []] : [1, nothing]);
    });
  });
});

it.skipIf(!redisAnswers)("a command on Redis ends after its time", async () => {
  const { hostname, port } = new URL(REDIS);
  // Passes on the first commands of a connection, and nothing after the question for a cluster.
  const server = createServer((client) => {
    const redis = connect(Number(port) || 6379, hostname);
    let isDeaf = false;
    client.on("data", (data) => {
      if (!isDeaf) redis.write(data);
      isDeaf ||= data.includes("cluster");
    });
    redis.pipe(client);
    client.on("close", () => redis.destroy()).on("error", () => {});
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port: own } = server.address() as AddressInfo;
  expect(await polygate(`redis://127.0.0.1:${own}`, "keys", "pause", "anna", "--timeout", "1s")).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/^redis:\S+ cannot be used: no answer in 1 s\. .*made or not/),
  });
  server.close();
});

it.each([
  ["0s", "--timeout must be from 1s to 24d, not 0s."],
  ["25d", "--timeout must be from 1s to 24d, not 25d."],
  ["soon", "--timeout must be a span of time, such as 30m, 24h or 7d, not soon."],
])("the time of a command cannot be %s", async (timeout, message) => {
  expect(await polygate("sqlite:none.db", "keys", "list", "--timeout", timeout)).toEqual({
    code: 2,
    stdout: "",
    stderr: `${message}\n`,
  });
});
