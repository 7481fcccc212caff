/** The record of calls in SQL: writes calls with the sums of their day, and keeps their units equal to those of the ledger. */

import { type Insertable, type Selectable, sql } from "kysely";
import { copyOf, parseJson } from "../../model/json.ts";
import { assertOptions, CLOCK, type Shapes, tellHost } from "../../options.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallRecord } from "../../ports/observer.ts";
import { callOfHold, furtherHoldId } from "../../ports/quota-store.ts";
import { calendarOf, dateAt, spanAt } from "../budgets.ts";
import {
  type CallReader,
  type CallRecorder,
  FAILED_OUTCOMES,
  RECORDER_SHAPES,
  type RecorderOptions,
} from "../calls.ts";
import { type StoredShare, toShares } from "../driver.ts";
import { isStorableId } from "../durable.ts";
import { hashApiKey as hashOf, TwoGenerationMap } from "../ledger.ts";
import { notedCurrency } from "../noted-currency.ts";
import { WriteBehind } from "../write-behind.ts";
import { sqlAuditLog } from "./audit.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { type CallTable, type HoldTable, numberOf, USAGE_BY, USAGE_SUMS, type UsageTable } from "./tables.ts";
import { currencyIn, readerOf } from "./usage.ts";

/** Options of the record of calls over SQL. */
export interface SqlCallLogOptions<Context = unknown> extends SqlStoreOptions, RecorderOptions<Context> {
  /** Is told when the database does not take calls, and of calls without a record. Default: nobody is told. */
  readonly onError?: (error: unknown) => void;
  /** The clock of the timers. Default: the machine's clock. */
  readonly timers?: Clock;
}

/** The record of calls in an SQL database. */
export interface SqlCallLog<Context = unknown> extends CallReader {
  /** Records finished calls: give it to `createGateway` as `onCall`. */
  readonly onCall: CallRecorder<Context>;
  /**
   * Compares the recorded calls with the ledger in the same tables, and returns the number of corrected calls: a charge that has no call
   * gets an `unrecorded` one, and a call that was charged otherwise gets the units of the ledger. Leaves out holds that were resolved
   * within the last minute, whose calls may still wait to be written. Call it each minute.
   */
  sweep(): Promise<number>;
  /** Deletes calls older than `keepDays`, and returns their number. The sums of their days stay. */
  prune(): Promise<number>;
  /** Writes the calls that wait, for half a minute at most while the database is away. Call it after `gateway.close`. */
  close(): Promise<void>;
}

const LOG_SHAPES: Shapes<SqlCallLogOptions> = {
  ...SQL_SHAPES,
  ...RECORDER_SHAPES,
  onError: "function?",
  timers: CLOCK,
};

/**
 * Makes a record of calls in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must have been made by
 * `migrate`. With the quota store in the same tables, the sums of units agree with the ledger.
 *
 * @throws TypeError or RangeError for a wrong option, such as an unknown time zone.
 * @example
 * const calls = sqlCallLog({ db, dialect: "postgres" });
 * const gateway = createGateway({ backend, quotas, onCall: calls.onCall });
 */
export function sqlCallLog<Context = unknown>(options: SqlCallLogOptions<Context>): SqlCallLog<Context> {
  assertOptions<SqlCallLogOptions>("sqlCallLog", options, LOG_SHAPES);
  const access = SqlAccess.open(options);
  return Object.assign(new SqlCalls(access, options), readerOf(access));
}

type CallRow = Insertable<CallTable>;

/** A call before it is written, with the facts that the database must add. */
interface Draft {
  readonly row: Omit<CallRow, "at" | "day" | "budgets">;
  readonly beganAt: number;
  /** The id of the key's own budget; undefined without a budget. */
  readonly budget: string | undefined;
  /** The number of holds of the call in the ledger. */
  readonly holds: number;
}

