/** Each log of changes finds the changes that match, page by page. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuditLog, AuditPage } from "../../src/ports/audit-log.ts";
import { memoryAuditLog } from "../../src/stores/memory-audit.ts";
import { notedCurrency } from "../../src/stores/noted-currency.ts";
import { sqlAuditLog } from "../../src/stores/sql/index.ts";
import { databases } from "./sql/databases.ts";

const memory = async () => ({ log: memoryAuditLog(), remove: async () => {} });

const LOGS: readonly {
  readonly name: string;
  readonly open: () => Promise<{ readonly log: AuditLog; readonly remove: () => Promise<void> }>;
}[] = [
  { name: "memory", open: memory },
  ...databases
    .filter(({ available }) => available)
    .map((database) => ({
      name: database.name,
      open: async () => {
        const opened = await database.place();
        return { log: sqlAuditLog(opened.options), remove: () => opened.remove() };
      },
    })),
];

describe.each(LOGS)("the log of changes in $name", ({ name, open }) => {
  let log: AuditLog;
  let remove: () => Promise<void>;
  beforeAll(async () => {
    ({ log, remove } = await open());
    for (const [id, at, user, action, target] of [
      ["1", 10, "ann", "keys.create", "team"],
      ["2", 20, "Ann", "keys.create", "Team"],
      ["3", 15, "ann ", "keys.update", "team "],
      ["4", 30, "bob's \"%_\\", "keys.update", "team"],
      ["5", 40, "ann", "budgets.update", undefined],
      ["6", 50, "ann", "keys.update", "team"],
      ["7", 5, "Äñn 🌧", "keys.update", "tëam\0"],
    ] as const)
      await log.begin({ id, at, user, action, ...(target !== undefined && { target }) });
    await log.end("5", { state: "done", target: "late" });
  });
  afterAll(() => remove());

  it.each<[Omit<AuditPage, "limit">, string]>([
    [{}, "7654321"],
    [{ user: "ann" }, "651"],
    [{ user: "Ann" }, "2"],
    [{ user: "ann " }, "3"],
    [{ user: "bob's \"%_\\" }, "4"],
    [{ user: "%" }, ""],
    [{ user: "Äñn 🌧" }, "7"],
    [{ user: "äñn 🌧" }, ""],
    [{ target: "tëam\0" }, "7"],
    [{ target: "team" }, "641"],
    [{ target: "Team" }, "2"],
    [{ target: "late" }, "5"],
    [{ action: "keys.update" }, "7643"],
    [{ action: "keys.%" }, ""],
    [{ since: 20 }, "6542"],
    [{ until: 20 }, "731"],
    [{ since: 15, until: 40 }, "432"],
    [{ since: 15, until: 15 }, ""],
    [{ user: "ann", action: "keys.update", target: "team", since: 50, until: 51 }, "6"],
    [{ user: "ann", before: "6" }, "51"],
    [{ user: "ann", before: "4" }, "1"],
    [{ user: "ann", before: "none" }, ""],
  ])("finds %j", async (page, ids) => {
    const found = await log.list({ ...page, limit: 10 });
    expect(found.map(({ id }) => id).join("")).toBe(ids);
  });

  it("goes on behind the last change of a page", async () => {
    let ids = "";
    for (let before: string | undefined; ;) {
      const [found] = await log.list({ user: "ann", limit: 1, ...(before !== undefined && { before }) });
      if (!found) break;
      ids += before = found.id;
    }
    expect(ids).toBe("651");
  });

  it.each([
    [{ limit: 1, user: 5 }, "list: user must be a text, not a number"],
    [{ limit: 1, since: -1 }, "list: since must be an integer from 0 up, not -1"],
    [{ limit: 1, until: 1.5 }, "list: until must be an integer from 0 up, not 1.5"],
    [{ limit: 1, since: 2, until: 1 }, "list: since must not be after until, but 2 is after 1"],
    [{ limit: 1, who: "ann" }, "list: who does not exist"],
  ])("refuses %j", async (page, message) => {
    await expect(log.list(page as AuditPage)).rejects.toThrow(message);
  });

  it("finds the amounts that commands noted with a currency, behind any number of other changes", async () => {
    const own = await open();
    const note = async (id: string, user: string, changes: object) =>
      own.log.begin({ id, at: 1, user, action: "keys.create", changes: { ...changes } });
    await note("1", "ann (command line)", { granted: 5, currency: "EUR" });
    await note("2", "ann (command line)", { name: "x" });
    await note("3", "ann", { metadata: { currency: "USD" } });
    await note("4", "ann (command line)", { name: '"currency":"USD"' });
    expect((await own.log.list({ limit: 1, hasCurrency: true })).map(({ id }) => id)).toEqual(["1"]);
    expect((await own.log.list({ limit: 9, hasCurrency: false })).length).toBe(4);
    await Promise.all(Array.from({ length: 1_000 }, (_, at) => note(`of-${at}`, "ann", { granted: 5 })));
    await own.log.end("1", { state: "done" });
    expect(await notedCurrency(own.log)).toBe("EUR");
    // Refused lines of an import change nothing.
    const refuse = async (id: string, state: "refused" | "failed") => {
      await note(id, "ann (command line)", { granted: 5, currency: "USD" });
      await own.log.end(id, { state });
    };
    await Promise.all(
      Array.from({ length: 1_001 }, (_, at) => refuse(`refused-${at}`, at % 2 === 0 ? "refused" : "failed")),
    );
    expect(await notedCurrency(own.log)).toBe("EUR");
    await own.remove();
  });

  it("keeps every field of a change, and every former value, of any length", async () => {
    const own = await open();
    const long = "字".repeat(30_000);
    const fields = { models: [long, "small"], name: "A", metadata: { a: long, b: "c" } };
    await own.log.begin({ id: "long", at: 1, user: "ann", action: "keys.update", changes: fields, former: fields });
    const [found] = await own.log.list({ limit: 1 });
    const kept = name === "memory" ? fields : { ...fields, models: ["…", "small"], metadata: { a: "…", b: "c" } };
    expect(found).toMatchObject({ changes: kept, former: kept });
    await own.remove();
  });

  it("keeps all changes that begin and end at the same time, and refuses none of them for a wrong one", async () => {
    const own = await open();
    const ids = Array.from({ length: 200 }, (_, at) => `at-once-${at}`).toSorted();
    const begin = (id: string) => own.log.begin({ id, at: 1_000, user: "many", action: "keys.create" });
    const begun = await Promise.allSettled([...ids, "at-once-7"].map(begin));
    // Memory keeps the later one of two with the same id.
    expect(begun.filter(({ status }) => status === "rejected").length).toBe(name === "memory" ? 0 : 1);
    await Promise.all(
      ids.map((id) =>
        own.log.end(id, id === "at-once-151" ? { state: "refused", reason: "Taken." } : { state: "done", target: id }),
      ),
    );
    const found = await own.log.list({ user: "many", limit: 1_000 });
    expect(found.map(({ id }) => id).toSorted()).toEqual(ids);
    expect(found.find(({ id }) => id === "at-once-150")).toMatchObject({ state: "done", target: "at-once-150" });
    expect(found.find(({ id }) => id === "at-once-151")).toMatchObject({ state: "refused", reason: "Taken." });
    await own.remove();
  });
});
