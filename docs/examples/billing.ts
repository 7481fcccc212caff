// billing.ts
import { DatabaseSync } from "node:sqlite";
import { type CallRecord, createGateway, memoryQuotaStore } from "polygate";
import { myBackend } from "./backend.ts";

const database = new DatabaseSync(":memory:");
database.exec(
  "CREATE TABLE calls (id TEXT PRIMARY KEY, key TEXT, tenant TEXT, model TEXT, units INTEGER, at INTEGER, record TEXT)",
);
const insert = database.prepare("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)");

export const gateway = createGateway<{ tenant: string }>({
  backend: myBackend,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]),
  onCall(record) {
    const { requestId, key, context, modelAsked, units, beganAt } = record;
    if (units === 0) return;
    const row = [requestId, key?.id ?? null, context?.tenant ?? null, modelAsked ?? null, units, beganAt];
    insert.run(...row, JSON.stringify(withoutContext(record)));
  },
});

const withoutContext = ({ context: _, ...record }: CallRecord): object => record;

/** Sums the units of each key and model from the time `since` on, in milliseconds. */
export const bill = (since: number): unknown[] =>
  database.prepare("SELECT key, model, sum(units) AS units FROM calls WHERE at >= ? GROUP BY key, model").all(since);
