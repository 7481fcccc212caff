/** The rows of the ledger in SQL: each transaction locks the rows of its keys, then those of their budgets, in the order of the ids. */

import { type Insertable, type Selectable, sql } from "kysely";
import { parseJson } from "../../model/json.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import type { BudgetPeriod } from "../budgets.ts";
import {
  type BudgetRow,
  type DueHolds,
  type EntryRow,
  type FastVerbs,
  type HoldRow,
  type KeyRow,
  type LedgerChanges,
  type LedgerDriver,
  type LedgerRows,
  type LedgerScope,
  type PeriodRow,
  type PeriodRowPage,
  type RowChange,
  type RowPage,
  type SecretRow,
  type StoredShare,
  toApiKey,
  toShares,
  type Worked,
} from "../driver.ts";
import { HOLDS_AT_ONCE, isStorableId } from "../durable.ts";
import { BOOKS, booksIn, type BudgetUser, RECALLS_MS } from "../ledger.ts";
import { asText, byCount, slot, slotRows, type SqlAccess, type Statement } from "./database.ts";
import { takeEntriesOf } from "./journal.ts";
import { fastVerbs } from "./postgres.ts";
import {
  type BudgetTable,
  type HoldTable,
  type JournalTable,
  type KeyTable,
  numberOf,
  type PeriodTable,
  type StoredInteger,
} from "./tables.ts";

export class SqlDriver implements LedgerDriver {
  readonly #access: SqlAccess;
  readonly oneWriter: boolean;
  readonly fast?: FastVerbs;

  constructor(access: SqlAccess) {
    this.#access = access;
    this.oneWriter = access.dialect === "sqlite";
    // In PostgreSQL, the usual case of a verb is one statement, which saves the round trips of a transaction.
    if (access.dialect === "postgres") this.fast = fastVerbs(access);
  }

