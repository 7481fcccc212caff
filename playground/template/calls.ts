/** The table of calls: who called which model, and what it cost. */

import type { CallRecord } from "polygate";
import { stores } from "./stores.ts";

type Tables = {
  calls: {
    id: string;
    key_id: string | null;
    model: string | null;
    upstream: string | null;
    input_tokens: number;
    output_tokens: number;
    /** The cost. With prices in US dollars, a unit is a millionth of a dollar. */
    units: number;
    certainty: string;
    outcome: string;
    began_at: string;
    took_ms: number;
  };
};

const db = stores.db.withTables<Tables>();

const createTable = () =>
  db.schema
    .createTable("calls")
    .ifNotExists()
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("key_id", "text")
    .addColumn("model", "text")
    .addColumn("upstream", "text")
    .addColumn("input_tokens", "bigint", (column) => column.notNull())
    .addColumn("output_tokens", "bigint", (column) => column.notNull())
    .addColumn("units", "bigint", (column) => column.notNull())
    .addColumn("certainty", "text", (column) => column.notNull())
    .addColumn("outcome", "text", (column) => column.notNull())
    .addColumn("began_at", "timestamptz", (column) => column.notNull())
    .addColumn("took_ms", "bigint", (column) => column.notNull())
    .execute();

// Processes that start at the same time may collide here. A process that fails finds the table at its second attempt.
await createTable().catch(createTable);

async function insert({ requestId, key, usage, attempts, ...record }: CallRecord): Promise<void> {
  await db
    .insertInto("calls")
    .values({
      id: requestId,
      key_id: key?.id ?? null,
      model: record.modelAnswered ?? record.modelAsked ?? null,
      upstream: attempts.at(-1)?.upstream ?? null,
      input_tokens: usage?.inputTokens ?? 0,
      output_tokens: usage?.outputTokens ?? 0,
      units: record.units,
      certainty: record.certainty,
      outcome: record.outcome,
      began_at: new Date(record.beganAt).toISOString(),
      took_ms: record.endMs,
    })
    // A row is written again if the database took it but its reply was lost.
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** How often a row is tried, and the pause after a failure in milliseconds. */
const [TRIES, PAUSE_MS] = [60, 1_000];

/** Writes a row, also while the database restarts. */
async function insertSurely(record: CallRecord): Promise<void> {
  for (let tries = 1; ; tries++)
    try {
      return await insert(record);
    } catch (error) {
      if (tries >= TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
}

const writing = new Set<Promise<void>>();

export function writeCall(record: CallRecord): void {
  const work = insertSurely(record)
    .catch((error: unknown) => console.error("A call is not in the table:", record, error))
    .finally(() => writing.delete(work));
  writing.add(work);
}

/** Resolves when no row is being written. */
export const allWritten = (): Promise<unknown> => Promise.all(writing);
