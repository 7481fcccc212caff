/** Compares each store with hand-written code: a reservation and its settlement in one statement each. */

import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import { createClient } from "redis";
import { openStore } from "../../../src/admin/open-store.ts";
import { type Ledger, sharedStores } from "../../stores/ledgers.ts";
import { median, row, spread } from "../report.ts";

/** The units of a hold, and the units of its settlement. */
const [HELD, USED] = [10, 7];
const GRANTED = 2 ** 50;
/** The pairs at the same time, and the connections of each contestant. */
const [LANES, CONNECTIONS] = [50, 10];

/** The hand-written code: two statements on one row of a key, without hold, lease and journal. The ratio shows the price of these. */
interface ByHand {
  reserve(keyId: string): Promise<unknown>;
  settle(keyId: string): Promise<unknown>;
  close(): Promise<unknown>;
}

/** Makes the rows of some keys and the statements for them. */
type Write = (ledger: Ledger, keyIds: readonly string[]) => Promise<ByHand>;

const RESERVE = "UPDATE by_hand SET held = held + ? WHERE id = ? AND granted - charged - held >= ?";
const SETTLE = "UPDATE by_hand SET held = held - ?, charged = charged + ? WHERE id = ?";
const CREATE = "CREATE TABLE by_hand (id varchar(190) PRIMARY KEY, granted bigint, charged bigint, held bigint)";
const INSERT = "INSERT INTO by_hand VALUES (?, ?, 0, 0)";

/** Numbers the placeholders, as PostgreSQL requires. */
const numbered = (statement: string): string => {
  let place = 0;
  return statement.replaceAll("?", () => `$${++place}`);
};

const postgres: Write = async ({ address }, keyIds) => {
  const pool = new Pool({ connectionString: address, max: CONNECTIONS });
  const [reserve, settle] = [numbered(RESERVE), numbered(SETTLE)];
  await pool.query(CREATE);
  for (const keyId of keyIds) await pool.query(numbered(INSERT), [keyId, GRANTED]);
  return {
    reserve: (keyId) => pool.query(reserve, [HELD, keyId, HELD]),
    settle: (keyId) => pool.query(settle, [HELD, USED, keyId]),
    close: () => pool.end(),
  };
};

const mysql: Write = async ({ address }, keyIds) => {
  const pool = createPool({ uri: address, connectionLimit: CONNECTIONS });
  await pool.query(CREATE);
  for (const keyId of keyIds) await pool.query(INSERT, [keyId, GRANTED]);
  return {
    reserve: (keyId) => pool.query(RESERVE, [HELD, keyId, HELD]),
    settle: (keyId) => pool.query(SETTLE, [HELD, USED, keyId]),
    close: () => pool.end(),
  };
};

/** Opens a file as durable as the store's: SQLite writes each transaction to the disk. */
const sqlite: Write = async ({ address }, keyIds) => {
  const file = `${address.slice("sqlite:".length)}-by-hand`;
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(CREATE);
  for (const keyId of keyIds) database.prepare(INSERT).run(keyId, GRANTED);
  const [reserve, settle] = [database.prepare(RESERVE), database.prepare(SETTLE)];
  return {
    reserve: async (keyId) => reserve.run(HELD, keyId, HELD),
    settle: async (keyId) => settle.run(HELD, USED, keyId),
    async close() {
      database.close();
      await rm(file);
    },
  };
};