  change<Answer>(scope: LedgerScope, work: (rows: LedgerRows) => Worked<Answer>): Promise<Answer> {
    return this.#access.transact(async (access) => {
      const rows = await load(access, scope, true);
      const { answer, changes } = work(rows);
      if (changes) await write(access, changes, rows.now);
      return answer;
    });
  }

  read(scope: LedgerScope): Promise<LedgerRows> {
    return this.#access.attempt(() => load(this.#access, scope, false));
  }

  async find(hash: string): Promise<ApiKey | undefined> {
    const [row] = await this.#access.attempt(() => this.#access.run(FIND, [hash]));
    return row && toApiKey(rightsOf(row));
  }

  async ownerOf(holdId: string): Promise<string | undefined> {
    const [row] = await this.#access.attempt(() => this.#access.run(OWNER, [holdId]));
    return row?.key_id;
  }

  /** Reads books as text, because a driver may fail at a number that it cannot represent, and the whole page would fail with it. */
  listKeys(page: RowPage): Promise<readonly (KeyRow & { readonly secrets: number })[]> {
    const { db, dialect, time } = this.#access;
    const query = db
      .selectFrom("keys")
      .select(["id", "name", "unlimited", "models", "revoked_at", "budgets", "metadata"])
      .select(() => [asText(dialect, "expires_at"), ...BOOKS.map((book) => asText(dialect, book))])
      .select((eb) =>
        eb
          .selectFrom("secrets")
          .select((eb) => eb.fn.countAll().as("count"))
          .whereRef("secrets.key_id", "=", "keys.id")
          .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
          .as("secrets"),
      );
    return this.#access.attempt(async () =>
      (await ("ids" in page ? query.where("id", "in", page.ids) : pageOf(query, page)).execute()).map((row) => {
        const secrets = numberOf(row.secrets ?? 0);
        try {
          return { ...keyRowOf(row), secrets };
        } catch {
          // The stored models, metadata or expiry are corrupt: report a key that may use no model.
          const closed = keyRowOf({ ...row, models: "[]", expires_at: 0, metadata: null });
          return { ...closed, secrets, spoilt: ["models, metadata or expires_at"] };
        }
      }),
    );
  }

  listBudgets(page: RowPage): Promise<readonly BudgetRow[]> {
    const query = this.#access.db.selectFrom("budgets").selectAll();
    return this.#access.attempt(async () =>
      (
        await (
          "ids" in page ? query.where("id", "in", page.ids) : pageOf(query.where("chain", "!=", REMOVED), page)
        ).execute()
      ).map(budgetRowOf),
    );
  }

  async listPeriods(budgetId: string, { before, limit }: PeriodRowPage): Promise<readonly PeriodRow[]> {
    const query = this.#access.db
      .selectFrom("budget_periods")
      .selectAll()
      .where("budget_id", "=", budgetId)
      .where("starts_at", "<", before)
      .orderBy("starts_at", "desc")
      .limit(limit);
    const rows = await this.#access.all(query);
    return rows.map((row) => ({ budgetId, ...periodIn(row) }));
  }

  async keysWith(due: DueHolds, after: string): Promise<readonly string[]> {
    const { db, time } = this.#access;
    const query = db
      .selectFrom("holds")
      .select("key_id")
      .distinct()
      .where("key_id", ">", after)
      .orderBy("key_id")
      .limit(HOLDS_AT_ONCE);
    const rows = await this.#access.attempt(() =>
      "expired" in due
        ? query.where("state", "=", "live").where("expires_at", "<=", time).execute()
        : // Skip holds whose key was deleted by hand, so that an audit finds them.
          query.innerJoin("keys", "keys.id", "holds.key_id").where("resolved_at", "<", due.resolvedBefore).execute(),
    );
    return rows.map(({ key_id }) => key_id);
  }

  async recall(keyId: string): Promise<void> {
    const { db, dialect, time } = this.#access;
    const at = sql<number>`${time}`;
    const insert = db.insertInto("recalls").values({ key_id: keyId, at });
    await this.#access.attempt(async () => {
      await (
        dialect === "mysql"
          ? insert.onDuplicateKeyUpdate({ at })
          : insert.onConflict((conflict) => conflict.column("key_id").doUpdateSet({ at }))
      ).execute();
      await db
        .deleteFrom("recalls")
        .where("at", "<", sql<number>`${time} - ${RECALLS_MS}`)
        .execute();
    });
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    const { db, time } = this.#access;
    const since = sql<number>`${time} - ${withinMs}`;
    const rows = await this.#access.all(db.selectFrom("recalls").select("key_id").where("at", ">=", since));
    return rows.map(({ key_id }) => key_id);
  }
}

interface Paged<Query> {
  where(column: "id", operator: ">", value: string): { orderBy(column: "id"): { limit(limit: number): Query } };
}

const pageOf = <Query extends Paged<Query>>(
  query: Query,
  { after, limit }: { readonly after: string; readonly limit: number },
): Query => query.where("id", ">", after).orderBy("id").limit(limit);