const DAY_MS = 86_400_000;
/** The age of a resolved hold whose call must have been written, in milliseconds. */
const GRACE_MS = 60_000;
/** A transaction corrects, or deletes, at most this many calls. */
const MOST_AT_ONCE = 200;
const MOST_PAGES = 500;
/** The most holds of a call whose charges are compared. */
const MOST_HOLDS = 1_000;
/** The number of further holds that are looked for at once. */
const FURTHER_AT_ONCE = 8;
/** The characters of the id of a call, which is that of its first hold. */
const CALL_ID_CHARS = 36;
/** The longest text of a model, a group or an upstream, in characters. */
const MOST_CHARS = 256;
const MOST_ID_CHARS = 190;
/** The longest message of an error, in characters. */
const MOST_MESSAGE_CHARS = 500;
/** The longest JSON, in characters: MySQL stores texts of 65,535 bytes. */
const MOST_JSON_CHARS = 21_845;
/** The memory of a waiting call beside its texts, in bytes. */
const DRAFT_BYTES = 1_000;

/**
 * True for a free answer that no model has given, such as a list of models: pages and SDKs ask for it often, and it would count as a call in
 * reports. A message over a WebSocket names its model.
 */
const isLookUp = ({ method, outcome, units, modelAsked }: CallRecord): boolean =>
  method === "GET" && outcome === "completed" && units === 0 && modelAsked === undefined;

const groupInMetadata = ({ key }: CallRecord): string | undefined => key?.metadata?.["group"];

class SqlCalls implements Omit<SqlCallLog, keyof CallReader> {
  readonly onCall: CallRecorder;
  readonly #access: SqlAccess;
  readonly #keepMs: number;
  readonly #groupOf: NonNullable<RecorderOptions["groupOf"]>;
  readonly #currency: string | null;
  readonly #calendar: Calendars;
  readonly #queue: WriteBehind<Draft>;
  readonly #onError: (error: unknown) => void;
  readonly #audit: AuditLog;
  /** The currency of the calls so far, or else of noted amounts; null for none, and undefined before it is read. */
  #known: string | null | undefined;
  /** True if only noted amounts have the known currency. */
  #isNoted = false;
  #hasMixed = false;

