/** The Redis store keeps the laws of its port through every client, and its own promises beyond them. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type DurableKeyOptions, type DurableQuotaStore, redisQuotaStore } from "../../../src/stores/redis/index.ts";
import { budgetLaws } from "../../../src/testing/laws/budgets.ts";
import { quotaStoreLaws } from "../../../src/testing/laws/index.ts";
import { expectPeriods } from "../periods.ts";
import { openedBudgetsOf, openedOf } from "../sql/open.ts";
import { drivers, redisAnswers, type RedisPlace, redisStoreAt } from "./servers.ts";

const LEASE_MS = 600_000;

describe.skipIf(!redisAnswers).each(drivers)("redisQuotaStore through $name", (driver) => {
  let place: RedisPlace;
  beforeAll(async () => void (place = await driver.place()));
  afterAll(() => place?.remove());

  it.each(quotaStoreLaws)("$name", async (law) => {
    await expect(law.verify(({ keys }) => openedOf(redisStoreAt(place), keys))).resolves.toBeUndefined();
  });

  it.each(budgetLaws)("budgets: $name", async (law) => {
    const verified = law.verify(({ onBudget, ...setup }) => openedBudgetsOf(redisStoreAt(place, { onBudget }), setup));
    await expect(verified).resolves.toBeUndefined();
  });
});

describe.skipIf(!redisAnswers)("redisQuotaStore, beyond the port", () => {
  let place: RedisPlace;
  let store: DurableQuotaStore;
  let advance: (ms: number) => void;

  beforeEach(async () => {
    place = (await drivers[0]?.place()) ?? place;
    ({ store, advance } = redisStoreAt(place));
    await store.add({ id: "team {1}", name: "Team", apiKey: "sk-one", granted: 100 });
  });
  afterEach(() => place.remove());

  const keyId = "team {1}";
  const hold = (id: string, units = 10) =>
    store.reserve({ id, keyId, atLeast: units, atMost: units, leaseMs: LEASE_MS });

  it("admits 100 of 10,000 reservations at once over several connections", async () => {
    const places = await Promise.all(drivers.map((driver) => driver.place()));
    const stores = places.map(({ client }) => redisStoreAt({ client, prefix: place.prefix }).store);
    const id = await store.add({ granted: 700 });
    const race = async (index: number) =>
      stores[index % stores.length]?.reserve({
        id: `race-${index}`,
        keyId: id,
        atLeast: 7,
        atMost: 7,
        leaseMs: LEASE_MS,
      });
    const answers = await Promise.all(Array.from({ length: 10_000 }, (_, index) => race(index)));
    expect(answers.filter((answer) => answer && !answer.refused)).toHaveLength(100);
    expect(await store.balance(id)).toEqual({ used: 700, available: 0, held: 700 });
    for (const each of places) await each.remove();
  });

  it("sends a script whole to a server that has forgotten it", async () => {
    const commands: string[] = [];
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const forgetful = {
      async sendCommand([command = "", ...args]: string[]): Promise<unknown> {
        commands.push(command);
        if (command === "EVALSHA") throw new Error("NOSCRIPT No matching script.");
        return client.sendCommand([command, ...args]);
      },
    };
    const found = await redisQuotaStore({ client: forgetful, prefix: place.prefix }).find("one");
    expect([found?.name, commands]).toEqual(["Team", ["EVALSHA", "EVAL"]]);
  });

  it("keeps the secrets of a key whose change a full Redis refuses", async () => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const full = {
      async sendCommand(command: string[]): Promise<unknown> {
        if (command.includes("HSET")) throw new Error("OOM command not allowed when used memory > 'maxmemory'.");
        return client.sendCommand(command);
      },
    };
    const refusing = redisQuotaStore({ client: full, prefix: place.prefix });
    await expect(refusing.revoke(keyId)).rejects.toThrow("OOM");
    await expect(refusing.rotateSecret(keyId, "sk-two", 0)).rejects.toThrow("OOM");
    expect([await store.find("one"), await store.find("two")]).toMatchObject([{ id: keyId }, undefined]);
    expect(await store.report(keyId)).toMatchObject({ secrets: 1, revoked: false });
    expect(await refusing.removeSecret("one"), "needs no memory").toBe(keyId);
    expect(await store.find("one")).toBeUndefined();
  });

  it("takes a client like Bun's, and rejects what is none", async () => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const bun = { send: (command: string, args: string[]) => client.sendCommand([command, ...args]) };
    expect(await redisQuotaStore({ client: bun, prefix: place.prefix }).find("one")).toMatchObject({ id: keyId });
    expect(() => redisQuotaStore({ client: {} as typeof bun })).toThrow(TypeError);
    expect(() => redisQuotaStore({ client: bun, prefix: "{x}{y}" })).toThrow(RangeError);
  });

  it("rotates a secret: both find the key until the overlap is over", async () => {
    await store.rotateSecret(keyId, "sk-two", 60_000);
    expect([await store.find("one"), await store.find("two")]).toMatchObject([{ id: keyId }, { id: keyId }]);
    advance(60_000);
    expect(await store.find("one")).toBeUndefined();
    await store.rotateSecret(keyId, "three", 0);
    expect([await store.find("two"), (await store.find("three"))?.id]).toEqual([undefined, keyId]);
    expect(await store.report(keyId)).toMatchObject({ secrets: 1, revoked: false });
  });

  it("revokes a key for good, and still charges its calls", async () => {
    await hold("call");
    await store.revoke(keyId);
    expect(await store.find("one")).toBeUndefined();
    await store.settle("call", { used: 7, certainty: "exact" });
    expect(await store.report(keyId)).toMatchObject({ used: 7, secrets: 0, revoked: true });
    await expect(store.addSecret(keyId, "two")).rejects.toThrow(RangeError);
    await expect(store.rotateSecret(keyId, "two", 0)).rejects.toThrow(RangeError);
    await expect(store.grant(keyId, 5)).rejects.toThrow(RangeError);
    expect(await store.find("two"), "what was refused finds nothing").toBeUndefined();
  });

  it("grants more, and refuses sums beyond 2^53", async () => {
    await hold("call", 100);
    await store.grant(keyId, 50);
    expect(await store.balance(keyId)).toEqual({ used: 100, available: 50, held: 100 });
    await expect(store.grant(keyId, Number.MAX_SAFE_INTEGER)).rejects.toThrow(/beyond 2\^53/);
    await hold("other");
    await store.settle("call", { used: Number.MAX_SAFE_INTEGER, certainty: "exact" });
    await expect(store.settle("other", { used: Number.MAX_SAFE_INTEGER, certainty: "exact" })).rejects.toThrow(
      RangeError,
    );
    expect(await store.report(keyId)).toMatchObject({ held: 10 });
    await expect(store.grant("nobody", 5)).rejects.toThrow(RangeError);
    await expect(store.grant(await store.add(), 5)).rejects.toThrow(/has no quota/);
  });

  it("names a key that a hand has spoilt, and leaves the others alone", async () => {
    await store.add({ id: "sound", granted: 100 });
    for (const id of [keyId, "sound"])
      await store.reserve({ id: `late-${id}`, keyId: id, atLeast: 10, atMost: 10, leaseMs: LEASE_MS });
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const spoil = (charged: string) =>
      client.sendCommand(["HSET", `${place.prefix}:{${encodeURIComponent(keyId)}}:ledger`, "charged", charged]);
    advance(LEASE_MS);
    for (const charged of ["9007199254740994", "-1", "many"]) {
      await spoil(charged);
      await expect(hold("next")).rejects.toThrow(`The key ${keyId} is spoilt: its charged units are ${charged}.`);
      await expect(store.sweep()).rejects.toThrow(/is spoilt/);
      expect(await store.list()).toMatchObject([
        { id: "sound", used: 0, available: 100 },
        { id: keyId, held: 10, spoilt: ["charged"] },
      ]);
    }
    await spoil("0");
    expect(await store.sweep()).toBe(1);
    expect(await store.report(keyId)).not.toHaveProperty("spoilt");
  });

  it("lists keys page by page", async () => {
    for (const id of ["a", "b", "z"]) await store.add({ id });
    expect((await store.list({ limit: 2 })).map(({ id }) => id)).toEqual(["a", "b"]);
    expect((await store.list({ after: "b" })).map(({ id, secrets }) => [id, secrets])).toEqual([
      [keyId, 1],
      ["z", 0],
    ]);
  });

  it("sweeps idle keys, and forgets resolved holds after a while", async () => {
    await store.grant(keyId, 10_000);
    await Promise.all(Array.from({ length: 250 }, (_, index) => hold(`call-${index}`)));
    await store.settle("call-0", { used: 3, certainty: "exact" });
    advance(LEASE_MS);
    expect(await store.sweep()).toBe(249);
    expect(await store.sweep()).toBe(0);
    advance(60_000);
    expect(await store.prune({ olderThanMs: LEASE_MS / 2 })).toBe(1);
    expect(await store.prune({ olderThanMs: 0 })).toBe(249);
    expect(await store.report(keyId)).toMatchObject({ used: 3, held: 0 });
    expect(await hold("call-0"), "the id is free again").toEqual({ granted: 10 });
  });

  it("charges more expired holds than one run takes", async () => {
    await store.grant(keyId, 10_000);
    await Promise.all(Array.from({ length: 250 }, (_, index) => hold(`call-${index}`)));
    advance(LEASE_MS);
    expect(await hold("next", 10_100)).toEqual({ granted: 10_100 });
  });

  it.each<[why: string, key: DurableKeyOptions]>([
    ["an id that it knows", { id: "team {1}", apiKey: "two" }],
    ["a secret that it knows", { id: "new", apiKey: ["two", "one"] }],
    ["an empty secret", { apiKey: "sk-" }],
    ["an id with a control character", { id: "te\0am" }],
    ["more usage than was granted", { granted: 5, used: 6 }],
  ])("rejects a key of %s, and leaves nothing of it", async (_, key) => {
    await expect(store.add(key)).rejects.toThrow(RangeError);
    expect(await store.find("two")).toBeUndefined();
    expect(await store.find("one")).toMatchObject({ id: keyId });
    expect(await store.list()).toHaveLength(1);
    expect(await store.report("new")).toBeUndefined();
  });
});

const exactly = (used: number) => ({ used, certainty: "exact" as const });
const holdOf = (keyId: string, id: string, units: number, leaseMs = LEASE_MS) => ({
  id,
  keyId,
  atLeast: units,
  atMost: units,
  leaseMs,
});

describe.skipIf(!redisAnswers)("budgets in Redis", () => {
  let place: RedisPlace;
  beforeEach(async () => void (place = (await drivers[0]?.place()) ?? place));
  afterEach(() => place.remove());

  const DAY_MS = 86_400_000;
  it("are shared exactly over several connections, and told of by one of them", async () => {
    const places = await Promise.all(drivers.map((driver) => driver.place()));
    const percents: number[] = [];
    const onBudget = ({ percent }: { percent: number }): void => void percents.push(percent);
    const stores = places.map(({ client }) => redisStoreAt({ client, prefix: place.prefix }, { onBudget }).store);
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "org", amount: 700 });
    for (const team of ["a", "z"]) await store.addBudget({ id: team, amount: 600, parent: "org" });
    for (const key of [0, 1, 2, 3]) await store.add({ id: `${key}`, budget: key % 2 ? "a" : "z" });
    const race = async (index: number) => {
      const hold = holdOf(`${index % 4}`, `race-${index}`, 7);
      const answer = await stores[index % stores.length]?.reserve(hold);
      if (answer && !answer.refused) await stores[(index + 1) % stores.length]?.settle(hold.id, exactly(7));
      return answer;
    };
    const answers = await Promise.all(Array.from({ length: 1_000 }, (_, index) => race(index)));
    expect(answers.filter((answer) => answer && !answer.refused)).toHaveLength(100);
    const [org, a, z] = await Promise.all(["org", "a", "z"].map((id) => store.budgetReport(id)));
    expect(org).toMatchObject({ used: 700, available: 0, held: 0, overdraft: 0 });
    expect((a?.used ?? 0) + (z?.used ?? 0)).toBe(700);
    await expect.poll(() => percents.filter((percent) => percent === 100).length).toBeGreaterThan(0);
    for (const each of places) await each.remove();
  });

  it("are given back what an idle key has held, when another key needs it", async () => {
    const { store, advance } = redisStoreAt(place);
    await store.addBudget({ id: "team", amount: 100 });
    for (const id of ["one {x}", "two"]) await store.add({ id, budget: "team" });
    await store.reserve(holdOf("one {x}", "idle", 90));
    await store.renew("idle", { leaseMs: LEASE_MS, used: 20 });
    expect(await store.reserve(holdOf("two", "next", 50))).toEqual({
      refused: true,
      available: 10,
      held: 90,
      budget: "team",
    });
    advance(LEASE_MS);
    expect(await store.balance("two")).toEqual({ used: 20, available: 80, held: 0, budget: "team" });
    expect(await store.reserve(holdOf("two", "next", 80))).toEqual({ granted: 80 });
  });

  it("close periods, and charge late calls to them", async () => {
    const { store, advance } = redisStoreAt(place);
    await store.addBudget({ id: "day", amount: 2 ** 52, period: "day", rollover: true });
    await store.add({ id: "key", budget: "day" });
    await store.reserve(holdOf("key", "late", 10, 10 * DAY_MS));
    advance(DAY_MS);
    expect(await store.budgetReport("day")).toMatchObject({ granted: 2 ** 53 - 10, used: 0 });
    await store.settle("late", exactly(2 ** 52));
    expect(await store.budgetReport("day")).toMatchObject({ granted: 2 ** 53 - 10, used: 0, overdraft: 0 });
    expect(await store.report("key")).toMatchObject({ used: 2 ** 52, unlimited: true, budget: "day" });
  });

  it("keep the periods that have ended", async () => {
    const { store, advance } = redisStoreAt(place);
    await expect(expectPeriods(store, advance)).resolves.toBeUndefined();
  });

  it("are known to all secrets of a key, and listed page by page", async () => {
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "b", amount: 5 });
    await store.addBudget({ id: "a", amount: 5 });
    await store.add({ id: "key", apiKey: ["one", "two"] });
    await store.assignBudget("key", "a");
    await store.addSecret("key", "three");
    for (const secret of ["one", "two", "three"])
      expect(await store.find(secret)).toMatchObject({ budget: "a", unlimited: false });
    expect((await store.listBudgets()).map(({ id }) => id)).toEqual(["a", "b"]);
    expect((await store.listBudgets({ after: "a" })).map(({ id }) => id)).toEqual(["b"]);
    await expect(store.add({ budget: "nobody" })).rejects.toThrow("There is no budget of the id nobody.");
    await expect(store.assignBudget("nobody", "a")).rejects.toThrow("There is no API key of the id nobody.");
    await store.revoke("key");
    await expect(store.assignBudget("key", "b")).rejects.toThrow(
      "The API key key is revoked, and cannot be changed any more.",
    );
  });

  it.each<[string, readonly string[], (store: DurableQuotaStore) => Promise<void>]>([
    ["is updated", ["one"], (store) => store.update("changed", { name: "Changed" })],
    ["gets a secret", ["one", "two"], (store) => store.addSecret("changed", "sk-two")],
  ])("are known to all secrets of a key that meanwhile %s", async (_name, secrets, change) => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "late", amount: 10 });
    await store.add({ id: "changed", apiKey: "sk-one" });
    let isAssigned = false;
    // Assigns the budget just before the change writes to a secret.
    const late = {
      async sendCommand([command = "", ...args]: string[]): Promise<unknown> {
        if (!isAssigned && command === "EVALSHA" && args[2]?.includes(":secret:")) {
          isAssigned = true;
          await store.assignBudget("changed", "late");
        }
        return client.sendCommand([command, ...args]);
      },
    };
    await change(redisStoreAt({ client: late, prefix: place.prefix }).store);
    expect(isAssigned).toBe(true);
    for (const secret of secrets) expect(await store.find(secret)).toMatchObject({ budget: "late" });
  });

  it.each<[string, (store: DurableQuotaStore) => Promise<unknown>]>([
    ["key that is assigned", (store) => store.assignBudget("one", "late")],
    ["key that is added", (store) => store.add({ id: "two", apiKey: "sk-two", budget: "late" })],
    ["child budget", (store) => store.addBudget({ id: "child", amount: 1, parent: "late" })],
  ])("that are removed meanwhile take no %s", async (_name, change) => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "late", amount: 10 });
    await store.add({ id: "one", apiKey: "sk-one" });
    let isRemoved = false;
    let scripts = 0;
    // Removes the budget after the change has read it, and before the change writes.
    const late = {
      async sendCommand([command = "", ...args]: string[]): Promise<unknown> {
        if (!isRemoved && command === "EVALSHA" && ++scripts > 1) {
          isRemoved = true;
          await store.removeBudget("late");
        }
        return client.sendCommand([command, ...args]);
      },
    };
    await expect(change(redisStoreAt({ client: late, prefix: place.prefix }).store)).rejects.toThrow(
      "There is no budget of the id late.",
    );
    expect(isRemoved).toBe(true);
    expect((await store.list()).map(({ id, budget }) => [id, budget])).toEqual([["one", undefined]]);
    expect(await store.find("two")).toBeUndefined();
    expect(await store.listBudgets()).toEqual([]);
  });

  it("are not removed while a key that draws on them is being added", async () => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "team", amount: 10 });
    let removal: Promise<void> | undefined;
    let scripts = 0;
    // Removes the budget when the key is made, and not listed at last.
    const adding = {
      async sendCommand([command = "", ...args]: string[]): Promise<unknown> {
        const answer = await client.sendCommand([command, ...args]);
        if (command === "EVALSHA" && ++scripts > 1) await (removal ??= store.removeBudget("team")).catch(() => {});
        return answer;
      },
    };
    await redisStoreAt({ client: adding, prefix: place.prefix }).store.add({ id: "one", budget: "team" });
    await expect(removal).rejects.toThrow("The budget team cannot be removed: the key one draws on it.");
  });

  it("can be removed again when a removal has died", async () => {
    const { client } = place;
    if (!("sendCommand" in client) || "masters" in client) throw new Error("Not a node-redis client.");
    const { store } = redisStoreAt(place);
    await store.addBudget({ id: "team", amount: 10 });
    let sent = 0;
    const dying = {
      sendCommand: ([command = "", ...args]: string[]): Promise<unknown> =>
        command === "EVALSHA" && sent++ > 0
          ? Promise.reject(new Error("The process has died."))
          : client.sendCommand([command, ...args]),
    };
    await expect(redisStoreAt({ client: dying, prefix: place.prefix }).store.removeBudget("team")).rejects.toThrow(
      "The process has died.",
    );
    expect(await store.budgetReport("team")).toMatchObject({ available: 10 });
    await expect(store.add({ budget: "team" })).rejects.toThrow("There is no budget of the id team.");
    await store.removeBudget("team");
    expect(await store.budgetReport("team")).toMatchObject({ removed: true });
  });

  it("are forgotten with the holds that are pruned", async () => {
    const { store, advance } = redisStoreAt(place);
    await store.addBudget({ id: "team", amount: 100 });
    await store.add({ id: "key", budget: "team" });
    for (const id of ["one", "two"]) {
      await store.reserve(holdOf("key", id, 10));
      await store.settle(id, exactly(5));
    }
    advance(1_000);
    expect(await store.prune({ olderThanMs: 0 })).toBe(2);
    expect(await store.budgetReport("team")).toMatchObject({ used: 10, available: 90 });
    expect(await store.reserve(holdOf("key", "one", 90)), "the id is free again").toEqual({ granted: 90 });
  });
});