/** Reads the rows of a scope. With `locks`, locks the keys and the budgets until the transaction ends. */
async function load(access: SqlAccess, scope: LedgerScope, locks: boolean): Promise<LedgerRows> {
  const keys: KeyRow[] = [];
  const holds = new Map<string, HoldRow>();
  let now: number | undefined;
  const found = new Map<string, LockedRow>();
  // Lock all keys in one order, and their budgets after them, so that no two transactions wait for each other.
  for (const id of scope.keys.map(({ id }) => id).toSorted()) {
    const [row] = await access.run(locks ? (scope.skipLocked ? LOCK_IF_FREE : LOCK) : READ, [id]);
    if (!row) continue;
    found.set(id, row);
    keys.push(keyRowOf(row));
    now = Math.max(now ?? 0, numberOf(row.now));
  }
  now ??= await timeOf(access);
  const budgets = new Map<string, BudgetRow>();
  const readBudgets = async (ids: Iterable<string>): Promise<void> => {
    const missing = Array.from(new Set(ids)).filter((id) => isStorableId(id) && !budgets.has(id));
    if (missing.length === 0) return;
    const statement = locks ? LOCK_BUDGETS : READ_BUDGETS;
    for (const row of await access.run(statement(missing.length), missing)) budgets.set(row.id, budgetRowOf(row));
  };
  await readBudgets([...keys.flatMap(({ budgets }) => budgets), ...(scope.budgets ?? [])]);
  const shares: StoredShare[] = [];
  for (const { id, holds: holdIds } of scope.keys) {
    const isStale = locks ? found.has(id) : (found.get(id)?.expired ?? null) !== null;
    const rows: Selectable<HoldTable>[] = [];
    if (isStale || holdIds.length > 0) rows.push(...(await access.run(HOLDS(holdIds.length), [id, now, ...holdIds])));
    if (scope.resolvedBefore !== undefined) rows.push(...(await access.run(RESOLVED, [id, scope.resolvedBefore])));
    for (const row of rows) {
      const hold = holdRowOf(row);
      if (!hold) continue;
      holds.set(hold.id, hold);
      // A settled hold is charged no more.
      const { keyId, state } = hold;
      const isOver = state !== "live" && state !== "expired" && scope.resolvedBefore === undefined;
      if (hold.shares && keyId === id && !isOver) shares.push(...hold.shares);
    }
  }
  // Only the holds of a key that was moved to another budget need further locks. When these come in another order than those of another
  // transaction, the database ends one of the two, and the store repeats it.
  await readBudgets(shares.map(([id]) => id));
  const closed = shares.filter(([id, startsAt]) => (budgets.get(id)?.startsAt ?? startsAt) !== startsAt);
  const [secrets, user] = [await readSecrets(access, scope), await userOf(access, scope, budgets)];
  const rows = { now, keys, holds: Array.from(holds.values()), budgets: Array.from(budgets.values()), secrets, user };
  return { ...rows, periods: await readPeriods(access, closed) };
}

async function readPeriods({ db }: SqlAccess, shares: readonly StoredShare[]): Promise<readonly PeriodRow[]> {
  if (shares.length === 0) return [];
  const rows = await db
    .selectFrom("budget_periods")
    .selectAll()
    .where("budget_id", "in", Array.from(new Set(shares.map(([id]) => id))))
    .where("starts_at", "in", Array.from(new Set(shares.map(([, startsAt]) => startsAt))))
    .execute();
  return rows.map((row) => ({ budgetId: row.budget_id, ...periodIn(row) }));
}

async function readSecrets({ db }: SqlAccess, scope: LedgerScope): Promise<readonly SecretRow[]> {
  const { secrets: hashes = [], secretsOf } = scope;
  if (hashes.length === 0 && secretsOf === undefined) return [];
  const rows = await db
    .selectFrom("secrets")
    .selectAll()
    .where((eb) =>
      eb.or([
        ...(hashes.length > 0 ? [eb("hash", "in", hashes)] : []),
        ...(secretsOf === undefined ? [] : [eb("key_id", "=", secretsOf)]),
      ]),
    )
    .execute();
  return rows.map(({ hash, key_id, ends_at }) => ({ hash, keyId: key_id, endsAt: nullable(ends_at) }));
}

