/** The ledger over the rows of one transaction: makes the rules' objects of the rows, and rows of what the rules have changed. */

import { Budget, type BudgetEvent, Window } from "./budgets.ts";
import {
  type BudgetRow,
  type EntryRow,
  type HoldRow,
  type KeyRow,
  type LedgerChanges,
  type LedgerRows,
  type PeriodRow,
  type RowChange,
  rowMetadataOf,
  type SecretRow,
  type StoredBooks,
  toApiKey,
} from "./driver.ts";
import { isUnits, spoiltKey } from "./durable.ts";
import { BOOKS, type Books, booksIn, type BudgetUser, modelsOf } from "./ledger.ts";
import { Account, type KeyHold, Ledger, type PeriodShare } from "./rules.ts";

const HOLD_NUMBERS = ["granted", "noted", "renewals", "used", "overdraft", "expiresAt"] as const;

/** A ledger over the rows of one transaction. */
export class LoadedLedger extends Ledger {
  readonly #rows: LedgerRows;
  readonly #holds = new Map<string, KeyHold>();
  /** The rows that were read, by the objects that were made of them. */
  readonly #before = new Map<Account | Budget | KeyHold, KeyRow | BudgetRow | HoldRow>();
  /** The closed periods, by the beginning and the budget. */
  readonly #periods = new Map<string, { readonly window: Window; readonly before: PeriodRow | undefined }>();
  readonly #changed = new Set<KeyHold>();
  readonly #deleted = new Set<KeyHold>();
  readonly #entries: EntryRow[] = [];
  /** The least units of the largest refused call of each key. */
  readonly #refused = new Map<Account, number>();

