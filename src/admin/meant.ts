/** Finds the keys and the budgets that a user of the command line means. */

import { oneLine } from "../options.ts";
import { noSuchBudget } from "../stores/ledger.ts";
import { UsageError } from "../stores/open/connection.ts";
import type { Terminal } from "./commands.ts";
import type { KeyAdmin } from "./key-admin.ts";
import { idsInWords, idsLike, type ListNamed } from "./names.ts";
import type { OpenedStore } from "./open-store.ts";

/** The directories in which a command looks for keys and budgets. */
export interface Places {
  readonly keys: KeyAdmin;
  readonly store: OpenedStore["store"];
}

const listOf = (noun: "key" | "budget", { keys, store }: Places): ListNamed =>
  noun === "key" ? (page) => keys.list(page) : (page) => store.listBudgets(page);

/**
 * Returns the id of the key or the budget that a user means by its id, its name or a part of it, and notes an id that the text is neither.
 * Returns any other text as it is: calls of keys in other tables are found by the id alone.
 */
export async function idMeant(
  noun: "key" | "budget",
  places: Places,
  text: string,
  warn: (line: string) => void = () => {},
): Promise<string> {
  const { store } = places;
  if (await (noun === "key" ? store.report(text) : store.budgetReport(text))) return text;
  const ids = await idsLike(text, listOf(noun, places));
  const [id = text, ...others] = ids;
  if (others.length > 0)
    throw new UsageError(
      `Several ${noun}s have the name ${oneLine(text)}, or have it in their names. Name one of their ids: ${idsInWords(ids.map(oneLine))}.`,
    );
  if (id !== text) warn(`${oneLine(text)} is the ${noun} ${oneLine(id)}.`);
  return id;
}

/** Returns the id of the budget that a user means. Throws a RangeError for a budget that does not exist: nothing would look like no use. */
export async function idOfBudget(places: Places, text: string, warn: Terminal["warn"]): Promise<string> {
  const id = await idMeant("budget", places, text, warn);
  if (!(await places.store.budgetReport(id))) throw noSuchBudget(id);
  return id;
}

/** A choice of keys or calls, by a key and a budget. */
interface KeyAndBudget {
  readonly key?: string | undefined;
  readonly budget?: string | undefined;
}

/** Returns the filters of a command with the ids of the key and the budget that the user means. */
export async function meant<Filter extends KeyAndBudget>(
  { key, budget, ...filter }: Filter,
  places: Places,
  warn: Terminal["warn"],
): Promise<Omit<Filter, keyof KeyAndBudget> & { readonly key?: string; readonly budget?: string }> {
  return {
    ...filter,
    ...(budget !== undefined && { budget: await idOfBudget(places, budget, warn) }),
    ...(key !== undefined && { key: await idMeant("key", places, key, warn) }),
  };
}
