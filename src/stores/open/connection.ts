/** Opens the client of a database by the database's address, either for one command or for a long-running gateway. */

import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import process from "node:process";
import { parseEnv } from "node:util";
import type * as kyselyPackage from "kysely";
import { manyLines, nearest, oneLine } from "../../options.ts";
import { LATE, systemClock, within } from "../../ports/clock.ts";
import { isAway, isReadOnly, SILENT } from "../away.ts";
import type * as sqlStores from "../sql/index.ts";
import { AnswerLimit, limitedDialect } from "./answer-limit.ts";
import { COUNTERS, createRates, type CounterPlace, hasCounters, ratesIn, sweepRates } from "./counters.ts";

export interface SqlConnection {
  readonly dialect: sqlStores.SqlDialect;
  readonly db: sqlStores.SqlDatabase;
  readonly stores: typeof sqlStores;
  readonly counters: CounterPlace;
  /** Makes or updates the tables of the stores and of the counters. */
  migrate(): Promise<void>;
  /** Rejects when the database does not answer. */
  ask(): Promise<unknown>;
  /** Deletes the counts of windows that have ended. */
  sweepCounters(): Promise<void>;
  close(): Promise<void>;
}

export interface RedisConnection {
  readonly dialect: "redis";
  readonly client: { sendCommand(args: string[]): Promise<unknown> };
  readonly counters: CounterPlace;
  /** Rejects when the server does not answer, or is a node of a cluster. */
  ask(): Promise<unknown>;
  close(): Promise<void>;
}

export interface ConnectOptions {
  /** The prefix of the names of tables, or of keys in Redis. Default: the store's own. */
  readonly prefix?: string | undefined;
  /** Creates the SQLite file when it does not exist. */
  readonly create?: boolean;
  /** The most connections to an SQL server: 2 by default. */
  readonly connections?: number;
  /**
   * Set this for a long-running gateway. The client then connects to Redis again and again while the server is away, and has no timeout of
   * its own, because the gateway limits the time of each store call.
   */
  readonly forGateway?: boolean;
  /** The longest silence of the database while something waits for it, in milliseconds. Default: no limit of its own. */
  readonly answerMs?: number | undefined;
}

/** The error for a wrong address or option. Its message is meant for the caller, and contains no password. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The longest wait for a connection to PostgreSQL, and for the first answer of Redis. Longer than a gateway waits for a store, and so only for a server that is silent. */
const CONNECT_MS = 15_000;

/**
 * Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Throws a UsageError for any other address, and when a package that
 * the store needs is not installed. Only Redis is asked at once, and not for a gateway; an SQL server is asked by the first statement.
 */
export async function connect(address: string, options: ConnectOptions): Promise<SqlConnection | RedisConnection> {
  const { connections = 2, forGateway = false } = options;
  const kind = /^([a-z][a-z\d]*):/i.exec(address)?.[1];
  if (kind !== undefined && SERVERS.has(kind) && !urlOf(address))
    throw new UsageError(
      `The address of the store is no valid URL that begins with ${kind}://. ${adviceFor(kind, address)}`,
    );
  switch (kind) {
    case "sqlite": {
      const file = sqliteFile(address, options);
      const { kysely } = await installed({ kysely: import("kysely") }, forGateway);
      return openSql("sqlite", kysely, options, async ({ nodeSqliteDialect }) => {
        const { DatabaseSync } = await import("node:sqlite");
        const { retrying } = await import("../sql/database.ts");
        const database = new DatabaseSync(file);
        // Fails while another process, which starts at the same time, does the same.
        await retrying(async () => database.exec("PRAGMA journal_mode = WAL"));
        return [nodeSqliteDialect(database), { kind: "memory" }];
      });
    }
    case "postgres":
    case "postgresql": {
      const { kysely, pg } = await installed({ kysely: import("kysely"), pg: import("pg") }, forGateway);
      return openSql("postgres", kysely, options, async ({ nodePostgresDialect }) => {
        const timeout = forGateway && { connectionTimeoutMillis: CONNECT_MS };
        const pool = new pg.Pool({ connectionString: withUser(address), max: connections, ...timeout });
        const planOnce = urlOf(address)?.searchParams.get("pgbouncer") !== "true";
        return [nodePostgresDialect(pool, { planOnce }), { kind: "postgres", pool, ...ratesIn(options.prefix) }];
      });
    }
    case "mysql":
    case "mariadb": {
      const { kysely, mysql2 } = await installed({ kysely: import("kysely"), mysql2: import("mysql2") }, forGateway);
      return openSql("mysql", kysely, options, async () => {
        const uri = address.replace(/^mariadb:/, "mysql:");
        const pool = mysql2.createPool({ uri, connectionLimit: connections });
        pool.on("connection", leavingReadOnly);
        const { pathname } = new URL(uri);
        const rates = { schema: decodeURIComponent(pathname.slice(1)), ...ratesIn(options.prefix) };
        return [new kysely.MysqlDialect({ pool }), { kind: "mysql", pool, ...rates }];
      });
    }
    case "redis":
    case "rediss":
      return openRedis(address, options);
    default:
      throw new UsageError(
        `The address of the store must be sqlite:FILE, postgres://…, mysql://… or redis://…${meantBy(kind, address)}`,
      );
  }
}

