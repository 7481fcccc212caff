/** The laws of budgets: limits that several keys of a QuotaStore share, in all or by period. Races come first. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { BudgetChanges, BudgetEvent, BudgetOptions, BudgetReport, OnBudget } from "../../index.ts";
import { atOnce, closing, type Law } from "./law.ts";
import {
  expectRangeError,
  grantsOf,
  type Ledger,
  LEASE_MS,
  ledgerOf,
  type OpenedQuotaStore,
  type QuotaStoreSetup,
} from "./quota-ledger.ts";

/** The setup of a store for one law. Its keys draw on its budgets. */
export interface BudgetStoreSetup extends QuotaStoreSetup {
  /** The budgets that the store must know, each after its parent. Their ids are unique to each law: one database may serve all laws. */
  readonly budgets: readonly BudgetOptions[];
  /** The function to tell of thresholds. The store calls it before it answers the next `budgetReport`. */
  readonly onBudget: OnBudget;
}

/** A store under test whose keys draw on budgets. Its clock begins at the present time, because periods begin at midnight. */
export interface OpenedBudgetStore extends OpenedQuotaStore {
  /** The methods of the store that manage budgets, as those of the stores of this package. They reject or throw a RangeError. */
  readonly budgets: {
    addBudget(budget: BudgetOptions): BudgetReport | Promise<BudgetReport>;
    removeBudget(id: string): void | Promise<void>;
    updateBudget(id: string, changes: BudgetChanges): BudgetReport | Promise<BudgetReport>;
    topUpBudget(id: string, units: number): BudgetReport | Promise<BudgetReport>;
    lowerBudget(id: string, units: number): BudgetReport | Promise<BudgetReport>;
    assignBudget(keyId: string, budgetId: string | undefined): void | Promise<void>;
    budgetReport(id: string): BudgetReport | undefined | Promise<BudgetReport | undefined>;
  };
}

/** Opens a store for one law. */
export type OpenBudgetStore = (setup: BudgetStoreSetup) => OpenedBudgetStore | Promise<OpenedBudgetStore>;

/** A promise about budgets. */
export type BudgetLaw = Law<OpenBudgetStore>;

const DAY_MS = 86_400_000;
/** The budgets of a race, and the most changes of each. */
const RIVALS = 6;
const ROUNDS = 6;
const HOUR_MS = 3_600_000;
/** A lease that outlives a day. */
const LONG_MS = 3 * DAY_MS;

/** The books of a period that began at a time. */
const booksAt = (startsAt: number): BudgetOptions["books"] => ({ startsAt, granted: 1, used: 1 });

/** The keys and budgets that a law begins with. */
interface Setting {
  readonly keys: readonly { readonly granted?: number; readonly budget?: string }[];
  readonly budgets: readonly BudgetOptions[];
}

/** A store on which a law runs: its keys, and verbs on its budgets by their short ids. */
class Stage {
  readonly keys: readonly Ledger[];
  readonly events: BudgetEvent[];
  readonly #opened: OpenedBudgetStore;
  readonly #suffix: string;

  constructor(opened: OpenedBudgetStore, suffix: string, keys: readonly Ledger[], events: BudgetEvent[]) {
    this.#opened = opened;
    this.#suffix = suffix;
    this.keys = keys;
    this.events = events;
  }

  key(index = 0): Ledger {
    const key = this.keys[index];
    assert.ok(key);
    return key;
  }

  id(budget: string): string {
    return `${budget}-${this.#suffix}`;
  }

  async add(budget: BudgetOptions): Promise<BudgetReport> {
    return this.#opened.budgets.addBudget(budget);
  }

  async remove(budget: string): Promise<void> {
    await this.#opened.budgets.removeBudget(this.id(budget));
  }

  /** The short id of the budget that a key draws on. */
  async budgetOf(key: Ledger): Promise<string | undefined> {
    const found = await key.store.find(key.secrets[0] ?? "");
    assert.ok(found, "find must know the keys that the store was opened with");
    return found.budget?.slice(0, found.budget.lastIndexOf("-"));
  }

  async setAmount(budget: string, amount: number): Promise<BudgetReport> {
    return this.#opened.budgets.updateBudget(this.id(budget), { amount });
  }

  async rename(budget: string, name: string): Promise<BudgetReport> {
    return this.#opened.budgets.updateBudget(this.id(budget), { name });
  }

  async topUp(budget: string, units: number): Promise<BudgetReport> {
    return this.#opened.budgets.topUpBudget(this.id(budget), units);
  }

  async lower(budget: string, units: number): Promise<BudgetReport> {
    return this.#opened.budgets.lowerBudget(this.id(budget), units);
  }

  async assign(key: Ledger, budget: string | undefined): Promise<void> {
    await this.#opened.budgets.assignBudget(key.keyId, budget === undefined ? undefined : this.id(budget));
  }

  async report(budget: string): Promise<BudgetReport> {
    const report = await this.#opened.budgets.budgetReport(this.id(budget));
    assert.ok(report, `the store must know the budget ${budget}`);
    return report;
  }

