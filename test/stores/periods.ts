/** The periods of a budget, as every durable store keeps them. */

import { expect } from "vitest";
import type { DurableQuotaStore } from "../../src/admin/index.ts";

const DAY_MS = 86_400_000;

/** Checks that a store lists the periods of budgets, the latest first, with what was charged to each. */
export async function expectPeriods(store: DurableQuotaStore, advance: (ms: number) => void): Promise<void> {
  await store.addBudget({ id: "past", name: "Team A", amount: 100, period: "day", timeZone: "Asia/Tokyo" });
  await store.addBudget({ id: "past-all", amount: 50 });
  await store.add({ id: "past-key", budget: "past" });
  const spend = async (id: string, used: number) => {
    await store.reserve({ id: `past-${id}`, keyId: "past-key", atLeast: 10, atMost: 10, leaseMs: 9 * DAY_MS });
    if (used > 0) await store.settle(`past-${id}`, { used, certainty: "exact" });
  };
  await spend("first", 130);
  await store.topUpBudget("past", 20);
  await spend("late", 0);
  advance(DAY_MS);
  await store.updateBudget("past", { amount: 300 });
  await spend("second", 7);
  advance(2 * DAY_MS);
  const [third, second, first, ...others] = await store.budgetPeriods("past");
  expect(others).toEqual([]);
  const budget = { id: "past", name: "Team A", period: "day", timeZone: "Asia/Tokyo", rollover: false };
  const { startsAt = 0, endsAt = 0 } = (await store.budgetReport("past")) ?? {};
  // Nothing happened on the day before.
  expect([endsAt - startsAt, startsAt - (second?.endsAt ?? 0), second?.startsAt]).toEqual([
    DAY_MS,
    DAY_MS,
    first?.endsAt,
  ]);
  const books = { held: 0, overdraft: 0, estimated: 0 };
  const span = (at: number) => ({ startsAt: startsAt - at * DAY_MS, endsAt: endsAt - at * DAY_MS });
  expect(third).toEqual({ ...budget, ...books, ...span(0), granted: 300, used: 0, available: 300 });
  expect(second).toEqual({ ...budget, ...books, ...span(2), granted: 300, used: 7, available: 293, ended: true });
  expect(first).toMatchObject({ ...span(3), granted: 120, used: 110, held: 10, overdraft: 30, ended: true });
  // A call is charged to the period in which it began.
  await store.settle("past-late", { used: 9, certainty: "exact" });
  expect((await store.budgetPeriods("past"))[2]).toMatchObject({ used: 109, held: 0, available: 11, overdraft: 30 });
  // The period that is over stays the latest one, also before any verb has closed it.
  expect(await store.budgetPeriods("past", { limit: 1 })).toEqual([third]);
  expect(await store.budgetPeriods("past", { before: startsAt, limit: 1 })).toEqual([second]);
  expect(await store.budgetPeriods("past", { before: first?.startsAt ?? 0 })).toEqual([]);
  expect(await store.budgetPeriods("past-all")).toMatchObject([{ id: "past-all", granted: 50, used: 0 }]);
  expect((await store.budgetPeriods("past-all"))[0]).not.toHaveProperty("ended");
  await store.assignBudget("past-key", undefined);
  await store.removeBudget("past");
  expect(await store.budgetPeriods("past")).toHaveLength(3);
  await expect(store.budgetPeriods("nobody")).rejects.toThrow("There is no budget of the id nobody.");
  await expect(store.budgetPeriods("")).rejects.toThrow("There is no budget of the id .");
  await expect(store.budgetPeriods("past", { limit: 0 })).rejects.toThrow(RangeError);
  await expect(store.budgetPeriods("past", { before: -1 })).rejects.toThrow(RangeError);
  await expect(store.budgetPeriods("past", { after: 1 } as never)).rejects.toThrow(TypeError);
}