  constructor(access: SqlAccess, options: SqlCallLogOptions) {
    const { keepDays = 30, groupOf = groupInMetadata, timeZone = "UTC", currency } = options;
    const { flushMs = 1_000, maxWaitingBytes = 16 * 1024 * 1024, onError = () => {}, timers } = options;
    if (currency !== undefined && !/^[a-z]{3}$/i.test(currency))
      throw new RangeError(`currency must be a code of three letters, such as usd, not ${JSON.stringify(currency)}`);
    this.#access = access;
    const { db, dialect, prefix, tables } = options;
    this.#audit = sqlAuditLog({ db, dialect, prefix, tables });
    this.#keepMs = keepDays * DAY_MS;
    this.#groupOf = groupOf;
    this.#currency = currency?.toUpperCase() ?? null;
    this.#calendar = new Calendars(timeZone);
    this.#onError = (error) => tellHost(onError, error);
    this.#queue = new WriteBehind({
      write: (drafts) => this.#write(drafts),
      onError: this.#onError,
      flushMs,
      maxBytes: maxWaitingBytes,
      clock: timers,
    });
    this.onCall = Object.assign((record: CallRecord) => this.#add(record), {
      ...(this.#currency !== null && { currency: this.#currency }),
      flush: () => this.#queue.flush(),
    });
  }

  close(): Promise<void> {
    return this.#queue.close();
  }

  #add(record: CallRecord): void {
    if (isLookUp(record)) return;
    const { key, usage, images, refusedBy, attempts } = record;
    const upstream = attempts.at(-1)?.upstream;
    const units = countOf(record.units);
    const isAnswered = units > 0 || record.outcome === "completed" || record.modelListed;
    const row: Draft["row"] = {
      id: clip(record.requestId, MOST_ID_CHARS),
      key_id: key && isStorableId(key.id) ? key.id : "",
      group_name: trimmed(this.#groupIn(record)),
      metadata: jsonOf(key?.metadata),
      format: clip(record.format),
      route: clip(`${record.method} ${record.route}`),
      model_asked: clippedOrNull(record.modelAsked),
      model_answered: clippedOrNull(record.modelAnswered),
      // The name of a model that nobody knows is any text of the caller, and each would have sums of its own.
      model: isAnswered ? trimmed(record.modelAsked ?? record.modelAnswered) : "",
      streamed: record.stream ? 1 : 0,
      upstream: trimmed(upstream),
      attempts: jsonOf(attempts.length === 0 ? undefined : attempts.map(clipped)),
      outcome: record.outcome,
      status: countOf(record.status),
      error_code: clippedOrNull(record.errorCode),
      error_field: clippedOrNull(record.errorPath?.join(".")),
      error_message: clippedOrNull(record.errorMessage, MOST_MESSAGE_CHARS),
      afforded_output_tokens: record.affordedOutputTokens === undefined ? null : countOf(record.affordedOutputTokens),
      refused_by: jsonOf(refusedBy && clipped(refusedBy)),
      input_tokens: countOf(
        usage?.inputTokens ?? (images && images.usage.inputTextTokens + images.usage.inputImageTokens),
      ),
      output_tokens: countOf(usage?.outputTokens ?? images?.usage.outputTokens),
      cache_read_tokens: countOf(usage?.cacheReadTokens),
      cache_write_tokens: countOf(usage?.cacheWriteTokens),
      reasoning_tokens: countOf(usage?.reasoningTokens),
      images: countOf(images?.count),
      units,
      estimated: record.certainty === "estimated" ? units : 0,
      currency: this.#currency ?? clippedOrNull(record.currency),
      replay_of: clippedOrNull(record.replayOf, MOST_ID_CHARS),
      first_event_ms: record.firstEventMs === undefined ? null : countOf(record.firstEventMs),
      end_ms: countOf(record.endMs),
    };
    const chars = Object.values(row).reduce<number>(
      (sum, value) => sum + (typeof value === "string" ? value.length : 0),
      0,
    );
    const holds = Math.min(countOf(record.holds ?? 1), MOST_HOLDS);
    this.#queue.add({ row, beganAt: countOf(record.beganAt), budget: key?.budget, holds }, DRAFT_BYTES + 2 * chars);
  }

  /** Asks the host's function, which may throw, and may return anything. */
  #groupIn(record: CallRecord): string {
    try {
      const group: unknown = this.#groupOf(record);
      return typeof group === "string" ? group : "";
    } catch {
      return "";
    }
  }

  /** Writes calls and adds them to the sums of their days, in one transaction. A call that is written already changes nothing. */
  async #write(drafts: readonly Draft[]): Promise<void> {
    await this.#compareCurrencies(drafts);
    const byId = new Map(drafts.map((draft) => [draft.row.id, draft]));
    return this.#access.transact(async (access) => {
      const ids = Array.from(byId.keys());
      const known = await access.db.selectFrom("calls").selectAll().where("id", "in", ids).execute();
      const sums = new DaySums();
      // A process that seemed dead tells of its call after all.
      for (const row of known)
        if (row.outcome === "unrecorded") await this.#take(access, row, sums);
        else byId.delete(row.id);
      const charges = await this.#chargesOf(access, byId);
      const rows: CallRow[] = [];
      for (const { row, beganAt, budget } of byId.values()) {
        const charge = charges.get(row.id);
        const placed = await this.#place(access, beganAt, charge?.shares, budget);
        rows.push(charged({ ...row, ...placed }, charge));
      }
      for (const row of rows) sums.add(row, 1);
      if (rows.length > 0) await access.db.insertInto("calls").values(rows).execute();
      await sums.write(access);
    });
  }

  /** Tells the host once of calls in another currency than earlier ones or noted amounts, or in none, because their units are added up. */
  async #compareCurrencies(drafts: readonly Draft[]): Promise<void> {
    if (this.#hasMixed) return;
    if (this.#known === undefined) {
      const ofCalls = await currencyIn(this.#access);
      this.#known = ofCalls ?? (await notedCurrency(this.#audit)) ?? null;
      this.#isNoted = ofCalls === null;
    }
    for (const { row } of drafts) {
      const { currency = null } = row;
      this.#known ??= currency;
      if (currency === this.#known) continue;
      this.#hasMixed = true;
      const [known, earlier] = [this.#known, this.#isNoted ? "amounts were given" : "earlier ones"];
      const both = `calls are recorded ${currency === null ? "without a currency" : `in ${currency}`}, and ${earlier} in ${known}`;
      const advice = `Give the gateway prices in ${known}, or a store of its own.`;
      return this.#onError(
        new Error(`Reports and budgets add up ${currency ?? "units"} and ${known}: ${both}. ${advice}`),
      );
    }
  }

  /** Deletes a call, and takes it out of the sums. Conflicts with a transaction that has changed it meanwhile. */
  async #take({ db }: SqlAccess, row: Selectable<CallTable>, sums: DaySums): Promise<void> {
    const [done] = await db.deleteFrom("calls").where("id", "=", row.id).where("units", "=", row.units).execute();
    if (Number(done?.numDeletedRows) !== 1) throw conflict();
    sums.add(row, -1);
  }

  /** Reads what the ledger has charged for calls. Calls without a hold, or with a hold of another store, have no charge here. */
  async #chargesOf(access: SqlAccess, drafts: ReadonlyMap<string, Draft>): Promise<ReadonlyMap<string, Charge>> {
    const ids = Array.from(drafts, ([id, { holds }]) => [id, ...furtherHolds(id, 2, holds)]).flat();
    const charges = new Map<string, Charge>();
    for (const [id, holds] of Map.groupBy(await holdsIn(access, ids), (hold) => callOfHold(hold.id))) {
      const charge = chargeOf(holds);
      // Of a hold that is in a block, the record alone tells the charge.
      charges.set(id, holds.length === drafts.get(id)?.holds ? charge : { ...charge, units: undefined });
    }
    return charges;
  }

  /** Reads all holds of calls, by the ids of the calls. */
  async #holdsOf(access: SqlAccess, calls: readonly string[]): Promise<ReadonlyMap<string, readonly LedgerHold[]>> {
    const found: LedgerHold[] = [];
    let rest = calls;
    for (let from = 2; rest.length > 0 && from <= MOST_HOLDS; from += FURTHER_AT_ONCE) {
      const until = from + FURTHER_AT_ONCE - 1;
      const ids = rest.flatMap((id) => [...(from === 2 ? [id] : []), ...furtherHolds(id, from, until)]);
      const holds = await holdsIn(access, ids);
      found.push(...holds);
      const known = new Set(holds.map(({ id }) => id));
      rest = rest.filter((id) => known.has(furtherHoldId(id, until)));
    }
    return Map.groupBy(found, ({ id }) => callOfHold(id));
  }

  /**
   * Places a call in time: the moment of its beginning, in the periods of the budgets that it is charged to, by the calendar of the key's
   * own budget.
   */
  async #place(
    access: SqlAccess,
    beganAt: number,
    shares: readonly StoredShare[] | undefined,
    budget: string | undefined,
  ): Promise<Pick<CallRow, "at" | "day" | "budgets">> {
    let at = beganAt;
    for (const [id, startsAt] of shares ?? []) {
      const terms = await this.#calendar.termsOf(access, id);
      at = Math.max(startsAt, at);
      if (terms) at = Math.min(at, spanAt(terms, startsAt).endsAt - 1);
    }
    // The key may have been moved to another budget since it was found.
    const own = shares ? shares[0]?.[0] : budget;
    const terms = own === undefined ? undefined : await this.#calendar.termsOf(access, own);
    const chain = shares?.map(([id]) => id) ?? terms?.chain ?? [];
    return {
      at,
      day: this.#calendar.dayAt(terms?.timeZone, at),
      budgets: chain.length > 0 ? JSON.stringify(chain) : "",
    };
  }

  async sweep(): Promise<number> {
    let corrected = 0;
    for (let page = 0; page < MOST_PAGES; page++) {
      const done = await this.#correctSome();
      corrected += done.corrected;
      if (done.isLast) break;
    }
    return corrected;
  }

  /** Corrects some calls whose units are not those of the ledger, and notes how far the ledger was compared. */
  #correctSome(): Promise<{ readonly corrected: number; readonly isLast: boolean }> {
    return this.#access.transact(async (access) => {
      const { db, time } = access;
      const mark = await db.selectFrom("usage_mark").select("at").where("id", "=", 1).executeTakeFirst();
      if (!mark) await db.insertInto("usage_mark").values({ id: 1, at: 0 }).execute();
      const { now } = await db.selectNoFrom(time.as("now")).executeTakeFirstOrThrow();
      const [since, until] = [numberOf(mark?.at ?? 0), numberOf(now) - GRACE_MS];
      const holds = await db
        .selectFrom("holds")
        .leftJoin("calls", "calls.id", "holds.id")
        .select(["holds.id", "holds.resolved_at"])
        .where("holds.resolved_at", ">", since)
        .where("holds.resolved_at", "<=", until)
        // A block holds the units of many calls, which have records of their own.
        .where("holds.id", "not like", "block-%")
        .where((eb) =>
          eb.or([
            eb.and([eb("calls.id", "is", null), eb("holds.used", ">", 0)]),
            // A further hold ends the call, also where it is charged nothing.
            eb(sql`LENGTH(${sql.ref("holds.id")})`, ">", CALL_ID_CHARS),
            eb("calls.units", "!=", eb.ref("holds.used")),
          ]),
        )
        .orderBy("holds.resolved_at")
        .orderBy("holds.id")
        .limit(MOST_AT_ONCE)
        .execute();
      const sums = new DaySums();
      const ids = Array.from(new Set(holds.map(({ id }) => callOfHold(id))));
      const known = ids.length > 0 ? await db.selectFrom("calls").selectAll().where("id", "in", ids).execute() : [];
      const byId = new Map(known.map((row) => [row.id, row]));
      const currency = this.#currency ?? (holds.length > 0 ? await currencyIn(access) : null);
      let corrected = 0;
      for (const [id, ofCall] of await this.#holdsOf(access, ids)) {
        const before = byId.get(id);
        const charge = chargeOf(ofCall);
        // The call goes on, or its first hold is in a block.
        if (charge.units === undefined || (before && !ofCall.some((hold) => hold.id === id))) continue;
        if (charge.units === numberOf(before?.units ?? 0)) continue;
        if (before) await this.#take(access, before, sums);
        const [first] = ofCall;
        const at = numberOf(first?.resolved_at ?? 0);
        const placed = before ?? (await this.#place(access, at, charge.shares, undefined));
        const unrecorded = { ...UNRECORDED, ...placed, id, key_id: first?.key_id ?? "", currency };
        const row: CallRow = charged(before ?? unrecorded, charge);
        sums.add(row, 1);
        await db.insertInto("calls").values(row).execute();
        corrected++;
      }
      await sums.write(access);
      const isLast = holds.length < MOST_AT_ONCE;
      // Holds of the same moment may follow on the next page. A page without a correction must not come again.
      const next = Math.max(numberOf(holds.at(-1)?.resolved_at ?? 0) - 1, corrected === 0 ? since + 1 : since);
      const at = isLast ? until : next;
      await db.updateTable("usage_mark").set({ at }).where("id", "=", 1).where("at", "<", at).execute();
      return { corrected, isLast };
    });
  }

  async prune(): Promise<number> {
    const { db, time } = this.#access;
    const before = sql<number>`${time} - ${sql.lit(this.#keepMs)}`;
    let total = 0;
    for (;;) {
      const old = await this.#access.all(
        db.selectFrom("calls").select("id").where("at", "<", before).limit(MOST_AT_ONCE),
      );
      if (old.length === 0) return total;
      const ids = old.map(({ id }) => id);
      await this.#access.all(db.deleteFrom("calls").where("id", "in", ids));
      total += old.length;
    }
  }
}