  async expect(budget: string, expected: Partial<BudgetReport>, why: string): Promise<void> {
    const report = await this.report(budget);
    const told = Object.fromEntries(Object.keys(expected).map((name) => [name, report[name as keyof BudgetReport]]));
    assert.deepEqual(told, expected, `${budget}: ${why}`);
    const { granted, used, available, gap = 0 } = report;
    assert.equal(available, Math.max(0, granted - used), `${budget}: available = granted - used`);
    assert.ok(granted >= 0, `${budget}: granted is not below 0`);
    // The gap of a budget without granted units has those that were taken back, too.
    if (granted > 0) assert.equal(gap, Math.max(0, used - granted), `${budget}: gap = used - granted`);
    else assert.ok(gap >= used, `${budget}: gap has all that is used`);
  }

  async expectEach(budgets: readonly string[], expected: Partial<BudgetReport>, why: string): Promise<void> {
    for (const budget of budgets) await this.expect(budget, expected, why);
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms);
  }

  /** Goes to noon of the next day in UTC, so that no midnight passes by itself while a law runs. */
  async toNoon(): Promise<void> {
    await this.advance(DAY_MS + DAY_MS / 2 - (Date.now() % DAY_MS));
  }

  /** The thresholds that the host was told of since the last call, in the order of the budgets' ids and the percents. */
  async told(): Promise<string[]> {
    // The store tells the host after it has answered: at the latest before it answers the next question.
    await this.report("team");
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => void setImmediate(resolve));
    const events = this.events.splice(0);
    return events.map(({ id, percent }) => `${id.slice(0, id.lastIndexOf("-"))} ${percent}`).toSorted(byPercent);
  }
}

const byPercent = (one: string, other: string): number => one.localeCompare(other, "en", { numeric: true });

function law(name: string, setting: Setting, body: (stage: Stage, key: Ledger) => Promise<void>): BudgetLaw {
  return {
    name,
    async verify(open) {
      const suffix = randomUUID().slice(0, 8);
      const events: BudgetEvent[] = [];
      const opened = await open({
        keys: setting.keys.map(({ budget, ...key }, index) => ({
          ...key,
          apiKey: `secret-${index}-${suffix}`,
          ...(budget !== undefined && { budget: `${budget}-${suffix}` }),
        })),
        budgets: setting.budgets.map(({ id, parent, ...budget }) => ({
          ...budget,
          id: `${id}-${suffix}`,
          ...(parent !== undefined && { parent: `${parent}-${suffix}` }),
        })),
        onBudget: (event) => void events.push(event),
      });
      await closing(opened, async () => {
        const keys = await Promise.all(
          setting.keys.map(({ granted }, index) => ledgerOf(opened, suffix, [`secret-${index}-${suffix}`], granted)),
        );
        const [first] = keys;
        assert.ok(first);
        await body(new Stage(opened, suffix, keys, events), first);
      });
    },
  };
}

/** Resolves with whether a change was taken, and not rejected with a RangeError. */
async function isTaken(change: Promise<unknown>): Promise<boolean> {
  return change.then(
    () => true,
    (error: unknown) => {
      assert.equal((error as Error | undefined)?.name, "RangeError", String(error));
      return false;
    },
  );
}

/** Three levels: a key of a team, the team, and its organisation. */
const chain = (key: number, team: number, org: number): Setting => ({
  keys: [{ granted: key, budget: "team" }],
  budgets: [
    { id: "org", amount: org },
    { id: "team", amount: team, parent: "org" },
  ],
});

/** An unlimited key of one budget. */
const single = (budget: Omit<BudgetOptions, "id">): Setting => ({
  keys: [{ budget: "team" }],
  budgets: [{ id: "team", ...budget }],
});

