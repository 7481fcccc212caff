/** Budgets over SQL: each row is locked after the row of the key, in the order of the ids, so that no two transactions can deadlock. */

import { type Insertable, type Selectable, sql } from "kysely";
import { parseJson } from "../../model/json.ts";
import {
  Budget,
  type BudgetEvent,
  type BudgetOptions,
  type BudgetPeriod,
  type BudgetTerms,
  termsOf,
  Window,
} from "../budgets.ts";
import { isStorableId, isUnits } from "../durable.ts";
import {
  BOOKS,
  type Books,
  budgetInUse,
  type BudgetUser,
  knownBudget,
  noSuchBudget,
  removedBudget,
} from "../ledger.ts";
import { byCount, slot, slotRows, type SqlAccess } from "./database.ts";
import { type BudgetTable, numberOf, type PeriodTable } from "./tables.ts";

/** A share of a hold as it is stored: the budget, the beginning of the period, and the units that it could not cover. */
export type StoredShare = readonly [budgetId: string, startsAt: number, overdraft: number];

/** Reads the ids of a key's budgets from its row: its own budget, the parent, and so on. */
export const chainOf = (stored: string | null): readonly string[] =>
  stored === null ? [] : (parseJson(stored) as readonly string[]);

/** The locked budgets of the keys of a transaction, and of their holds. */
export class LockedBudgets {
  readonly #access: SqlAccess;
  readonly #now: number;
  readonly #budgets = new Map<string, Budget>();
  /** Closed periods that holds of the transaction belong to, and periods that it has closed. */
  readonly #closed = new Map<string, Window>();
  /** The sums of deleted holds, by their periods. */
  readonly #pruned = new WeakMap<Books, number>();
  #isChanged = false;

  private constructor(access: SqlAccess, now: number) {
    this.#access = access;
    this.#now = now;
  }

  /** Locks budgets until the transaction ends, and begins the periods of `now`. Leaves out ids that do not exist. */
  static async lock(access: SqlAccess, ids: readonly string[], now: number): Promise<LockedBudgets> {
    const budgets = new LockedBudgets(access, now);
    await budgets.#lockMore(ids);
    return budgets;
  }

