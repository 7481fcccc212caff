/** A host that a team would start from: Express, a real upstream, quota, rates and answers to repeat in PostgreSQL, and a row for each call to bill from. */

import type { AddressInfo } from "node:net";
import process from "node:process";
import express from "express";
import { Kysely } from "kysely";
import { Pool } from "pg";
import { RateLimiterPostgres } from "rate-limiter-flexible";
import { toExpressHandler } from "../../adapters/express.ts";
import { type CallRecord, createGateway, flexibleRateLimiter } from "../../src/index.ts";
import { migrate, nodePostgresDialect, sqlQuotaStore, sqlReplayStore } from "../../src/stores/sql/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";

const { DATABASE_URL = "", UPSTREAM_URL = "", UPSTREAM_KEY, PORT = "3000" } = process.env;

/** The team's own table beside the gateway's: what was called, by whom, and what it cost. */
interface Database {
  calls: {
    id: string;
    key_id: string | null;
    model: string | null;
    input_tokens: number;
    output_tokens: number;
    units: number;
    certainty: string;
    outcome: string;
    began_at: Date;
    took_ms: number;
  };
}

const pool = new Pool({ connectionString: DATABASE_URL });
pool.on("error", console.error);
const db = new Kysely<Database>({ dialect: nodePostgresDialect(pool) });

// The tables are made at the first start. Keys are made by `npx polygate keys create --store $DATABASE_URL`.
await migrate(db, { dialect: "postgres" });
await db.schema
  .createTable("calls")
  .ifNotExists()
  .addColumn("id", "text", (column) => column.primaryKey())
  .addColumn("key_id", "text")
  .addColumn("model", "text")
  .addColumn("input_tokens", "bigint", (column) => column.notNull())
  .addColumn("output_tokens", "bigint", (column) => column.notNull())
  .addColumn("units", "bigint", (column) => column.notNull())
  .addColumn("certainty", "text", (column) => column.notNull())
  .addColumn("outcome", "text", (column) => column.notNull())
  .addColumn("began_at", "timestamptz", (column) => column.notNull())
  .addColumn("took_ms", "bigint", (column) => column.notNull())
  .execute();

/** So many in so many seconds, counted for all processes together. */
const window = (points: number, duration: number): Promise<RateLimiterPostgres> =>
  new Promise((resolve, reject) => {
    const options = { storeClient: pool, tableName: "rates", points, duration };
    const counter = new RateLimiterPostgres(options, (error) => (error ? reject(error) : resolve(counter)));
  });

const quotas = sqlQuotaStore({ db, dialect: "postgres" });
const replayStore = sqlReplayStore({ db, dialect: "postgres" });
const gateway = createGateway({
  backend: relay({ format: "chat-completions", baseUrl: UPSTREAM_URL, apiKey: UPSTREAM_KEY }),
  quotas,
  replayStore,
  rateLimiter: flexibleRateLimiter({
    perKey: { requests: [await window(60, 60)], tokens: [await window(100_000, 60)], callsAtOnce: 8 },
  }),
  onCall: (record) => void track(billSurely(record)),
});

async function bill({ requestId, key, usage, ...record }: CallRecord): Promise<void> {
  await db
    .insertInto("calls")
    .values({
      id: requestId,
      key_id: key?.id ?? null,
      model: record.modelAnswered ?? record.modelAsked ?? null,
      input_tokens: usage?.inputTokens ?? 0,
      output_tokens: usage?.outputTokens ?? 0,
      units: record.units,
      certainty: record.certainty,
      outcome: record.outcome,
      began_at: new Date(record.beganAt),
      took_ms: record.endMs,
    })
    // An insertion whose answer was lost is repeated.
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** How often a row is tried that the database does not take, and how long after a failure, in milliseconds. */
const [TRIES, PAUSE_MS] = [60, 1_000];

/** Writes the row of a call, also while the database restarts. */
async function billSurely(record: CallRecord): Promise<void> {
  for (let tries = 1; ; tries++)
    try {
      return await bill(record);
    } catch (error) {
      if (tries >= TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
}

/** Rows that are being written: the process waits for them before it ends. */
const writing = new Set<Promise<void>>();

async function track(work: Promise<void>): Promise<void> {
  const written = work.catch(console.error);
  writing.add(written);
  await written;
  writing.delete(written);
}

// Holds of a process that has died are charged and given back, also of keys that nobody uses meanwhile; old answers are deleted.
const sweep = async (): Promise<void> => void (await Promise.all([quotas.sweep(), replayStore.sweep()]));
setInterval(() => void sweep().catch(console.error), 60_000).unref();

const app = express();
app.use("/ai", toExpressHandler(gateway));
app.get("/", (_req, res) => void res.send("The team is at home."));

const server = app.listen(Number(PORT), "127.0.0.1", () =>
  console.log(`The gateway is at http://127.0.0.1:${(server.address() as AddressInfo).port}/ai`),
);

async function end(): Promise<void> {
  await gateway.close();
  server.close();
  await Promise.all(writing);
  await db.destroy();
  process.exit();
}

process.once("SIGTERM", () => void end());
