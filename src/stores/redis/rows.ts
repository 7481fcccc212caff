/** The rows of the ledger as the fields of hashes in Redis: read from what a script returns, and written by one. */

import { parseJson } from "../../model/json.ts";
import { type BudgetTerms, NEVER } from "../budgets.ts";
import type { BudgetRow, PeriodRow, SecretRow } from "../driver.ts";
import { BOOKS, type BudgetUser } from "../ledger.ts";
import { type BUDGET_FIELDS, KEY_FIELDS, MISSING } from "./scripts.ts";

/** The fields of a hash as they are stored. */
type HashFields<Name extends string> = Readonly<Record<Name, string | undefined>>;
export type KeyFields = HashFields<(typeof KEY_FIELDS)[number]>;
export type BudgetFields = HashFields<(typeof BUDGET_FIELDS)[number]>;

export interface StoredHold {
  readonly id: string;
  readonly value: string | undefined;
  /** The end of its lease, or the negative of the time at which it was resolved. Undefined for a hold that was not read. */
  readonly time: number | undefined;
  readonly shares: string | undefined;
  /** The key that owns the id of a hold, if the hold is not in the ledger. */
  readonly owner: string | undefined;
}

/** The ledger of one key as it was read. */
export interface StoredKey {
  readonly id: string;
  readonly fields: KeyFields;
  /** The number of live holds whose leases had ended. */
  readonly due: number;
  readonly holds: readonly StoredHold[];
}

/** All that was read for a change. */
export interface Stored {
  readonly now: number;
  readonly keys: readonly StoredKey[];
  readonly budgets: ReadonlyMap<string, BudgetFields>;
  /** The closed periods: the budget, the beginning, and the books. */
  readonly periods: readonly (readonly [budgetId: string, startsAt: number, books: string | undefined])[];
  readonly secrets: readonly SecretRow[];
  readonly user?: BudgetUser | undefined;
}

/** The field of a ledger that names the key's budgets. */
export interface BudgetsField {
  readonly names: readonly string[];
}

export const itemsOf = (answer: unknown): readonly unknown[] => (Array.isArray(answer) ? answer : []);
export const textOf = (item: unknown): string | undefined => (typeof item === "string" ? item : undefined);

export function fieldsOf<Name extends string>(names: readonly Name[], values: unknown): HashFields<Name> {
  const found = itemsOf(values);
  // The cast is safe: each name has a value.
  return Object.fromEntries(names.map((name, index) => [name, textOf(found[index])])) as HashFields<Name>;
}

export const NO_KEY: KeyFields = fieldsOf(KEY_FIELDS, []);

/** Reads a budget. For a change, a budget that is being removed is removed, except for its removal itself. */
export function budgetRowOf(fields: BudgetFields, removing?: string): BudgetRow {
  // The cast is safe: the field is written from such terms.
  const terms = parseJson(fields.terms ?? "{}") as BudgetTerms;
  const { id, name, period = null, timeZone, rollover } = terms;
  const chain = fields.removed === undefined || removing === id ? terms.chain : [];
  const { granted = "missing", charged = "missing", held = "missing" } = fields;
  const { overdraft = "missing", estimated = "missing" } = fields;
  const span = { startsAt: Number(fields.starts), endsAt: Number(fields.ends), pruned: 0 };
  const books = { granted, charged, held, overdraft, estimated };
  const told = Number(fields.told ?? "0");
  return { id, name, amount: Number(fields.amount), period, timeZone, rollover, chain, told, ...span, ...books };
}

export function periodRowOf(budgetId: string, startsAt: number, books: string | undefined): PeriodRow[] {
  const [granted, charged, held, overdraft, estimated] = books?.split(" ") ?? [];
  if (!granted || !charged || !held || !overdraft || !estimated) return [];
  return [{ budgetId, startsAt, endsAt: startsAt, pruned: 0, granted, charged, held, overdraft, estimated }];
}

export const booksIn = (row: PeriodRow): string => BOOKS.map((book) => String(row[book])).join(" ");

/** The comparisons and commands of one change, as `EXCHANGE` reads them. */
export class Writing {
  /** The numbers of expired holds that were seen. */
  readonly due: number[] = [];
  readonly owners: string[] = [];
  /** Further names that must be in the slot of the change. */
  readonly names: string[] = [];
  readonly commands: string[][] = [];
  /** The names to delete. A Redis without memory takes the rest of a script whose first write deletes. */
  readonly deleted: string[] = [];
  until: number = NEVER;
  readonly #expected = new Map<string, { readonly fields: string[]; readonly values: string[] }>();
  readonly #sets = new Map<string, string[]>();

  /** Demands that fields still have the values that were read. */
  expects<Name extends string>(name: string, fields: readonly Name[], values: Partial<HashFields<Name>>): void {
    const expected = this.#expected.get(name) ?? { fields: [], values: [] };
    this.#expected.set(name, expected);
    for (const field of fields) {
      expected.fields.push(field);
      expected.values.push(values[field] ?? MISSING);
    }
  }

  sets(name: string, fields: Partial<HashFields<string>>): void {
    const pairs = Object.entries(fields).flatMap(([field, value]) => (value === undefined ? [] : [field, value]));
    const all = this.#sets.get(name);
    if (all) all.push(...pairs);
    else if (pairs.length > 0) this.#sets.set(name, pairs);
  }

  get isEmpty(): boolean {
    return this.#sets.size === 0 && this.commands.length === 0 && this.deleted.length === 0;
  }

  get args(): string[] {
    const args = [this.until === NEVER ? "" : String(this.until), ...this.due.map(String)];
    args.push(String(this.#expected.size));
    for (const [name, { fields, values }] of this.#expected)
      args.push(name, String(fields.length), ...fields, ...values);
    args.push(String(this.owners.length / 2), ...this.owners);
    for (const name of this.deleted) args.push("DEL", "1", name);
    for (const [name, pairs] of this.#sets) args.push("HSET", String(pairs.length + 1), name, ...pairs);
    for (const [command = "", ...rest] of this.commands) args.push(command, String(rest.length), ...rest);
    return args;
  }
}