  async #lockMore(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const row of await this.#access.run(LOCK(ids.length), ids)) {
      const budget = budgetOf(row);
      this.#budgets.set(row.id, budget);
      this.#pruned.set(budget.window, numberOf(row.pruned));
      const closed = budget.turn(this.#now);
      if (!closed) continue;
      this.#closed.set(periodName(row.id, closed.startsAt), closed);
      this.#isChanged = true;
    }
  }

  /**
   * Locks the budgets of shares, unless they are locked, and reads the closed periods. Only the holds of a key that was moved to another
   * budget need further locks. When these come in another order than those of another transaction, the database ends one of the two, and
   * the store repeats it.
   */
  async load(shares: readonly StoredShare[]): Promise<void> {
    const unlocked = new Set(shares.map(([id]) => id).filter((id) => !this.#budgets.has(id)));
    await this.#lockMore(Array.from(unlocked));
    const missing = shares.filter(([id, startsAt]) => this.#budgets.has(id) && !this.booksOf(id, startsAt));
    if (missing.length === 0) return;
    const rows = await this.#access.db
      .selectFrom("budget_periods")
      .selectAll()
      .where("budget_id", "in", Array.from(new Set(missing.map(([id]) => id))))
      .where("starts_at", "in", Array.from(new Set(missing.map(([, startsAt]) => startsAt))))
      .execute();
    for (const row of rows) {
      const window = windowOf(row.budget_id, row);
      this.#pruned.set(window, numberOf(row.pruned));
      this.#closed.set(periodName(row.budget_id, window.startsAt), window);
    }
  }

  /** The books of a period. Undefined when its row is gone. */
  booksOf(id: string, startsAt: number): Books | undefined {
    const window = this.#budgets.get(id)?.window;
    return window?.startsAt === startsAt ? window : this.#closed.get(periodName(id, startsAt));
  }

  /** The books of the current periods of budgets. */
  windowsOf(chain: readonly string[]): readonly Window[] {
    return chain.map((id) => this.get(id).window);
  }

  /** Returns a locked budget. Throws a RangeError when there is no such budget. */
  get(id: string): Budget {
    const budget = this.#budgets.get(id);
    if (!budget) throw noSuchBudget(id);
    return budget;
  }

  /** Returns the thresholds that were reached, and remembers them. */
  news(refused: number, chain: readonly string[]): readonly BudgetEvent[] {
    const events = Array.from(this.#budgets, ([id, budget]) => budget.news(chain.includes(id) ? refused : 0)).flat();
    if (events.length > 0) this.#isChanged = true;
    return events;
  }

  /** Counts the charge of a hold that is deleted. */
  prune([id, startsAt]: StoredShare, charged: number): void {
    const books = this.booksOf(id, startsAt);
    if (books) this.#pruned.set(books, (this.#pruned.get(books) ?? 0) + charged);
    this.#isChanged = true;
  }

  /** Notes that holds have changed the books. */
  change(): void {
    this.#isChanged = true;
  }

  /** Writes the budgets, and the closed periods that were read, if they have changed. */
  async write(): Promise<void> {
    if (!this.#isChanged) return;
    const rows = Array.from(this.#budgets.values(), (budget) => rowOf(budget, this.#pruned.get(budget.window) ?? 0));
    if (rows.length > 0)
      await this.#access.run(
        WRITE(rows.length),
        rows.flatMap((row) => BUDGET_COLUMNS.map((name) => row[name])),
      );
    if (this.#closed.size === 0) return;
    const periods = Array.from(this.#closed, ([name, window]): Insertable<PeriodTable> => {
      const { startsAt, endsAt } = window;
      const budget_id = name.slice(name.indexOf(" ") + 1);
      const pruned = this.#pruned.get(window) ?? 0;
      return { budget_id, starts_at: startsAt, ends_at: endsAt, pruned, ...booksIn(window) };
    });
    await this.#access.run(
      WRITE_PERIODS(periods.length),
      periods.flatMap((row) => PERIOD_COLUMNS.map((name) => row[name])),
    );
  }
}

const periodName = (id: string, startsAt: number): string => `${startsAt} ${id}`;

const booksIn = ({ granted, charged, held, overdraft, estimated }: Books) => ({
  granted,
  charged,
  held,
  overdraft,
  estimated,
});

function rowOf({ terms, window }: Budget, pruned: number): Insertable<BudgetTable> {
  const { id, name, amount, period, timeZone, rollover, chain } = terms;
  const { startsAt, endsAt, told } = window;
  const fixed = { id, name, period: period ?? null, time_zone: timeZone, rollover: rollover ? 1 : 0 };
  const span = { chain: JSON.stringify(chain), starts_at: startsAt, ends_at: endsAt };
  return { ...fixed, ...span, amount, told, pruned, ...booksIn(window) };
}

/** Reads a budget. Throws an Error that names the budget when a number of its row is corrupt. */
export function budgetOf(row: Selectable<BudgetTable>): Budget {
  const terms: BudgetTerms = {
    id: row.id,
    name: row.name,
    amount: numberOf(row.amount),
    // The cast is safe: the column is written from this type.
    period: (row.period ?? undefined) as BudgetPeriod | undefined,
    timeZone: row.time_zone,
    rollover: numberOf(row.rollover) === 1,
    chain: chainOf(row.chain),
  };
  const window = windowOf(row.id, row);
  window.told = numberOf(row.told);
  return new Budget(terms, window);
}

function windowOf(id: string, row: Omit<Selectable<PeriodTable>, "budget_id">): Window {
  for (const book of BOOKS)
    if (!isUnits(Number(row[book])))
      throw new Error(`The budget ${id} is spoilt: its ${book} units are ${String(row[book])}.`);
  const span = { startsAt: numberOf(row.starts_at), endsAt: numberOf(row.ends_at) };
  const window = new Window(id, span, Number(row.granted));
  for (const book of BOOKS) window[book] = Number(row[book]);
  return window;
}

const PERIOD_COLUMNS = ["budget_id", "starts_at", "ends_at", "pruned", ...BOOKS] as const;
const BUDGET_CHANGES = ["amount", "starts_at", "ends_at", "told", "pruned", ...BOOKS] as const;
const BUDGET_COLUMNS = ["id", "name", "period", "time_zone", "rollover", "chain", ...BUDGET_CHANGES] as const;

const LOCK = byCount<Selectable<BudgetTable>>(({ db, dialect }, count) =>
  db
    .selectFrom("budgets")
    .selectAll()
    .where(
      "id",
      "in",
      Array.from({ length: count }, (_, index) => slot<string>(index)),
    )
    .orderBy("id")
    // In SQLite, the transaction has the only write lock already.
    .$if(dialect !== "sqlite", (query) => query.forUpdate())
    .compile(),
);

const changesOf = (dialect: SqlAccess["dialect"], columns: readonly string[]) =>
  Object.fromEntries(
    columns.map((column) => [
      column,
      dialect === "mysql" ? sql`VALUES(${sql.ref(column)})` : sql.ref(`excluded.${column}`),
    ]),
  );

/** Updates locked budgets. */
const WRITE = byCount(({ db, dialect }, count) => {
  const insert = db.insertInto("budgets").values(slotRows<Insertable<BudgetTable>>(BUDGET_COLUMNS, count));
  const changes = changesOf(dialect, BUDGET_CHANGES);
  return dialect === "mysql"
    ? insert.onDuplicateKeyUpdate(changes).compile()
    : insert.onConflict((conflict) => conflict.column("id").doUpdateSet(changes)).compile();
});

const WRITE_PERIODS = byCount(({ db, dialect }, count) => {
  const insert = db.insertInto("budget_periods").values(slotRows<Insertable<PeriodTable>>(PERIOD_COLUMNS, count));
  const changes = changesOf(dialect, ["pruned", ...BOOKS]);
  return dialect === "mysql"
    ? insert.onDuplicateKeyUpdate(changes).compile()
    : insert.onConflict((conflict) => conflict.columns(["budget_id", "starts_at"]).doUpdateSet(changes)).compile();
});

/**
 * Reads the ids of a budget, its parent, and so on. Locks the budget, so that it cannot be removed before the transaction ends. Throws a
 * RangeError when there is no such budget.
 */
export async function lockChain({ db, dialect }: SqlAccess, id: string): Promise<readonly string[]> {
  const row = isStorableId(id)
    ? await db
        .selectFrom("budgets")
        .select("chain")
        .where("id", "=", id)
        .$if(dialect !== "sqlite", (query) => query.forUpdate())
        .executeTakeFirst()
    : undefined;
  const chain = chainOf(row?.chain ?? null);
  if (chain.length === 0) throw noSuchBudget(id);
  return chain;
}

async function timeZoneOf({ db }: SqlAccess, id = ""): Promise<string | undefined> {
  const row = await db.selectFrom("budgets").select("time_zone").where("id", "=", id).executeTakeFirst();
  return row?.time_zone;
}

/** Adds a budget in its current period. */
export async function addBudget(access: SqlAccess, options: BudgetOptions, now: number): Promise<void> {
  const { db } = access;
  const known = await db.selectFrom("budgets").select("chain").where("id", "=", options.id).executeTakeFirst();
  if (known) throw chainOf(known.chain).length === 0 ? removedBudget(options.id) : knownBudget(options.id);
  const parent = options.parent === undefined ? [] : await lockChain(access, options.parent);
  const budget = Budget.begun(termsOf(options, parent, await timeZoneOf(access, options.parent)), now);
  await db.insertInto("budgets").values(rowOf(budget, 0)).execute();
}

/** The chain of a removed budget. */
const REMOVED = JSON.stringify([]);

/** Removes a budget on which nothing draws. Its row stays. */
export async function removeBudget(access: SqlAccess, id: string): Promise<void> {
  const chain = await lockChain(access, id);
  const user = await userOf(access, chain, id);
  if (user) throw budgetInUse(id, user);
  await access.db.updateTable("budgets").set({ chain: REMOVED }).where("id", "=", id).execute();
}

/** Finds something that draws on a locked budget. */
async function userOf({ db }: SqlAccess, chain: readonly string[], id: string): Promise<BudgetUser | undefined> {
  const stored = JSON.stringify(chain);
  const key = await db
    .selectFrom("keys")
    .select("id")
    .where("budgets", "=", stored)
    .where("revoked_at", "is", null)
    .orderBy("id")
    .executeTakeFirst();
  if (key) return { kind: "key", id: key.id };
  // The chain of a child ends with that of its parent.
  const end = `%,${stored.slice(1).replaceAll(/[!%_]/g, "!$&")}`;
  const children = await db
    .selectFrom("budgets")
    .select(["id", "chain"])
    .where(sql<boolean>`${sql.ref("chain")} like ${end} escape '!'`)
    .orderBy("id")
    .execute();
  // SQLite compares without regard to case.
  const child = children.find((row) => chainOf(row.chain)[1] === id);
  if (child) return { kind: "budget", id: child.id };
  // A period that is over, but was not closed yet, is the current one here.
  const held = await db
    .selectFrom("budgets")
    .select("id")
    .where("id", "=", id)
    .where("held", ">", 0)
    .unionAll(
      db.selectFrom("budget_periods").select("budget_id as id").where("budget_id", "=", id).where("held", ">", 0),
    )
    .executeTakeFirst();
  return held && "calls";
}

/** Changes a budget under its lock. Returns the thresholds that it has reached by that when `tells` is set. */
export async function changeBudget(
  access: SqlAccess,
  id: string,
  { now, tells }: { readonly now: number; readonly tells: boolean },
  change: (budget: Budget) => void,
): Promise<readonly BudgetEvent[]> {
  const budgets = await LockedBudgets.lock(access, [id], now);
  const budget = budgets.get(id);
  if (budget.isRemoved) throw noSuchBudget(id);
  change(budget);
  budgets.change();
  const events = tells ? budgets.news(0, []) : [];
  await budgets.write();
  return events;
}

/** Reads budgets as they are at `now`, without changing them: some by their ids, or a page in the order of the ids. */
export async function readBudgets(
  { db }: SqlAccess,
  now: number,
  page: { readonly ids: readonly string[] } | { readonly after: string; readonly limit: number },
): Promise<readonly Budget[]> {
  const query = db.selectFrom("budgets").selectAll();
  const rows = await (
    "ids" in page
      ? query.where("id", "in", page.ids)
      : query.where("id", ">", page.after).where("chain", "!=", REMOVED).orderBy("id").limit(page.limit)
  ).execute();
  return rows.map((row) => {
    const budget = budgetOf(row);
    budget.turn(now);
    return budget;
  });
}
