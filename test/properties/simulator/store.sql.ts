/** The SQL store in each process, over one SQLite database in memory with the clock of the world. */

import { DatabaseSync } from "node:sqlite";
import { Kysely, sql } from "kysely";
import {
  migrate,
  nodeSqliteDialect,
  type SqlDatabase,
  sqlQuotaStore,
  verifyLedger,
  type DurableQuotaStore,
} from "../../../src/stores/sql/index.ts";
import { underWay } from "./commands.ts";
import { ask, type Delivery } from "./messages.ts";
import { DAY_MS } from "./plan.ts";
import type { Process } from "./process.ts";
import { type Locked, SharedSqlite } from "./sqlite-driver.ts";
import type { Audit, BudgetAudit, PeriodAudit, SimulatedStore } from "./store.ts";
import type { WorldParts } from "./world-parts.ts";

/** The statements that make the tables, collected once for all worlds of a thread. */
let tables: string | undefined;

async function tablesText(): Promise<string> {
  if (tables !== undefined) return tables;
  const database = new DatabaseSync(":memory:");
  const db: SqlDatabase = new Kysely({ dialect: nodeSqliteDialect(database) });
  await migrate(db, { dialect: "sqlite" });
  const statements = database.prepare(
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'",
  );
  const version = database.prepare("SELECT version FROM polygate_schema_version").get()?.["version"];
  tables = [
    ...statements.all().map(({ sql }) => String(sql)),
    `INSERT INTO polygate_schema_version (version) VALUES (${Number(version)})`,
  ].join(";\n");
  await db.destroy();
  return tables;
}

export async function openSqlite(parts: WorldParts): Promise<SimulatedStore> {
  const database = new DatabaseSync(":memory:");
  database.exec(await tablesText());
  database.function("world_now", () => parts.timeline.now);
  const db: SqlDatabase = new Kysely({ dialect: nodeSqliteDialect(database) });
  const store = sqlQuotaStore({ db, dialect: "sqlite", clock: () => sql`world_now()` });
  for (const budget of parts.plan.budgets) await store.addBudget(budget);
  for (const key of parts.plan.keys) await store.add(key);
  return new SqliteServer(parts, database, db);
}

class SqliteServer implements SimulatedStore {
  readonly inProcess = true;
  readonly #parts: WorldParts;
  readonly #db: SqlDatabase;
  readonly #shared: SharedSqlite;
  readonly #stores = new WeakMap<Process, DurableQuotaStore>();
  readonly #books: ReturnType<DatabaseSync["prepare"]>;
  readonly #budgets: ReturnType<DatabaseSync["prepare"]>;
  readonly #closed: ReturnType<DatabaseSync["prepare"]>;

  constructor(parts: WorldParts, database: DatabaseSync, db: SqlDatabase) {
    this.#parts = parts;
    this.#db = db;
    this.#books = database.prepare(
      `SELECT id AS keyId, granted, charged, held, overdraft, estimated,
        (SELECT count(*) FROM polygate_holds WHERE key_id = polygate_keys.id AND state = 'live') AS liveHolds
      FROM polygate_keys WHERE id = ?`,
    );
    const books = `starts_at / ${DAY_MS} AS day, granted, charged, held, overdraft, estimated`;
    this.#budgets = database.prepare(`SELECT id, ${books} FROM polygate_budgets`);
    this.#closed = database.prepare(`SELECT budget_id, ${books} FROM polygate_budget_periods`);
    this.#shared = new SharedSqlite({
      database,
      parts,
      committed: (delivery, locked) => this.#committed(delivery, locked),
      rewrite: parts.mutant?.statement ?? ((statement) => statement),
    });
  }

  carryOut(delivery: Delivery, process: Process): Promise<unknown> {
    return underWay.run(delivery, () => ask(this.#storeOf(process), delivery.message));
  }

  died(process: Process): void {
    this.#shared.died(process);
  }

  async audits(): Promise<readonly Audit[]> {
    return this.#parts.plan.keys.map(({ id }) => this.#audit(id));
  }

  async budgets(): Promise<readonly BudgetAudit[]> {
    return this.#budgetsNow();
  }

  #budgetsNow(): readonly BudgetAudit[] {
    // The columns are the fields of `PeriodAudit`.
    const closed = this.#closed.all() as unknown as readonly (PeriodAudit & { readonly budget_id: string })[];
    return (this.#budgets.all() as unknown as readonly (PeriodAudit & { readonly id: string })[]).map(
      ({ id, ...current }) => ({ id, current, closed: closed.filter(({ budget_id }) => budget_id === id) }),
    );
  }

  async verify(): Promise<readonly string[]> {
    const differences = await verifyLedger(this.#db, { dialect: "sqlite" });
    return differences.map((difference) => JSON.stringify(difference));
  }

  async close(): Promise<void> {
    await this.#db.destroy();
  }

  #storeOf(process: Process): DurableQuotaStore {
    let store = this.#stores.get(process);
    if (!store) {
      const db: SqlDatabase = new Kysely({ dialect: this.#shared.dialectOf(process) });
      // Use a transaction for each verb, because the laws check each verb by itself.
      const options = { maxVerbsPerTransaction: 1, clock: () => sql<number>`world_now()` };
      store = sqlQuotaStore({ db, dialect: "sqlite", ...options });
      this.#stores.set(process, store);
    }
    return store;
  }

  #committed(delivery: Delivery, { keyId, now }: Locked): void {
    this.#parts.ledgerLaws.worked(delivery, this.#audit(keyId), now, this.#budgetsNow());
  }

  #audit(keyId: string): Audit {
    const row = this.#books.get(keyId);
    if (!row) throw new Error(`The store has lost its key ${keyId}.`);
    // The columns are the fields of `Audit`.
    return row as unknown as Audit;
  }
}
