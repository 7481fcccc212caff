/** The record of calls in each SQL database: its sums agree with the ledger, whatever happens to the processes. */

import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CallRecord } from "../../../src/index.ts";
import type { CallFilter, UsageQuery } from "../../../src/stores/calls.ts";
import {
  sqlAuditLog,
  sqlCallLog,
  type SqlCallLog,
  type SqlCallLogOptions,
  verifyLedger,
} from "../../../src/stores/sql/index.ts";
import { USAGE_SUMS } from "../../../src/stores/sql/tables.ts";
import { databases, type TestPlace } from "./databases.ts";
import { storeAt } from "./open.ts";

const MONTH = { period: "month", timeZone: "Europe/Berlin" } as const;
/** The first second of December in Berlin, which is still November in UTC. */
const DECEMBER = Date.parse("2026-11-30T23:00:00Z");

const recordOf = (requestId: string, record: Partial<CallRecord> = {}): CallRecord => ({
  requestId,
  context: undefined,
  key: { id: "team", name: "Team", budget: undefined, metadata: undefined },
  format: "messages",
  method: "POST",
  route: "/v1/messages",
  modelAsked: "large",
  modelListed: true,
  modelAnswered: "large-2026",
  stream: false,
  usage: {
    inputTokens: 70,
    outputTokens: 30,
    cacheReadTokens: 50,
    cacheWriteTokens: 10,
    reasoningTokens: 5,
  },
  images: undefined,
  units: 100,
  currency: undefined,
  certainty: "exact",
  replayOf: undefined,
  outcome: "completed",
  status: 200,
  errorCode: undefined,
  errorPath: undefined,
  errorMessage: undefined,
  affordedOutputTokens: undefined,
  refusedBy: undefined,
  beganAt: DECEMBER,
  firstEventMs: 12,
  endMs: 340,
  attempts: [],
  dropped: [],
  droppedFromAnswer: [],
  ...record,
});

const callId = (): string => `req_${crypto.randomUUID().replaceAll("-", "")}`;
const holdOf = (id: string, number: number): string => (number === 1 ? id : `${id}-${number}`);
const keyOf = (id: string) => ({ id, name: "n", budget: undefined, metadata: undefined });

const unitsOf = async (log: SqlCallLog, key: string): Promise<number> => (await log.usage({ key })).total.units;

