// postgres-driver.ts
import type { Pool, PoolClient } from "pg";
import {
  type BudgetRow,
  type HoldRow,
  type KeyRow,
  type LedgerChanges,
  type LedgerDriver,
  type LedgerRows,
  type LedgerScope,
  type PeriodRow,
  type RowPage,
  type SecretRow,
  toApiKey,
} from "polygate/stores";

export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS quota_rows (
    kind text, id text, key_id text, ends_at bigint, resolved_at bigint, content jsonb NOT NULL, PRIMARY KEY (kind, id)
  );
  CREATE INDEX IF NOT EXISTS quota_rows_by_key ON quota_rows (key_id, kind, ends_at);`;

interface Rows {
  key: KeyRow;
  secret: SecretRow;
  hold: HoldRow;
  budget: BudgetRow;
  period: PeriodRow;
}

/** A conflict with another transaction: it is repeated. */
const CONFLICTS = new Set<unknown>(["40001", "40P01", "23505"]);
const NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** `aheadMs` is for tests: the time to add to the clock of the database. */
export function postgresDriver(pool: Pool, aheadMs = () => 0): LedgerDriver {
  type Client = Pool | PoolClient;
  const now = async (client: Client): Promise<number> =>
    Number((await client.query<{ now: string }>(`SELECT ${NOW} AS now`)).rows[0]?.now) + aheadMs();
  const select = async <Kind extends keyof Rows>(
    client: Client,
    kind: Kind,
    where: string,
    values: readonly unknown[],
  ): Promise<Rows[Kind][]> => {
    const text = `SELECT content FROM quota_rows WHERE kind = '${kind}' AND ${where}`;
    return (await client.query<{ content: Rows[Kind] }>(text, [...values])).rows.map(({ content }) => content);
  };

  async function load(client: Client, scope: LedgerScope, lock: string): Promise<LedgerRows> {
    const ids = scope.keys.map(({ id }) => id);
    // Lock keys before budgets, each in the order of the ids, so that no two transactions wait for each other.
    const keys = await select(client, "key", `id = ANY($1) ORDER BY id ${lock}`, [ids]);
    const time = await now(client);
    const holds = await select(
      client,
      "hold",
      `(id = ANY($1) OR key_id = ANY($2) AND (resolved_at IS NULL AND ends_at <= $3 OR resolved_at < $4))`,
      [scope.keys.flatMap(({ holds }) => holds), ids, time, scope.resolvedBefore ?? null],
    );
    const shares = holds.filter(({ keyId }) => ids.includes(keyId)).flatMap((hold) => hold.shares ?? []);
    const chains = [...keys.flatMap(({ budgets }) => budgets), ...(scope.budgets ?? []), ...shares.map(([id]) => id)];
    const budgets = await select(client, "budget", `id = ANY($1) ORDER BY id ${lock}`, [chains]);
    const starts = shares.map(([id, startsAt]) => `${startsAt} ${id}`);
    const periods = await select(client, "period", "id = ANY($1)", [starts]);
    const secrets = await select(client, "secret", "(id = ANY($1) OR key_id = $2)", [
      scope.secrets ?? [],
      scope.secretsOf ?? null,
    ]);
    const user = scope.usersOf === undefined ? undefined : await userOf(client, scope.usersOf);
    return { now: time, keys, holds, budgets, periods, secrets, user };
  }

  async function userOf(client: Client, id: string): Promise<LedgerRows["user"]> {
    const isUsed = `content->'budgets'->>0 = $1 AND content->'revokedAt' = 'null'`;
    const [key] = await select(client, "key", `${isUsed} ORDER BY id LIMIT 1`, [id]);
    if (key) return { kind: "key", id: key.id };
    const [child] = await select(client, "budget", "content->'chain'->>1 = $1 ORDER BY id LIMIT 1", [id]);
    if (child) return { kind: "budget", id: child.id };
    const isHeld = "(content->>'held')::bigint > 0";
    const current = await select(client, "budget", `id = $1 AND ${isHeld}`, [id]);
    const closed = await select(client, "period", `content->>'budgetId' = $1 AND ${isHeld}`, [id]);
    return current.length + closed.length > 0 ? "calls" : undefined;
  }

  async function write(client: PoolClient, changes: LedgerChanges): Promise<void> {
    const save = async (
      kind: keyof Rows,
      id: string,
      { before, after }: { readonly before: unknown; readonly after: unknown },
      [keyId, endsAt, resolvedAt]: readonly unknown[] = [],
    ): Promise<void> => {
      if (!after) await client.query("DELETE FROM quota_rows WHERE kind = $1 AND id = $2", [kind, id]);
      else
        await client.query(
          // A new row of an id that exists by now is a conflict.
          before
            ? "UPDATE quota_rows SET key_id = $3, ends_at = $4, resolved_at = $5, content = $6 WHERE kind = $1 AND id = $2"
            : "INSERT INTO quota_rows VALUES ($1, $2, $3, $4, $5, $6)",
          [kind, id, keyId, endsAt, resolvedAt, JSON.stringify(after)],
        );
    };
    for (const { before, after } of changes.budgets)
      await save("budget", (after ?? before)?.id ?? "", { before, after });
    for (const { before, after } of changes.periods) {
      const { budgetId, startsAt } = after ?? before ?? { budgetId: "", startsAt: 0 };
      await save("period", `${startsAt} ${budgetId}`, { before, after });
    }
    for (const { before, after } of changes.keys) await save("key", (after ?? before)?.id ?? "", { before, after });
    for (const { before, after } of changes.holds) {
      const { id = "", keyId, expiresAt, resolvedAt } = after ?? before ?? {};
      await save("hold", id, { before, after }, [keyId, expiresAt, resolvedAt]);
    }
    for (const { before, after } of changes.secrets) {
      const { hash = "", keyId, endsAt } = after ?? before ?? {};
      await save("secret", hash, { before, after }, [keyId, endsAt]);
    }
  }

  const page = (rows: RowPage): [where: string, values: readonly unknown[]] =>
    "ids" in rows
      ? ["id = ANY($1)", [rows.ids]]
      : [`id > $1 COLLATE "C" ORDER BY id COLLATE "C" LIMIT $2`, [rows.after, rows.limit]];

  return {
    async change(scope, work) {
      for (let tries = 1; ; tries++) {
        const client = await pool.connect();
        try {
          await client.query("BEGIN");
          const { answer, changes } = work(await load(client, scope, "FOR UPDATE"));
          if (changes) await write(client, changes);
          await client.query("COMMIT");
          return answer;
        } catch (error) {
          await client.query("ROLLBACK");
          if (tries >= 20 || !CONFLICTS.has((error as { code?: unknown }).code)) throw error;
        } finally {
          client.release();
        }
      }
    },
    read: (scope) => load(pool, scope, ""),
    async find(hash) {
      const [secret] = await select(pool, "secret", "id = $1", [hash]);
      if (!secret || (secret.endsAt ?? Number.POSITIVE_INFINITY) <= (await now(pool))) return undefined;
      const [key] = await select(pool, "key", "id = $1", [secret.keyId]);
      return key && key.revokedAt === null ? toApiKey(key) : undefined;
    },
    async ownerOf(holdId) {
      const [hold] = await select(pool, "hold", "id = $1", [holdId]);
      return hold?.keyId;
    },
    async listKeys(rows) {
      const [where, values] = page(rows);
      const keys = await select(pool, "key", where, values);
      const secrets = await select(pool, "secret", "key_id = ANY($1) AND (ends_at IS NULL OR ends_at > $2)", [
        keys.map(({ id }) => id),
        await now(pool),
      ]);
      return keys.map((key) => ({ ...key, secrets: secrets.filter(({ keyId }) => keyId === key.id).length }));
    },
    listBudgets(rows) {
      const [where, values] = page(rows);
      return select(pool, "budget", "ids" in rows ? where : `content->'chain' <> '[]' AND ${where}`, values);
    },
    listPeriods(budgetId, { before, limit }) {
      const startsAt = "(content->>'startsAt')::bigint";
      const where = `content->>'budgetId' = $1 AND ${startsAt} < $2 ORDER BY ${startsAt} DESC LIMIT $3`;
      return select(pool, "period", where, [budgetId, before, limit]);
    },
    async keysWith(due, after) {
      const [which, time] =
        "expired" in due
          ? ["resolved_at IS NULL AND ends_at <= $2", await now(pool)]
          : ["resolved_at < $2", due.resolvedBefore];
      const text = `SELECT DISTINCT key_id COLLATE "C" AS id FROM quota_rows WHERE kind = 'hold' AND key_id > $1 COLLATE "C"
        AND ${which} ORDER BY 1 LIMIT 100`;
      return (await pool.query<{ id: string }>(text, [after, time])).rows.map(({ id }) => id);
    },
    async recall(keyId) {
      const text = `INSERT INTO quota_rows VALUES ('recall', $1, NULL, ${NOW} + $2::bigint, NULL, '{}')
        ON CONFLICT (kind, id) DO UPDATE SET ends_at = excluded.ends_at`;
      await pool.query(text, [keyId, aheadMs()]);
    },
    async recalled(withinMs) {
      const text = `SELECT id FROM quota_rows WHERE kind = 'recall' AND ends_at >= ${NOW} + $1::bigint`;
      return (await pool.query<{ id: string }>(text, [aheadMs() - withinMs])).rows.map(({ id }) => id);
    },
  };
}
