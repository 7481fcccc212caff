/** The replay store in Redis keeps the laws of its port through every client, and its bounds. */

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { redisReplayStore } from "../../../src/stores/redis/index.ts";
import { replayStoreLaws } from "../../../src/testing/laws/index.ts";
import { filled } from "../replays.ts";
import { drivers, redisAnswers, type RedisPlace, redisReplaysAt } from "./servers.ts";

describe.skipIf(!redisAnswers).each(drivers)("redisReplayStore through $name", (driver) => {
  let place: RedisPlace;
  beforeAll(async () => void (place = await driver.place()));
  afterAll(() => place?.remove());

  it.each(replayStoreLaws)("$name", async (law) => {
    await expect(law.verify(() => redisReplaysAt(place))).resolves.toBeUndefined();
  });

  it("keeps the newest answers of a key within its bounds, and those of other keys", async () => {
    const { store } = redisReplaysAt(place, { maxEntriesPerKey: 10 });
    const other = await filled(store, `other-${randomUUID()}`, 1);
    const states = await filled(store, `key-${randomUUID()}`, 25);
    expect(await states()).toEqual([...Array(15).fill("claimed"), ...Array(10).fill("answered")]);
    expect(await other()).toEqual(["answered"]);
    const bytes = redisReplaysAt(place, { maxBytesPerKey: 10_000 }).store;
    const large = await filled(bytes, `large-${randomUUID()}`, 12, 1_000);
    expect(await large()).toEqual([...Array(8).fill("claimed"), ...Array(4).fill("answered")]);
  });

  it("keeps of an answer that is larger than all room of its key that it was given, and gives up nothing", async () => {
    const { store } = redisReplaysAt(place, { maxBytesPerKey: 20_000 });
    const keyId = `key-${randomUUID()}`;
    const states = [await filled(store, keyId, 2, 1_000), await filled(store, keyId, 1, 50_000, "large")];
    expect((await Promise.all(states.map((state) => state()))).flat()).toEqual(Array(3).fill("answered"));
  });

  it("leaves nothing that Redis would not forget by itself", async () => {
    const { store } = redisReplaysAt(place);
    const keyId = `key-${randomUUID()}`;
    await filled(store, keyId, 3);
    const send = async (...args: string[]): Promise<unknown> => {
      const { client } = place;
      if ("call" in client) return client.call(args[0] ?? "", ...args.slice(1));
      if ("sendCommand" in client && !("masters" in client)) return client.sendCommand(args);
      throw new Error("Not a client that is tested.");
    };
    const names = (await send("KEYS", `${place.prefix}:{${keyId}}:*`)) as string[];
    expect(names).toHaveLength(5);
    for (const name of names) expect(Number(await send("PTTL", name))).toBeGreaterThan(0);
  });

  it.each([{ prefix: "{x}{y}" }, { maxEntriesPerKey: 0 }, { maxBytesPerKey: 0.5 }])("refuses %j", (options) => {
    expect(() => redisReplayStore({ client: place.client, ...options })).toThrow(RangeError);
  });
});