/** Finds something that draws on a locked budget. */
async function userOf(
  { db }: SqlAccess,
  { usersOf: id }: LedgerScope,
  budgets: ReadonlyMap<string, BudgetRow>,
): Promise<BudgetUser | undefined> {
  const chain = id === undefined ? undefined : budgets.get(id)?.chain;
  if (id === undefined || !chain) return undefined;
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

/** Returns the database's time, in milliseconds since the Unix epoch. */
async function timeOf({ db, time }: SqlAccess): Promise<number> {
  const { now } = await db.selectNoFrom(time.as("now")).executeTakeFirstOrThrow();
  return numberOf(now);
}

async function write(access: SqlAccess, changes: LedgerChanges, now: number): Promise<void> {
  const { db } = access;
  const { keys, secrets } = changes;
  const holds = splitOf(changes.holds);
  const budgets = splitOf(changes.budgets);
  for (const row of budgets.added) await db.insertInto("budgets").values(budgetTableOf(row)).execute();
  await insert(access, WRITE_BUDGETS, BUDGET_COLUMNS, budgets.changed.map(budgetTableOf));
  await insert(access, WRITE_PERIODS, PERIOD_COLUMNS, splitOf(changes.periods).written.map(periodTableOf));
  for (const { before, after } of keys)
    if (!before && after) await db.insertInto("keys").values(keyTableOf(after)).execute();
  await insert(access, OPEN, HOLD_COLUMNS, holds.added.map(holdTableOf));
  await insert(access, CHANGE, HOLD_COLUMNS, holds.changed.map(holdTableOf));
  await insert(access, ENTER, ENTRY_COLUMNS, changes.entries.map(entryTableOf));
  for (const [keyId, deleted] of Map.groupBy(holds.deleted, ({ keyId }) => keyId)) {
    const ids = deleted.map(({ id }) => id);
    await takeEntriesOf(access, keyId, ids, now);
    await db.deleteFrom("holds").where("id", "in", ids).execute();
  }
  for (const { before, after } of keys) {
    if (!before || !after) continue;
    if (BOOKS.some((book) => Number(before[book]) !== after[book]))
      await access.run(WRITE_BOOKS, [after.id, ...BOOKS.map((book) => after[book])]);
    const { id, name, unlimited, models, expires_at, metadata, revoked_at, budgets } = keyTableOf(after);
    const rights = { name, unlimited, models, expires_at, metadata, revoked_at, budgets };
    if (RIGHTS.some((column) => before[column] !== after[column]))
      await db.updateTable("keys").set(rights).where("id", "=", id).execute();
  }
  for (const { hash, endsAt } of splitOf(secrets).changed)
    await db.updateTable("secrets").set({ ends_at: endsAt }).where("hash", "=", hash).execute();
  const { added, deleted } = splitOf(secrets);
  const hashes = deleted.map(({ hash }) => hash);
  if (hashes.length > 0) await db.deleteFrom("secrets").where("hash", "in", hashes).execute();
  if (added.length > 0)
    await db
      .insertInto("secrets")
      .values(added.map(({ hash, keyId, endsAt }) => ({ hash, key_id: keyId, ends_at: endsAt })))
      .execute();
}

/** The rows to insert, to update, to insert or update, and to delete. */
function splitOf<Row>(changes: readonly RowChange<Row>[]) {
  return {
    added: changes.flatMap(({ before, after }) => (before || !after ? [] : after)),
    changed: changes.flatMap(({ before, after }) => (before && after ? after : [])),
    written: changes.flatMap(({ after }) => after ?? []),
    deleted: changes.flatMap(({ before, after }) => (before && !after ? before : [])),
  };
}

/** A statement inserts at most this many rows. */
const MOST_ROWS = 128;

async function insert<Row extends object>(
  access: SqlAccess,
  statement: (count: number) => Statement<unknown>,
  columns: readonly (keyof Row)[],
  rows: readonly Row[],
): Promise<void> {
  for (let at = 0; at < rows.length;) {
    const remaining = rows.length - at;
    // In SQLite, insert many rows in groups of 4, 8, 16 and so on: few statements stay prepared, and a further statement costs no round
    // trip.
    const fitting = access.dialect === "sqlite" && remaining > 4 ? 2 ** Math.floor(Math.log2(remaining)) : remaining;
    const count = Math.min(MOST_ROWS, fitting);
    const values = rows.slice(at, at + count).flatMap((row) => columns.map((name) => row[name]));
    await access.run(statement(count), values);
    at += count;
  }
}

const nullable = (stored: StoredInteger | null): number | null => (stored === null ? null : Number(stored));

/** Reads the ids of a chain of budgets: a budget, its parent, and so on. */
const chainOf = (stored: string | null): readonly string[] =>
  // The cast is safe: the column is written from such a list.
  stored === null ? [] : (parseJson(stored) as readonly string[]);

type Rights = "id" | "name" | "unlimited" | "models" | "expires_at" | "budgets" | "metadata";

/** The rights of a key that a host may change, as the rules name them. */
const RIGHTS = ["name", "unlimited", "models", "expiresAt", "metadata", "revokedAt", "budgets"] as const;

/** Reads what a key may do. Throws for JSON that is corrupt. The casts are safe: the columns are written from such values. */
const rightsOf = (row: Pick<Selectable<KeyTable>, Rights>) => ({
  id: row.id,
  name: row.name,
  unlimited: numberOf(row.unlimited) === 1,
  models: row.models === null ? null : (parseJson(row.models) as readonly string[]),
  expiresAt: numberOf(row.expires_at),
  budgets: chainOf(row.budgets),
  metadata: row.metadata === null ? null : (parseJson(row.metadata) as Readonly<Record<string, string>>),
});

const keyRowOf = (row: Selectable<KeyTable>): KeyRow => ({
  ...rightsOf(row),
  revokedAt: nullable(row.revoked_at),
  ...booksIn(row),
});

const keyTableOf = (row: KeyRow): Insertable<KeyTable> => ({
  id: row.id,
  name: row.name,
  unlimited: row.unlimited ? 1 : 0,
  models: row.models && JSON.stringify(row.models),
  expires_at: row.expiresAt,
  revoked_at: row.revokedAt,
  budgets: row.budgets.length > 0 ? JSON.stringify(row.budgets) : null,
  metadata: row.metadata && JSON.stringify(row.metadata),
  ...booksIn(row),
});

/** Reads a hold. Undefined when its shares are corrupt. */
function holdRowOf(row: Selectable<HoldTable>): HoldRow | undefined {
  const { id, key_id: keyId, granted, noted, renewals, used, overdraft } = row;
  const shares = row.shares === null ? null : toShares(row.shares);
  if (shares === undefined) return undefined;
  const times = { expiresAt: row.expires_at, resolvedAt: nullable(row.resolved_at) };
  // The cast is safe: the column is written from this type.
  return {
    id,
    keyId,
    state: row.state as HoldRow["state"],
    granted,
    noted,
    renewals,
    used,
    overdraft,
    ...times,
    shares,
  };
}

const holdTableOf = ({ keyId, expiresAt, resolvedAt, shares, ...row }: HoldRow): Insertable<HoldTable> => ({
  ...row,
  key_id: keyId,
  expires_at: expiresAt,
  resolved_at: resolvedAt,
  shares: shares && JSON.stringify(shares),
});

const entryTableOf = ({ keyId, holdId, ...row }: EntryRow): Insertable<JournalTable> => ({
  ...row,
  key_id: keyId,
  hold_id: holdId,
});

const periodIn = (row: Omit<Selectable<PeriodTable>, "budget_id">) => ({
  startsAt: numberOf(row.starts_at),
  endsAt: numberOf(row.ends_at),
  pruned: numberOf(row.pruned),
  ...booksIn(row),
});

const budgetRowOf = (row: Selectable<BudgetTable>): BudgetRow => ({
  id: row.id,
  name: row.name,
  amount: numberOf(row.amount),
  // The cast is safe: the column is written from this type.
  period: row.period as BudgetPeriod | null,
  timeZone: row.time_zone,
  rollover: numberOf(row.rollover) === 1,
  chain: chainOf(row.chain),
  told: numberOf(row.told),
  ...periodIn(row),
});

const budgetTableOf = ({ timeZone, startsAt, endsAt, ...row }: BudgetRow): Insertable<BudgetTable> => ({
  ...row,
  rollover: row.rollover ? 1 : 0,
  chain: JSON.stringify(row.chain),
  time_zone: timeZone,
  starts_at: startsAt,
  ends_at: endsAt,
});

const periodTableOf = ({ budgetId, startsAt, endsAt, ...row }: PeriodRow): Insertable<PeriodTable> => ({
  ...row,
  budget_id: budgetId,
  starts_at: startsAt,
  ends_at: endsAt,
});

/** The chain of a removed budget. */
const REMOVED = JSON.stringify([]);

const HOLD_CHANGES = [
  "state",
  "granted",
  "noted",
  "renewals",
  "used",
  "overdraft",
  "expires_at",
  "resolved_at",
  "shares",
] as const;
const HOLD_COLUMNS = ["id", "key_id", ...HOLD_CHANGES] as const;
const ENTRY_COLUMNS = ["key_id", "hold_id", "kind", "at", ...BOOKS, "noted"] as const;
const PERIOD_CHANGES = ["pruned", ...BOOKS] as const;
const PERIOD_COLUMNS = ["budget_id", "starts_at", "ends_at", ...PERIOD_CHANGES] as const;
const BUDGET_CHANGES = ["name", "amount", "chain", "starts_at", "ends_at", "told", ...PERIOD_CHANGES] as const;
const BUDGET_COLUMNS = ["id", "period", "time_zone", "rollover", ...BUDGET_CHANGES] as const;

type LockedRow = Selectable<KeyTable> & { readonly now: StoredInteger; readonly expired?: string | null };

// In SQLite the first statement of a transaction must write, so that it takes the write lock at once. If the transaction read first,
// another transaction could write before the lock is taken, and the lock would then fail.
const lockStatement = (skipLocked: boolean): Statement<LockedRow> => ({
  build: ({ db, dialect, time }) =>
    dialect === "sqlite"
      ? db
          .updateTable("keys")
          .set((eb) => ({ held: eb.ref("held") }))
          .where("id", "=", slot<string>(0))
          .returningAll()
          .returning(time.as("now"))
          .compile()
      : db
          .selectFrom("keys")
          .selectAll()
          .select(time.as("now"))
          .where("id", "=", slot<string>(0))
          .forUpdate()
          .$if(skipLocked, (query) => query.skipLocked())
          .compile(),
});

const LOCK = lockStatement(false);
const LOCK_IF_FREE = lockStatement(true);

/** Reads a key, and the id of an expired hold. */
const READ: Statement<LockedRow> = {
  build: ({ db, time }) =>
    db
      .selectFrom("keys")
      .selectAll()
      .select(time.as("now"))
      .select((eb) =>
        eb
          .selectFrom("holds")
          .select("holds.id")
          .whereRef("holds.key_id", "=", "keys.id")
          .where("holds.state", "=", "live")
          .where("holds.expires_at", "<=", time)
          .limit(1)
          .as("expired"),
      )
      .where("keys.id", "=", slot<string>(0))
      .compile(),
};

/** Finds the key of a valid secret. */
const FIND: Statement<Pick<Selectable<KeyTable>, Rights>> = {
  build: ({ db, time }) =>
    db
      .selectFrom("secrets")
      .innerJoin("keys", "keys.id", "secrets.key_id")
      .select(["keys.id", "keys.name", "keys.unlimited", "keys.models", "keys.expires_at"])
      .select(["keys.budgets", "keys.metadata"])
      .where("secrets.hash", "=", slot<string>(0))
      .where("keys.revoked_at", "is", null)
      .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
      .compile(),
};

const OWNER: Statement<{ readonly key_id: string }> = {
  build: ({ db }) => db.selectFrom("holds").select("key_id").where("id", "=", slot<string>(0)).compile(),
};

/** Reads the holds with some ids, of any key, and the expired holds of one key. Values: the key's id, the current time, the holds' ids. */
const HOLDS = byCount<Selectable<HoldTable>>(({ db }, count) => {
  const expired = db
    .selectFrom("holds")
    .selectAll()
    .where("key_id", "=", slot<string>(0))
    .where("state", "=", "live")
    .where("expires_at", "<=", slot<number>(1))
    .orderBy("expires_at")
    .limit(HOLDS_AT_ONCE);
  if (count === 0) return expired.compile();
  const ids = Array.from({ length: count }, (_, index) => slot<string>(index + 2));
  return db
    .selectFrom("holds")
    .selectAll()
    .where("id", "in", ids)
    .unionAll((eb) => eb.selectFrom(expired.as("expired")).selectAll())
    .compile();
});

/** Reads holds that were resolved before a time. */
const RESOLVED: Statement<Selectable<HoldTable>> = {
  build: ({ db }) =>
    db
      .selectFrom("holds")
      .selectAll()
      .where("key_id", "=", slot<string>(0))
      .where("resolved_at", "<", slot<number>(1))
      .limit(HOLDS_AT_ONCE)
      .compile(),
};

const budgetsStatement = (locks: boolean) =>
  byCount<Selectable<BudgetTable>>(({ db, dialect }, count) => {
    const ids = Array.from({ length: count }, (_, index) => slot<string>(index));
    const query = db.selectFrom("budgets").selectAll().where("id", "in", ids).orderBy("id");
    // In SQLite, the transaction has the only write lock already.
    return (locks && dialect !== "sqlite" ? query.forUpdate() : query).compile();
  });

const LOCK_BUDGETS = budgetsStatement(true);
const READ_BUDGETS = budgetsStatement(false);

/** Makes a statement that updates rows that were read under a lock, or inserts new ones, for each number of rows. */
const upsert = (
  table: "holds" | "budgets" | "budget_periods",
  columns: readonly string[],
  ids: readonly string[],
  changed: readonly string[],
): ((count: number) => Statement<unknown>) =>
  byCount(({ db, dialect }, count) => {
    const given = (column: string) =>
      dialect === "mysql" ? sql`VALUES(${sql.ref(column)})` : sql.ref(`excluded.${column}`);
    const changes = Object.fromEntries(changed.map((column) => [column, given(column)]));
    // The casts are safe: the columns are those of the table.
    const rows = db.insertInto(table).values(slotRows(columns as never[], count));
    return dialect === "mysql"
      ? rows.onDuplicateKeyUpdate(changes).compile()
      : rows.onConflict((conflict) => conflict.columns(ids as never[]).doUpdateSet(changes)).compile();
  });

const CHANGE = upsert("holds", HOLD_COLUMNS, ["id"], HOLD_CHANGES);
const WRITE_BUDGETS = upsert("budgets", BUDGET_COLUMNS, ["id"], BUDGET_CHANGES);
const WRITE_PERIODS = upsert("budget_periods", PERIOD_COLUMNS, ["budget_id", "starts_at"], PERIOD_CHANGES);

/** Inserts new holds. Fails with a conflict when an id exists already. */
const OPEN = byCount(({ db }, count) =>
  db.insertInto("holds").values(slotRows<Insertable<HoldTable>>(HOLD_COLUMNS, count)).compile(),
);

const ENTER = byCount(({ db }, count) =>
  db.insertInto("journal").values(slotRows<Insertable<JournalTable>>(ENTRY_COLUMNS, count)).compile(),
);

const WRITE_BOOKS: Statement<unknown> = {
  build: ({ db }) =>
    db
      .updateTable("keys")
      .set(Object.fromEntries(BOOKS.map((book, index) => [book, slot<number>(index + 1)])))
      .where("id", "=", slot<string>(0))
      .compile(),
};