const redis: Write = async ({ address, prefix }, keyIds) => {
  const client = createClient({ url: address });
  client.on("error", console.error);
  await client.connect();
  const name = (keyId: string): string => `${prefix}:by-hand:${keyId}`;
  for (const keyId of keyIds) await client.hSet(name(keyId), { granted: GRANTED, charged: 0, held: 0 });
  const reserve = await client.scriptLoad(`
    local key = redis.call('HMGET', KEYS[1], 'granted', 'charged', 'held')
    if key[1] - key[2] - key[3] < tonumber(ARGV[1]) then return 0 end
    redis.call('HINCRBY', KEYS[1], 'held', ARGV[1])
    return 1`);
  const settle = await client.scriptLoad(`
    redis.call('HINCRBY', KEYS[1], 'held', -ARGV[1])
    redis.call('HINCRBY', KEYS[1], 'charged', ARGV[2])
    return 1`);
  return {
    reserve: (keyId) => client.sendCommand(["EVALSHA", reserve, "1", name(keyId), String(HELD)]),
    settle: (keyId) => client.sendCommand(["EVALSHA", settle, "1", name(keyId), String(HELD), String(USED)]),
    close: () => client.close(),
  };
};

/** The pairs to compare, with the least share of the hand-written rate that the store should reach. */
const LINES: readonly {
  readonly store: string;
  readonly keys: number;
  readonly target: number;
  readonly write: Write;
}[] = [
  { store: "Redis", keys: 1, target: 0.4, write: redis },
  { store: "MySQL or MariaDB", keys: 1, target: 0.5, write: mysql },
  { store: "SQLite in a file", keys: 1, target: 0.5, write: sqlite },
  { store: "PostgreSQL", keys: 1_000, target: 0.6, write: postgres },
];

/** The pairs in a second. */
async function rateOf(ms: number, pair: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  let pairs = 0;
  const lane = async (): Promise<void> => {
    for (; performance.now() - begin < ms; pairs++) await pair();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return (pairs * 1_000) / (performance.now() - begin);
}

async function compare(line: (typeof LINES)[number], rounds: number, windowMs: number): Promise<string> {
  const shared = sharedStores.find(({ name }) => name === line.store);
  const title = `${line.store}, ${line.keys === 1 ? "one key" : `${line.keys} keys`}`;
  if (!shared?.available) return row(title, "does not answer");
  await using opened = new AsyncDisposableStack();
  const ledger = await shared.open();
  opened.defer(() => ledger.remove());
  const { address, prefix } = ledger;
  const forGateway = await openStore(address, { prefix, connections: CONNECTIONS, forGateway: true });
  opened.defer(() => forGateway.close());
  const { store } = forGateway;
  const keyIds = Array.from({ length: line.keys }, (_, index) => `key-${index}`);
  for (const id of keyIds) await store.add({ id, granted: GRANTED });
  const byHand = await line.write(ledger, keyIds);
  opened.defer(async () => void (await byHand.close()));

  let next = 0;
  const keyId = (): string => keyIds[next++ % keyIds.length] ?? "";
  const handPair = async (): Promise<void> => {
    const id = keyId();
    await byHand.reserve(id);
    await byHand.settle(id);
  };
  const storePair = async (): Promise<void> => {
    const id = randomUUID();
    await store.reserve({ id, keyId: keyId(), atLeast: HELD, atMost: HELD, leaseMs: 60_000 });
    await store.settle(id, { used: USED, certainty: "exact" });
  };
  const sample = async () => ({ hand: await rateOf(windowMs, handPair), store: await rateOf(windowMs, storePair) });
  await sample();
  const samples: { hand: number; store: number }[] = [];
  for (let round = 0; round < rounds; round++) samples.push(await sample());
  // Compare within a round: a slow moment of the machine slows both.
  const ratio = median(samples.map(({ hand, store }) => store / hand));
  return row(
    title,
    spread(samples, ({ hand }) => hand, 0),
    spread(samples, ({ store }) => store, 0),
    spread(samples, ({ hand, store }) => store / hand, 2),
    `${line.target} ${ratio >= line.target ? "met" : "missed"}`,
  );
}

/** Prints a line for each store, with its ratio and the target. */
export async function benchPairs(rounds: number, windowMs: number): Promise<void> {
  console.log(`reserve and settle, ${LANES} pairs at once, ${rounds} rounds: median (min–max)`);
  console.log(row("", "by hand, pairs/s", "the store", "ratio", "target"));
  for (const line of LINES) console.log(await compare(line, rounds, windowMs));
  console.log("");
}