/** The fields of a charge whose call has left no record. */
const UNRECORDED: Omit<CallRow, "id" | "key_id" | "at" | "day" | "budgets" | "currency"> = {
  units: 0,
  estimated: 0,
  group_name: "",
  metadata: null,
  format: "",
  route: "",
  model_asked: null,
  model_answered: null,
  model: "",
  streamed: 0,
  upstream: "",
  attempts: null,
  outcome: "unrecorded",
  status: 0,
  error_code: null,
  error_field: null,
  error_message: null,
  afforded_output_tokens: null,
  refused_by: null,
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  images: 0,
  replay_of: null,
  first_event_ms: null,
  end_ms: 0,
};

const HOLD_COLUMNS = ["id", "key_id", "state", "used", "shares", "resolved_at"] as const;

type LedgerHold = Pick<Selectable<HoldTable>, (typeof HOLD_COLUMNS)[number]>;

/** Reads holds, the first of each call before its others. */
async function holdsIn({ db }: SqlAccess, ids: readonly string[]): Promise<readonly LedgerHold[]> {
  if (ids.length === 0) return [];
  const holds = await db.selectFrom("holds").select(HOLD_COLUMNS).where("id", "in", ids).execute();
  return holds.toSorted((one, other) => one.id.length - other.id.length || (one.id < other.id ? -1 : 1));
}

