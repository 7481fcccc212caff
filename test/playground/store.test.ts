/** The playground on a store that outlives it: what was used stays used, and no key is granted anew. */

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../src/admin/open-store.ts";
import { type PlaygroundProcess, spawnPlayground, startPlayground, usageOf, usedUntil } from "../clients/playground.ts";
import { post } from "../clients/wire.ts";
import { REDIS, redisAnswers } from "../stores/redis/servers.ts";
import { databases, type NewDatabase, newMysql, newPostgres } from "../stores/sql/databases.ts";

async function file(): Promise<NewDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-playground-"));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  return { address: `sqlite:${join(folder, "quota.db")}`, remove };
}

/** A database of Redis's own numbering, which nothing else here uses. */
const REDIS_DATABASE = 13;

async function redis(): Promise<NewDatabase> {
  const address = new URL(`/${REDIS_DATABASE}`, REDIS).href;
  const client = await createClient({ url: address }).connect();
  const empty = async (): Promise<void> => {
    const names = await client.keys("polygate:*");
    if (names.length > 0) await client.del(names);
  };
  await empty();
  const remove = async (): Promise<void> => {
    await empty();
    client.destroy();
  };
  return { address, remove };
}

const answers = (dialect: string): boolean =>
  databases.some((each) => each.dialect === dialect && each.available && each.name !== "PGlite");

const STORES = [
  { name: "SQLite", available: true, place: file },
  { name: "PostgreSQL", available: answers("postgres"), place: newPostgres },
  { name: "MySQL or MariaDB", available: answers("mysql"), place: newMysql },
  { name: "Redis", available: redisAnswers, place: redis },
];

const silent = createServer();
/** Waits for ten seconds before it gives up, and so beside all other tests. */
let unanswered: PlaygroundProcess;
beforeAll(async () => {
  await once(silent.listen(0, "127.0.0.1"), "listening");
  const { port } = silent.address() as AddressInfo;
  unanswered = spawnPlayground({ PORT: "0", POLYGATE_STORE: `postgres://me@127.0.0.1:${port}/x` });
});
afterAll(() => {
  unanswered.child.kill("SIGKILL");
  silent.close();
});

describe.each(STORES)("POLYGATE_STORE on $name", ({ available, place: newPlace }) => {
  describe.skipIf(!available)("when it answers", () => {
    let place: NewDatabase;
    beforeAll(async () => void (place = await newPlace()));
    afterAll(() => place?.remove());

    it("keeps each balance over a restart", async () => {
      const env = { POLYGATE_STORE: place.address };
      const first = await startPlayground(env);
      try {
        expect((await usageOf(first.url, "sk-metered")).total_used).toBe(0);
        expect((await post(first.url, "Hello", { apiKey: "sk-metered" })).status).toBe(200);
        // A stream that the end of the process cuts is charged, too.
        const stream = await post(first.url, "/delay 600000 /repeat 2", {
          apiKey: "sk-limited",
          body: { stream: true },
        });
        await usedUntil(first.url, "sk-limited", (used) => used > 0);
        await first.stop();
        await stream.body?.cancel().catch(() => {});
      } finally {
        first.process.child.kill("SIGKILL");
      }

      const opened = await openStore(place.address);
      const before = await opened.store.report("metered");
      const cut = await opened.store.report("limited");
      await opened.close();
      expect(before).toMatchObject({ held: 0, granted: 1_000_000 });
      expect(before?.used).toBeGreaterThan(0);
      expect(cut).toMatchObject({ held: 0 });
      expect(cut?.used).toBeGreaterThan(0);

      const second = await startPlayground(env);
      try {
        const { total_granted, total_used, total_available } = await usageOf(second.url, "sk-metered");
        expect([total_granted, total_used]).toEqual([1_000_000, before?.used]);
        expect((await post(second.url, "Hello", { apiKey: "sk-metered" })).status).toBe(200);
        expect((await usageOf(second.url, "sk-metered")).total_available).toBeLessThan(total_available);
        expect((await post(second.url, "Hello", { apiKey: "sk-empty" })).status).toBe(429);
      } finally {
        await second.stop();
      }
    });
  });
});

describe("POLYGATE_STORE", () => {
  let place: NewDatabase;
  beforeAll(async () => void (place = await file()));
  afterAll(() => place.remove());

  it("gives no key that everybody knows to a store that has keys of others", async () => {
    const opened = await openStore(place.address, { create: true });
    await opened.migrate?.();
    await opened.store.add({ id: "team", apiKey: "sk-team", granted: 1_000_000 });
    await opened.close();
    const playground = await startPlayground({ POLYGATE_STORE: place.address });
    try {
      expect((await post(playground.url, "Hello", { apiKey: "sk-demo" })).status).toBe(401);
      expect((await post(playground.url, "Hello", { apiKey: "sk-team" })).status).toBe(200);
      expect(playground.process.output()).toMatch(/^[^\n]*\n$/);
    } finally {
      await playground.stop();
    }
  });

  it.each([
    ["no address", "quota.db", /must be sqlite:FILE, postgres/],
    ["an address of no known kind", "oracle://host", /must be sqlite:FILE, postgres/],
    ["no file", "sqlite:", /must be followed by a file/],
    [
      "a folder that is not there",
      "sqlite:/nowhere/at/all/quota.db",
      /There is no folder \/nowhere\/at\/all for the database/,
    ],
    ["a PostgreSQL that is not there", "postgres://me:hunter2@127.0.0.1:1/x", /ECONNREFUSED/],
    ["a MySQL that is not there", "mysql://me:hunter2@127.0.0.1:1/x", /ECONNREFUSED/],
    ["a Redis that is not there", "redis://me:hunter2@127.0.0.1:1", /ECONNREFUSED/],
  ])("says in one line that it is %s, without the password", async (_, POLYGATE_STORE, reason) => {
    const { ended, output, errors } = spawnPlayground({ PORT: "0", POLYGATE_STORE });
    expect(await ended).toEqual({ code: 1, signal: null });
    expect(output()).toBe("");
    expect(errors()).toMatch(/^The demo cannot use its store \(--store or POLYGATE_STORE\): [^\n]*\n$/);
    expect(errors()).toMatch(reason);
    expect(errors()).not.toContain("hunter2");
  });

  it("says so where the server never answers", async () => {
    const { ended, errors } = unanswered;
    expect(await ended).toEqual({ code: 1, signal: null });
    expect(errors()).toBe("The demo cannot use its store (--store or POLYGATE_STORE): it does not answer.\n");
  });
});
