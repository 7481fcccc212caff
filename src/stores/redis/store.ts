/** The quota store in Redis: each verb is a script that Redis runs atomically, in the slot of the api key. */

import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type { CallInfo } from "../../ports/call-info.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import {
  Budget,
  type BudgetOptions,
  type BudgetReport,
  type BudgetTerms,
  type OnBudget,
  spanAt,
  tellAll,
  termsOf,
  thresholdsOf,
  Window,
} from "../budgets.ts";
import {
  assertHoldRequest,
  assertStorableBudget,
  type BudgetPage,
  changedDurableKeyOf,
  type DurableKeyOptions,
  type DurableQuotaStore,
  HOLDS_AT_ONCE,
  isStorableId,
  type KeyPage,
  type KeyReport,
  keyReportOf,
  MOST_LISTED,
  MOST_REMEMBERED,
  newDurableKeyOf,
  onEachKey,
  assertRetention,
  pageOf,
  type Retention,
  revokedKey,
  secretEndOf,
  spoiltKey,
  unlimitedKey,
} from "../durable.ts";
import {
  assertKeyChanges,
  assertInteger,
  assertOutcome,
  assertRenewal,
  beyondMost,
  budgetInUse,
  type BudgetUser,
  estimatedOf,
  foreignHold,
  hashApiKey,
  hashOfSecret,
  type KeyChanges,
  keyWithBudget,
  knownBudget,
  knownKey,
  knownSecret,
  MOST_UNLIMITED,
  noSuchBudget,
  noSuchKey,
  removedBudget,
  RECALLS_MS,
  tooFewUnits,
  TwoGenerationMap,
  UNKNOWN_KEY,
} from "../ledger.ts";
import { listOf, REDIS_SHAPES, RedisAccess, type RedisStoreOptions, type Script } from "./client.ts";
import * as scripts from "./scripts.ts";

/** Options of the quota store in Redis. */
export interface RedisQuotaStoreOptions<Context = unknown> extends RedisStoreOptions {
  /** The time for which a resolved hold is remembered, in milliseconds: an integer from 1 up, an hour by default. */
  readonly retentionMs?: number;
  /**
   * Looks keys up in place of the store, for a host that already has a table of keys. The host must also add each key to the store,
   * with the same id and without a secret.
   */
  readonly find?: (apiKey: string, call?: CallInfo<Context>) => Promise<ApiKey | undefined>;
  /** Is told when a budget reaches 50, 80 and 100 percent. Give it to each process that serves calls. */
  readonly onBudget?: OnBudget;
}

const HOUR_MS = 3_600_000;

/** The most attempts of a change of a key that other processes change at the same time. */
const MOST_TRIES = 20;

/**
 * Makes a quota store in Redis, for any number of processes. Leases expire by the server's clock. The ledger is only as durable as
 * Redis: without persistence (`appendonly yes`), a server that crashes loses all keys and all usage. With `appendfsync everysec`, it
 * loses the last second.
 *
 * @example
 * const quotas = redisQuotaStore({ client: await createClient({ url }).connect() });
 */
export function redisQuotaStore<Context = unknown>(
  options: RedisQuotaStoreOptions<Context>,
): DurableQuotaStore<Context> {
  assertOptions<RedisQuotaStoreOptions>("redisQuotaStore", options, {
    ...REDIS_SHAPES,
    retentionMs: "positive?",
    find: "function?",
    onBudget: "function?",
  });
  return new RedisLedger(options);
}

class RedisLedger<Context> implements DurableQuotaStore<Context> {
  readonly #redis: RedisAccess;
  readonly #retentionMs: number;
  readonly #find: RedisQuotaStoreOptions<Context>["find"];
  readonly #onBudget: OnBudget | undefined;
  /** The ids of the api keys that holds belong to, by the holds' ids. */
  readonly #keyIds = new TwoGenerationMap<string>(MOST_REMEMBERED);
  /**
   * True once a reservation has failed because the server is a cluster. A cluster keeps a key's ledger and the ids of its holds in
   * different slots, so one script cannot use both.
   */
  #isCluster = false;