/** Returns the ids of further holds of a call. */
const furtherHolds = (callId: string, from: number, until: number): string[] =>
  Array.from({ length: Math.max(0, until - from + 1) }, (_, at) => furtherHoldId(callId, from + at));

/** The charge of all holds of a call. */
interface Charge {
  /** Undefined while a hold lives. */
  readonly units: number | undefined;
  /** The units of holds that have expired: their charge is an estimate. */
  readonly expired: number;
  /** Empty for a charge to no budget; undefined when they are corrupt. */
  readonly shares: readonly StoredShare[] | undefined;
}

function chargeOf(holds: readonly LedgerHold[]): Charge {
  const sum = (of: readonly LedgerHold[]): number => of.reduce((units, { used }) => units + numberOf(used), 0);
  const shares = holds[0]?.shares ?? null;
  return {
    units: holds.some(({ state }) => state === "live") ? undefined : sum(holds),
    expired: sum(holds.filter(({ state }) => state === "expired")),
    shares: shares === null ? [] : toShares(shares),
  };
}

/** Gives a call the units of the ledger, once they are known. */
function charged(row: CallRow, { units, expired = 0 }: Partial<Charge> = {}): CallRow {
  if (units === undefined) return row;
  return { ...row, units, estimated: Math.max(expired, Math.min(units, numberOf(row.estimated))) };
}

