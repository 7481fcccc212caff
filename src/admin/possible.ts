/** Refuses a change that the store would refuse, before anybody is asked whether the change is meant. */

import { RefusedUnits } from "../model/refused-units.ts";
import { type BudgetOptions, type BudgetReport, MOST_LEVELS, termsOf } from "../stores/budgets.ts";
import {
  assertStorableBudget,
  type BudgetDirectory,
  type KeyDirectory,
  type KeyReport,
  knownQuota,
  newDurableKeyOf,
  revokedKey,
  unlimitedKey,
} from "../stores/durable.ts";
import { knownBudget, knownKey, noSuchBudget, noSuchKey, removedBudget } from "../stores/ledger.ts";
import type { NewKeyOptions } from "./key-admin.ts";
import { assertNoSecret } from "./masked.ts";

/** The part of a store that reads keys, and budgets where there are any. */
type Reports = Pick<KeyDirectory, "report"> & Partial<Pick<BudgetDirectory, "budgetReport">>;

/** Returns a key that can be changed. Throws for an unknown or revoked one, as a change of it does. */
export async function keyIn(store: Reports, id: string): Promise<KeyReport> {
  const key = await store.report(id);
  if (!key) throw noSuchKey(id);
  if (key.revoked) throw revokedKey(id);
  return key;
}

/** Returns a budget that can be changed. Throws for an unknown or removed one, as a change of it does. */
export async function budgetIn(
  store: Partial<Pick<BudgetDirectory, "budgetReport">>,
  id: string,
): Promise<BudgetReport> {
  const budget = await store.budgetReport?.(id);
  if (!budget || budget.removed) throw noSuchBudget(id);
  return budget;
}

/** Throws for a new key that is wrong, whose id is taken, or whose budget does not exist. */
export async function assertNewKey(store: Reports, key: NewKeyOptions): Promise<void> {
  newDurableKeyOf(key);
  assertNoSecret("key", key);
  const { id, budget } = key;
  if (id !== undefined && (await store.report(id))) throw knownKey(id);
  if (budget !== undefined) await budgetIn(store, budget);
}

/** Throws for a key that cannot get a quota. */
export async function assertLacksQuota(store: Reports, id: string): Promise<void> {
  if (!(await keyIn(store, id)).unlimited) throw knownQuota(id);
}

/** Throws for a key without a quota of its own, and for one that has fewer units available than are taken from it. */
export async function assertHasQuota(store: Reports, id: string, taken = 0): Promise<void> {
  const { unlimited, available } = await keyIn(store, id);
  if (unlimited) throw unlimitedKey(id);
  assertAvailable(`key ${id}`, available ?? 0, taken);
}

/** Throws if the budget cannot change, or has fewer units available than the change takes. */
export async function assertHasUnits(store: Reports, id: string, taken = 0): Promise<void> {
  assertAvailable(`budget ${id}`, (await budgetIn(store, id)).available, taken);
}

function assertAvailable(owner: string, available: number, taken: number): void {
  if (taken > available) throw new RefusedUnits({ owner, available });
}

/** Throws for a new budget that is wrong, whose id is taken, or whose parent does not exist. */
export async function assertNewBudget(store: Reports, budget: BudgetOptions): Promise<void> {
  assertStorableBudget(budget);
  assertNoSecret("budget", budget);
  const { id, parent } = budget;
  const known = await store.budgetReport?.(id);
  if (known) throw known.removed ? removedBudget(id) : knownBudget(id);
  const chain: string[] = [];
  let zone: string | undefined;
  // A store of the host may tell a circle: `termsOf` refuses a chain of so many.
  for (let above = parent; above !== undefined && chain.length <= MOST_LEVELS;) {
    chain.push(above);
    const one = await budgetIn(store, above);
    if (chain.length === 1) zone = one.timeZone;
    above = one.parent;
  }
  termsOf(budget, chain, zone);
}