  constructor({ retentionMs = HOUR_MS, find, onBudget, ...options }: RedisQuotaStoreOptions<Context>) {
    this.#redis = new RedisAccess(options);
    this.#retentionMs = retentionMs;
    this.#find = find;
    this.#onBudget = onBudget;
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    if (this.#find) return this.#find(apiKey, call);
    const key = await this.#redis.run(scripts.FIND, [this.#secret(hashApiKey(apiKey))], [this.#redis.aheadMs()]);
    return typeof key === "string" ? (parseJson(key) as ApiKey) : undefined;
  }

  async balance(keyId: string): Promise<Balance | undefined> {
    const read = await this.#read(keyId);
    if (!read) return undefined;
    const { report, budgets } = read;
    let tightest: Balance & { readonly unlimited: boolean } = report;
    while (budgets.length > 0 && (await this.#chargeExpired()));
    for (const id of budgets) {
      const window = (await this.#onBudgetOf(id, "read", 0))?.window;
      if (window && (tightest.unlimited || window.available < tightest.available)) tightest = window;
    }
    return { used: tightest.used, available: tightest.available, held: tightest.held };
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    if (!isStorableId(request.keyId)) return UNKNOWN_KEY;
    let answer = await this.#reserveOnce(request);
    const [, , held, field = ""] = listOf(answer);
    // What a budget lacks may be held by expired holds of other keys, which no verb of this key charges.
    if (field !== "" && Number(held) > 0 && (await this.#chargeExpired())) answer = await this.#reserveOnce(request);
    return this.#reservationOf(request, answer);
  }

  #reserveOnce(request: HoldRequest): Promise<unknown> {
    return this.#isCluster ? this.#reserveApart(request) : this.#reserveAtOnce(request);
  }

  async #reservationOf({ id, keyId, atLeast }: HoldRequest, answer: unknown): Promise<Reservation> {
    if (!Array.isArray(answer)) {
      this.#keyIds.add(id, keyId);
      return { granted: Number(answer) };
    }
    const [word, available, held, field = ""] = listOf(answer);
    if (word === "refused" && field !== "") this.#tell((parseJson(field) as BudgetsField).names, atLeast);
    if (word === "refused" || word === "known")
      return { refused: true, available: Number(available), held: Number(held) };
    // The key is unknown, but a hold with this id may belong to another key.
    if (word === "foreign" || (await this.#ownerOf(id, 0)) !== undefined) throw foreignHold();
    return UNKNOWN_KEY;
  }

  /**
   * Claims the hold's id and reserves the units in one script. A cluster refuses this script: the id has a slot of its own, because
   * `renew` and `settle` know only the id.
   */
  async #reserveAtOnce(request: HoldRequest): Promise<unknown> {
    const { id, keyId } = request;
    try {
      return await this.#onLedger(scripts.RESERVE, keyId, this.#reserveArgs(request), [this.#owner(id)]);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes("CROSSSLOT"))) throw error;
      this.#isCluster = true;
      return this.#reserveApart(request);
    }
  }

  /** Claims the hold's id in one script, then reserves the units in another. */
  async #reserveApart(request: HoldRequest): Promise<unknown> {
    const { id, keyId, leaseMs } = request;
    const owner = await this.#redis.run(scripts.CLAIM, [this.#owner(id)], [keyId, leaseMs + this.#retentionMs]);
    if (owner !== keyId) return ["foreign"];
    const answer = await this.#onLedger(scripts.RESERVE, keyId, this.#reserveArgs(request));
    if (Array.isArray(answer) && answer[0] !== "known") await this.#redis.run(scripts.UNCLAIM, [this.#owner(id)], []);
    return answer;
  }

  #reserveArgs({ id, keyId, atLeast, atMost, leaseMs }: HoldRequest): readonly (string | number)[] {
    return [fieldOf(id), atLeast, atMost, leaseMs, MOST_UNLIMITED, keyId, leaseMs + this.#retentionMs];
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    const { leaseMs, used, keep = "" } = renewal;
    // Remember the id's owner for the new lease as well, which may be longer than the first lease.
    const keyId = await this.#ownerOf(id, leaseMs);
    if (keyId !== undefined) await this.#onLedger(scripts.RENEW, keyId, [fieldOf(id), leaseMs, used, keep]);
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    const args = [fieldOf(id), outcome.used, estimatedOf(outcome)];
    const remembered = this.#keyIds.get(id);
    if (remembered !== undefined && (await this.#settleOn(remembered, args))) return;
    const keyId = await this.#ownerOf(id, 0);
    if (keyId !== undefined) await this.#settleOn(keyId, args);
  }

  /** Returns false when the key has no such hold. */
  async #settleOn(keyId: string, args: readonly (string | number)[]): Promise<boolean> {
    const answer = await this.#onLedger(scripts.SETTLE, keyId, args);
    if (typeof answer !== "string") return false;
    if (answer !== "done") this.#tell(parseJson(answer) as string[], 0);
    return true;
  }

  async recall(keyId: string): Promise<void> {
    await this.#redis.run(scripts.RECALL, [this.#redis.name("recalls")], [this.#redis.aheadMs(), keyId, RECALLS_MS]);
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    assertInteger("withinMs", withinMs, 0);
    const args = [this.#redis.aheadMs(), withinMs];
    return listOf(await this.#redis.run(scripts.RECALLED, [this.#redis.name("recalls")], args));
  }

  async addBudget(options: BudgetOptions): Promise<void> {
    assertStorableBudget(options);
    const { id, parent } = options;
    const above = parent === undefined ? undefined : await this.#termsOf(parent);
    const terms = termsOf(options, above?.chain ?? [], above?.timeZone);
    const { startsAt, endsAt } = spanAt(terms, await this.#now());
    const names = [this.#budget(id), this.#leases, this.#budgetIndex] as const;
    const described = [id, JSON.stringify(terms), terms.amount, terms.rollover ? 1 : 0, startsAt, endsAt];
    const args = [...described, this.#ownBudget(terms.chain.slice(1))];
    try {
      const made = await this.#redis.run(scripts.CREATE_BUDGET, names, args);
      if (made === -1) throw removedBudget(id);
      if (made === -2) throw noSuchBudget(parent ?? "");
      if (made !== 1) throw knownBudget(id);
    } catch (error) {
      // A key and its budgets would have different slots, and one script cannot change both.
      if (!(error instanceof Error && error.message.includes("CROSSSLOT"))) throw error;
      const message =
        'In a Redis cluster, budgets need all keys in one slot: set a prefix in braces, such as "{polygate}".';
      throw new Error(message, { cause: error });
    }
  }

  async removeBudget(id: string): Promise<void> {
    const [name, token] = [this.#budget(id), crypto.randomUUID()];
    const terms = isStorableId(id) ? await this.#redis.run(scripts.BEGIN_REMOVAL, [name], [token]) : undefined;
    if (typeof terms !== "string") throw noSuchBudget(id);
    let isDone = false;
    try {
      const user = await this.#userOf(id);
      if (user) throw budgetInUse(id, user);
      while (await this.#chargeExpired());
      const removed: BudgetTerms = { ...(parseJson(terms) as BudgetTerms), chain: [] };
      const args = [token, JSON.stringify(removed), id];
      const answer = await this.#redis.run(scripts.END_REMOVAL, [name, this.#budgetIndex], args);
      isDone = answer === "done";
      if (answer === "held") throw budgetInUse(id, "calls");
      if (!isDone) throw new Error(`The budget ${id} is being removed by another process.`);
    } finally {
      // A process that dies before this leaves a budget that takes no further keys. Its removal can be repeated.
      if (!isDone) await this.#redis.run(scripts.UNDO_REMOVAL, [name], [token]);
    }
  }

  /** Finds a key or a child budget that draws on a budget. */
  async #userOf(id: string): Promise<BudgetUser | undefined> {
    const name = this.#budget(id);
    for await (const keys of this.#pages(this.#index))
      for (const { keyId, fields } of await Promise.all(keys.map(async (keyId) => this.#budgetsOf(keyId))))
        if (fields[0] === name) return { kind: "key", id: keyId };
    for await (const budgets of this.#pages(this.#budgetIndex))
      for (const childId of budgets) {
        const terms = await this.#redis.send(this.#budget(childId), "HGET", [this.#budget(childId), "terms"]);
        if (typeof terms === "string" && (parseJson(terms) as BudgetTerms).chain[1] === id)
          return { kind: "budget", id: childId };
      }
    return undefined;
  }

  /** Returns the names of a key's budgets. A revoked key has none. */
  async #budgetsOf(keyId: string): Promise<{ keyId: string; fields: readonly string[] }> {
    const ledger = this.#ledger(keyId);
    const found = listOf(await this.#redis.send(ledger, "HMGET", [ledger, "budgets", "revoked"]));
    const [field = "null", revoked] = found;
    // A missing field is "null" in the list.
    return { keyId, fields: field === "null" || revoked === "1" ? [] : (parseJson(field) as BudgetsField).names };
  }

  /** Reads all ids of an index. */
  async *#pages(index: string): AsyncGenerator<readonly string[]> {
    for (let ids = await this.#pageOf(index, "", MOST_LISTED); ids.length > 0;) {
      yield ids;
      ids = await this.#pageOf(index, ids.at(-1) ?? "", MOST_LISTED);
    }
  }

  async setBudgetAmount(id: string, amount: number): Promise<void> {
    assertInteger("amount", amount, 0);
    if (!(await this.#onBudgetOf(id, "amount", amount))) throw noSuchBudget(id);
    this.#tell([this.#budget(id)], 0);
  }

  async topUpBudget(id: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    if (!(await this.#onBudgetOf(id, "top-up", units))) throw noSuchBudget(id);
  }

  async assignBudget(keyId: string, budgetId: string | undefined): Promise<void> {
    const chain = budgetId === undefined ? [] : await this.#chainOf(budgetId);
    for (;;) {
      const ledger = this.#ledger(keyId);
      const fields = isStorableId(keyId)
        ? listOf(await this.#redis.send(ledger, "HMGET", [ledger, "key", "unlimited", "revoked", "budgets"]))
        : [];
      const [before = "", unlimited, revoked, budgets] = fields;
      // A missing field is "null" in the list.
      if (before === "" || before === "null") throw noSuchKey(keyId);
      if (revoked === "1") throw revokedKey(keyId);
      if (budgetId === undefined && budgets === "null") return;
      const key = keyWithBudget(parseJson(before) as ApiKey, unlimited === "1", budgetId);
      const args = [before, JSON.stringify(key), this.#budgetsField(chain), this.#secret(""), this.#ownBudget(chain)];
      const assigned = await this.#redis.run(scripts.ASSIGN, [ledger, this.#secretsOf(keyId)], args);
      if (assigned === -1) throw noSuchBudget(budgetId ?? "");
      if (assigned === 1) return;
    }
  }

  async budgetReport(id: string): Promise<BudgetReport | undefined> {
    if (!isStorableId(id)) return undefined;
    while (await this.#chargeExpired());
    return (await this.#onBudgetOf(id, "read", 0))?.report;
  }

  async listBudgets(page?: BudgetPage): Promise<readonly BudgetReport[]> {
    const { after, limit } = pageOf(page);
    const reports: BudgetReport[] = [];
    for (const id of await this.#pageOf(this.#budgetIndex, after, limit)) {
      const report = await this.budgetReport(id);
      if (report) reports.push(report);
    }
    return reports;
  }

  /** Reads a budget, after a change, and begins its period when it is due. Returns undefined when there is no such budget. */
  async #onBudgetOf(id: string, change: "read" | "amount" | "top-up", units: number): Promise<Budget | undefined> {
    if (!isStorableId(id)) return undefined;
    for (;;) {
      const args = [this.#redis.aheadMs(), change, units];
      const [word, ...fields] = listOf(await this.#redis.run(scripts.BUDGET, [this.#budget(id)], args));
      if (word === "unknown") return undefined;
      if (word === "beyond") throw beyondMost(`budget ${id}`, "granted");
      if (word === "turn") await this.#turn(fields[0] ?? "", Number(fields[1]));
      else return budgetOf(fields);
    }
  }

  /** Begins the period of a budget at `now`, by the server's clock. */
  async #turn(name: string, now: number): Promise<void> {
    const found = listOf(await this.#redis.send(name, "HMGET", [name, "terms", "starts", "ends"]));
    const [terms = "", starts = "", ends = ""] = found;
    const { startsAt, endsAt } = spanAt(parseJson(terms) as BudgetTerms, now);
    await this.#redis.run(scripts.TURN, [name], [starts, startsAt, endsAt, startsAt > Number(ends) ? 1 : 0]);
  }

  /** Returns the ids of a budget, its parent, and so on. Throws a RangeError when there is no such budget. */
  async #chainOf(id: string): Promise<readonly string[]> {
    return (await this.#termsOf(id)).chain;
  }

  async #termsOf(id: string): Promise<BudgetTerms> {
    const name = this.#budget(id);
    const terms = isStorableId(id) ? await this.#redis.send(name, "HGET", [name, "terms"]) : undefined;
    if (typeof terms !== "string") throw noSuchBudget(id);
    const found = parseJson(terms) as BudgetTerms;
    if (found.chain.length === 0) throw noSuchBudget(id);
    return found;
  }

  /** The name of the first budget of a chain; an empty text for no budget. */
  #ownBudget([id]: readonly string[]): string {
    return id === undefined ? "" : this.#budget(id);
  }

  /** The field of a ledger that names the key's budgets. */
  #budgetsField(chain: readonly string[]): string {
    return JSON.stringify({ leases: this.#leases, names: chain.map((id) => this.#budget(id)) });
  }

  /**
   * Charges some expired holds with shares in budgets, of any key: the verbs of a key charge only its own. Returns false when there was
   * none to charge.
   */
  async #chargeExpired(): Promise<boolean> {
    const due = ["0", String(await this.#now()), "LIMIT", "0", String(HOLDS_AT_ONCE)];
    const leases = listOf(await this.#redis.send(this.#leases, "ZRANGEBYSCORE", [this.#leases, ...due]));
    const ledgers = new Set(leases.map((lease) => lease.slice(0, lease.indexOf(" "))));
    let charged = 0;
    for (const ledger of ledgers) {
      const keyId = decodeURIComponent(/\{([^{}]*)\}:ledger$/.exec(ledger)?.[1] ?? "");
      // A corrupt key must not make the others fail. `sweep` reports it.
      const swept = await this.#onLedger(scripts.SWEEP, keyId, [""]).catch(() => []);
      charged += Number(listOf(swept)[1] ?? 0);
    }
    return charged > 0;
  }

  /** Tells the host of the thresholds that budgets have reached. Does not wait, and ignores errors: the next call tells it then. */
  #tell(names: readonly string[], refused: number): void {
    const onBudget = this.#onBudget;
    if (!onBudget) return;
    const ask = async (name: string): Promise<void> => {
      const [told, reached, granted, charged, terms, starts, ends] = listOf(
        await this.#redis.run(scripts.NEWS, [name], [refused]),
      );
      if (told === undefined) return;
      const { id, name: shown, period } = parseJson(terms ?? "") as BudgetTerms;
      const span = period && { startsAt: Number(starts), endsAt: Number(ends) };
      const units = { granted: Number(granted), charged: Number(charged), ...span };
      tellAll(onBudget, thresholdsOf({ id, name: shown }, { told: Number(told), reached: Number(reached), ...units }));
    };
    for (const name of names) ask(name).catch(() => {});
  }

  /** The server's time, in milliseconds since the Unix epoch. */
  async #now(): Promise<number> {
    const [seconds = "", micros = ""] = listOf(await this.#redis.send(this.#index, "TIME", []));
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) + this.#redis.aheadMs();
  }

  async add(options: DurableKeyOptions = {}): Promise<string> {
    const { key, unlimited, granted, used, hashes } = newDurableKeyOf(options);
    const chain = key.budget === undefined ? [] : await this.#chainOf(key.budget);
    const budgets = key.budget === undefined ? "" : this.#budgetsField(chain);
    const described = [JSON.stringify(key), unlimited ? 1 : 0, granted, used, budgets, this.#ownBudget(chain)];
    // List a key with a budget before the key exists: a removal of the budget must find the key.
    if (key.budget !== undefined) await this.#redis.send(this.#index, "ZADD", [this.#index, "0", key.id]);
    const made = await this.#redis.run(scripts.CREATE, [this.#ledger(key.id)], described);
    if (made === 0) throw knownKey(key.id);
    try {
      if (made !== 1) throw noSuchBudget(key.budget ?? "");
      for (const hash of hashes) await this.#link(key.id, hash);
    } catch (error) {
      if (made === 1) for (const hash of await this.#revoked(key.id)) await this.#forgetSecret(hash);
      await this.#redis.send(this.#ledger(key.id), "DEL", [this.#ledger(key.id)]);
      await this.#redis.send(this.#index, "ZREM", [this.#index, key.id]);
      throw error;
    }
    await this.#redis.send(this.#index, "ZADD", [this.#index, "0", key.id]);
    return key.id;
  }

  async addSecret(keyId: string, apiKey: string, expiresAt = 0): Promise<void> {
    await this.#link(keyId, hashOfSecret(apiKey), secretEndOf(expiresAt));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertInteger("overlapMs", overlapMs, 0);
    const hash = hashOfSecret(apiKey);
    await this.#link(keyId, hash);
    // Add the new secret first: if the rotation fails after that, the old secrets are still valid.
    const args = [this.#redis.aheadMs(), overlapMs, hash];
    const retired = listOf(await this.#redis.run(scripts.RETIRE, [this.#ledger(keyId), this.#secretsOf(keyId)], args));
    for (let index = 0; index < retired.length; index += 2)
      await this.#redis.run(scripts.END_SECRET, [this.#secret(retired[index] ?? "")], [retired[index + 1] ?? ""]);
  }

  async removeSecret(apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    const stored = await this.#redis.send(this.#secret(hash), "HGET", [this.#secret(hash), "key"]);
    if (typeof stored !== "string") return;
    await this.#forgetSecret(hash);
    const secrets = this.#secretsOf((parseJson(stored) as ApiKey).id);
    await this.#redis.send(secrets, "HDEL", [secrets, hash]);
  }

  async revoke(keyId: string): Promise<void> {
    for (const hash of await this.#revoked(keyId)) await this.#forgetSecret(hash);
  }

  async update(keyId: string, changes: KeyChanges): Promise<void> {
    assertKeyChanges(changes);
    const ledger = this.#ledger(keyId);
    for (let tries = 1; tries <= MOST_TRIES; tries++) {
      const stored = await this.#storedKey(keyId);
      const changed = JSON.stringify(changedDurableKeyOf(parseJson(stored) as ApiKey, changes));
      const answer = await this.#redis.run(scripts.CHANGE, [ledger, this.#secretsOf(keyId)], [stored, changed]);
      const [word, number = "", ...hashes] = listOf(answer);
      if (word === "unknown") throw noSuchKey(keyId);
      if (word === "revoked") throw revokedKey(keyId);
      if (word !== "done") continue;
      for (const hash of hashes) await this.#redis.run(scripts.CHANGE_SECRET, [this.#secret(hash)], [changed, number]);
      return;
    }
    throw new Error(`The API key ${keyId} is changed too often at the same time.`);
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#grant(keyId, units);
  }

  async lower(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#grant(keyId, -units);
  }

  /** Adds units to a key's quota, or takes them back when `units` is negative. */
  async #grant(keyId: string, units: number): Promise<void> {
    const [answer, available] = listOf(await this.#onLedger(scripts.GRANT, keyId, ["", units]));
    if (answer === "few") throw tooFewUnits(`key ${keyId}`, Number(available));
    if (answer === "unknown") throw noSuchKey(keyId);
    if (answer === "revoked") throw revokedKey(keyId);
    if (answer === "unlimited") throw unlimitedKey(keyId);
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    return (await this.#read(keyId))?.report;
  }

  /** Reads a key's books, and the ids of its budgets. */
  async #read(keyId: string): Promise<{ report: KeyReport; budgets: readonly string[] } | undefined> {
    if (!isStorableId(keyId)) return undefined;
    const told = await this.#onLedger(scripts.REPORT, keyId, [""], [this.#secretsOf(keyId)]);
    const [answer, secrets, key = "", revoked, unlimited, field = "", ...books] = listOf(told);
    if (answer === "unknown") return undefined;
    const [granted = "", charged = "", held = "", overdraft = "", estimated = ""] = books;
    const described = { unlimited: unlimited === "1", secrets: Number(secrets), revoked: revoked === "1" };
    const report = keyReportOf(parseJson(key) as ApiKey, { granted, charged, held, overdraft, estimated }, described);
    const names = field === "" ? [] : (parseJson(field) as BudgetsField).names;
    return { report, budgets: names.map((name) => name.slice(this.#budget("").length)) };
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    const { after, limit } = pageOf(page);
    const reports = await Promise.all(
      (await this.#pageOf(this.#index, after, limit)).map((keyId) => this.report(keyId)),
    );
    return reports.filter((report) => report !== undefined);
  }

  sweep(): Promise<number> {
    return this.#sweepAll(scripts.SWEEP, []);
  }

  async prune(retention: Retention): Promise<number> {
    assertRetention(retention);
    const { olderThanMs } = retention;
    // Use one cutoff for the whole run: holds that are resolved during the run are left to the next run.
    return this.#sweepAll(scripts.PRUNE, [(await this.#now()) - olderThanMs]);
  }

  /** Runs a script on every key until it finds no more holds, and returns the total number of holds. */
  #sweepAll(script: Script, args: readonly number[]): Promise<number> {
    return onEachKey(
      (after) => this.#pageOf(this.#index, after, HOLDS_AT_ONCE),
      async (keyId) => Number(listOf(await this.#onLedger(script, keyId, ["", ...args]))[1] ?? 0),
    );
  }

  /**
   * Runs a script on a key's ledger. Repeats the script while it answers 'again', because one run charges a limited number of expired
   * holds.
   */
  async #onLedger(
    script: Script,
    keyId: string,
    args: readonly (string | number)[],
    keys: readonly string[] = [],
  ): Promise<unknown> {
    const names = [this.#ledger(keyId), this.#redis.nameOfKey(keyId, "times")] as const;
    for (;;) {
      const ownArgs = [this.#redis.aheadMs(), this.#retentionMs];
      const answer = await this.#redis.run(script, [...names, ...keys], [...ownArgs, ...args]);
      if (!Array.isArray(answer)) return answer;
      const [word, book = "", units = ""] = listOf(answer);
      if (word === "beyond") throw beyondMost(`key ${keyId}`, book);
      if (word === "spoilt") throw spoiltKey(keyId, book, units || "missing");
      // A period of a budget is over, so that the next must begin.
      if (word === "turn") await this.#turn(book, Number(units));
      else if (word === "budget") throw new Error(`The key ${keyId} is spoilt: its budget ${book} is missing.`);
      else if (word !== "again") return answer;
    }
  }

  /** Reads a key as JSON. */
  async #storedKey(keyId: string): Promise<string> {
    if (!isStorableId(keyId)) throw noSuchKey(keyId);
    const ledger = this.#ledger(keyId);
    const stored = await this.#redis.send(ledger, "HGET", [ledger, "key"]);
    if (typeof stored !== "string") throw noSuchKey(keyId);
    return stored;
  }

  /** Stores a secret, and adds it to the list of its key. Deletes the secret again when the key has meanwhile been revoked or deleted. */
  async #link(keyId: string, hash: string, endsAt: number | "" = ""): Promise<void> {
    const stored = await this.#storedKey(keyId);
    if ((await this.#redis.run(scripts.TAKE_SECRET, [this.#secret(hash)], [stored, endsAt])) !== 1) throw knownSecret();
    const names = [this.#ledger(keyId), this.#secretsOf(keyId)] as const;
    const [answer, key = "", changes = ""] = listOf(await this.#redis.run(scripts.LINK, names, [hash, endsAt]));
    // The key may have been changed since it was read, and the change did not find this secret.
    if (answer === "done" && key !== stored)
      await this.#redis.run(scripts.CHANGE_SECRET, [this.#secret(hash)], [key, changes]);
    if (answer === "done") return;
    await this.#forgetSecret(hash);
    throw answer === "revoked" ? revokedKey(keyId) : noSuchKey(keyId);
  }

  /** Marks a key as revoked, and returns the hashes of its secrets. */
  async #revoked(keyId: string): Promise<readonly string[]> {
    const [answer, ...hashes] = listOf(
      await this.#redis.run(scripts.REVOKE, [this.#ledger(keyId), this.#secretsOf(keyId)], []),
    );
    if (answer === "unknown") throw noSuchKey(keyId);
    return hashes;
  }

  async #forgetSecret(hash: string): Promise<void> {
    await this.#redis.send(this.#secret(hash), "DEL", [this.#secret(hash)]);
  }

  async #ownerOf(id: string, leaseMs: number): Promise<string | undefined> {
    if (!isStorableId(id)) return undefined;
    const owner = await this.#redis.run(scripts.OWNER, [this.#owner(id)], [leaseMs + this.#retentionMs]);
    return typeof owner === "string" ? owner : undefined;
  }

  async #pageOf(index: string, after: string, limit: number): Promise<readonly string[]> {
    const first = after === "" ? "-" : `(${after}`;
    return listOf(await this.#redis.send(index, "ZRANGEBYLEX", [index, first, "+", "LIMIT", "0", String(limit)]));
  }

  #budget(id: string): string {
    return this.#redis.name(`budget:${id}`);
  }

  get #budgetIndex(): string {
    return this.#redis.name("budgets");
  }

  /** The ends of the leases of all holds with shares in budgets. */
  get #leases(): string {
    return this.#redis.name("leases");
  }

  get #index(): string {
    return this.#redis.name("keys");
  }

  #secret(hash: string): string {
    return this.#redis.name(`secret:${hash}`);
  }

  #owner(id: string): string {
    return this.#redis.name(`owner:${id}`);
  }

  #ledger(keyId: string): string {
    return this.#redis.nameOfKey(keyId, "ledger");
  }

  #secretsOf(keyId: string): string {
    return this.#redis.nameOfKey(keyId, "secrets");
  }
}

/** The field of a ledger that names the key's budgets. */
interface BudgetsField {
  readonly names: readonly string[];
}

/** Reads a budget from the answer of its script. */
function budgetOf(fields: readonly string[]): Budget {
  const [terms = "", ...numbers] = fields;
  const [amount = 0, startsAt = 0, endsAt = 0, granted = 0, charged = 0, held = 0, overdraft = 0, estimated = 0] =
    numbers.map(Number);
  const stored = parseJson(terms) as BudgetTerms;
  const window = new Window(stored.id, { startsAt, endsAt }, granted);
  Object.assign(window, { charged, held, overdraft, estimated });
  return new Budget({ ...stored, amount }, window);
}

/** The name of a hold within its key's ledger. */
const fieldOf = (id: string): string => `hold:${id}`;
