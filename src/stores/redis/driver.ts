/**
 * The rows of the ledger in Redis. A change is written if all fields that it was made from still have the same values, so that it needs
 * no lock. Verbs of running calls have scripts of their own, as far as these can do them.
 */

import { parseJson } from "../../model/json.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { type BudgetTerms, NEVER, spanAt } from "../budgets.ts";
import {
  type BudgetRow,
  type DueHolds,
  type FastVerbs,
  type HoldRow,
  type KeyRow,
  type LedgerChanges,
  type LedgerDriver,
  type LedgerRows,
  type LedgerScope,
  type PeriodRow,
  type PeriodRowPage,
  type RowPage,
  rowMetadataOf,
  type SecretRow,
  type StoredShare,
  toApiKey,
  type Worked,
} from "../driver.ts";
import { HOLDS_AT_ONCE, isStorableId, MOST_LISTED } from "../durable.ts";
import { BOOKS, type BudgetUser, estimatedOf, modelsOf, MOST_UNLIMITED, RECALLS_MS } from "../ledger.ts";
import { listOf, type RedisAccess, type Script } from "./client.ts";
import {
  type KeyFields,
  type BudgetFields,
  Writing,
  itemsOf,
  textOf,
  fieldsOf,
  NO_KEY,
  budgetRowOf,
  periodRowOf,
  booksIn,
  type BudgetsField,
  type Stored,
  type StoredKey,
  type StoredHold,
} from "./rows.ts";
import { BUDGET_FIELDS, KEY_FIELDS } from "./scripts.ts";
import * as scripts from "./scripts.ts";

/** The most attempts of a change whose fields other processes change at the same time. */
const MOST_TRIES = 500;
/** After so many failed attempts, a change waits before the next. */
const TRIES_AT_ONCE = 3;
const MAX_PAUSE_MS = 40;

/** The fields of a key that its verbs depend on, and those that changes of the key itself depend on, too. */
const COMPARED = ["unlimited", ...BOOKS, "budgets"] as const;
const COMPARED_RIGHTS = ["key", "revoked", "changes"] as const;
/** The fields of a budget that may change. */
const BUDGET_COMPARED = ["terms", "removed", "amount", "starts", ...BOOKS, "told"] as const;

export class RedisDriver implements LedgerDriver {
  readonly #redis: RedisAccess;
  readonly #retentionMs: number;
  /**
   * True once a script has failed because the server is a cluster. A cluster keeps a key's ledger and the ids of its holds in
   * different slots, so one script cannot use both.
   */
  #isCluster = false;

  // The names of the keys in Redis.
  readonly #index: string;
  readonly #budgetIndex: string;
  /** The ends of the leases of all holds with shares in budgets. */
  readonly #leases: string;
  readonly #budget = (id: string): string => this.#redis.name(`budget:${id}`);
  readonly #budgetIdOf = (name: string): string => name.slice(this.#budget("").length);
  readonly #secret = (hash: string): string => this.#redis.name(`secret:${hash}`);
  readonly #owner = (id: string): string => this.#redis.name(`owner:${id}`);
  readonly #ledger = (keyId: string): string => this.#redis.nameOfKey(keyId, "ledger");
  readonly #times = (keyId: string): string => this.#redis.nameOfKey(keyId, "times");
  readonly #secretsOf = (keyId: string): string => this.#redis.nameOfKey(keyId, "secrets");