/**
 * The promises of a store with budgets, beside those of `quotaStoreLaws`. Each law opens a store of its own, and measures no time.
 *
 * @example
 * describe("budgets of my store", () => {
 *   for (const law of budgetLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const budgetLaws: readonly BudgetLaw[] = [
  law(
    "of 300 reservations at once by three keys on a budget for 30, exactly 30 are admitted",
    { keys: [{ budget: "team" }, { budget: "team" }, { budget: "team" }], budgets: [{ id: "team", amount: 210 }] },
    async (stage) => {
      const answers = await atOnce(300, (index) => stage.key(index % 3).reserve(`hold-${index}`, 7));
      assert.deepEqual(
        grantsOf(answers),
        Array.from({ length: 30 }, () => 7),
      );
      await stage.expect("team", { used: 210, available: 0, held: 210 }, "what was granted is held");
    },
  ),

  law(
    "keys of two teams share their organisation to its last unit, and no call waits for ever",
    {
      keys: [{ budget: "a" }, { budget: "z" }, { granted: 10_000, budget: "a" }, { granted: 10_000, budget: "m" }],
      budgets: [
        { id: "m", amount: 500 },
        { id: "a", amount: 400, parent: "m" },
        { id: "z", amount: 400, parent: "m" },
      ],
    },
    async (stage) => {
      const answers = await atOnce(160, (index) => stage.key(index % 4).reserve(`hold-${index}`, 1, 10));
      assert.equal(
        grantsOf(answers).reduce((sum, units) => sum + units, 0),
        500,
      );
      await stage.expect("m", { used: 500, available: 0, held: 500 }, "the organisation is used up");
      await atOnce(160, (index) => stage.key(index % 4).settle(`hold-${index}`, 2));
      const [a, z, m] = await Promise.all([stage.report("a"), stage.report("z"), stage.report("m")]);
      assert.equal(m.held + a.held + z.held, 0, "nothing stays held");
      assert.equal(m.used, 2 * grantsOf(answers).length, "each call is charged to the organisation once");
    },
  ),

  law(
    "a hold settled by many callers at once is charged once in each budget",
    chain(100, 100, 100),
    async (stage, key) => {
      await key.hold("call", 90);
      await atOnce(50, () => key.settle("call", 15));
      await stage.expectEach(["team", "org"], { used: 15, held: 0 }, "one charge");
      await key.expectUsed(15, "and one charge of the key");
    },
  ),

  law("a hold takes what the key and each of its budgets have", chain(100, 60, 40), async (stage, key) => {
    await key.expectGrant(key.reserve("call", 1, 1_000), 40, "the organisation has the least");
    await stage.expectEach(["team", "org"], { used: 40, held: 40 }, "it is held in each");
    await key.settle("call", 10, "estimated");
    await stage.expectEach(
      ["team", "org"],
      { used: 10, held: 0, estimated: 10, overdraft: 0 },
      "the rest is returned in each",
    );
    await key.expectGrant(key.reserve("next", 1, 1_000), 30, "and can be held again");
  }),

  law(
    "a hold of a key below four budgets is held and charged in each",
    {
      keys: [{ granted: 100, budget: "user" }],
      budgets: [
        { id: "company", amount: 100 },
        { id: "org", amount: 100, parent: "company" },
        { id: "team", amount: 100, parent: "org" },
        { id: "user", amount: 100, parent: "team" },
      ],
    },
    async (stage, key) => {
      const levels = ["user", "team", "org", "company"];
      await key.hold("call", 30);
      await stage.expectEach(levels, { used: 30, held: 30 }, "it is held in each");
      await key.settle("call", 20);
      await stage.expectEach(levels, { used: 20, held: 0 }, "and charged in each");
      await key.expectUsed(20, "and to the key");
      for (const level of levels) {
        await stage.setAmount(level, 25);
        await key.expectRefusal(key.reserve("next", 6), { available: 5, held: 0 }, `${level} is full`);
        await stage.setAmount(level, 100);
      }
    },
  ),
  law("a hold that is lowered is lowered in each budget", chain(100, 60, 40), async (stage, key) => {
    await key.hold("call", 40);
    await key.lower("call", 5, 15);
    await stage.expectEach(["team", "org"], { used: 15, held: 15 }, "it is lowered in each");
    await key.expectGrant(key.reserve("next", 1, 1_000), 25, "what was returned is available");
    await key.settle("call", 10);
    await stage.expectEach(["team", "org"], { used: 35, held: 25 }, "and is settled in each");
  }),

  law("what one budget refuses is held in none", chain(100, 60, 5), async (stage, key) => {
    await key.hold("first", 3);
    const why = "the organisation has too little";
    await key.expectRefusal(key.reserve("call", 3, 50), { available: 2, held: 3 }, why);
    await stage.expect("team", { used: 3, available: 57 }, "nothing more is held");
    await stage.expect("org", { used: 3, available: 2 }, "nothing more is held");
    await key.settle("first", 0);
    await key.hold("call", 3);
  }),

  law("a balance tells of the tightest: the key or one of its budgets", chain(100, 60, 200), async (stage, key) => {
    assert.deepEqual(await key.balance(), { used: 0, available: 60, held: 0 });
    await key.hold("call", 10);
    assert.deepEqual(await key.balance(), { used: 10, available: 50, held: 10 });
    await stage.topUp("team", 1_000);
    assert.deepEqual(await key.balance(), { used: 10, available: 90, held: 10 }, "now the key has the least");
  }),

  law(
    "a lease that ends is charged in each budget, and corrected in each",
    chain(100, 100, 100),
    async (stage, key) => {
      await key.hold("call", 80);
      await key.renew("call", 30);
      await stage.advance(LEASE_MS);
      await key.expectGrant(key.reserve("next", 1, 100), 70, "what was not used is available again");
      await key.settle("next", 0);
      await stage.expectEach(["team", "org"], { used: 30, held: 0, estimated: 30 }, "the last renewal is charged");
      await key.settle("call", 45);
      await stage.expectEach(["team", "org"], { used: 45, held: 0, estimated: 0 }, "the true count replaces it");
    },
  ),

  law("what a budget cannot cover is its own overdraft", chain(1_000, 60, 30), async (stage, key) => {
    await key.hold("call", 10);
    await key.settle("call", 100);
    await stage.expect("team", { used: 60, available: 0, overdraft: 40 }, "the team covers what it has");
    await stage.expect("org", { used: 30, available: 0, overdraft: 70 }, "the organisation covers what it has");
    await stage.topUp("team", 940);
    await stage.topUp("org", 970);
    assert.equal((await key.balance()).available, 900, "and the key has paid all of it");
  }),

  law("a top-up is taken back as far as its units are available", chain(1_000, 60, 1_000), async (stage, key) => {
    await stage.topUp("team", 500);
    await key.hold("call", 100);
    await expectRangeError(() => stage.lower("team", 461), "more than is available");
    await stage.expect("team", { amount: 60, granted: 560, available: 460, held: 100 }, "nothing has changed");
    await stage.lower("team", 460);
    await stage.expect("team", { amount: 60, granted: 100, available: 0, held: 100 }, "a running call keeps its units");
    await stage.expect("org", { granted: 1_000, available: 900 }, "the parent keeps its own");
    await key.settle("call", 30);
    await key.expectGrant(key.reserve("next", 1, 100), 70, "what the call has not used");
  }),

  law("a change of a budget returns the report that is read behind it", chain(1_000, 60, 1_000), async (stage, key) => {
    const added = await stage.add({ id: stage.id("new"), amount: 5, period: "week", parent: stage.id("org") });
    assert.deepEqual(added, await stage.report("new"), "a new budget");
    await key.expectGrant(key.reserve("call", 40, 40, LONG_MS), 40, "what is available");
    for (const [index, change] of [
      () => stage.topUp("team", 40),
      () => stage.lower("team", 10),
      () => stage.setAmount("team", 70),
      () => stage.rename("team", "Team"),
    ].entries()) {
      await key.hold(`ended-${index}`, 5);
      await key.renew(`ended-${index}`, 2);
      await stage.advance(2 * LEASE_MS);
      assert.deepEqual(
        await change(),
        await stage.report("team"),
        `change ${index}, when the lease of a call has ended`,
      );
    }
  }),

  law("a period begins with its whole amount", single({ amount: 100, period: "day" }), async (stage, key) => {
    await stage.toNoon();
    await key.expectGrant(key.reserve("call", 1, 1_000), 100, "the amount of the day");
    await key.settle("call", 70);
    const first = await stage.report("team");
    assert.equal((first.endsAt ?? 0) - (first.startsAt ?? 0), DAY_MS, "a day in UTC is a day");
    await stage.advance(DAY_MS);
    await stage.expect("team", { startsAt: first.endsAt ?? 0, granted: 100, used: 0 }, "nothing is taken over");
    await key.expectGrant(key.reserve("next", 1, 1_000), 100, "the amount of the next day");
  }),

  law(
    "what was reserved in a period is charged to it, however late it is settled",
    single({ amount: 100, period: "day" }),
    async (stage, key) => {
      await stage.toNoon();
      await key.expectGrant(key.reserve("late", 60, 60, LONG_MS), 60, "what is available");
      await key.expectGrant(key.reserve("expired", 30, 30), 30, "what is available");
      await key.renew("expired", 20);
      await stage.advance(DAY_MS);
      await stage.expect("team", { used: 0, available: 100, held: 0 }, "the next day knows nothing of them");
      await key.settle("late", 90);
      await key.settle("expired", 25);
      await stage.expect("team", { used: 0, available: 100, held: 0, overdraft: 0 }, "nor of their settlements");
      await key.hold("next", 100);
      await key.settle("next", 40);
      await stage.expect("team", { used: 40, available: 60 }, "it is charged for its own");
    },
  ),

  law(
    "unused units go over into the next period, at most one amount",
    { keys: [{}], budgets: [] },
    async (stage, key) => {
      await stage.toNoon();
      await stage.add({ id: stage.id("team"), amount: 100, period: "day", rollover: true });
      await stage.assign(key, "team");
      await key.spend("used", 30);
      await key.expectGrant(key.reserve("late", 10, 10, LONG_MS), 10, "what is available");
      await stage.advance(DAY_MS);
      await stage.expect("team", { granted: 160, used: 0 }, "neither used nor held");
      await key.settle("late", 50);
      await stage.expect("team", { granted: 160, used: 0 }, "what was taken over is not spent a second time");
      await stage.advance(DAY_MS);
      await stage.expect("team", { granted: 200, used: 0 }, "at most twice the amount");
      await key.spend("all", 200);
      await stage.advance(3 * DAY_MS);
      await stage.expect("team", { granted: 200, used: 0 }, "days without a call were not used");
    },
  ),

  law(
    "an amount below the use refuses what comes, and loses no charge",
    single({ amount: 100 }),
    async (stage, key) => {
      await key.hold("call", 80);
      await stage.setAmount("team", 50);
      await stage.expect(
        "team",
        { amount: 50, granted: 50, used: 80, available: 0, gap: 30 },
        "what is held stays held",
      );
      await key.expectRefusal(key.reserve("next", 1), { available: 0, held: 80 }, "nothing is available");
      await key.settle("call", 10);
      await stage.expect("team", { used: 10, available: 40, overdraft: 0 }, "the rest of the lowered amount");
      await stage.setAmount("team", 90);
      await stage.expect("team", { used: 10, available: 80 }, "and of the raised amount");
      await key.hold("last", 80);
      await stage.setAmount("team", 0);
      await key.settle("last", 30);
      await stage.expect(
        "team",
        { granted: 0, used: 10, available: 0, gap: 10, overdraft: 30 },
        "what it no longer covers is overdraft",
      );
      await stage.topUp("team", 4);
      await stage.expect("team", { granted: 4, used: 10, available: 0, gap: 6 }, "a top-up fills the gap first");
      await stage.topUp("team", 7);
      await stage.expect("team", { granted: 11, used: 10, available: 1 }, "the rest is available");
    },
  ),

  law(
    "an amount that was too small for a while leaves no trace when the earlier one is back",
    chain(1_000_000, 1_000_000, 1_000_000),
    async (stage, key) => {
      await stage.lower("team", 400_000);
      await key.hold("call", 98_000);
      await key.settle("call", 98_000, "estimated");
      await key.hold("live", 2_000);
      const before = await stage.report("team");
      assert.equal(before.granted, 600_000);
      for (const amount of [0, 100_000, 450_000, 1]) {
        await stage.setAmount("team", amount);
        const granted = Math.max(0, amount - 400_000);
        await stage.expect("team", { amount, granted, available: 0, gap: 500_000 - amount }, "the gap is told");
        await expectRangeError(() => stage.lower("team", 1), "more than is available");
        await stage.setAmount("team", 1_000_000);
        assert.deepEqual(await stage.report("team"), before, `after the amount ${amount}`);
      }
      await key.settle("live", 2_000);
      await stage.setAmount("team", 0);
      await key.expectRefusal(key.reserve("none", 1), { available: 0, held: 0 }, "nothing is available");
      await stage.topUp("team", 500_000);
      await stage.expect("team", { granted: 100_000, available: 0 }, "a top-up fills the gap");
      await stage.topUp("team", 5);
      await key.expectGrant(key.reserve("next", 1, 100), 5, "the rest is available");
      await key.settle("next", 5);
      await stage.setAmount("team", 1_000_000);
      await stage.expect("team", { granted: 1_100_005, used: 100_005, overdraft: 0 }, "with the top-ups");
    },
  ),

  law(
    "a running call that a too small amount left without units is charged as overdraft, and the way back is exact",
    { keys: [{}], budgets: [] },
    async (stage, key) => {
      await stage.toNoon();
      await stage.add({ id: stage.id("team"), amount: 100, period: "day", rollover: true });
      await stage.assign(key, "team");
      await key.hold("late", 10);
      await stage.lower("team", 30);
      await stage.setAmount("team", 0);
      await stage.expect("team", { granted: 0, used: 10, available: 0, gap: 40 }, "what was taken back is missing too");
      await key.settle("late", 4);
      await stage.expect("team", { used: 0, overdraft: 4, gap: 30 }, "no units cover the call");
      assert.deepEqual(await stage.told(), [], "nothing is charged");
      await stage.setAmount("team", 100);
      await stage.expect("team", { granted: 70, used: 0, available: 70 }, "the way back");
      await stage.setAmount("team", 20);
      await stage.advance(DAY_MS);
      await stage.expect("team", { granted: 20, used: 0, available: 20 }, "a gap ends with its period");
      await key.spend("next", 15);
      await stage.setAmount("team", 100);
      await stage.expect("team", { granted: 100, used: 15, available: 85 }, "the next day has nothing of it");
    },
  ),

  law("units beyond 2^53 - 1 are no amount, and change nothing", single({ amount: 100 }), async (stage) => {
    await stage.topUp("team", 1);
    await expectRangeError(() => stage.setAmount("team", Number.MAX_SAFE_INTEGER), "with what was topped up");
    await stage.expect("team", { amount: 100, granted: 101 }, "nothing has changed");
    await stage.setAmount("team", Number.MAX_SAFE_INTEGER - 1);
    await stage.expect("team", { granted: Number.MAX_SAFE_INTEGER }, "the most");
    await stage.setAmount("team", 100);
    await stage.expect("team", { granted: 101, available: 101 }, "and back");
  }),

  law("a top-up is for the period in which it is made", single({ amount: 100, period: "day" }), async (stage, key) => {
    await stage.toNoon();
    await key.hold("call", 100);
    await stage.topUp("team", 25);
    await key.expectGrant(key.reserve("next", 1, 100), 25, "what was added is available");
    await key.settle("call", 100);
    await key.settle("next", 25);
    await stage.advance(DAY_MS);
    await stage.expect("team", { granted: 100, used: 0 }, "the next day has its amount");
  }),

  law(
    "a budget ends that a key is unlimited, and running calls stay with their budgets",
    {
      keys: [{}],
      budgets: [
        { id: "one", amount: 50 },
        { id: "two", amount: 70 },
      ],
    },
    async (stage, key) => {
      const found = async () => key.store.find(key.secrets[0] ?? "");
      assert.equal((await found())?.unlimited, true);
      await key.hold("free", 1_000);
      await stage.assign(key, "one");
      const limited = await found();
      assert.deepEqual([limited?.unlimited, limited?.budget], [false, stage.id("one")]);
      await key.expectRefusal(key.reserve("call", 51), { available: 50, held: 0 }, "the budget limits the key");
      await key.hold("call", 40);
      await stage.assign(key, "two");
      await key.hold("other", 70);
      await key.settle("call", 35);
      await key.settle("free", 500);
      await stage.expect("one", { used: 35, held: 0 }, "the call is charged where it was reserved");
      await stage.expect("two", { used: 70, held: 70 }, "and nowhere else");
      await stage.assign(key, undefined);
      assert.deepEqual([(await found())?.unlimited, (await found())?.budget], [true, undefined]);
      await key.hold("much", 1_000);
      await key.settle("other", 5);
      await stage.expect("two", { used: 5, held: 0 }, "also when the key draws on none");
    },
  ),

  law(
    "the host is told of a threshold once, and of the highest that a charge reaches",
    chain(10_000, 100, 1_000),
    async (stage, key) => {
      await atOnce(10, (index) => key.reserve(`hold-${index}`, 10));
      assert.deepEqual(await stage.told(), [], "what is held is not spent");
      await atOnce(5, (index) => key.settle(`hold-${index}`, 9));
      assert.deepEqual(await stage.told(), [], "45 of 100");
      await atOnce(5, (index) => key.settle(`hold-${index + 5}`, 9));
      const told = await stage.told();
      assert.deepEqual(
        told,
        told.length > 1 ? ["team 50", "team 80"] : ["team 80"],
        "90 of 100, which a store may charge at once",
      );
      await key.spend("rest", 10);
      assert.deepEqual(await stage.told(), ["team 100"]);
      await key.expectRefusal(key.reserve("next", 1), { available: 0, held: 0 }, "nothing is left");
      assert.deepEqual(await stage.told(), [], "and not again");
      await stage.topUp("team", 900);
      await key.spend("long", 800);
      assert.deepEqual(await stage.told(), ["org 80", "team 80"], "again, after a top-up");
    },
  ),

  law(
    "the host is told at once of what a lowered amount has reached",
    chain(1_000, 1_000, 1_000),
    async (stage, key) => {
      await key.spend("call", 400);
      assert.deepEqual(await stage.told(), [], "less than a half");
      await stage.setAmount("team", 450);
      assert.deepEqual(await stage.told(), ["team 80"], "without a further call");
      await stage.setAmount("org", 0);
      assert.deepEqual(await stage.told(), ["org 100"], "also of an amount of nothing");
      await stage.setAmount("team", 400);
      assert.deepEqual(await stage.told(), ["team 100"], "each once");
      await stage.setAmount("team", 1_000);
      await stage.topUp("org", 5_000);
      assert.deepEqual(await stage.told(), [], "more units reach nothing");
    },
  ),

  law(
    "the host is told once in each period, and of a call that the rest is too little for",
    single({ amount: 100, period: "day" }),
    async (stage, key) => {
      await stage.toNoon();
      await key.hold("call", 85);
      await key.reserve("held", 20);
      assert.deepEqual(await stage.told(), [], "what is held may be returned");
      await key.settle("call", 85);
      assert.deepEqual(await stage.told(), ["team 80"]);
      await key.reserve("more", 20);
      await key.reserve("more", 20);
      assert.deepEqual(await stage.told(), ["team 100"], "no call of this size is admitted any more");
      await stage.advance(DAY_MS);
      await key.spend("next", 60);
      assert.deepEqual(await stage.told(), ["team 50"], "the next day begins anew");
    },
  ),

  law(
    "a call that is too large for a new budget reaches 100 percent alone, and charges reach the others later",
    single({ amount: 100 }),
    async (stage, key) => {
      await key.reserve("large", 101);
      assert.deepEqual(await stage.told(), ["team 100"], "nothing is charged");
      await key.spend("half", 50);
      assert.deepEqual(await stage.told(), ["team 50"]);
      await key.reserve("large", 101);
      assert.deepEqual(await stage.told(), [], "each once");
      await key.spend("most", 30);
      assert.deepEqual(await stage.told(), ["team 80"]);
      await key.spend("rest", 20);
      assert.deepEqual(await stage.told(), [], "100 percent was told");
      await stage.topUp("team", 100);
      await key.reserve("large", 101);
      assert.deepEqual(await stage.told(), ["team 100"], "again, after a top-up");
    },
  ),

  law(
    "a budget has a new name at once, and keeps all else",
    single({ amount: 100, period: "day" }),
    async (stage, key) => {
      await key.spend("call", 60);
      const [before, told] = [await stage.report("team"), await stage.told()];
      await stage.rename("team", "The new name");
      assert.deepEqual(await stage.report("team"), { ...before, name: "The new name" });
      await stage.setAmount("team", 200);
      assert.equal((await stage.report("team")).name, "The new name", "also after another change");
      await stage.advance(DAY_MS);
      assert.equal((await stage.report("team")).name, "The new name", "also in the next period");
      assert.deepEqual([told, await stage.told()], [["team 50"], []], "nothing is told again");
      await expectRangeError(() => stage.rename("none", "Any"), "there is no such budget");
    },
  ),

  law("a budget is removed only when nothing draws on it", chain(1_000, 100, 200), async (stage, key) => {
    await expectRangeError(() => stage.remove("team"), "a key draws on it");
    await expectRangeError(() => stage.remove("org"), "another budget draws on it");
    await key.hold("call", 60);
    await stage.assign(key, undefined);
    await expectRangeError(() => stage.remove("team"), "a running call draws on it");
    await stage.expect("team", { used: 60, held: 60 }, "what was rejected has changed nothing");
    await stage.assign(key, "team");
    await stage.assign(key, undefined);
    await key.settle("call", 20);
    await stage.remove("team");
    await stage.remove("org");
    await key.spend("next", 900);
    for (const removed of ["team", "org"])
      await stage.expect(removed, { removed: true, used: 20, held: 0 }, "its books stay");
  }),

  law(
    "a call that is settled after all is charged to a budget that was removed",
    chain(1_000, 100, 200),
    async (stage, key) => {
      await key.hold("late", 60);
      await key.renew("late", 20);
      await stage.assign(key, "org");
      await stage.advance(LEASE_MS);
      await stage.remove("team");
      await stage.expect("team", { removed: true, used: 20, held: 0 }, "the last renewal is charged");
      await key.settle("late", 30);
      await stage.expect("team", { used: 30, estimated: 0 }, "the true count replaces it");
      await stage.expect("org", { used: 30, estimated: 0 }, "also in its parent");
    },
  ),

  law(
    "a budget is not removed while a call of an earlier period runs",
    single({ amount: 100, period: "day" }),
    async (stage, key) => {
      await stage.toNoon();
      await key.expectGrant(key.reserve("late", 60, 60, LONG_MS), 60, "what is available");
      await stage.advance(DAY_MS);
      await stage.assign(key, undefined);
      await expectRangeError(() => stage.remove("team"), "the call is charged to the day before");
      await stage.expect("team", { held: 0 }, "the next day knows nothing of it");
      await expectRangeError(() => stage.remove("team"), "the day before still has it");
      await key.settle("late", 10);
      await stage.remove("team");
    },
  ),

  law("a removed budget stays removed", { keys: [{}], budgets: [{ id: "team", amount: 100 }] }, async (stage, key) => {
    await stage.remove("team");
    const team = stage.id("team");
    await expectRangeError(() => stage.remove("team"), "a budget that was removed");
    await expectRangeError(() => stage.remove("nobody"), "a budget that there is not");
    await expectRangeError(() => stage.assign(key, "team"), "a key");
    await expectRangeError(() => stage.add({ id: stage.id("child"), amount: 1, parent: team }), "a child");
    await expectRangeError(() => stage.setAmount("team", 1), "an amount");
    await expectRangeError(() => stage.topUp("team", 1), "a top-up");
    await expectRangeError(() => stage.lower("team", 1), "a top-up that is taken back");
    await expectRangeError(() => stage.add({ id: team, amount: 1 }), "its id: late charges would meet the new books");
    await stage.expect("team", { removed: true, amount: 100, granted: 100 }, "nothing has changed");
  }),

  law(
    "a budget that is removed while keys and children come and go has none of them",
    {
      keys: Array.from({ length: RIVALS }, () => ({})),
      budgets: Array.from({ length: RIVALS }, (_, index) => ({ id: `b${index}`, amount: 100 })),
    },
    async (stage) => {
      const removes = async (index: number): Promise<boolean> => {
        for (let tries = 0; tries < 3 * ROUNDS; tries++) if (await isTaken(stage.remove(`b${index}`))) return true;
        return false;
      };
      const assigns = async (index: number): Promise<boolean> => {
        for (let round = 0; round < ROUNDS; round++) {
          await stage.assign(stage.key(index), undefined);
          if (!(await isTaken(stage.assign(stage.key(index), `b${index}`)))) return false;
        }
        return true;
      };
      const adds = async (index: number): Promise<boolean> => {
        for (let round = 0; round < ROUNDS; round++) {
          if (round > 0) await stage.remove(`c${index}.${round - 1}`);
          const child = { id: stage.id(`c${index}.${round}`), amount: 1, parent: stage.id(`b${index}`) };
          if (!(await isTaken(stage.add(child)))) return false;
        }
        return true;
      };
      const ended = await atOnce(
        3 * RIVALS,
        (index) => [removes, assigns, adds][index % 3]?.(Math.floor(index / 3)) ?? Promise.resolve(false),
      );
      assert.ok(ended.includes(true), "at least one of them must succeed");
      for (let index = 0; index < RIVALS; index++) {
        const { removed } = await stage.report(`b${index}`);
        assert.equal(removed === true, ended[3 * index], "a removal that was answered has happened");
        if (!removed) continue;
        assert.equal(await stage.budgetOf(stage.key(index)), undefined, "no key draws on a removed budget");
        assert.equal(ended[3 * index + 2], false, "no child is left that draws on a removed budget");
      }
    },
  ),

  law(
    "a budget without a time zone of its own has that of its parent, also across a parent without a period",
    {
      keys: [{}],
      budgets: [
        { id: "org", amount: 100, period: "month", timeZone: "Asia/Tokyo" },
        { id: "team", amount: 100, parent: "org" },
        { id: "member", amount: 100, period: "day", parent: "team" },
        { id: "away", amount: 100, period: "day", timeZone: "America/Phoenix", parent: "team" },
        { id: "alone", amount: 100, period: "day" },
      ],
    },
    async (stage) => {
      // These zones never change their clocks.
      for (const [budget, timeZone, hours] of [
        ["member", "Asia/Tokyo", 9],
        ["away", "America/Phoenix", -7],
        ["alone", "UTC", 0],
      ] as const) {
        const { timeZone: told, startsAt = Number.NaN } = await stage.report(budget);
        assert.equal(told, timeZone, `the time zone of ${budget}`);
        assert.equal((startsAt + hours * HOUR_MS) % DAY_MS, 0, `${budget} begins at midnight in ${timeZone}`);
      }
    },
  ),

  law(
    "a budget from another store goes on with what its period has used, unless that period has ended",
    {
      keys: [{ budget: "team" }],
      budgets: [
        { id: "team", amount: 100, books: { granted: 300, used: 160 } },
        { id: "daily", amount: 100, period: "day", books: { startsAt: 0, granted: 300, used: 160 } },
      ],
    },
    async (stage, key) => {
      await stage.expect("team", { granted: 300, used: 160, available: 140 }, "the books go on");
      await stage.expect("daily", { granted: 100, used: 0, available: 100 }, "the books of a period that has ended");
      assert.deepEqual(grantsOf([await key.reserve("hold", 141, 200), await key.reserve("hold-2", 100, 200)]), [140]);
      await key.settle("hold-2", 90);
      await stage.expect("team", { used: 250, available: 50, held: 0 }, "calls are charged beside the books");
      assert.deepEqual(await stage.told(), ["team 80", "team 100"], "50 percent was told before");
    },
  ),

  law(
    "budgets that cannot be are rejected, and change nothing",
    { keys: [{}], budgets: [{ id: "team", amount: 100 }] },
    async (stage, key) => {
      const wrong: readonly [why: string, budget: object][] = [
        ["a known id", { id: stage.id("team"), amount: 1 }],
        ["a parent that there is not", { id: stage.id("new"), amount: 1, parent: "nobody" }],
        ["an amount that is no integer", { id: stage.id("new"), amount: 1.5 }],
        ["a negative amount", { id: stage.id("new"), amount: -1 }],
        ["books that are negative", { id: stage.id("new"), amount: 1, books: { granted: 1, used: -1 } }],
        ["books of a time in a period", { id: stage.id("new"), amount: 1, period: "day", books: booksAt(1) }],
        ["books of no time", { id: stage.id("new"), amount: 1, period: "day", books: booksAt(0.5) }],
        [
          "books of a period that has not begun",
          { id: stage.id("new"), amount: 1, period: "day", books: booksAt(1e7 * DAY_MS) },
        ],
        [
          "books of a time beyond all dates",
          { id: stage.id("new"), amount: 1, period: "day", books: booksAt(2 ** 53 - 1) },
        ],
        ["books of a period of a budget without one", { id: stage.id("new"), amount: 1, books: booksAt(DAY_MS) }],
        ["an id that no address holds", { id: "..", amount: 1 }],
        ["a period that there is not", { id: stage.id("new"), amount: 1, period: "hour" }],
        ["a time zone that there is not", { id: stage.id("new"), amount: 1, period: "day", timeZone: "Mars/Base" }],
        ["a time zone without a period", { id: stage.id("new"), amount: 1, timeZone: "UTC" }],
        ["rollover without a period", { id: stage.id("new"), amount: 1, rollover: true }],
      ];
      for (const [why, budget] of wrong) await expectRangeError(() => stage.add(budget as BudgetOptions), why);
      for (const level of [1, 2, 3])
        await stage.add({
          id: stage.id(`${level}`),
          amount: 1,
          parent: stage.id(level === 1 ? "team" : `${level - 1}`),
        });
      await expectRangeError(
        () => stage.add({ id: stage.id("new"), amount: 1, parent: stage.id("3") }),
        "a fifth level",
      );
      await expectRangeError(() => stage.setAmount("nobody", 1), "a budget that there is not");
      await expectRangeError(() => stage.topUp("nobody", 1), "a budget that there is not");
      await expectRangeError(() => stage.assign(key, "nobody"), "a budget that there is not");
      await expectRangeError(() => stage.setAmount("team", 0.5), "an amount that is no integer");
      await expectRangeError(() => stage.topUp("team", -1), "units below zero");
      await expectRangeError(() => stage.lower("team", -1), "units below zero");
      await expectRangeError(() => stage.lower("nobody", 1), "a budget that there is not");
      await expectRangeError(() => stage.topUp("team", Number.MAX_SAFE_INTEGER), "a sum beyond 2^53 - 1");
      await stage.expect("team", { amount: 100, granted: 100, used: 0 }, "nothing has changed");
      await assert.rejects(stage.report("new"), assert.AssertionError, "what was rejected is not there");
    },
  ),
];
