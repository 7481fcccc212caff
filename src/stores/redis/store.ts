/** The Redis store: each verb is a script that Redis runs whole, on the slot of its key. */

import { parseJson } from "../../model/json.ts";
import type { CallInfo } from "../../ports/call-info.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import { beyondMost, MOST_UNLIMITED } from "../account.ts";
import { hashApiKey } from "../api-key-hash.ts";
import {
  type DurableKeyOptions,
  type DurableQuotaStore,
  type KeyPage,
  type KeyReport,
  keyReportOf,
  type Retention,
} from "../durable.ts";
import {
  assertHoldRequest,
  assertOutcome,
  assertRenewal,
  assertSpan,
  foreignHold,
  hashOfSecret,
  isStorableId,
  knownKey,
  knownSecret,
  newKeyOf,
  noSuchKey,
  pageOf,
  revokedKey,
} from "../durable-input.ts";
import { Generations } from "../generations.ts";
import { assertUnits } from "../units.ts";
import { commandsOf, type RedisClient, runScript, type Script, type SendCommand } from "./client.ts";
import * as scripts from "./scripts.ts";

/** The Redis that quota is kept in, and how its keys are named. */
export interface RedisQuotaStoreOptions<Context = unknown> {
  /** A connected client of `redis`, `ioredis` or Bun, or a cluster of the first two. The host closes it. */
  readonly client: RedisClient;
  /** What all names in Redis begin with: `polygate` unless told. */
  readonly prefix?: string;
  /** How long a resolved hold is known, in milliseconds: an integer from 1 up, an hour unless told. */
  readonly retentionMs?: number;
  /**
   * Finds keys in place of the store, where a host has a table of keys already. Each id that it tells must have been added to the
   * store, without a secret.
   */
  readonly find?: (apiKey: string, call?: CallInfo<Context>) => Promise<ApiKey | undefined>;
  /** How far the time that leases end by is ahead of the server's, in milliseconds. For tests. */
  readonly aheadMs?: () => number;
}

const HOUR_MS = 3_600_000;

/** How many holds a process remembers the keys of, at least: a hold of another process is looked up. */
const MOST_REMEMBERED = 10_000;

/**
 * Quota in Redis, for any number of processes. Leases end by the server's clock. What Redis loses, the ledger loses: without
 * persistence (`appendonly yes`) a server that dies forgets all keys and all usage, and with `appendfsync everysec` the last second.
 *
 * @example
 * const quotas = redisQuotaStore({ client: await createClient({ url }).connect() });
 */
export const redisQuotaStore = <Context = unknown>(
  options: RedisQuotaStoreOptions<Context>,
): DurableQuotaStore<Context> => new RedisLedger(options);

class RedisLedger<Context> implements DurableQuotaStore<Context> {
  readonly #send: SendCommand;
  readonly #prefix: string;
  readonly #retentionMs: number;
  readonly #find: RedisQuotaStoreOptions<Context>["find"];
  readonly #aheadMs: () => number;
  /** The keys of holds, by the holds' ids. */
  readonly #keyIds = new Generations<string>(MOST_REMEMBERED, Number.POSITIVE_INFINITY, 0);
  /** Whether the server keeps a key's ledger and the ids of its holds apart, which it says itself. */
  #isCluster = false;