/** The part of a connection of `mysql2` that is wrapped. */
interface MysqlConnection {
  query(...given: readonly unknown[]): unknown;
  release(): void;
  destroy(): void;
}

/** Lets a connection end when Kysely gives it back, if its server has become read-only. The pool then makes a new one. */
function leavingReadOnly(connection: MysqlConnection): void {
  const [query, release] = [connection.query.bind(connection), connection.release.bind(connection)];
  let isStale = false;
  connection.query = (...given) => {
    const heard: unknown = given.at(-1);
    // Queries of the pool itself have no function.
    if (typeof heard !== "function") return query(...given);
    return query(...given.slice(0, -1), (error: unknown, ...found: readonly unknown[]) => {
      isStale ||= isReadOnly(error);
      heard(error, ...found);
    });
  };
  connection.release = () => (isStale ? connection.destroy() : release());
}

const SERVERS: ReadonlySet<string> = new Set(["postgres", "postgresql", "mysql", "mariadb", "redis", "rediss"]);

/**
 * Names a scheme that is nearly a known one, and the file of an address that is a plain path of a database. Any other text may have a part of a
 * password, and is not shown.
 */
function meantBy(kind = "", address: string): string {
  if (/^[\w./\\-]+\.(?:db|sqlite3?)$/i.test(address)) return `. Did you mean sqlite:${address}?`;
  const meant = nearest(kind, ["sqlite", ...SERVERS]);
  return meant === undefined
    ? "."
    : `, and ${kind}: is none of them. Did you mean ${meant}:${SERVERS.has(meant) ? "//…" : "FILE"}?`;
}

/**
 * Parses the address of a server. Returns undefined for an address whose parts are in doubt: the clients would take a piece of the password
 * for the host, the port or the database, and show it in their errors.
 */