/** The error for a row that another transaction has changed: the transaction runs again. */
const conflict = (): Error => Object.assign(new Error("Another process has changed the call."), { code: "40001" });

/** Returns a text that every database stores, of bounded length; empty for none. It waits for its write without the text that it is cut from. */
/** A name by which calls are summed up. MySQL and MariaDB take names that differ by spaces at their end for one. */
const trimmed = (text?: string): string => clip(text).trimEnd();

const clip = (text = "", most = MOST_CHARS): string =>
  copyOf(text.slice(0, most)).toWellFormed().replaceAll("\0", "\uFFFD");

const clippedOrNull = (text: string | undefined, most?: number): string | null =>
  text === undefined ? null : clip(text, most);

const clipped = (fields: object): object =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === "string" ? clip(value, name === "mistake" ? MOST_MESSAGE_CHARS : undefined) : value,
    ]),
  );

/** Returns the JSON of a value; null for none, and for one that is too long: a call that no database takes would hold up the others. */
function jsonOf(value: object | undefined): string | null {
  const json = value && JSON.stringify(value);
  return json !== undefined && json.length <= MOST_JSON_CHARS ? json : null;
}

/** Returns a number of a record as a count. One that cannot be stored would make all calls around it unreadable, so it counts as 0. */
function countOf(given = 0): number {
  const count = Math.round(given);
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** The changes of `usage_days` that a transaction makes. */
class DaySums {
  readonly #rows = new Map<string, Insertable<UsageTable> & Record<(typeof USAGE_SUMS)[number], number>>();

  /** @param sign 1 to add a call, -1 to take it out. */
  add(row: CallRow | Selectable<CallTable>, sign: 1 | -1): void {
    const by = USAGE_BY.map((name) => row[name]);
    // The currency of an unrecorded call is unknown until another call tells it.
    const currency = row.currency ?? (row.outcome === "unrecorded" ? null : "");
    const id = hashOf(JSON.stringify(currency === null ? by : [...by, currency]));
    const none = Object.fromEntries(USAGE_SUMS.map((name) => [name, 0])) as Record<(typeof USAGE_SUMS)[number], number>;
    const named = Object.fromEntries(USAGE_BY.map((name, at) => [name, by[at]])) as Pick<
      CallRow,
      (typeof USAGE_BY)[number]
    >;
    const sums = this.#rows.get(id) ?? { id, ...named, currency, ...none };
    for (const name of USAGE_SUMS) sums[name] += sign * partOf(row, name);
    this.#rows.set(id, sums);
  }

  /** Adds the changes to the stored sums, in one order, so that no two transactions wait for each other. */
  async write({ db, dialect }: SqlAccess): Promise<void> {
    const rows = Array.from(this.#rows.values())
      .filter((row) => USAGE_SUMS.some((name) => row[name] !== 0))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    if (rows.length === 0) return;
    const insert = db.insertInto("usage_days").values(rows);
    const sums = USAGE_SUMS.map((name) => {
      const [stored, given] = [sql.ref(`usage_days.${name}`), sql.ref(dialect === "mysql" ? name : `excluded.${name}`)];
      return [name, dialect === "mysql" ? sql`${given} + VALUES(${given})` : sql`${stored} + ${given}`];
    });
    const changes = Object.fromEntries(sums) as Record<string, never>;
    await (
      dialect === "mysql"
        ? insert.onDuplicateKeyUpdate(changes)
        : insert.onConflict((on) => on.column("id").doUpdateSet(changes))
    ).execute();
  }
}

const FAILED: ReadonlySet<string> = new Set(FAILED_OUTCOMES);

function partOf(row: CallRow | Selectable<CallTable>, name: (typeof USAGE_SUMS)[number]): number {
  if (name === "calls") return 1;
  if (name === "refused") return row.outcome === "refused" ? 1 : 0;
  if (name === "failed") return FAILED.has(row.outcome) ? 1 : 0;
  return numberOf(row[name]);
}

/** The terms of a budget that place a call in time. */
interface BudgetCalendar {
  readonly period: "day" | "week" | "month" | undefined;
  readonly timeZone: string;
  readonly chain: readonly string[];
}

/** The calendars of budgets, which never change, and those of their time zones. */
class Calendars {
  readonly #timeZone: string;
  readonly #terms = new TwoGenerationMap<BudgetCalendar>(1_000);
  readonly #zones = new Map<string, Intl.DateTimeFormat>();

  /** Throws a RangeError for an unknown time zone. */
  constructor(timeZone: string) {
    this.#timeZone = timeZone;
    this.#zones.set(timeZone, calendarOf(timeZone));
  }

  /** Reads the terms of a budget; undefined for a budget that is not in these tables. */
  async termsOf({ db }: SqlAccess, id: string): Promise<BudgetCalendar | undefined> {
    const known = this.#terms.get(id);
    if (known || !isStorableId(id)) return known;
    const row = await db
      .selectFrom("budgets")
      .select(["period", "time_zone", "chain"])
      .where("id", "=", id)
      .executeTakeFirst();
    if (!row) return undefined;
    // The casts are safe: the columns are written from such values.
    const stored = parseJson(row.chain) as readonly string[];
    const period = (row.period ?? undefined) as BudgetCalendar["period"];
    const terms = { period, timeZone: row.time_zone, chain: stored.length > 0 ? stored : [id] };
    this.#terms.add(id, terms);
    return terms;
  }

  dayAt(timeZone = this.#timeZone, at: number): string {
    let calendar = this.#zones.get(timeZone);
    if (!calendar) this.#zones.set(timeZone, (calendar = calendarOf(timeZone)));
    return new Date(dateAt(calendar, at)).toISOString().slice(0, 10);
  }
}
