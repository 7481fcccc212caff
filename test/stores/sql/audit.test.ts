/** The admin's log of changes in each SQL database. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqlAuditLog } from "../../../src/stores/sql/index.ts";
import { databases, type TestPlace } from "./databases.ts";

describe.each(databases.filter(({ available }) => available))("The log of changes in $name", (database) => {
  let place: TestPlace;
  beforeAll(async () => void (place = await database.place()));
  afterAll(() => place.remove());

  it("keeps changes with their ends for every process, the newest first", async () => {
    const [one, other] = [sqlAuditLog(place.options), sqlAuditLog({ ...place.options, db: place.connect() })];
    const changes = { name: "=1+1", metadata: { team: "\0 ü 🌧 '; DROP TABLE keys" }, models: null };
    const odd = "a\0b\ud800 '🌧";
    await one.begin({ id: "1", at: 1_000, user: "ann", action: "keys.create", changes });
    await other.begin({ id: "2", at: 1_000, user: odd, action: "keys.grant", target: odd });
    await one.begin({ id: "3", at: 900, user: "x".repeat(200), action: "keys.revoke", target: "y".repeat(16_000) });
    await other.end("1", { state: "done", target: "team" });
    await one.end("2", { state: "refused", reason: odd });
    await one.end("none", { state: "failed" });
    const stored = "a\uFFFDb\uFFFD '🌧";
    const all = [
      { id: "3", at: 900, user: "x".repeat(200), action: "keys.revoke", target: "y".repeat(16_000) },
      { id: "2", at: 1_000, user: stored, action: "keys.grant", target: stored, state: "refused", reason: stored },
      { id: "1", at: 1_000, user: "ann", action: "keys.create", changes, target: "team", state: "done" },
    ];
    expect(await one.list({ limit: 10 })).toEqual(all);
    expect(await other.list({ limit: 1, before: "3" })).toEqual(all.slice(1, 2));
    expect(await other.list({ limit: 10, before: "1" })).toEqual([]);
    for (const before of ["none", odd, "z".repeat(300)]) expect(await one.list({ limit: 10, before })).toEqual([]);
    // The index of targets has their beginnings alone.
    await one.begin({ id: "4", at: 900, user: "ann", action: "keys.revoke", target: `${"y".repeat(15_999)}Y` });
    const idsOf = async (target: string) => (await one.list({ limit: 10, target })).map(({ id }) => id);
    expect(await idsOf("y".repeat(16_000))).toEqual(["3"]);
    expect(await idsOf(`${"y".repeat(15_999)}Y`)).toEqual(["4"]);
    expect(await idsOf("y".repeat(190))).toEqual([]);
    expect(await idsOf(odd)).toEqual(["2"]);
    await expect(one.list({ limit: 0 })).rejects.toThrow("list: limit must");
  });

  it("keeps the former values of an edit, and marks those that have no room beside the fields", async () => {
    const log = sqlAuditLog(place.options);
    const [small, large] = [{ name: "\0 ü 🌧" }, { name: "ü".repeat(20_000) }];
    for (const [id, changes, former] of [
      ["small", small, { name: null }],
      ["list", { models: ["a"] }, { models: null }],
      ["large", large, large],
      ["none", undefined, undefined],
    ] as const)
      await log.begin({ id, at: 0, user: "ann", action: "keys.update", ...(changes && { changes, former }) });
    const kept = (await log.list({ limit: 4 })).map(({ id, changes, former }) => [id, changes, former]);
    expect(kept).toEqual([
      ["none", undefined, undefined],
      ["large", { name: "…" }, { name: "…" }],
      ["list", { models: ["a"] }, { models: null }],
      ["small", small, { name: null }],
    ]);
  });

  it("keeps changes with longer texts than a column takes, without their ends, and marks long parts of fields", async () => {
    const log = sqlAuditLog(place.options);
    const [long, most] = ["🌧".repeat(20_000), "🌧".repeat(16_383)];
    const changes = { id: "long", models: [long], paused: false };
    await log.begin({ id: "long", at: 0, user: long, action: "keys.update", target: long, changes, former: changes });
    await log.end("long", { state: "refused", reason: long });
    const fields = { ...changes, models: ["…"] };
    const kept = { user: most, target: most, changes: fields, former: fields, reason: most };
    expect(await log.list({ limit: 10, user: long, target: long })).toEqual([
      { id: "long", at: 0, action: "keys.update", state: "refused", ...kept },
    ]);
  });
});