describe.each(databases.filter(({ available }) => available))("The record of calls in $name", (database) => {
  let place: TestPlace;
  beforeAll(async () => void (place = await database.place()));
  afterAll(() => place.remove());

  /** A log whose database clock is minutes ahead, so that no resolved hold is too young to compare. */
  const logAt = (options: Partial<SqlCallLogOptions> = {}): SqlCallLog =>
    sqlCallLog({ ...place.options, clock: (now) => sql`(${now} + 120000)`, ...options });

  /** Compares from the beginning: another test has compared up to a time that its clock was ahead. */
  const compareAnew = () => sql`UPDATE ${sql.table(`${place.prefix}usage_mark`)} SET at = 0`.execute(place.db);

  /** Charges holds of a call. Leaves the last live where `isLive`. */
  async function charge(id: string, keyId: string, units: readonly number[], isLive = false): Promise<void> {
    const { store } = storeAt(place);
    for (const [at, used] of units.entries()) {
      const hold = holdOf(id, at + 1);
      await store.reserve({ id: hold, keyId, atLeast: 1, atMost: 500, leaseMs: 60_000 });
      if (!isLive || at < units.length - 1) await store.settle(hold, { used, certainty: "exact" });
    }
  }

  let keys = 0;
  const newKey = async (options: object = {}): Promise<string> => {
    const id = `key-${keys++}`;
    await storeAt(place).store.add({ id, granted: 1_000_000, ...options });
    return id;
  };

  it("leaves out what a GET has answered, and keeps what it was refused", async () => {
    const log = logAt();
    const free = { method: "GET", route: "/v1/models", units: 0, modelAsked: undefined, usage: undefined };
    log.onCall(recordOf("answered-list", free));
    log.onCall(recordOf("refused-list", { ...free, outcome: "refused" }));
    log.onCall(recordOf("socket-message", { ...free, modelAsked: "large" }));
    await log.onCall.flush();
    expect(await log.find("answered-list")).toBeUndefined();
    for (const id of ["refused-list", "socket-message"]) expect(await log.find(id)).toMatchObject({ requestId: id });
  });

  it("sums up groups, models and upstreams that differ by a space at their end as one, in every database", async () => {
    const key = await newKey();
    const log = logAt({ groupOf: ({ requestId }) => (requestId.endsWith("1") ? "acme " : "acme") });
    for (const at of [0, 1])
      log.onCall(recordOf(`space-${at}`, { key: keyOf(key), modelAsked: at === 1 ? "large " : "large", attempts: [] }));
    await log.onCall.flush();
    const { rows } = await log.usage({ by: ["group", "model"], key });
    expect(rows).toMatchObject([{ group: "acme", model: "large", calls: 2 }]);
  });

  it("sums up the calls below a budget with more chains than a statement has parameters", async () => {
    const own = await database.place();
    // The driver of MySQL writes the values into the statement.
    const count = { sqlite: 33_000, postgres: 66_000, mysql: 1_000 }[database.dialect];
    const table = sql.table(`${own.prefix}usage_days`);
    const sums = sql.raw(USAGE_SUMS.join(", "));
    const ones = sql.raw(USAGE_SUMS.map(() => "1").join(", "));
    for (let from = 0; from < count; from += 1_000) {
      const rows = Array.from({ length: 1_000 }, (_, at) => {
        const chain = JSON.stringify([`user-${from + at}`, "company"]);
        return sql`(${`${from + at}`}, 'one', '2026-11-30', ${chain}, 'g', 'm', 'u', ${ones})`;
      });
      await sql`INSERT INTO ${table} (id, key_id, day, budgets, group_name, model, upstream, ${sums}) VALUES ${sql.join(rows)}`.execute(
        own.db,
      );
    }
    const log = sqlCallLog(own.options);
    expect((await log.usage({ budget: "company" })).total.calls).toBe(count);
    expect((await log.usage({ budget: "company", ownBudget: "user-7" })).total.calls).toBe(1);
    expect(await log.list({ budget: "company" })).toEqual([]);
    await log.close();
    await own.remove();
  });

  it("finds a call by the beginning of its id, if no other id begins so", async () => {
    const log = logAt();
    const [one, two] = ["0", "f"].map((digit) => `req_0123456789ab${digit.repeat(20)}`);
    for (const id of [one, two, "req_fedcba98-mine"]) log.onCall(recordOf(id ?? ""));
    await log.onCall.flush();
    for (const id of ["req_0123456789abf", "0123456789abf", two?.slice("req_".length) ?? ""])
      expect(await log.find(id)).toMatchObject({ requestId: two });
    await expect(log.find("req_01234567")).rejects.toThrow(
      new RangeError("The ids of several calls begin with req_01234567. Give more of the id."),
    );
    // Too short, of another kind, and no beginning of any id.
    for (const id of ["req_0123456", "0123456", "req_fedcba98-min", "req_0123456789abc", "0123456789abc"])
      expect(await log.find(id)).toBeUndefined();
  });

  it("keeps each column of a call, and neither prompt nor secret", async () => {
    const log = logAt({ currency: "usd" });
    const id = await newKey();
    const attempt = { upstream: "first", model: "m", beganAt: 5, endMs: 7 };
    const refusedBy = { kind: "tokens", needed: 9, available: 2, limit: 10, windowMs: 60_000, endsAt: 99 } as const;
    log.onCall(
      recordOf("whole", {
        key: { id, name: "n", budget: undefined, metadata: { group: "blue", plan: "gold" } },
        attempts: [
          { ...attempt, status: 503, errorCode: "backend_failed", movedOn: "failed", usage: undefined },
          { ...attempt, upstream: "second", status: 200, errorCode: undefined, movedOn: undefined, usage: undefined },
        ],
        refusedBy,
        errorCode: "rate_limited",
        errorPath: ["messages", 2, "content"],
        errorMessage: `messages.2.content: is too long${"…".repeat(500)}`,
        affordedOutputTokens: 498,
        images: { count: 2, usage: { inputTextTokens: 1, inputImageTokens: 2, outputTokens: 3 } },
        replayOf: "earlier",
        certainty: "estimated",
      }),
    );
    await log.onCall.flush();
    expect(await log.find("whole")).toEqual({
      requestId: "whole",
      at: DECEMBER,
      day: "2026-11-30",
      keyId: id,
      keyName: id,
      budgets: [],
      group: "blue",
      metadata: { group: "blue", plan: "gold" },
      format: "messages",
      route: "POST /v1/messages",
      modelAsked: "large",
      modelAnswered: "large-2026",
      stream: false,
      upstream: "second",
      attempts: [
        { ...attempt, status: 503, errorCode: "backend_failed", movedOn: "failed" },
        { ...attempt, upstream: "second", status: 200 },
      ],
      outcome: "completed",
      status: 200,
      errorCode: "rate_limited",
      errorField: "messages.2.content",
      errorMessage: `messages.2.content: is too long${"…".repeat(469)}`,
      affordedOutputTokens: 498,
      refusedBy,
      inputTokens: 70,
      outputTokens: 30,
      cacheReadTokens: 50,
      cacheWriteTokens: 10,
      reasoningTokens: 5,
      images: 2,
      units: 100,
      money: "0.000100",
      estimated: 100,
      currency: "USD",
      replayOf: "earlier",
      firstEventMs: 12,
      endMs: 340,
    });
    expect(await log.find("nobody")).toBeUndefined();
  });

  it("lets other work run while it sums up many rows", async () => {
    const own = await database.place();
    const log = sqlCallLog(own.options);
    for (let at = 0; at < 1_600; at++) {
      const key = { id: `many-${at}`, name: "n", budget: undefined, metadata: undefined };
      log.onCall(recordOf(`many-${at}`, { key }));
    }
    await log.onCall.flush();
    let turns = 0;
    let turning: NodeJS.Immediate | undefined;
    const turn = (): void => {
      turns++;
      turning = setImmediate(turn);
    };
    turn();
    const { rows } = await log.usage({ by: ["key"], limit: 2_000 });
    clearImmediate(turning);
    await own.remove();
    expect(rows).toHaveLength(1_600);
    // Another one for the rows after the first 1,000, and three for the names of 1,600 keys.
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  it("counts a call once, however often it is told", async () => {
    const [one, other] = [logAt(), logAt()];
    const id = await newKey();
    const record = recordOf("twice", { key: { id, name: "n", budget: undefined, metadata: undefined } });
    one.onCall(record);
    one.onCall(record);
    other.onCall(record);
    await Promise.all([one.onCall.flush(), other.onCall.flush()]);
    await one.onCall.flush();
    expect((await one.usage({ key: id, by: ["model"] })).rows).toEqual([
      expect.objectContaining({ model: "large", calls: 1, units: 100, inputTokens: 70 }),
    ]);
  });

  it("agrees with the ledger to the unit, after crashes, late settlements and races of two processes", async () => {
    type Fate = "settled" | "crashed" | "late" | "abandoned" | "refused";
    const fate = fc.constantFrom<Fate>("settled", "crashed", "late", "abandoned", "refused");
    const calls = fc.array(fc.record({ fate, used: fc.nat(400), noted: fc.nat(300) }), { minLength: 1, maxLength: 12 });
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(calls, async (fates) => {
        const run = runs++;
        const budget = `budget-${run}`;
        const { store, advance } = storeAt(place);
        const other = storeAt(place);
        await store.addBudget({ id: budget, amount: 1_500, ...MONTH });
        const id = await newKey({ granted: 1_000, used: 20, budget });
        const key = { id, name: "n", budget, metadata: undefined };
        const logs = [logAt(), logAt()] as const;
        const late: (() => Promise<void>)[] = [];
        await Promise.all(
          fates.map(async ({ fate, used, noted }, index) => {
            const callId = `call-${run}-${index}`;
            const hold = { id: callId, keyId: id, atLeast: 1, atMost: 200, leaseMs: 60_000 };
            const answer = await (index % 2 ? store : other.store).reserve(hold);
            const record = recordOf(callId, { key, units: used });
            const log = logs[index % 2] ?? logs[0];
            if (answer.refused || fate === "refused") {
              log.onCall(recordOf(callId, { key, units: 0, outcome: "refused", status: 429 }));
              if (!answer.refused) await store.settle(callId, { used: 0, certainty: "exact" });
              return;
            }
            await store.renew(callId, { leaseMs: 60_000, used: noted });
            const settle = () => store.settle(callId, { used, certainty: "exact" });
            if (fate === "settled") await settle();
            if (fate !== "crashed") log.onCall(record);
            if (fate === "late") late.push(settle);
          }),
        );
        await Promise.all(logs.map((log) => log.onCall.flush()));
        advance(61_000);
        other.advance(61_000);
        await store.sweep();
        await compareAnew();
        await Promise.all(logs.map((log) => log.sweep()));
        await Promise.all(late.map((settle) => settle()));
        // The mark of the last comparison is a minute behind the clock of the log, and these settlements come after it.
        const later = logAt({ clock: (now) => sql`(${now} + 600000)` });
        await Promise.all([later.sweep(), later.sweep()]);
        const report = await store.report(id);
        const books = await store.budgetReport(budget);
        const expected = (report?.used ?? 0) - (report?.held ?? 0) + (report?.overdraft ?? 0) - 20;
        expect(await unitsOf(later, id)).toBe(expected);
        expect((await later.usage({ budget })).total.units).toBe((books?.used ?? 0) + (books?.overdraft ?? 0));
        const rows = (await later.usage({ key: id, by: ["day", "model", "upstream"] })).rows;
        expect(rows.reduce((sum, { units }) => sum + units, 0)).toBe(expected);
        expect(rows.reduce((sum, { calls }) => sum + calls, 0)).toBe((await later.list({ key: id })).length);
        for (const log of logs) await log.close();
      }),
      { numRuns: 8 },
    );
    const { db, dialect, prefix } = place;
    expect(await verifyLedger(db, { dialect, prefix })).toEqual([]);
  });

  it("takes the currency of the gateway's prices, also for a charge without a call, unless it has its own", async () => {
    const { store } = storeAt(place);
    const id = await newKey();
    const key = { id, name: "n", budget: undefined, metadata: undefined };
    const log = logAt({ clock: (now) => sql`(${now} + 1200000)` });
    log.onCall(recordOf("priced", { key, currency: "GBP", beganAt: DECEMBER + 8e11 }));
    await log.onCall.flush();
    await store.reserve({ id: "priced-silent", keyId: id, atLeast: 1, atMost: 50, leaseMs: 60_000 });
    await store.settle("priced-silent", { used: 42, certainty: "exact" });
    await compareAnew();
    await log.sweep();
    expect(await log.list({ key: id })).toMatchObject([{ currency: "GBP" }, { currency: "GBP", units: 42 }]);
    const own = logAt({ currency: "eur" });
    own.onCall(recordOf("own-currency", { key, currency: "GBP" }));
    await own.onCall.flush();
    expect(await own.find("own-currency")).toMatchObject({ currency: "EUR" });
  });

  it("tells each process once when it records calls in another currency than earlier ones, or in none", async () => {
    const own = await database.place();
    const told: unknown[] = [];
    const onError = (error: unknown): void => void told.push(error);
    const processes = [[undefined], ["USD"], ["USD"], ["EUR", "EUR"], ["EUR"], [undefined, undefined], [undefined]];
    const counts: number[] = [];
    for (const [at, currencies] of processes.entries()) {
      const log = sqlCallLog({ ...own.options, onError });
      for (const [index, currency] of currencies.entries())
        log.onCall(recordOf(`mixed-${at}-${index}`, { currency, beganAt: DECEMBER + at }));
      await log.close();
      counts.push(told.length);
    }
    await own.remove();
    expect(counts).toEqual([0, 0, 0, 1, 1, 2, 2]);
    expect(told).toEqual([
      new Error(
        "Reports and budgets add up EUR and USD: calls are recorded in EUR, and earlier ones in USD. Give the gateway prices in USD, or a store of its own.",
      ),
      new Error(
        "Reports and budgets add up units and EUR: calls are recorded without a currency, and earlier ones in EUR. Give the gateway prices in EUR, or a store of its own.",
      ),
    ]);
  });

  it.each([
    [undefined, "units and USD: calls are recorded without a currency"],
    ["EUR", "EUR and USD: calls are recorded in EUR"],
    ["USD", undefined],
  ])("tells of calls in %s where amounts were given in another currency", async (currency, words) => {
    const own = await database.place();
    const audit = sqlAuditLog(own.options);
    const noted = { id: "noted", at: DECEMBER, user: "anna (command line)", action: "budgets.create" };
    await audit.begin({ ...noted, changes: { amount: 5, currency: "USD" } });
    await audit.end("noted", { state: "done" });
    const told: unknown[] = [];
    const log = sqlCallLog({ ...own.options, onError: (error) => void told.push(error) });
    for (const id of ["first", "second"]) {
      log.onCall(recordOf(id, { currency }));
      await log.onCall.flush();
    }
    await log.close();
    await own.remove();
    const whole = `Reports and budgets add up ${words}, and amounts were given in USD. Give the gateway prices in USD, or a store of its own.`;
    expect(told).toEqual(words === undefined ? [] : [new Error(whole)]);
  });

  it("records calls in a database whose log of changes was removed", async () => {
    const own = await database.place();
    await sql`DROP TABLE ${sql.table(`${own.prefix}audit`)}`.execute(own.db);
    const told: unknown[] = [];
    const log = sqlCallLog({ ...own.options, onError: (error) => void told.push(error) });
    log.onCall(recordOf("kept"));
    await log.close();
    expect(await log.find("kept")).toMatchObject({ units: 100 });
    expect(told).toEqual([]);
    await own.remove();
  });

  it("replaces an unrecorded charge by its call when the call is told after all", async () => {
    const { store } = storeAt(place);
    const id = await newKey();
    await store.reserve({ id: "silent", keyId: id, atLeast: 1, atMost: 50, leaseMs: 60_000 });
    await store.settle("silent", { used: 42, certainty: "exact" });
    const log = logAt({ clock: (now) => sql`(${now} + 1200000)`, currency: "usd" });
    await compareAnew();
    expect(await log.sweep()).toBeGreaterThan(0);
    expect(await log.sweep()).toBe(0);
    const charge = { outcome: "unrecorded", units: 42, keyId: id, status: 0, currency: "USD" };
    expect(await log.find("silent")).toMatchObject(charge);
    log.onCall(recordOf("silent", { key: { id, name: "n", budget: undefined, metadata: undefined }, units: 41 }));
    await log.onCall.flush();
    expect(await log.find("silent")).toMatchObject({ outcome: "completed", units: 42, modelAsked: "large" });
    const { rows } = await log.usage({ key: id, by: ["model"] });
    expect(rows.filter(({ calls }) => calls > 0)).toEqual([expect.objectContaining({ model: "large", units: 42 })]);
  });

  describe("of a call with several holds", () => {
    it("adds their charges up, and finds it by each of them", async () => {
      const [key, id, log] = [await newKey(), callId(), logAt()];
      await charge(id, key, [40, 30, 20]);
      log.onCall(recordOf(id, { key: keyOf(key), units: 90, holds: 3 }));
      await log.onCall.flush();
      await compareAnew();
      await log.sweep();
      for (const number of [1, 2, 3])
        expect(await log.find(holdOf(id, number))).toMatchObject({ requestId: id, units: 90 });
      expect((await log.usage({ key })).total).toMatchObject({ calls: 1, units: 90 });
    });

    it("corrects it by all of them, once the last has ended", async () => {
      const [key, id, log] = [await newKey(), callId(), logAt()];
      await charge(
        id,
        key,
        Array.from({ length: 12 }, () => 10),
        true,
      );
      log.onCall(recordOf(id, { key: keyOf(key), units: 125, holds: 12 }));
      await log.onCall.flush();
      await compareAnew();
      await log.sweep();
      expect(await log.find(id)).toMatchObject({ units: 125 });
      await storeAt(place).store.settle(holdOf(id, 12), { used: 3, certainty: "exact" });
      await compareAnew();
      expect(await log.sweep()).toBeGreaterThan(0);
      expect(await log.find(id)).toMatchObject({ units: 113 });
      await compareAnew();
      expect(await log.sweep()).toBe(0);
    });

    it("has one unrecorded charge where its process has died, also with nothing in the last", async () => {
      const [key, id, log] = [await newKey(), callId(), logAt()];
      await charge(id, key, [40, 30, 0], true);
      await compareAnew();
      await log.sweep();
      expect(await log.list({ key }), "the call goes on").toEqual([]);
      await storeAt(place).store.settle(holdOf(id, 3), { used: 0, certainty: "exact" });
      await compareAnew();
      expect(await log.sweep()).toBeGreaterThan(0);
      expect(await log.list({ key })).toMatchObject([{ requestId: id, outcome: "unrecorded", units: 70 }]);
      const silent = callId();
      await charge(silent, key, [40, 0]);
      // Only the last hold is new since the last comparison.
      await sql`UPDATE ${sql.table(`${place.prefix}holds`)} SET resolved_at = 1 WHERE id = ${silent}`.execute(place.db);
      await sql`UPDATE ${sql.table(`${place.prefix}usage_mark`)} SET at = 1`.execute(place.db);
      await log.sweep();
      expect(await log.find(silent)).toMatchObject({ outcome: "unrecorded", units: 40 });
    });

    it("leaves the units of its record where another hold is in a block", async () => {
      const [key, id, log] = [await newKey(), callId(), logAt()];
      const { store } = storeAt(place);
      await store.reserve({ id: holdOf(id, 2), keyId: key, atLeast: 1, atMost: 500, leaseMs: 60_000 });
      await store.settle(holdOf(id, 2), { used: 30, certainty: "exact" });
      log.onCall(recordOf(id, { key: keyOf(key), units: 70, holds: 2 }));
      await log.onCall.flush();
      await compareAnew();
      await log.sweep();
      expect(await log.find(id)).toMatchObject({ units: 70 });
    });
  });

  it("puts a call into the period and the local day of the budget that is charged", async () => {
    const { store } = storeAt(place);
    await store.addBudget({ id: "company", amount: 1_000_000, ...MONTH });
    await store.addBudget({ id: "team", amount: 1_000_000, period: "day", parent: "company" });
    const id = await newKey({ budget: "team" });
    await store.reserve({ id: "border", keyId: id, atLeast: 1, atMost: 50, leaseMs: 60_000 });
    await store.settle("border", { used: 7, certainty: "exact" });
    const { startsAt = 0, endsAt = 0 } = (await store.budgetReport("team")) ?? {};
    const log = logAt();
    const key = { id, name: "n", budget: "team", metadata: undefined };
    // By the clock of the gateway, the calls began just before the period, and just after it.
    log.onCall(recordOf("border", { key, beganAt: startsAt - 5 }));
    await log.onCall.flush();
    expect(await log.find("border")).toMatchObject({ at: startsAt, budgets: ["team", "company"], units: 7 });
    await store.reserve({ id: "ahead", keyId: id, atLeast: 1, atMost: 50, leaseMs: 60_000 });
    log.onCall(recordOf("ahead", { key, beganAt: endsAt + 5 }));
    await log.onCall.flush();
    const ahead = await log.find("ahead");
    expect(ahead?.at).toBe(endsAt - 1);
    expect(ahead?.day).toBe((await log.find("border"))?.day);
    expect(ahead?.day).toBe(new Intl.DateTimeFormat("sv-SE", { timeZone: "Europe/Berlin" }).format(startsAt));
    expect((await log.usage({ budget: "company", by: ["budget"] })).rows).toMatchObject([{ budget: "team", calls: 2 }]);
    expect((await log.usage({ budget: "eam" })).total.calls).toBe(0);
  });

  it("puts a call under no budget when its key was moved out of one before the charge, and the reverse", async () => {
    const { store } = storeAt(place);
    const [team, log] = [await store.addBudget({ id: `team-${keys}`, amount: 1_000_000 }), logAt()];
    const key = await newKey();
    const [outside, inside] = [callId(), callId()];
    await charge(outside, key, [7]);
    await store.assignBudget(key, team.id);
    await charge(inside, key, [5]);
    // The records have the budget that the key had when it was found.
    log.onCall(
      recordOf(outside, { key: { ...keyOf(key), budget: team.id }, units: 7, beganAt: DECEMBER - 86_400_000 }),
    );
    log.onCall(recordOf(inside, { key: keyOf(key), units: 5, beganAt: DECEMBER - 86_400_000 }));
    await log.onCall.flush();
    const { rows } = await log.usage({ by: ["budget"], key });
    expect(rows).toMatchObject([
      { budget: "", units: 7 },
      { budget: team.id, units: 5 },
    ]);
    expect((await store.budgetReport(team.id))?.used).toBe(5);
  });

  it("tells the time zone of the days where all budgets of a query have the same one", async () => {
    const own = await database.place();
    const { store } = storeAt(own);
    const [day, log] = [{ period: "day" } as const, sqlCallLog(own.options)];
    await store.addBudget({ id: "all", amount: 1_000, ...day, timeZone: "Europe/Berlin" });
    await store.addBudget({ id: "near", amount: 1_000, ...day, parent: "all" });
    await store.addBudget({ id: "far", amount: 1_000, ...day, timeZone: "Asia/Tokyo", parent: "all" });
    const zoneOf = async (query: UsageQuery): Promise<string | undefined> => (await log.usage(query)).timeZone;
    const call = async (budget: string | undefined): Promise<void> => {
      log.onCall(recordOf(`of-${budget}`, { key: { id: "k", name: "k", budget, metadata: undefined } }));
      await log.onCall.flush();
    };
    await call("all");
    await call("near");
    await call(undefined);
    expect(await zoneOf({ by: ["key"], budget: "all" })).toBe("Europe/Berlin");
    await call("far");
    expect(await zoneOf({ by: ["key"], budget: "all" })).toBeUndefined();
    expect(await zoneOf({ by: ["key"], budget: "far" })).toBe("Asia/Tokyo");
    expect(await zoneOf({ by: ["key"], ownBudget: "all" })).toBe("Europe/Berlin");
    expect(await zoneOf({ by: ["key"], ownBudget: "" })).toBeUndefined();
    expect(await zoneOf({ by: ["key"], budget: "none" })).toBeUndefined();
    expect(await zoneOf({ by: ["key"] })).toBeUndefined();
    await log.close();
    await own.remove();
  });

  it("keeps sums apart by each column exactly, and filters and pages them", async () => {
    const log = logAt({ groupOf: ({ key }) => key?.name });
    const id = await newKey();
    const odd = ["Large", "large", "l'arge", '"', "%"];
    for (const [index, model] of odd.entries()) {
      const key = { id, name: index % 2 ? "one" : "two", budget: undefined, metadata: undefined };
      log.onCall(recordOf(`odd-${index}`, { key, modelAsked: model, units: index + 1 }));
    }
    log.onCall(
      recordOf("bad", {
        key: { id, name: "\0\uD800", budget: undefined, metadata: undefined },
        units: 0,
        outcome: "failed",
        status: 500,
      }),
    );
    await log.onCall.flush();
    const { rows, total } = await log.usage({ key: id, by: ["model", "group"], limit: 4, offset: 1 });
    expect(total).toMatchObject({ calls: 6, units: 15, failed: 1 });
    const all = (await log.usage({ key: id, by: ["model", "group"] })).rows;
    expect(rows).toEqual(all.slice(1, 5));
    expect(new Set(all.map(({ model }) => model))).toEqual(new Set(odd));
    expect((await log.usage({ key: id, model: "Large" })).total).toMatchObject({ calls: 1, units: 1 });
    expect((await log.usage({ key: id, group: "one" })).total).toMatchObject({ calls: 2, units: 6 });
    expect((await log.usage({ key: id, by: ["month", "key"] })).rows).toMatchObject([
      { month: "2026-11", key: id, calls: 6 },
    ]);
    expect((await log.usage({ key: id, by: ["month"], charged: true })).rows).toHaveLength(1);
    const charged = await log.usage({ key: id, by: ["model", "group"], charged: true });
    expect(charged.rows).toEqual(all.filter(({ units }) => units > 0));
    expect(charged.total).toEqual(total);
    expect((await log.usage({ key: id, since: "2026-12-01" })).total.calls).toBe(0);
    expect((await log.usage({ key: id, since: "2026-11-30", until: "2026-11-30" })).total.calls).toBe(6);
    await expect(log.usage({ by: ["colour" as "key"] })).rejects.toThrow("by must name day, month, key");
    await expect(log.usage({ key: "a\0b" })).rejects.toThrow("usage: key must be plain text");
    await expect(log.list({ outcome: "lost" as "failed" })).rejects.toThrow("outcome");
    await expect(log.list({ outcome: ["failed", "lost"] as never })).rejects.toThrow("outcome");
    expect(await log.find("a\0b")).toBeUndefined();
    await expect(log.usage({ since: "2026-02-30" })).rejects.toThrow("since must be a day");
    const behind = { since: "2026-12-01", until: "2026-11-30" };
    await expect(log.usage(behind)).rejects.toThrow("usage: since must not be after until");
  });

  it("names every currency of the charges that a report adds up, also when the calls are deleted", async () => {
    const own = await database.place();
    const log = sqlCallLog({ ...own.options, keepDays: 1, onError: () => {} });
    const ofCall = (id: string, model: string, currency: string | undefined, units: number, days = 0): void =>
      log.onCall(recordOf(id, { modelAsked: model, currency, units, beganAt: DECEMBER - (100 + days) * 86_400_000 }));
    ofCall("of-euros", "small", "EUR", 30, 1);
    ofCall("of-dollars", "large", "USD", 60);
    ofCall("free", "large", "GBP", 0);
    // The latest call is in dollars.
    await log.onCall.flush();
    const [whole, large, small] = [
      { currency: "USD", otherCurrencies: ["EUR"], total: { units: 90, money: "0.000090" } },
      { currency: "USD", total: { units: 60 } },
      { currency: "EUR", total: { units: 30, money: "0.000030" } },
    ];
    for (const _ of ["recorded", "deleted"]) {
      expect(await log.usage({ by: ["budget", "model"] })).toMatchObject(whole);
      const ofLarge = await log.usage({ model: "large" });
      expect(ofLarge).toMatchObject(large);
      expect(ofLarge).not.toHaveProperty("otherCurrencies");
      const ofSmall = await log.usage({ until: "2026-08-21", by: ["model"] });
      expect(ofSmall).toMatchObject({ ...small, rows: [{ model: "small", money: "0.000030" }] });
      expect(ofSmall).not.toHaveProperty("otherCurrencies");
      await sql`DELETE FROM ${sql.table(`${own.prefix}calls`)}`.execute(own.db);
    }
    ofCall("of-units", "large", undefined, 70);
    await log.close();
    expect(await log.usage()).toMatchObject({ otherCurrencies: ["USD", "EUR"], total: { units: 160 } });
    expect(await log.usage()).not.toHaveProperty("currency");
    expect(await log.usage({ model: "small" })).toMatchObject({ currency: "EUR" });
    await own.remove();
  });

  it("knows no currency of a charge that has left no record before any call has told one", async () => {
    const own = await database.place();
    const { store } = storeAt(own);
    await store.add({ id: "lost", granted: 1_000 });
    await store.reserve({ id: "lost-call", keyId: "lost", atLeast: 1, atMost: 50, leaseMs: 60_000 });
    await store.settle("lost-call", { used: 42, certainty: "exact" });
    const log = sqlCallLog({ ...own.options, clock: (now) => sql`(${now} + 120000)` });
    await log.sweep();
    log.onCall(recordOf("known", { currency: "USD", units: 5, beganAt: Date.now() + 3_600_000 }));
    await log.close();
    const report = await log.usage();
    expect(report).toMatchObject({ currency: "USD", total: { calls: 2, units: 47, money: "0.000047" } });
    expect(report).not.toHaveProperty("otherCurrencies");
    await own.remove();
  });

  it("names keys and budgets, and the currency of the report", async () => {
    const { store } = storeAt(place);
    await store.addBudget({ id: "named", name: "Named", amount: 1_000 });
    const id = await newKey({ name: "Anna", budget: "named" });
    const log = logAt({ currency: "eur" });
    const key = { id, name: "old name", budget: "named", metadata: undefined };
    log.onCall(recordOf("named-call", { key, units: 5, beganAt: DECEMBER + 9e11 }));
    await log.onCall.flush();
    const report = await log.usage({ by: ["key", "budget"], key: id });
    expect(report).toMatchObject({
      rows: [{ key: id, keyName: "Anna", budget: "named", budgetName: "Named", units: 5, money: "0.000005" }],
      total: { units: 5, money: "0.000005" },
    });
    expect(report.currency).toBe("EUR");
    expect(await log.find("named-call")).toMatchObject({ keyId: id, keyName: "Anna" });
    expect(await log.list({ key: id })).toMatchObject([{ requestId: "named-call", keyName: "Anna" }]);
    const unknown = { id: "not-here", name: "n", budget: undefined, metadata: undefined };
    log.onCall(recordOf("nameless-call", { key: unknown }));
    await log.onCall.flush();
    const { rows } = await log.usage({ by: ["budget", "key"], key: "not-here" });
    expect(rows).toMatchObject([{ key: "not-here", keyName: "", budget: "", budgetName: "" }]);
    expect(await log.find("nameless-call")).not.toHaveProperty("keyName");
  });

  it("compares more holds than fit into a transaction, and those of one moment", async () => {
    const { store } = storeAt(place);
    const id = await newKey();
    await store.reserve({ id: "many-0", keyId: id, atLeast: 1, atMost: 5, leaseMs: 60_000 });
    await store.settle("many-0", { used: 3, certainty: "exact" });
    const holds = `${place.prefix}holds`;
    const db = place.db.withTables<Record<string, { id: string; resolved_at: number }>>();
    const hold = await db.selectFrom(holds).selectAll().where("id", "=", "many-0").executeTakeFirstOrThrow();
    const copies = Array.from({ length: 229 }, (_, at) => ({ ...hold, id: `many-${at + 1}` }));
    await db.insertInto(holds).values(copies).execute();
    await db.updateTable(holds).set({ resolved_at: 77 }).where("id", "like", "many-%").execute();
    await compareAnew();
    const log = logAt();
    await log.sweep();
    expect((await log.usage({ key: id })).total).toMatchObject({ calls: 230, units: 690 });
    expect(await log.sweep()).toBe(0);
  });

  it("records a call whose group cannot be told", async () => {
    const id = await newKey();
    const log = logAt({
      groupOf: () => {
        throw new Error("The host's own.");
      },
    });
    log.onCall(recordOf("no-group", { key: { id, name: "n", budget: undefined, metadata: undefined } }));
    await log.onCall.flush();
    expect(await log.find("no-group")).not.toHaveProperty("group");
  });

  it("keeps of long texts only the parts that it writes", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const log = logAt({ flushMs: 3_600_000 });
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < 50; at++)
      log.onCall(recordOf(`long-${at}`, { modelAnswered: JSON.parse(`"${at}${"m".repeat(1_000_000)}"`) as string }));
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
    await log.onCall.flush();
    expect((await log.find("long-7"))?.modelAnswered).toBe(`7${"m".repeat(255)}`);
  });

  it("takes any text and any number, so that no call holds up the others or makes them unreadable", async () => {
    // Calls of 1970 would change the reports of other tests.
    const own = await database.place();
    const id = "team";
    const key = { id, name: "n", budget: undefined, metadata: undefined };
    const texts = ["\0", "a\ud800", "\udfff\ud800\0", "m".repeat(100_000), "𝄞".repeat(300)];
    const numbers = [Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, 2 ** 53, 2 ** 63, -(2 ** 63), 1e300];
    const fields: readonly ((hostile: never) => Partial<CallRecord>)[] = [
      (errorCode) => ({ errorCode }),
      (replayOf) => ({ replayOf }),
      (format) => ({ format, route: format, method: format, modelAsked: format, modelAnswered: format }),
      (text) => ({ errorPath: [text], errorMessage: text, key: { ...key, metadata: { group: text } } }),
      (text) => ({ attempts: Array.from({ length: 64 }, () => ({ upstream: text, model: text }) as never) }),
    ];
    const counts: readonly ((hostile: never) => Partial<CallRecord>)[] = [
      (units) => ({ units, status: units, affordedOutputTokens: units }),
      (ms) => ({ firstEventMs: ms, endMs: ms, beganAt: ms }),
    ];
    const errors: unknown[] = [];
    const log = sqlCallLog({ ...own.options, flushMs: 3_600_000, onError: (error) => errors.push(error) });
    let at = 0;
    for (const [values, wrongs] of [
      [texts, fields],
      [numbers, counts],
    ] as const)
      for (const value of values)
        for (const wrong of wrongs) log.onCall(recordOf(`wrong-${id}-${at++}`, { key, ...wrong(value as never) }));
    log.onCall(recordOf(`wrong-\0${id}`, { key }));
    await log.onCall.flush();
    expect(errors).toEqual([]);
    expect(await log.list({ key: id, limit: 1_000 })).toHaveLength(at + 1);
    expect((await log.usage({ key: id })).total.calls).toBe(at + 1);
    expect(await log.find(`wrong-\uFFFD${id}`)).toMatchObject({ keyId: id });
    await own.remove();
  });

  it("counts all texts of the calls that wait", async () => {
    const own = await database.place();
    const errors: unknown[] = [];
    const onError = (error: unknown): void => void errors.push(error);
    const log = sqlCallLog({ ...own.options, flushMs: 3_600_000, maxWaitingBytes: 20_000, onError });
    const text = "\u4e2d".repeat(256);
    const texts = { modelAsked: text, modelAnswered: text, errorPath: [text], route: text };
    // Each waits with 1,280 characters of two bytes at least, and with a kilobyte beside them.
    for (let at = 0; at < 10; at++) log.onCall(recordOf(`waits-${at}`, texts));
    await log.onCall.flush();
    const kept = (await log.list({ model: text })).length;
    expect(kept).toBeGreaterThan(3);
    expect(kept).toBeLessThan(6);
    expect(errors).toHaveLength(2);
    await own.remove();
  });

  it("does not keep sums for each made-up name of a model", async () => {
    const log = logAt();
    const id = await newKey();
    const key = { id, name: "n", budget: undefined, metadata: undefined };
    const refused = { key, units: 0, outcome: "refused", status: 404, modelListed: false } as const;
    for (let at = 0; at < 20; at++) log.onCall(recordOf(`made-up-${at}`, { ...refused, modelAsked: `made-up-${at}` }));
    await log.onCall.flush();
    expect((await log.usage({ key: id, by: ["model"] })).rows).toMatchObject([{ model: "", calls: 20, refused: 20 }]);
    expect((await log.list({ key: id, limit: 1 }))[0]?.modelAsked).toMatch(/^made-up/);
  });

  it("lists the latest calls first, page by page", async () => {
    const log = logAt();
    const id = await newKey();
    const key = { id, name: "n", budget: undefined, metadata: undefined };
    for (let at = 0; at < 5; at++)
      log.onCall(
        recordOf(`page-${at}`, { key, beganAt: DECEMBER + (at >> 1), outcome: at === 3 ? "refused" : "completed" }),
      );
    await log.onCall.flush();
    const first = await log.list({ key: id, limit: 2 });
    const second = await log.list({ key: id, limit: 2, after: first.at(-1)?.requestId ?? "" });
    const third = await log.list({ key: id, limit: 2, after: second.at(-1)?.requestId ?? "" });
    expect([...first, ...second, ...third].map(({ requestId }) => requestId)).toEqual(
      [4, 3, 2, 1, 0].map((at) => `page-${at}`),
    );
    for (const outcome of ["refused", ["refused", "failed"]] as const)
      expect((await log.list({ key: id, outcome })).map(({ requestId }) => requestId)).toEqual(["page-3"]);
    expect(await log.list({ key: id, outcome: [] })).toEqual([]);
    expect(await log.list({ key: id, since: DECEMBER + 1, until: DECEMBER + 2 })).toHaveLength(2);
    expect(await log.list({ key: id, after: "unknown" })).toEqual([]);
  });

  it("lists the calls that a row of a report counts", async () => {
    const [log, id] = [logAt(), await newKey()];
    const { store } = storeAt(place);
    await store.addBudget({ id: `${id}-all`, amount: 1_000 });
    await store.addBudget({ id: `${id}-team`, amount: 1_000, parent: `${id}-all` });
    const made = [
      ["of-all", `${id}-all`, "blue", "large", DECEMBER],
      ["of-team", `${id}-team`, "blue", "small", DECEMBER],
      ["of-none", undefined, "green", "large", DECEMBER],
      ["later", undefined, undefined, "large", DECEMBER + 2 * 86_400_000],
    ] as const;
    for (const [name, budget, group, model, beganAt] of made)
      log.onCall(
        recordOf(`${id}-${name}`, {
          key: { id: `${id}-${name}`, name: "n", budget, metadata: group === undefined ? undefined : { group } },
          modelAsked: model,
          modelAnswered: undefined,
          beganAt,
          ...(name === "later" && { outcome: "refused", errorCode: "quota_exhausted", units: 0 }),
        }),
      );
    await log.onCall.flush();
    // Other tests record calls of today, and of any day: a list of all would be full of them.
    const named = async (filter: CallFilter): Promise<string[]> => {
      const lists = await Promise.all(made.map(([name]) => log.list({ key: `${id}-${name}`, ...filter })));
      return made.flatMap(([name], at) => lists[at]?.map(() => name) ?? []);
    };
    const ofBudget = await log.list({ budget: `${id}-all` });
    expect(ofBudget.map(({ requestId }) => requestId)).toEqual([`${id}-of-team`, `${id}-of-all`]);
    expect(await named({ ownBudget: `${id}-all` })).toEqual(["of-all"]);
    expect(await named({ budget: "none" })).toEqual([]);
    const used = async (query: UsageQuery): Promise<number> =>
      (await log.usage({ since: "2026-11-30", until: "2026-12-02", ...query })).total.calls;
    expect(await used({ budget: `${id}-all` })).toBe(2);
    expect(await used({ ownBudget: `${id}-all` })).toBe(1);
    expect(await used({ budget: `${id}-all`, ownBudget: `${id}-team` })).toBe(1);
    expect(await used({ ownBudget: "", key: `${id}-of-none` })).toBe(1);
    expect(await used({ ownBudget: "", key: `${id}-of-all` })).toBe(0);
    expect(await named({ ownBudget: "", model: "large" })).toEqual(["of-none", "later"]);
    expect(await named({ group: "green" })).toEqual(["of-none"]);
    expect(await named({ group: "" })).toEqual(["later"]);
    expect(await named({ model: "small" })).toEqual(["of-team"]);
    expect(await named({ upstream: "other" })).toEqual([]);
    expect(await named({ errorCode: "quota_exhausted" })).toEqual(["later"]);
    expect(await named({ untilDay: "2026-12-01" })).toEqual(["of-all", "of-team", "of-none"]);
    expect(await named({ sinceDay: "2026-12-02" })).toEqual(["later"]);
    await expect(log.list({ sinceDay: "today" })).rejects.toThrow(
      'list: sinceDay must be a day, such as 2026-11-28, not "today"',
    );
    await expect(log.list({ sinceDay: "2026-12-02", untilDay: "2026-12-01" })).rejects.toThrow(
      "list: sinceDay must not be after untilDay",
    );
  });

  it("takes no pause of nothing between two writes", () => {
    expect(() => logAt({ flushMs: 0 })).toThrow("flushMs");
  });

  it("deletes old calls, and keeps their sums", async () => {
    const id = await newKey();
    const key = { id, name: "n", budget: undefined, metadata: undefined };
    const log = logAt({ keepDays: 1 });
    log.onCall(recordOf("old", { key, beganAt: Date.now() - 3 * 86_400_000 }));
    log.onCall(recordOf("new", { key, beganAt: Date.now() }));
    await log.onCall.flush();
    expect(await log.prune()).toBeGreaterThan(0);
    expect((await log.list({ key: id })).map(({ requestId }) => requestId)).toEqual(["new"]);
    expect((await log.usage({ key: id })).total).toMatchObject({ calls: 2, units: 200 });
  });
});
