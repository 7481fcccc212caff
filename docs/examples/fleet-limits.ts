// fleet-limits.ts
import { Pool } from "pg";
import { flexibleRateLimiter } from "polygate";
import { RateLimiterPostgres } from "rate-limiter-flexible";

const pool = new Pool({ connectionString: process.env["DATABASE_URL"] });
pool.on("error", console.error);

// Creates the table of all counters. The lock lets processes that start at the same time do this one after the other: counters
// that create it at the same time may crash the process. Names of limits can exceed the 255 characters of their own table.
await pool.query(`
  SELECT pg_advisory_xact_lock(7246);
  CREATE TABLE IF NOT EXISTS rates (key text PRIMARY KEY, points integer NOT NULL, expire bigint)
`);

const counter = (points: number, duration: number): RateLimiterPostgres =>
  new RateLimiterPostgres({ storeClient: pool, tableName: "rates", tableCreated: true, points, duration });

export const rateLimiter = flexibleRateLimiter({
  perKey: { requests: [counter(60, 60), counter(5_000, 86_400)], tokens: [counter(100_000, 60)] },
  perModel: { requests: [counter(20, 60)] },
});