  constructor(options: RedisQuotaStoreOptions<Context>) {
    const { client, prefix = "polygate", retentionMs = HOUR_MS, find, aheadMs = () => 0 } = options;
    if (!/^[\w:.-]{1,100}$/.test(prefix)) throw new RangeError(`${JSON.stringify(prefix)} is no prefix.`);
    if (!Number.isSafeInteger(retentionMs) || retentionMs < 1)
      throw new RangeError(`retentionMs must be an integer from 1 up, not ${retentionMs}`);
    this.#send = commandsOf(client);
    this.#prefix = prefix;
    this.#retentionMs = retentionMs;
    this.#find = find;
    this.#aheadMs = aheadMs;
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    if (this.#find) return this.#find(apiKey, call);
    const key = await this.#run(scripts.FIND, [this.#secret(hashApiKey(apiKey))], [this.#aheadMs()]);
    return typeof key === "string" ? (parseJson(key) as ApiKey) : undefined;
  }

  async balance(keyId: string): Promise<Balance | undefined> {
    const report = await this.report(keyId);
    return report && { used: report.used, available: report.available, held: report.held };
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    const { id, keyId } = request;
    if (!isStorableId(keyId)) return NOTHING;
    const answer = this.#isCluster ? await this.#reserveApart(request) : await this.#reserveAtOnce(request);
    if (!Array.isArray(answer)) {
      this.#keyIds.add(id, keyId, 0);
      return { granted: Number(answer) };
    }
    const [word, available, held] = listOf(answer);
    if (word === "refused" || word === "known")
      return { refused: true, available: Number(available), held: Number(held) };
    // Nothing can be held for a key that there is not, and yet the id may be another's.
    if (word === "foreign" || (await this.#ownerOf(id, 0)) !== undefined) throw foreignHold();
    return NOTHING;
  }

  /** Takes the id and the units in one script. A cluster refuses that: an id has a slot of its own, for a later call knows it alone. */
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

  /** Claims the id first, and then the units. */
  async #reserveApart(request: HoldRequest): Promise<unknown> {
    const { id, keyId, leaseMs } = request;
    const owner = await this.#run(scripts.CLAIM, [this.#owner(id)], [keyId, leaseMs + this.#retentionMs]);
    if (owner !== keyId) return ["foreign"];
    const answer = await this.#onLedger(scripts.RESERVE, keyId, this.#reserveArgs(request));
    if (Array.isArray(answer) && answer[0] !== "known") await this.#run(scripts.UNCLAIM, [this.#owner(id)], []);
    return answer;
  }

  #reserveArgs({ id, keyId, atLeast, atMost, leaseMs }: HoldRequest): readonly (string | number)[] {
    return [fieldOf(id), atLeast, atMost, leaseMs, MOST_UNLIMITED, keyId, leaseMs + this.#retentionMs];
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    // The id must be known for as long as its hold is, which may be for longer than it was first asked for.
    const keyId = await this.#ownerOf(id, renewal.leaseMs);
    if (keyId !== undefined) await this.#onLedger(scripts.RENEW, keyId, [fieldOf(id), renewal.leaseMs, renewal.used]);
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    const args = [fieldOf(id), outcome.used, outcome.certainty === "estimated" ? 1 : 0];
    const remembered = this.#keyIds.get(id);
    if (remembered !== undefined && (await this.#onLedger(scripts.SETTLE, remembered, args)) === "done") return;
    const keyId = await this.#ownerOf(id, 0);
    if (keyId !== undefined) await this.#onLedger(scripts.SETTLE, keyId, args);
  }

  async add(options: DurableKeyOptions = {}): Promise<string> {
    const { key, granted, used, hashes } = newKeyOf(options);
    const json = JSON.stringify(key);
    const described = [json, key.unlimited ? 1 : 0, granted, used];
    if ((await this.#run(scripts.CREATE, [this.#names(key.id)[0]], described)) !== 1) throw knownKey(key.id);
    try {
      for (const hash of hashes) await this.#link(key.id, hash);
    } catch (error) {
      for (const hash of await this.#revoked(key.id)) await this.#forgetSecret(hash);
      await this.#send(this.#names(key.id)[0], "DEL", [this.#names(key.id)[0]]);
      throw error;
    }
    await this.#send(this.#index, "ZADD", [this.#index, "0", key.id]);
    return key.id;
  }

  async addSecret(keyId: string, apiKey: string): Promise<void> {
    await this.#link(keyId, hashOfSecret(apiKey));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertSpan("overlapMs", overlapMs);
    const hash = hashOfSecret(apiKey);
    await this.#link(keyId, hash);
    // The new one first: a rotation that breaks off in between has ended no secret.
    const args = [this.#aheadMs(), overlapMs, hash];
    const retired = listOf(await this.#run(scripts.RETIRE, this.#secretsOf(keyId), args));
    for (let index = 0; index < retired.length; index += 2)
      await this.#run(scripts.END_SECRET, [this.#secret(retired[index] ?? "")], [retired[index + 1] ?? ""]);
  }

  async removeSecret(apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    const stored = await this.#send(this.#secret(hash), "HGET", [this.#secret(hash), "key"]);
    if (typeof stored !== "string") return;
    await this.#forgetSecret(hash);
    const secrets = this.#secretsOf((parseJson(stored) as ApiKey).id)[1];
    await this.#send(secrets, "HDEL", [secrets, hash]);
  }

  async revoke(keyId: string): Promise<void> {
    for (const hash of await this.#revoked(keyId)) await this.#forgetSecret(hash);
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertUnits("units", units);
    const [answer] = listOf(await this.#onLedger(scripts.GRANT, keyId, ["", units]));
    if (answer === "unknown") throw noSuchKey(keyId);
    if (answer === "revoked") throw revokedKey(keyId);
    if (answer === "unlimited") throw new RangeError(`The API key ${keyId} is unlimited.`);
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    if (!isStorableId(keyId)) return undefined;
    const told = await this.#onLedger(scripts.REPORT, keyId, [""], [this.#secretsOf(keyId)[1]]);
    const [answer, secrets, key = "", revoked, ...books] = listOf(told);
    if (answer === "unknown") return undefined;
    const [granted = "", charged = "", held = "", overdraft = "", estimated = ""] = books;
    const described = { secrets: Number(secrets), revoked: revoked === "1" };
    return keyReportOf(parseJson(key) as ApiKey, { granted, charged, held, overdraft, estimated }, described);
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    const { after, limit } = pageOf(page);
    const reports = await Promise.all((await this.#pageOfKeys(after, limit)).map((keyId) => this.report(keyId)));
    return reports.filter((report) => report !== undefined);
  }

  sweep(): Promise<number> {
    return this.#onEachKey(scripts.SWEEP, []);
  }

  async prune({ olderThanMs }: Retention): Promise<number> {
    assertSpan("olderThanMs", olderThanMs);
    // One cutoff for the whole run: holds that are resolved meanwhile are for the next.
    const [seconds = "", micros = ""] = listOf(await this.#send(this.#index, "TIME", []));
    const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) + this.#aheadMs();
    return this.#onEachKey(scripts.PRUNE, [now - olderThanMs]);
  }

  /**
   * Runs a script on every key until it has nothing more to do, and adds up what it did. A key that fails holds up no other: its
   * error is thrown at the end.
   */
  async #onEachKey(script: Script, args: readonly number[]): Promise<number> {
    let total = 0;
    const errors: unknown[] = [];
    for (let after = ""; ;) {
      const keyIds = await this.#pageOfKeys(after, 100);
      for (const keyId of keyIds)
        try {
          for (let done = 1; done > 0; total += done)
            done = Number(listOf(await this.#onLedger(script, keyId, ["", ...args]))[1] ?? 0);
        } catch (error) {
          errors.push(error);
        }
      after = keyIds.at(-1) ?? "";
      if (after !== "") continue;
      if (errors.length > 0) throw errors[0];
      return total;
    }
  }

  /** Runs a script on a key's ledger, again for as long as there are more expired holds than one run should charge. */
  async #onLedger(
    script: Script,
    keyId: string,
    args: readonly (string | number)[],
    keys: readonly string[] = [],
  ): Promise<unknown> {
    const [ledger, times] = this.#names(keyId);
    for (;;) {
      const answer = await this.#run(script, [ledger, times, ...keys], [this.#aheadMs(), this.#retentionMs, ...args]);
      if (!Array.isArray(answer)) return answer;
      const [word, book = "", units = ""] = listOf(answer);
      if (word === "beyond") throw beyondMost(keyId, book);
      if (word === "spoilt")
        throw new Error(`The key ${keyId} is spoilt: its ${book} units are ${units || "missing"}.`);
      if (word !== "again") return answer;
    }
  }

  /** Lists a secret with its key, which makes it known; undoes that where the secret is another's. */
  async #link(keyId: string, hash: string): Promise<void> {
    if (!isStorableId(keyId)) throw noSuchKey(keyId);
    const [key, secrets] = this.#secretsOf(keyId);
    const stored = await this.#send(key, "HGET", [key, "key"]);
    if (typeof stored !== "string") throw noSuchKey(keyId);
    if ((await this.#run(scripts.TAKE_SECRET, [this.#secret(hash)], [stored])) !== 1) throw knownSecret();
    const [answer] = listOf(await this.#run(scripts.LINK, [key, secrets], [hash]));
    if (answer === "done") return;
    await this.#forgetSecret(hash);
    throw answer === "revoked" ? revokedKey(keyId) : noSuchKey(keyId);
  }

  /** Marks a key as revoked, and returns the hashes of its secrets. */
  async #revoked(keyId: string): Promise<readonly string[]> {
    const [answer, ...hashes] = listOf(await this.#run(scripts.REVOKE, this.#secretsOf(keyId), []));
    if (answer === "unknown") throw noSuchKey(keyId);
    return hashes;
  }

  async #forgetSecret(hash: string): Promise<void> {
    await this.#send(this.#secret(hash), "DEL", [this.#secret(hash)]);
  }

  async #ownerOf(id: string, leaseMs: number): Promise<string | undefined> {
    if (!isStorableId(id)) return undefined;
    const owner = await this.#run(scripts.OWNER, [this.#owner(id)], [leaseMs + this.#retentionMs]);
    return typeof owner === "string" ? owner : undefined;
  }

  async #pageOfKeys(after: string, limit: number): Promise<readonly string[]> {
    const first = after === "" ? "-" : `(${after}`;
    return listOf(await this.#send(this.#index, "ZRANGEBYLEX", [this.#index, first, "+", "LIMIT", "0", String(limit)]));
  }

  #run(script: Script, keys: readonly [string, ...string[]], args: readonly (string | number)[]): Promise<unknown> {
    return runScript(this.#send, script, keys, args);
  }

  get #index(): string {
    return `${this.#prefix}:keys`;
  }

  #secret(hash: string): string {
    return `${this.#prefix}:secret:${hash}`;
  }

  #owner(id: string): string {
    return `${this.#prefix}:owner:${id}`;
  }

  #secretsOf(keyId: string): [key: string, secrets: string] {
    const [ledger, , secrets] = this.#names(keyId);
    return [ledger, secrets];
  }

  /** The names of a key's ledger. What stands in braces decides the slot of a cluster; all of them share one. */
  #names(keyId: string): [ledger: string, times: string, secrets: string] {
    const name = (part: string): string => `${this.#prefix}:{${encodeURIComponent(keyId)}}:${part}`;
    return [name("ledger"), name("times"), name("secrets")];
  }
}

const NOTHING: Reservation = { refused: true, available: 0, held: 0 };

/** The name of a hold within its key's ledger. */
const fieldOf = (id: string): string => `hold:${id}`;

const listOf = (answer: unknown): readonly string[] => (Array.isArray(answer) ? answer.map(String) : []);