  /** Throws an Error that names the key or the budget when one of its numbers is corrupt. */
  constructor(rows: LedgerRows) {
    super();
    this.#rows = rows;
    this.now = rows.now;
    for (const row of rows.keys) this.#keep(this.accounts, row.id, accountOf(row), row);
    for (const row of rows.secrets) this.secrets.set(row.hash, { ...row, endsAt: row.endsAt ?? undefined });
    for (const before of rows.periods)
      this.#periods.set(periodName(before.budgetId, before.startsAt), {
        window: windowOf(before.budgetId, before),
        before,
      });
    for (const row of rows.budgets) this.turn(this.#keep(this.budgets, row.id, budgetOf(row), row));
    for (const row of rows.holds) {
      // Leave out a hold with corrupt numbers, so that it does not block other holds. An audit reports it.
      if (HOLD_NUMBERS.every((name) => isUnits(Number(row[name]))))
        this.#keep(this.#holds, row.id, this.#holdOf(row), row);
    }
  }

  #keep<Kept extends Account | Budget | KeyHold>(
    kept: Map<string, Kept>,
    id: string,
    item: Kept,
    row: KeyRow | BudgetRow | HoldRow,
  ): Kept {
    kept.set(id, item);
    this.#before.set(item, row);
    return item;
  }

  #holdOf(row: HoldRow): KeyHold {
    const { id, keyId, state } = row;
    const [granted, noted, renewals, used, overdraft, expiresAt] = [
      Number(row.granted),
      Number(row.noted),
      Number(row.renewals),
      Number(row.used),
      Number(row.overdraft),
      Number(row.expiresAt),
    ];
    const shares = row.shares?.flatMap(([budgetId, startsAt, overdraft]): PeriodShare[] => {
      const books = this.#booksOf(budgetId, startsAt);
      return books ? [{ books, budgetId, startsAt, overdraft }] : [];
    });
    const units = { granted, noted, renewals, used, overdraft };
    const resolvedAt = row.resolvedAt ?? undefined;
    return { id, keyId, account: this.accounts.get(keyId), state, ...units, shares, expiresAt, resolvedAt };
  }

  /** The books of a period. Undefined when its row is gone. */
  #booksOf(budgetId: string, startsAt: number): Books | undefined {
    const window = this.budgets.get(budgetId)?.window;
    return window?.startsAt === startsAt ? window : this.#periods.get(periodName(budgetId, startsAt))?.window;
  }

  override hold(id: string): KeyHold | undefined {
    return this.#holds.get(id);
  }

  /** The live holds whose leases have ended. */
  get expired(): readonly KeyHold[] {
    const { now } = this.#rows;
    return Array.from(this.#holds.values()).filter(
      ({ account, state, expiresAt }) => account && state === "live" && expiresAt <= now,
    );
  }

  /** Deletes holds that were resolved before a time, and returns their number. */
  prune(before: number): number {
    for (const hold of this.#holds.values()) {
      const { account, resolvedAt, shares = [], used } = hold;
      if (!account || resolvedAt === undefined || resolvedAt >= before) continue;
      for (const { books, overdraft } of shares) if (books instanceof Window) books.pruned += used - overdraft;
      this.#deleted.add(hold);
    }
    return this.#deleted.size;
  }

  protected override userOf(): BudgetUser | undefined {
    return this.#rows.user;
  }

  protected override opened(hold: KeyHold): void {
    this.#holds.set(hold.id, hold);
    this.#changed.add(hold);
  }

  protected override renewed(hold: KeyHold): void {
    this.#changed.add(hold);
  }

  protected override resolved(hold: KeyHold): void {
    this.#changed.add(hold);
  }

  protected override refused(account: Account, atLeast: number): void {
    this.#refused.set(account, Math.max(atLeast, this.#refused.get(account) ?? 0));
  }

  protected override closed({ terms: { id } }: Budget, window: Window): void {
    this.#periods.set(periodName(id, window.startsAt), { window, before: undefined });
  }

  protected override readonly enter: NonNullable<Ledger["enter"]> = (kind, keyId, holdId, changes) => {
    this.#entries.push({ keyId, holdId, kind, at: this.now, ...NOTHING, ...changes });
  };

  /** Returns the thresholds that budgets have reached, and remembers them. */
  news(): readonly BudgetEvent[] {
    return Array.from(this.budgets, ([id, budget]) => {
      let refused = 0;
      for (const [{ budgets }, atLeast] of this.#refused)
        if (budgets.includes(id)) refused = Math.max(refused, atLeast);
      return budget.news(refused);
    }).flat();
  }

  /** Returns what the verbs have changed. Undefined when nothing has changed. */
  get changes(): LedgerChanges | undefined {
    const changes: LedgerChanges = {
      keys: changesOf(this.accounts.values(), this.#before, keyRowOf, KEY_FIELDS),
      holds: [
        ...Array.from(this.#changed, (hold) => ({ before: this.#rowOf(hold), after: holdRowOf(hold) })),
        ...Array.from(this.#deleted, (hold) => ({ before: this.#rowOf(hold), after: undefined })),
      ],
      budgets: changesOf(this.budgets.values(), this.#before, budgetRowOf, BUDGET_FIELDS),
      periods: Array.from(this.#periods, ([name, { window, before }]) => {
        const budgetId = name.slice(name.indexOf(" ") + 1);
        return { before, after: { budgetId, ...periodIn(window) } };
      }).filter(({ before, after }) => !before || PERIOD_FIELDS.some((name) => Number(before[name]) !== after[name])),
      secrets: this.#changedSecrets,
      entries: this.#entries,
    };
    return Object.values(changes).some((list) => list.length > 0) ? changes : undefined;
  }

  #rowOf(hold: KeyHold): HoldRow | undefined {
    // The cast is safe: only the row of a hold is kept for a hold.
    return this.#before.get(hold) as HoldRow | undefined;
  }

  get #changedSecrets(): RowChange<SecretRow>[] {
    const before = new Map(this.#rows.secrets.map((row) => [row.hash, row]));
    const after = Array.from(this.secrets.values(), ({ endsAt = null, ...secret }) => ({ ...secret, endsAt }));
    return [
      ...this.#rows.secrets.flatMap((row) => (this.secrets.has(row.hash) ? [] : { before: row, after: undefined })),
      ...after
        .map((row) => ({ before: before.get(row.hash), after: row }))
        .filter(({ before, after }) => before?.endsAt !== after.endsAt),
    ];
  }
}

const NOTHING = { granted: 0, charged: 0, held: 0, overdraft: 0, estimated: 0, noted: 0 };

const KEY_FIELDS = ["name", "unlimited", "models", "expiresAt", "metadata", "revokedAt", "budgets"] as const;
const BUDGET_FIELDS = ["name", "amount", "startsAt", "told", "pruned", "chain"] as const;
const PERIOD_FIELDS = ["pruned", ...BOOKS] as const;

/** Makes rows of the objects that differ from the rows that they were made of. */
function changesOf<Item extends Account | Budget, Row extends StoredBooks>(
  items: Iterable<Item>,
  rows: ReadonlyMap<unknown, unknown>,
  rowOf: (item: Item) => Row,
  fields: readonly (keyof Row & string)[],
): RowChange<Row>[] {
  return Array.from(items, (item) => {
    // The cast is safe: the row of an object is kept for the object.
    return { before: rows.get(item) as Row | undefined, after: rowOf(item) };
  }).filter(
    ({ before, after }) =>
      !before ||
      BOOKS.some((book) => Number(before[book]) !== after[book]) ||
      fields.some((name) => !isSame(before[name], after[name])),
  );
}

const isSame = (one: unknown, other: unknown): boolean =>
  one === other || (typeof one === "object" && JSON.stringify(one) === JSON.stringify(other));

const periodName = (budgetId: string, startsAt: number): string => `${startsAt} ${budgetId}`;

const periodIn = (window: Window) => ({
  startsAt: window.startsAt,
  endsAt: window.endsAt,
  pruned: window.pruned,
  ...booksIn(window),
});

function keyRowOf(account: Account): KeyRow {
  const { key, unlimited, budgets, revokedAt = null } = account;
  const { id, name, expiresAt } = key;
  const models = modelsOf(key) ?? null;
  return {
    id,
    name,
    unlimited,
    models,
    expiresAt,
    revokedAt,
    budgets,
    metadata: rowMetadataOf(key),
    ...booksIn(account),
  };
}

const holdRowOf = ({ account: _account, shares, resolvedAt, ...hold }: KeyHold): HoldRow => ({
  ...hold,
  resolvedAt: resolvedAt ?? null,
  shares: shares?.map(({ budgetId, startsAt, overdraft }) => [budgetId, startsAt, overdraft] as const) ?? null,
});

function budgetRowOf({ terms, window }: Budget): BudgetRow {
  const { id, name, amount, period = null, timeZone, rollover, chain } = terms;
  return { id, name, amount, period, timeZone, rollover, chain, told: window.told, ...periodIn(window) };
}

function accountOf(row: KeyRow): Account {
  for (const book of BOOKS) if (!isUnits(Number(row[book]))) throw spoiltKey(row.id, book, row[book]);
  const account = new Account(toApiKey(row), row.unlimited, Number(row.granted), Number(row.charged), row.budgets);
  account.held = Number(row.held);
  account.overdraft = Number(row.overdraft);
  account.estimated = Number(row.estimated);
  account.revokedAt = row.revokedAt ?? undefined;
  return account;
}

/** Reads a budget. Throws an Error that names the budget when a number of its row is corrupt. */
export function budgetOf(row: BudgetRow): Budget {
  const { id, name, amount, period, timeZone, rollover, chain } = row;
  const window = windowOf(id, row);
  window.told = row.told;
  return new Budget({ id, name, amount, period: period ?? undefined, timeZone, rollover, chain }, window);
}

/** Reads a period of a budget. Throws an Error that names the budget when a number of its row is corrupt. */
export function windowOf(id: string, row: Omit<PeriodRow, "budgetId">): Window {
  for (const book of BOOKS)
    // Only the granted units may be below 0.
    if (!isUnits(book === "granted" ? Math.abs(Number(row.granted)) : Number(row[book])))
      throw new Error(`The budget ${id} is spoilt: its ${book} units are ${String(row[book])}.`);
  const window = new Window(id, row, Number(row.granted));
  for (const book of BOOKS) window[book] = Number(row[book]);
  window.pruned = row.pruned;
  return window;
}