  /**
   * The verbs as scripts with rules of their own. Without them, a key that four processes use at once does a quarter of the calls, because
   * changes that are compared fail each other.
   */
  readonly fast: FastVerbs = {
    withBudgets: true,
    reserve: async (request) => {
      const { id, keyId, atLeast, atMost, leaseMs } = request;
      // In a cluster, the id of a hold has a slot of its own: it must be claimed first.
      if (this.#isCluster) return undefined;
      const args = [atLeast, atMost, leaseMs, MOST_UNLIMITED, keyId, this.#leases];
      try {
        const granted = await this.#runFast(scripts.RESERVE, keyId, id, args, [this.#owner(id)]);
        return typeof granted === "number" ? { granted } : undefined;
      } catch (error) {
        if (!isCrossSlot(error)) throw error;
        this.#isCluster = true;
        return undefined;
      }
    },
    renew: async (id, { leaseMs, used, keep = "" }, keyId) => {
      if (keyId === undefined || this.#isCluster) return undefined;
      const args = [leaseMs, used, keep, this.#leases];
      return (await this.#runFast(scripts.RENEW, keyId, id, args, [this.#owner(id)])) === 1 || undefined;
    },
    settle: async (id, outcome, keyId, tells) => {
      if (keyId === undefined) return undefined;
      const args = [outcome.used, estimatedOf(outcome), tells ? 1 : 0, this.#leases];
      return (await this.#runFast(scripts.SETTLE, keyId, id, args)) === 1 || undefined;
    },
  };

  constructor(redis: RedisAccess, retentionMs: number) {
    this.#redis = redis;
    this.#retentionMs = retentionMs;
    this.#index = redis.name("keys");
    this.#budgetIndex = redis.name("budgets");
    this.#leases = redis.name("leases");
  }

  #runFast(
    script: Script,
    keyId: string,
    holdId: string,
    args: readonly (string | number)[],
    names: readonly string[] = [],
  ): Promise<unknown> {
    const shared = [this.#redis.aheadMs(), this.#retentionMs, fieldOf(holdId)];
    return this.#redis.run(script, [this.#ledger(keyId), this.#times(keyId), ...names], [...shared, ...args]);
  }

  async change<Answer>(scope: LedgerScope, work: (rows: LedgerRows) => Worked<Answer>): Promise<Answer> {
    if (scope.usersOf !== undefined) return this.#removing(scope, scope.usersOf, work);
    return this.#changing(scope, work);
  }

  async #changing<Answer>(scope: LedgerScope, work: (rows: LedgerRows) => Worked<Answer>, user?: BudgetUser) {
    // The owners of ids that other keys have, as far as a cluster has told.
    const owners = new Map<string, string>();
    let stored = await this.#read(scope);
    for (let tries = 1; ; tries++) {
      const { answer, changes } = work(this.#rowsOf({ ...stored, user }, scope, owners));
      if (!changes) return answer;
      const newer = await this.#write(scope, stored, changes, owners);
      if (!newer) return answer;
      if (tries >= MOST_TRIES) throw new Error("The ledger is changed too often at the same time.");
      stored = newer;
      if (tries < TRIES_AT_ONCE) continue;
      await pause(tries);
      stored = await this.#read(scope);
    }
  }

  async read(scope: LedgerScope): Promise<LedgerRows> {
    return this.#rowsOf(await this.#read(scope), scope);
  }

  async find(hash: string): Promise<ApiKey | undefined> {
    const key = await this.#redis.run(scripts.FIND, [this.#secret(hash)], [this.#redis.aheadMs()]);
    return typeof key === "string" ? (parseJson(key) as ApiKey) : undefined;
  }

  async ownerOf(id: string, leaseMs: number): Promise<string | undefined> {
    // Remember the owner for the new lease as well, which may be longer than the first lease.
    const owner = await this.#redis.run(scripts.OWNER, [this.#owner(id)], [leaseMs + this.#retentionMs]);
    return typeof owner === "string" ? owner : undefined;
  }

  async listKeys(page: RowPage): Promise<readonly (KeyRow & { readonly secrets: number })[]> {
    const [ids, now] = await Promise.all([this.#idsOf(this.#index, page), this.#now()]);
    const rows = await Promise.all(
      ids.map(async (id) => {
        const [ledger, secrets] = [this.#ledger(id), this.#secretsOf(id)];
        const [values, ends] = await Promise.all([
          this.#redis.send(ledger, "HMGET", [ledger, ...KEY_FIELDS]),
          this.#redis.send(secrets, "HVALS", [secrets]),
        ]);
        const valid = listOf(ends).filter((end) => end === "" || Number(end) > now);
        const fields = fieldsOf(KEY_FIELDS, values);
        return fields.unlimited === undefined ? [] : { ...this.#keyRowOf(id, fields), secrets: valid.length };
      }),
    );
    return rows.flat();
  }

  async listBudgets(page: RowPage): Promise<readonly BudgetRow[]> {
    const rows = await Promise.all(
      (await this.#idsOf(this.#budgetIndex, page)).map(async (id) => {
        const name = this.#budget(id);
        const fields = fieldsOf(BUDGET_FIELDS, await this.#redis.send(name, "HMGET", [name, ...BUDGET_FIELDS]));
        return fields.terms === undefined ? [] : budgetRowOf(fields);
      }),
    );
    return rows.flat();
  }

  async listPeriods(budgetId: string, { before, limit }: PeriodRowPage): Promise<readonly PeriodRow[]> {
    const name = this.#budget(budgetId);
    const fields = listOf(await this.#redis.send(name, "HKEYS", [name]));
    const starts = fields
      .flatMap((field) => (field.startsWith(CLOSED) ? Number(field.slice(CLOSED.length)) : []))
      .filter((startsAt) => startsAt < before)
      .toSorted((one, other) => other - one)
      .slice(0, limit);
    const [terms, ...books] = listOf(
      await this.#redis.send(name, "HMGET", [name, "terms", ...starts.map((startsAt) => CLOSED + startsAt)]),
    );
    // The cast is safe: the field is written from such terms. The end of a closed period is not stored.
    const { period, timeZone } = parseJson(terms ?? "{}") as BudgetTerms;
    return starts.flatMap((startsAt, at) =>
      periodRowOf(budgetId, startsAt, books[at]).map((row) => ({
        ...row,
        endsAt: spanAt({ period, timeZone }, startsAt).endsAt,
      })),
    );
  }

  async keysWith(due: DueHolds, after: string): Promise<readonly string[]> {
    if (!("expired" in due && due.inBudgets)) return this.#pageOf(this.#index, after, HOLDS_AT_ONCE);
    const range = ["0", String(await this.#now()), "LIMIT", "0", String(HOLDS_AT_ONCE)];
    const leases = listOf(await this.#redis.send(this.#leases, "ZRANGEBYSCORE", [this.#leases, ...range]));
    const ledgers = new Set(leases.map((lease) => lease.slice(0, lease.indexOf(" "))));
    return Array.from(ledgers, (ledger) => decodeURIComponent(/\{([^{}]*)\}:ledger$/.exec(ledger)?.[1] ?? ""));
  }

  async recall(keyId: string): Promise<void> {
    await this.#redis.run(scripts.RECALL, [this.#redis.name("recalls")], [this.#redis.aheadMs(), keyId, RECALLS_MS]);
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    const args = [this.#redis.aheadMs(), withinMs];
    return listOf(await this.#redis.run(scripts.RECALLED, [this.#redis.name("recalls")], args));
  }

  /**
   * Removes a budget. Marks it first, so that no further key and no child budget can draw on it, and then looks for those that do. A
   * process that dies meanwhile leaves a budget that takes no further keys. Its removal can be repeated.
   */
  async #removing<Answer>(scope: LedgerScope, id: string, work: (rows: LedgerRows) => Worked<Answer>): Promise<Answer> {
    const [name, token] = [this.#budget(id), crypto.randomUUID()];
    const hasBegun = isStorableId(id) && (await this.#redis.run(scripts.BEGIN_REMOVAL, [name], [token])) === 1;
    if (!hasBegun) return this.#changing(scope, work);
    let isDone = false;
    try {
      const answer = await this.#changing(scope, work, await this.#userOf(id));
      isDone = true;
      return answer;
    } finally {
      if (!isDone) await this.#redis.run(scripts.UNDO_REMOVAL, [name], [token]);
    }
  }

  /** Finds something that draws on a budget. */
  async #userOf(id: string): Promise<BudgetUser | undefined> {
    const name = this.#budget(id);
    for await (const ids of this.#pages(this.#index))
      for (const key of await this.listKeys({ ids }))
        if (key.budgets[0] === id && key.revokedAt === null) return { kind: "key", id: key.id };
    for await (const ids of this.#pages(this.#budgetIndex))
      for (const { id: childId, chain } of await this.listBudgets({ ids }))
        if (chain[1] === id) return { kind: "budget", id: childId };
    const fields = listOf(await this.#redis.send(name, "HKEYS", [name]));
    const closed = fields.filter((field) => field.startsWith(CLOSED));
    const [held = "0", ...periods] = listOf(await this.#redis.send(name, "HMGET", [name, "held", ...closed]));
    return [held, ...periods.map((books) => books.split(" ")[2])].some((units) => Number(units) > 0)
      ? "calls"
      : undefined;
  }

  async *#pages(index: string): AsyncGenerator<readonly string[]> {
    for (let ids = await this.#pageOf(index, "", MOST_LISTED); ids.length > 0;) {
      yield ids;
      ids = await this.#pageOf(index, ids.at(-1) ?? "", MOST_LISTED);
    }
  }

  async #idsOf(index: string, page: RowPage): Promise<readonly string[]> {
    return "ids" in page ? page.ids : this.#pageOf(index, page.after, page.limit);
  }

  async #pageOf(index: string, after: string, limit: number): Promise<readonly string[]> {
    const first = after === "" ? "-" : `(${after}`;
    return listOf(await this.#redis.send(index, "ZRANGEBYLEX", [index, first, "+", "LIMIT", "0", String(limit)]));
  }

  /** The server's time, in milliseconds since the Unix epoch. */
  async #now(): Promise<number> {
    const [seconds = "", micros = ""] = listOf(await this.#redis.send(this.#index, "TIME", []));
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) + this.#redis.aheadMs();
  }

  async #read(scope: LedgerScope): Promise<Stored> {
    const { keys, budgets = [], secrets: hashes = [], secretsOf } = scope;
    const known = budgets.filter(isStorableId);
    const [stored, ...secrets] = await Promise.all([
      keys.length > 0 || known.length > 0 ? this.#exchange(scope, []) : undefined,
      secretsOf === undefined ? [] : this.#secretsIn(secretsOf),
      ...hashes.map((hash) => this.#readSecret(hash)),
    ]);
    const { now, ...found } = stored ?? { now: await this.#now(), keys: [], budgets: new Map(), periods: [] };
    const byHash = new Map(secrets.flat().map((secret) => [secret.hash, secret]));
    return { ...found, now, secrets: Array.from(byHash.values()) };
  }

  async #secretsIn(keyId: string): Promise<readonly SecretRow[]> {
    const name = this.#secretsOf(keyId);
    const hashes = listOf(await this.#redis.send(name, "HKEYS", [name]));
    if (hashes.length === 0) return [];
    const ends = listOf(await this.#redis.send(name, "HMGET", [name, ...hashes]));
    return hashes.map((hash, index) => ({ hash, keyId, endsAt: Number(ends[index]) || null }));
  }

  async #readSecret(hash: string): Promise<readonly SecretRow[]> {
    const name = this.#secret(hash);
    const found = fieldsOf(["key", "ends"], await this.#redis.send(name, "HMGET", [name, "key", "ends"]));
    if (found.key === undefined) return [];
    return [{ hash, keyId: (parseJson(found.key) as ApiKey).id, endsAt: Number(found.ends) || null }];
  }

  /** Runs the script `EXCHANGE`. Returns the rows that it has read, or undefined when it has written. */
  async #exchange(
    scope: LedgerScope,
    writing: readonly string[],
    more: readonly string[] = [],
  ): Promise<Stored | undefined> {
    const isInCluster = this.#isCluster;
    const budgets = (scope.budgets ?? []).filter(isStorableId).map((id) => this.#budget(id));
    const names: string[] = [];
    const args: (string | number)[] = [this.#redis.aheadMs(), this.#retentionMs, scope.keys.length];
    args.push(scope.resolvedBefore ?? "", budgets.length, ...budgets);
    for (const { id, holds } of scope.keys) {
      names.push(this.#ledger(id), this.#times(id));
      args.push(this.#ledger(id), this.#times(id), holds.length);
      for (const holdId of holds) {
        const owner = isInCluster ? "" : this.#owner(holdId);
        if (owner !== "") names.push(owner);
        args.push(fieldOf(holdId), owner);
      }
    }
    const [first = this.#budgetIndex, ...rest] = [...names, ...budgets, ...more];
    try {
      const answer = await this.#redis.run(scripts.EXCHANGE, [first, ...rest], [...args, ...writing]);
      const [isWritten, now, keys, found, closed] = itemsOf(answer);
      return isWritten === 1 ? undefined : this.#storedOf(scope, Number(now), keys, found, closed);
    } catch (error) {
      if (!isCrossSlot(error)) throw error;
      // A key and its budgets would have different slots, and one script cannot change both.
      if (budgets.length > 0 && scope.keys.length > 0) return this.#exchange({ ...scope, budgets: [] }, []);
      if (budgets.length > 0) throw new Error(ONE_SLOT, { cause: error });
      if (isInCluster && more.length === 0) throw error;
      this.#isCluster = true;
      return this.#exchange(scope, []);
    }
  }

  #storedOf(scope: LedgerScope, now: number, keys: unknown, found: unknown, closed: unknown): Stored {
    const budgets = new Map<string, BudgetFields>();
    for (const [name, values] of itemsOf(found).map(itemsOf)) {
      const [id, fields] = [this.#budgetIdOf(String(name)), fieldsOf(BUDGET_FIELDS, values)];
      budgets.set(id, fields);
    }
    const stored = itemsOf(keys).map((key, index): StoredKey => {
      const [values, due, holds] = itemsOf(key);
      const { id } = scope.keys[index] ?? { id: "" };
      const fields = fieldsOf(KEY_FIELDS, values);
      return { id, fields, due: Number(due), holds: itemsOf(holds).map((hold) => this.#holdOf(id, hold)) };
    });
    const periods = itemsOf(closed).map((period) => {
      const [name, starts, books] = itemsOf(period);
      return [this.#budgetIdOf(String(name)), Number(starts), textOf(books)] as const;
    });
    return { now, keys: stored, budgets, periods, secrets: [] };
  }

  #holdOf(keyId: string, stored: unknown): StoredHold {
    const [field, value, time, shares, owner] = itemsOf(stored).map(textOf);
    const id = (field ?? "").slice(HOLD.length);
    const hold = { id, value, time: time === undefined ? undefined : Number(time), shares };
    const isForeign = value === undefined && owner !== undefined && owner !== keyId;
    return { ...hold, owner: isForeign ? owner : undefined };
  }

  #rowsOf(
    { now, keys, budgets, periods, secrets, user }: Stored,
    scope: LedgerScope,
    owners?: ReadonlyMap<string, string>,
  ): LedgerRows {
    return {
      now,
      keys: keys.flatMap(({ id, fields }) => (fields.unlimited === undefined ? [] : this.#keyRowOf(id, fields))),
      holds: keys.flatMap(({ id, holds }) => holds.flatMap((hold) => this.#holdRowOf(id, hold, owners?.get(hold.id)))),
      budgets: Array.from(budgets.values()).flatMap((fields) =>
        fields.terms === undefined ? [] : budgetRowOf(fields, scope.usersOf),
      ),
      periods: periods.flatMap(([budgetId, startsAt, books]) => periodRowOf(budgetId, startsAt, books)),
      secrets,
      user,
    };
  }

  #keyRowOf(id: string, fields: KeyFields): KeyRow {
    // The cast is safe: the field is written from such a key.
    const key = fields.key === undefined ? undefined : (parseJson(fields.key) as ApiKey);
    const [name, expiresAt, metadata] = [key?.name ?? id, key?.expiresAt ?? 0, rowMetadataOf(key ?? {})];
    const models = key ? (modelsOf(key) ?? null) : [];
    const { granted = "missing", charged = "missing", held = "missing" } = fields;
    const { overdraft = "missing", estimated = "missing" } = fields;
    const books = { granted, charged, held, overdraft, estimated };
    const [unlimited, revokedAt] = [fields.unlimited === "1", fields.revoked === "1" ? 0 : null];
    return { id, name, unlimited, models, expiresAt, revokedAt, budgets: this.#chainOf(fields), metadata, ...books };
  }

  #chainOf({ budgets }: KeyFields): readonly string[] {
    if (budgets === undefined) return [];
    return (parseJson(budgets) as BudgetsField).names.map((name) => this.#budgetIdOf(name));
  }

  #holdRowOf(keyId: string, { id, value, time, shares, ...hold }: StoredHold, owner = hold.owner): HoldRow[] {
    const nothing = { granted: 0, noted: 0, renewals: 0, used: 0, overdraft: 0, expiresAt: 0, resolvedAt: 0 };
    if (owner !== undefined) return [{ id, keyId: owner, state: "settled", ...nothing, shares: null }];
    const [, state, first = "", second = ""] = /^(live|settled|expired|corrected) (\d+) (\d+)$/.exec(value ?? "") ?? [];
    if (state === undefined) return [];
    const row = { id, keyId, ...nothing, shares: this.#sharesOf(shares) ?? null };
    if (state === "live")
      return [{ ...row, state, granted: first, noted: second, expiresAt: time ?? NEVER, resolvedAt: null }];
    // The cast is safe: the expression matches these states only.
    return [{ ...row, state: state as HoldRow["state"], used: first, overdraft: second, resolvedAt: -(time ?? 0) }];
  }

  #sharesOf(shares: string | undefined): readonly StoredShare[] | undefined {
    if (shares === undefined) return undefined;
    return (parseJson(shares) as string[][]).map(([name = "", starts, overdraft]) => {
      return [this.#budgetIdOf(name), Number(starts), Number(overdraft)] as const;
    });
  }

  /**
   * Writes changes. Returns undefined when they are written. Otherwise something has changed since it was read, nothing was written, and
   * it returns what it has read.
   */
  async #write(
    scope: LedgerScope,
    stored: Stored,
    changes: LedgerChanges,
    owners: Map<string, string>,
  ): Promise<Stored | undefined> {
    const added = changes.secrets.flatMap(({ before, after }) => (before || !after ? [] : after));
    const writing = new Writing();
    const removed = changes.secrets.flatMap(({ before, after }) => (before && !after ? before : []));
    const taken: SecretRow[] = [];
    const ended: SecretRow[] = [];
    const claimed: string[] = [];
    const written = this.#compose(scope, stored, changes, writing);
    const newKeys = changes.keys.flatMap(({ before, after }) => (before || !after ? [] : after));
    let newer: Stored | undefined;
    let isDone = false;
    try {
      for (const { before, after } of this.#isCluster ? changes.holds : []) {
        if (before || !after) continue;
        const args = [after.keyId, Number(after.expiresAt) - stored.now + this.#retentionMs];
        const owner = await this.#redis.run(scripts.CLAIM, [this.#owner(after.id)], args);
        if (owner === after.keyId) claimed.push(after.id);
        else owners.set(after.id, String(owner));
      }
      if (changes.holds.some(({ after }) => after && owners.has(after.id))) return stored;
      for (const { before, after } of this.#isCluster ? changes.holds : [])
        if (before && after?.state === "live") await this.ownerOf(after.id, Number(after.expiresAt) - stored.now);
      for (const secret of added) {
        const { key, changes: count } = written.get(secret.keyId) ?? {};
        const args = [key ?? "", count ?? "0", secret.endsAt ?? ""];
        if ((await this.#redis.run(scripts.TAKE_SECRET, [this.#secret(secret.hash)], args)) !== 1)
          return await this.#read(scope);
        taken.push(secret);
      }
      for (const secret of this.#isCluster ? removed : []) {
        ended.push(secret);
        await this.#endSecret(secret.hash, ENDED);
      }
      // List a key before it exists: a removal of its budget must find the key.
      for (const { id } of newKeys) await this.#redis.send(this.#index, "ZADD", [this.#index, "0", id]);
      newer = writing.isEmpty ? undefined : await this.#exchange(scope, writing.args, writing.names);
      isDone = newer === undefined;
    } finally {
      if (!isDone) await this.#undo(taken, ended, claimed, newKeys).catch(() => {});
    }
    if (newer) return newer;
    await this.#finish(changes, written);
    return undefined;
  }

  /** Takes back what was written before a change that was not written. */
  async #undo(
    taken: readonly SecretRow[],
    ended: readonly SecretRow[],
    claimed: readonly string[],
    keys: readonly KeyRow[],
  ): Promise<void> {
    for (const id of claimed) await this.#redis.run(scripts.UNCLAIM, [this.#owner(id)], []);
    // When the connection has broken, the change may have been written.
    const isListed = async ({ hash, keyId }: SecretRow): Promise<boolean> => {
      const name = this.#secretsOf(keyId);
      return Number(await this.#redis.send(name, "HEXISTS", [name, hash])) === 1;
    };
    for (const secret of taken) if (!(await isListed(secret))) await this.#forgetSecret(secret.hash);
    for (const secret of ended) if (await isListed(secret)) await this.#endSecret(secret.hash, secret.endsAt);
    for (const { id } of keys) {
      const ledger = this.#ledger(id);
      if (Number(await this.#redis.send(ledger, "EXISTS", [ledger])) === 0)
        await this.#redis.send(this.#index, "ZREM", [this.#index, id]);
    }
  }

  /** Writes what has other slots in a cluster, after the change itself. */
  async #finish(changes: LedgerChanges, written: ReadonlyMap<string, KeyFields>): Promise<void> {
    for (const { before, after } of changes.secrets)
      if (before && after) await this.#endSecret(after.hash, after.endsAt);
      else if (before && this.#isCluster) await this.#forgetSecret(before.hash);
    for (const { before, after } of changes.keys) {
      if (!after) continue;
      const { key = "", changes: count = "0" } = written.get(after.id) ?? {};
      if (!before) await this.#redis.send(this.#index, "ZADD", [this.#index, "0", after.id]);
      else if (areRightsChanged(before, after)) {
        const name = this.#secretsOf(after.id);
        for (const hash of listOf(await this.#redis.send(name, "HKEYS", [name])))
          await this.#redis.run(scripts.CHANGE_SECRET, [this.#secret(hash)], [key, count]);
      }
    }
  }

  /** Composes the comparisons and the commands of a change. Returns the fields of keys after it. */
  #compose(scope: LedgerScope, stored: Stored, changes: LedgerChanges, writing: Writing): Map<string, KeyFields> {
    const administered = new Set(changes.secrets.flatMap(({ before, after }) => (before ?? after)?.keyId ?? []));
    for (const { before, after } of changes.keys)
      if (after && (!before || areRightsChanged(before, after))) administered.add(after.id);
    const written = new Map(stored.keys.map(({ id, fields }) => [id, fields]));
    for (const { id, fields, due, holds } of stored.keys) {
      const ledger = this.#ledger(id);
      const isAdministered = administered.has(id);
      writing.expects(ledger, COMPARED, fields);
      if (isAdministered) writing.expects(ledger, COMPARED_RIGHTS, fields);
      for (const hold of holds) {
        const field = fieldOf(hold.id);
        writing.expects(ledger, [field], { [field]: hold.value });
        if (hold.value !== undefined && fields.budgets !== undefined)
          writing.expects(ledger, [`shares:${field}`], { [`shares:${field}`]: hold.shares });
      }
      writing.due.push(due);
      if (isAdministered && fields.unlimited !== undefined) {
        const changes = String(Number(fields.changes ?? "0") + 1);
        writing.sets(ledger, { changes });
        written.set(id, { ...fields, changes });
      }
    }
    let until = NEVER;
    for (const [id, fields] of stored.budgets) {
      writing.expects(this.#budget(id), BUDGET_COMPARED, fields);
      if (fields.terms !== undefined) until = Math.min(until, Number(fields.ends));
    }
    for (const [id, startsAt, books] of stored.periods)
      writing.expects(this.#budget(id), [`closed:${startsAt}`], { [`closed:${startsAt}`]: books });
    for (const { before, after } of changes.keys) {
      if (!after) continue;
      const fields = this.#keyFieldsOf(after, before, written.get(after.id));
      writing.sets(this.#ledger(after.id), fields);
      written.set(after.id, { ...NO_KEY, ...written.get(after.id), ...fields });
    }
    if (changes.budgets.length > 0) {
      until = NEVER;
      const changed = new Map(changes.budgets.map(({ after }) => [after?.id, after]));
      for (const [id, fields] of stored.budgets)
        if (fields.terms !== undefined) until = Math.min(until, changed.get(id)?.endsAt ?? Number(fields.ends));
    }
    writing.until = until;
    for (const { before, after } of changes.budgets) if (after) this.#composeBudget(before, after, stored, writing);
    for (const { after } of changes.periods)
      if (after) writing.sets(this.#budget(after.budgetId), { [`closed:${after.startsAt}`]: booksIn(after) });
    for (const { before, after } of changes.holds) this.#composeHold(before, after, stored.now, writing);
    for (const { before, after } of changes.secrets) {
      const { hash, keyId } = after ?? before ?? { hash: "", keyId: "" };
      if (after) writing.sets(this.#secretsOf(keyId), { [hash]: String(after.endsAt ?? "") });
      else writing.commands.push(["HDEL", this.#secretsOf(keyId), hash]);
      if (after || this.#isCluster) continue;
      writing.deleted.push(this.#secret(hash));
      writing.names.push(this.#secret(hash));
    }
    if (scope.keys.length === 0 && changes.secrets.length > 0)
      for (const { before, after } of changes.secrets) {
        const keyId = (before ?? after)?.keyId;
        if (keyId !== undefined) writing.names.push(this.#secretsOf(keyId));
      }
    return written;
  }

  /** The fields of a key that have changed. */
  #keyFieldsOf(after: KeyRow, before: KeyRow | undefined, stored: KeyFields | undefined): Partial<KeyFields> {
    const fields: Record<string, string> = {};
    for (const book of BOOKS) if (!before || Number(before[book]) !== after[book]) fields[book] = String(after[book]);
    if (!before) fields["changes"] = "0";
    if (before?.unlimited !== after.unlimited) fields["unlimited"] = after.unlimited ? "1" : "0";
    if (!before || areRightsChanged(before, after)) {
      fields["key"] = JSON.stringify(toApiKey(after));
      fields["revoked"] = after.revokedAt === null ? "0" : "1";
      if (after.budgets.length > 0 || stored?.budgets !== undefined)
        fields["budgets"] = JSON.stringify({
          leases: this.#leases,
          names: after.budgets.map((id) => this.#budget(id)),
        });
    }
    return fields;
  }

  #composeBudget(before: BudgetRow | undefined, after: BudgetRow, stored: Stored, writing: Writing): void {
    const { id, name, amount, period, timeZone, rollover, chain, startsAt, endsAt, told } = after;
    const books = Object.fromEntries(BOOKS.map((book) => [book, String(after[book])]));
    const numbers = { amount, starts: startsAt, ends: endsAt, told };
    const fields: Record<string, string> = { ...books };
    for (const [field, number] of Object.entries(numbers)) fields[field] = String(number);
    const isRemoved = before !== undefined && before.chain.length > 0 && chain.length === 0;
    if (!before || isRemoved || before.name !== name) {
      const terms = { id, name, amount, period: period ?? undefined, timeZone, rollover, chain };
      fields["terms"] = JSON.stringify(terms);
    }
    if (!before || isRemoved) {
      if (isRemoved) fields["removed"] = "yes";
      else fields["rollover"] = rollover ? "1" : "0";
      writing.names.push(this.#leases, this.#budgetIndex);
      writing.commands.push(isRemoved ? ["ZREM", this.#budgetIndex, id] : ["ZADD", this.#budgetIndex, "0", id]);
      if (!stored.budgets.has(id)) writing.expects(this.#budget(id), ["terms"], {});
    }
    writing.sets(this.#budget(id), fields);
  }

  #composeHold(before: HoldRow | undefined, after: HoldRow | undefined, now: number, writing: Writing): void {
    const { id, keyId, shares } = after ?? before ?? { id: "", keyId: "", shares: null };
    const [field, ledger, times] = [fieldOf(id), this.#ledger(keyId), this.#times(keyId)];
    if (!after) {
      writing.commands.push(["HDEL", ledger, field, `shares:${field}`], ["ZREM", times, field]);
      return;
    }
    const { state, granted, noted, used, overdraft } = after;
    const isLive = state === "live";
    const value = isLive ? `live ${granted} ${noted}` : `${state} ${used} ${overdraft}`;
    const share =
      shares && JSON.stringify(shares.map(([id, starts, over]) => [this.#budget(id), `${starts}`, `${over}`]));
    writing.sets(ledger, { [field]: value, ...(share !== null && { [`shares:${field}`]: share }) });
    const member = `${ledger} ${field}`;
    if (isLive) {
      const leaseMs = Number(after.expiresAt) - now;
      writing.commands.push(["lease", times, String(leaseMs), field]);
      if (share !== null) writing.commands.push([before ? "renewed" : "lease", this.#leases, String(leaseMs), member]);
      if (this.#isCluster) return;
      const owner = this.#owner(id);
      writing.commands.push(["SET", owner, keyId, "PX", String(leaseMs + this.#retentionMs)]);
      if (!before) writing.owners.push(owner, keyId);
    } else {
      writing.commands.push(["ended", times, field]);
      if (share !== null) writing.commands.push(["ZREM", this.#leases, member]);
    }
  }

  async #endSecret(hash: string, endsAt: number | null): Promise<void> {
    await this.#redis.run(scripts.END_SECRET, [this.#secret(hash)], [endsAt ?? ""]);
  }

  async #forgetSecret(hash: string): Promise<void> {
    await this.#redis.send(this.#secret(hash), "DEL", [this.#secret(hash)]);
  }
}

const isCrossSlot = (error: unknown): boolean => error instanceof Error && error.message.includes("CROSSSLOT");

const ONE_SLOT = 'In a Redis cluster, budgets need all keys in one slot: set a prefix in braces, such as "{polygate}".';

const pause = (tries: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(MAX_PAUSE_MS, 2 ** (tries - TRIES_AT_ONCE))));

/** The end of a secret that is being removed in a cluster, where its slot is not that of its key. It is deleted once the key is changed. */
const ENDED = 1;

const CLOSED = "closed:";
const HOLD = "hold:";

/** The name of a hold within its key's ledger. */
const fieldOf = (id: string): string => HOLD + id;

const areRightsChanged = (before: KeyRow, after: KeyRow): boolean =>
  before.name !== after.name ||
  before.unlimited !== after.unlimited ||
  before.expiresAt !== after.expiresAt ||
  before.revokedAt !== after.revokedAt ||
  JSON.stringify([before.models, before.metadata, before.budgets]) !==
    JSON.stringify([after.models, after.metadata, after.budgets]);
