/** The Redis store keeps the laws of its port on a cluster, where keys are spread over several nodes. */

import { Cluster } from "ioredis-6";
import { createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStores } from "../../../src/stores/open/index.ts";
import type { RedisClient } from "../../../src/stores/redis/index.ts";
import { budgetLaws } from "../../../src/testing/laws/budgets.ts";
import { quotaStoreLaws, replayStoreLaws } from "../../../src/testing/laws/index.ts";
import { filled } from "../replays.ts";
import { openedBudgetsOf, openedOf } from "../sql/open.ts";
import { clusterIsInstalled, type RunningCluster, startCluster } from "./cluster.ts";
import { redisReplaysAt, redisStoreAt } from "./servers.ts";

interface Connected {
  readonly client: RedisClient;
  readonly close: () => unknown;
}

const connections: readonly { name: string; connect: (ports: readonly number[]) => Promise<Connected> }[] = [
  {
    name: "node-redis",
    async connect(ports) {
      const cluster = createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })) });
      await cluster.connect();
      return { client: cluster, close: () => cluster.destroy() };
    },
  },
  {
    name: "ioredis 6",
    async connect(ports) {
      const cluster = new Cluster(ports.map((port) => ({ host: "127.0.0.1", port })));
      return { client: cluster, close: () => cluster.disconnect() };
    },
  },
];

describe.skipIf(!clusterIsInstalled)("redisQuotaStore on a cluster", () => {
  let running: RunningCluster;
  beforeAll(async () => void (running = await startCluster()));
  afterAll(() => running?.stop());

  it("is not opened by the address of a node: the start says what to do", async () => {
    const opening = openStores(`redis://127.0.0.1:${String(running.ports[0])}`);
    await expect(opening).rejects.toThrow(/a node of a Redis cluster.*createCluster/);
  });

  describe.each(connections)("through $name", ({ name, connect }) => {
    let connected: Connected;
    beforeAll(async () => void (connected = await connect(running.ports)));
    afterAll(() => void connected?.close());

    // The clients differ in how they find a node, which all laws of one client and the tests below show.
    it.each(name === "node-redis" ? quotaStoreLaws : [])("$name", async (law) => {
      const place = { client: connected.client, prefix: name.replace(" ", "-") };
      await expect(law.verify(({ keys }) => openedOf(redisStoreAt(place), keys))).resolves.toBeUndefined();
    });

    it.each(name === "node-redis" ? replayStoreLaws : [])("of answers: $name", async (law) => {
      const place = { client: connected.client, prefix: `answers-${name.replace(" ", "-")}` };
      await expect(law.verify(() => redisReplaysAt(place))).resolves.toBeUndefined();
    });

    it("keeps the bounds of a key's answers, wherever its slot is", async () => {
      const place = { client: connected.client, prefix: `bounds-${name.replace(" ", "-")}` };
      const { store } = redisReplaysAt(place, { maxEntriesPerKey: 2 });
      for (const keyId of ["a", "b", "c", "d"])
        expect(await (await filled(store, keyId, 4))()).toEqual(["claimed", "claimed", "answered", "answered"]);
    });

    it.each(budgetLaws)("with all keys in one slot: $name", async (law) => {
      const place = { client: connected.client, prefix: `{budgets}-${name.replace(" ", "-")}` };
      const verified = law.verify(({ onBudget, ...setup }) =>
        openedBudgetsOf(redisStoreAt(place, { onBudget }), setup),
      );
      await expect(verified).resolves.toBeUndefined();
    });

    it("refuses budgets without a slot for all, says what to do, and leaves nothing of them", async () => {
      const { store } = redisStoreAt({ client: connected.client, prefix: `budgets-${name.replace(" ", "-")}` });
      await expect(store.addBudget({ id: "team", amount: 5 })).rejects.toThrow('such as "{polygate}"');
      expect(await store.listBudgets()).toEqual([]);
      await expect(store.add({ budget: "team" })).rejects.toThrow("There is no budget of the id team.");
    });

    it("changes keys whose secrets are on other nodes", async () => {
      const { store } = redisStoreAt({ client: connected.client, prefix: `changed-${name.replace(" ", "-")}` });
      const secrets = Array.from({ length: 6 }, (_, index) => `changed-secret-${index}`);
      await store.add({ id: "team", apiKey: secrets, granted: 10 });
      await store.update("team", { models: ["small"], metadata: { team: "a" } });
      await store.lower("team", 4);
      for (const secret of secrets)
        expect(await store.find(secret)).toMatchObject({ modelLimits: { small: true }, metadata: { team: "a" } });
      expect(await store.report("team")).toMatchObject({ granted: 6, secrets: 6, metadata: { team: "a" } });
    });

    it("removes secrets on other nodes, and keeps them when the node of the key refuses the change", async () => {
      const place = { client: connected.client, prefix: `removed-${name.replace(" ", "-")}` };
      const { store } = redisStoreAt(place);
      const secrets = Array.from({ length: 6 }, (_, index) => `removed-secret-${index}`);
      await store.add({ id: "team", apiKey: secrets, granted: 10 });
      const { client } = connected;
      let isFull = false;
      const filling = new Proxy(client, {
        get(_, field) {
          const value: unknown = Reflect.get(client, field);
          if (typeof value !== "function") return value;
          return async (...args: unknown[]): Promise<unknown> => {
            if (isFull && args.flat().includes("HSET")) throw new Error("OOM command not allowed.");
            return Reflect.apply(value, client, args);
          };
        },
      });
      const refusing = redisStoreAt({ ...place, client: filling }).store;
      // Tells the store that it is on a cluster.
      await refusing.reserve({ id: "removed-hold", keyId: "team", atLeast: 1, atMost: 1, leaseMs: 60_000 });
      isFull = true;
      await expect(refusing.revoke("team")).rejects.toThrow("OOM");
      for (const secret of secrets) expect(await store.find(secret)).toMatchObject({ id: "team" });
      expect(await store.report("team")).toMatchObject({ secrets: 6, revoked: false });
      await store.rotateSecret("team", "removed-secret-new", 0);
      await store.removeSecret("removed-secret-new");
      await store.revoke("team");
      for (const secret of [...secrets, "removed-secret-new"]) expect(await store.find(secret)).toBeUndefined();
      expect(await store.report("team")).toMatchObject({ secrets: 0, revoked: true });
    });

    it("lists, sweeps and prunes the keys of all nodes", async () => {
      const { store, advance } = redisStoreAt({ client: connected.client, prefix: `all-${name.replace(" ", "-")}` });
      const ids = Array.from({ length: 12 }, (_, index) => `key-${String(index).padStart(2, "0")}`);
      for (const id of ids) {
        await store.add({ id, apiKey: `secret-of-${id}`, granted: 10 });
        await store.reserve({ id: `hold-of-${id}`, keyId: id, atLeast: 5, atMost: 5, leaseMs: 60_000 });
      }
      expect((await store.list()).map(({ id, held }) => [id, held])).toEqual(ids.map((id) => [id, 5]));
      advance(60_000);
      expect(await store.sweep()).toBe(12);
      advance(1_000);
      expect(await store.prune({ olderThanMs: 0 })).toBe(12);
    });
  });
});