function urlOf(address: string): URL | undefined {
  if (!/^[a-z]+:\/\//.test(address)) return undefined;
  // The clients accept an address without a host.
  const url = URL.parse(address.replace("@/", "@host/"));
  return url && !`${url.pathname}${url.search}${url.hash}`.includes("@") ? url : undefined;
}

/**
 * Adds the user of the operating system to an address of PostgreSQL that names none, as psql does. The client takes a user only from the
 * variables PGUSER and USER, which services and containers often lack.
 */
function withUser(address: string): string {
  const { PGUSER, USER } = process.env;
  const url = urlOf(address);
  if (PGUSER || USER || !url || url.username !== "" || url.searchParams.has("user")) return address;
  let name: string;
  try {
    name = userInfo().username;
  } catch {
    // The system knows no name of its user, or does not tell it.
    return address;
  }
  return `${address}${url.search === "" ? "?" : "&"}user=${encodeURIComponent(name)}`;
}

/** A port of any number behind a host, in an address without a further `@`: the digits may otherwise be a part of a password. */
const WITH_PORT = /^\w+:\/\/(?:[^@/?#]*@)?[^@:/?#]+:(\d+)(?=[/?#]|$)[^@]*$/;
const MOST_PORT = 65_535;

/** Advises how to correct the address of a server. Shows no part of the address, which may hold a password. */
function adviceFor(kind: string, address: string): string {
  if (!address.startsWith(`${kind}://`)) return `Write // behind "${kind}:".`;
  if (Number(WITH_PORT.exec(address)?.[1] ?? 0) > MOST_PORT) return `Its port must be a number from 1 to ${MOST_PORT}.`;
  return "Write @, :, /, ? and # of a password as %40, %3A, %2F, %3F and %23.";
}

/** Describes where a store is, from the parts of its address that hold no secret. */
export function placeOf(address: string): string {
  if (address.startsWith("sqlite:")) return oneLine(address.replace(/\?.*$/s, ""));
  const url = urlOf(address);
  if (!url) return "The store";
  // A name without a password may be a token.
  const user = url.password === "" || url.username === "" ? "" : `${url.username}@`;
  return oneLine(`${url.protocol}//${user}${address.includes("@/") ? "" : url.host}${url.pathname}`);
}

function sqliteFile(address: string, { create = false }: ConnectOptions): string {
  const file = address.slice("sqlite:".length);
  if (file === "") throw new UsageError("sqlite: must be followed by a file.");
  if (!create && !existsSync(file))
    throw new UsageError(`There is no file ${oneLine(file)}: "polygate keys migrate" makes it.`);
  if (!existsSync(dirname(file)))
    throw new UsageError(`There is no folder ${oneLine(dirname(file))} for the database.`);
  return file;
}

/** Opens an SQL database. A host that keeps its keys in Redis need not have Kysely. */
async function openSql(
  dialect: sqlStores.SqlDialect,
  kysely: typeof kyselyPackage,
  { prefix, answerMs }: ConnectOptions,
  open: (stores: typeof sqlStores) => Promise<readonly [kyselyPackage.Dialect, CounterPlace]>,
): Promise<SqlConnection> {
  const stores = await import("../sql/index.ts");
  const [opened, counters] = await open(stores);
  const limited = answerMs === undefined ? opened : limitedDialect(opened, new AnswerLimit(answerMs));
  const db: sqlStores.SqlDatabase = new kysely.Kysely({ dialect: limited });
  return {
    dialect,
    db,
    stores,
    counters,
    async migrate() {
      await stores.migrate(db, { dialect, prefix });
      await createRates(kysely, db, counters);
    },
    ask: () => kysely.sql`select 1`.execute(db),
    sweepCounters: () => sweepRates(kysely, db, counters),
    async close() {
      const closed = db.destroy();
      // A statement without an answer would keep a command from its end.
      await (answerMs === undefined ? closed : within(closed, CLOSE_MS, systemClock));
    },
  };
}

/** The longest wait of a command for the end of its connections, in milliseconds. */
const CLOSE_MS = 2_000;

/** The wait before each attempt to reconnect to Redis, in milliseconds. */
const RECONNECT_MS = 500;

/** True for the error of a server that accepts no connection, or has no address. A connection that has broken is soon replaced. */
function isRefused(error: unknown): error is Error {
  // The attempts at several addresses of a server fail together.
  const { syscall } = Object(error instanceof AggregateError ? error.errors[0] : error) as NodeJS.ErrnoException;
  return isAway(error) && (syscall === "connect" || syscall === "getaddrinfo");
}

/**
 * Returns a function that looks at each answer, and makes a new connection when the server has become read-only: after a failover, the address
 * may lead to another server. The client has no such option. It connects again when the server has closed the connection.
 */
function leavingReplicas(client: RedisConnection["client"]): <T>(answer: Promise<T>) => Promise<T> {
  let isLeaving = false;
  const left = (): void => void (isLeaving = false);
  return async (answer) => {
    try {
      return await answer;
    } catch (error) {
      if (!isLeaving && isReadOnly(error)) {
        isLeaving = true;
        client.sendCommand(["QUIT"]).then(left, left);
      }
      throw error;
    }
  };
}

/** Switches off the client's command timeout: it would include the time that a command waits for earlier commands. */
const NO_TIMEOUT = 0;

async function openRedis(
  url: string,
  { prefix = "polygate", forGateway = false, answerMs }: ConnectOptions,
): Promise<RedisConnection> {
  const { redis } = await installed({ redis: import("redis") }, forGateway);
  // A server that was up, or away at the start, is expected back: it may refuse connections for a while before it serves again.
  let isExpected = false;
  const reconnectStrategy = (_retries: number, cause: Error): number | false => {
    isExpected ||= isAway(cause);
    return forGateway && isExpected && RECONNECT_MS;
  };
  const client = redis.createClient({
    url,
    socket: { reconnectStrategy },
    ...((forGateway || answerMs !== undefined) && { commandOptions: { timeout: NO_TIMEOUT } }),
  });
  const first = Promise.withResolvers<unknown>();
  /** The latest error of the connection. */
  let problem: unknown;
  client.on("error", (error) => {
    problem = error;
    first.reject(error);
  });
  const answer = async (): Promise<void> => {
    if (!client.isReady)
      await first.promise.catch(() => {
        throw problem;
      });
    isExpected = true;
    // A server that forbids the question is taken for a single one.
    const info = await client.sendCommand(["INFO", "cluster"]).catch(() => "");
    if (typeof info === "string" && info.includes("cluster_enabled:1")) {
      client.destroy();
      problem = new UsageError(
        "The store is a node of a Redis cluster, which an address cannot open. Make the stores in code, with redisQuotaStore({ client: createCluster(…) }).",
      );
      throw problem;
    }
  };
  const ask = async (): Promise<void> => {
    if ((await within(answer(), Math.min(CONNECT_MS, answerMs ?? CONNECT_MS), systemClock)) === LATE)
      throw new Error(SILENT);
  };
  client.connect().then(first.resolve, first.reject);
  first.promise.catch(() => {});
  if (!forGateway)
    await ask().catch((error: unknown) => {
      // A connection that stays open would keep the command from ending.
      if (client.isOpen) client.destroy();
      throw error;
    });
  const limit = answerMs === undefined ? undefined : new AnswerLimit(answerMs);
  const heard = forGateway
    ? leavingReplicas(client)
    : <T>(answer: Promise<T>) => (limit ? limit.wait({ run: () => answer, isChange: true, isWhole: true }) : answer);
  // The counters run their script by this method.
  const evaluate = (...script: Parameters<typeof client.eval>) => heard(client.eval(...script));
  const forCounters: unknown = Object.create(client, { eval: { value: evaluate } });
  return {
    dialect: "redis",
    // The client keeps commands until its server is back, so that each call would wait for the whole timeout of its store.
    client: {
      sendCommand: (args: string[]) =>
        !client.isReady && isRefused(problem) ? Promise.reject(problem) : heard(client.sendCommand(args)),
    },
    counters: { kind: "redis", client: forCounters, keyPrefix: `${prefix}:rates` },
    ask,
    async close() {
      // A client that waits for its server would wait for it here as well.
      if (client.isReady) {
        const closed = client.close();
        if (!limit || (await within(closed, CLOSE_MS, systemClock)) !== LATE) return closed;
      }
      if (client.isOpen) client.destroy();
    },
  };
}

/**
 * Loads the packages that only some stores need. Rejects with a UsageError that names all that are not installed, and for a gateway also the
 * package of counters, so that its host installs them at once.
 */
async function installed<Modules extends Readonly<Record<string, Promise<unknown>>>>(
  modules: Modules,
  forGateway: boolean,
): Promise<{ readonly [Name in keyof Modules]: Awaited<Modules[Name]> }> {
  const names = Object.keys(modules);
  const loaded = await Promise.allSettled(Object.values(modules));
  const missing = names.filter((_, at) => loaded[at]?.status === "rejected");
  if (missing.length === 0) {
    const found = loaded.map((one, at) => [names[at], one.status === "fulfilled" && one.value]);
    return Object.fromEntries(found) as { readonly [Name in keyof Modules]: Awaited<Modules[Name]> };
  }
  const cause: unknown = loaded.find((one) => one.status === "rejected")?.reason;
  const quoted = missing.map((name) => `"${name}"`).join(" and ");
  const packages = missing.length === 1 ? `package ${quoted}` : `packages ${quoted}`;
  const counters = forGateway && !hasCounters() ? `. Its counters of rate limits also need ${COUNTERS}` : "";
  throw new UsageError(`This store needs the ${packages}: npm install ${missing.join(" ")}${counters}`, { cause });
}

/** Describes a problem with a store in one line, without the password of an address, which may lack its slashes. */
export function describeProblem(error: unknown): string {
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const text = cause instanceof Error ? cause.message || String(cause) : String(cause);
  const problem = manyLines(text.replaceAll(/\S+/g, withoutPassword));
  const step = stepAfter(cause);
  return step === undefined ? problem : `${problem.replace(/\.$/, "")}. ${step}`;
}

/** Returns a word without what stands between a colon and an `@`. Each search runs over the word once, because strangers write long words. */
function withoutPassword(word: string): string {
  const end = word.lastIndexOf("@");
  const [scheme = ""] = /^.*?\w:(?:\/\/)?/s.exec(word.slice(0, Math.max(0, end))) ?? [];
  return scheme === "" ? word : `${scheme}***${word.slice(end)}`;
}

/** The next steps after refusals of a database, by the code and the message of the error. Redis has only messages. */
const STEPS: readonly (readonly [refusal: RegExp, step: string])[] = [
  [/^3D000 /, "Make it: createdb NAME"],
  [/^28000 role /, "Make it: createuser --pwprompt NAME; or start the server that the address means"],
  [/^SASL: .* password must be /, "The password is missing: add it to the address, or set PGPASSWORD"],
  [/^28P01 /, "Correct the password of the address, or PGPASSWORD"],
  [/^42501 .* for schema /, "Let the user of the address make tables: GRANT ALL ON SCHEMA … TO …"],
  [
    /^42501 /,
    "Let the user of the address write the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO …, and GRANT USAGE ON ALL SEQUENCES; a migration needs their owner",
  ],
  [/^ER_BAD_DB_ERROR /, "Make it: mysqladmin create NAME"],
  [/^ER_DBACCESS_DENIED_ERROR /, "Let the user use it: GRANT ALL ON DATABASE.* TO …"],
  [/^ER_ACCESS_DENIED/, "Correct the user and the password of the address, or make the user: CREATE USER NAME"],
  [/^ERR_SQLITE_ERROR database (?:\w+ )?is locked/, "Another process holds it: try again when that has ended"],
  [/^NOAUTH /, "Add the password to the address: redis://:PASSWORD@HOST"],
  [/^WRONGPASS /, "Correct the user and the password of the address"],
  [/^ERR AUTH .* without any password/, "Leave the password out of the address"],
];

/** Says what to do about a database, a user or a password that the server does not know. */
function stepAfter(error: unknown): string | undefined {
  const { code, message = "" } = (error ?? {}) as { readonly code?: unknown; readonly message?: string };
  const refusal = typeof code === "string" ? `${code} ${message}` : message;
  const [, step] = STEPS.find(([known]) => known.test(refusal)) ?? [];
  const [, name = "NAME"] = /["']([\w-]+)["']/.exec(message) ?? [];
  return step?.replace("NAME", name);
}

/**
 * Says that the store of the environment is not that of a `.env` file, whose variables Node does not set again. Undefined where both agree.
 *
 * @param file The text of the `.env` file.
 */
export function noteOfEnvFile(address: string, file: string): string | undefined {
  const { POLYGATE_STORE: other } = parseEnv(file);
  if (!other || other === address) return undefined;
  return `The store is ${placeOf(address)}, as POLYGATE_STORE of the environment says. The file .env names ${placeOf(other)}.`;
}
