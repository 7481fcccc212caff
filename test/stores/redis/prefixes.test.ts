/** The memory of prefixes in Redis keeps the laws of its port, and leaves nothing behind. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { redisPrefixMemory } from "../../../src/stores/redis/index.ts";
import { prefixMemoryLaws } from "../prefixes.ts";
import { drivers, redisAnswers, type RedisPlace } from "./servers.ts";

describe.skipIf(!redisAnswers).each(drivers)("redisPrefixMemory through $name", (driver) => {
  let place: RedisPlace;
  beforeAll(async () => void (place = await driver.place()));
  afterAll(() => place?.remove());

  prefixMemoryLaws(() => {
    let ahead = 0;
    const { client, prefix } = place;
    const open = () => redisPrefixMemory({ client, prefix, aheadMs: () => ahead });
    return { memory: open(), other: open(), advance: (ms) => void (ahead += ms) };
  });

  it("leaves nothing that Redis would not forget by itself, and shortens no life", async () => {
    const { client, prefix } = place;
    const memory = redisPrefixMemory({ client, prefix });
    await memory.note("kept", "one", [{ id: 1, lifetimeMs: 3_600_000 }]);
    await memory.note("kept", "two", [{ id: 1, lifetimeMs: 1_000 }]);
    if (!("call" in client)) return;
    const names = (await client.call("KEYS", `${prefix}:{kept}:*`)) as string[];
    expect(names).toHaveLength(1);
    const left = Number(await client.call("PTTL", names[0] ?? ""));
    expect(left).toBeGreaterThan(3_600_000);
    expect(left).toBeLessThanOrEqual(12 * 3_600_000);
  });
});
