/** The reference QuotaStore: a ledger in memory, for one process, tests and playgrounds. */

import { type Clock, systemClock } from "../ports/clock.ts";
import type { Certainty } from "../model/usage.ts";
import type { ApiKeyRecord, HoldRequest, QuotaStore, Reservation } from "../ports/quota-store.ts";
import { hashApiKey } from "./api-key-hash.ts";
import { Holds, type Remembered } from "./holds.ts";

/** An api key and its quota, as a host declares it. */
export interface ApiKeyOptions {
  /** The secret, with or without `sk-`. Only its hash is kept. */
  readonly apiKey: string;
  /** Shown to its owner. The default is the key's position: `key-1`. */
  readonly name?: string;
  /** Quota in units, a non-negative integer; a key without any is unlimited. */
  readonly granted?: number;
  /** What of it was used before. */
  readonly used?: number;
  /** The models that the key may use; a key without this list may use every model. */
  readonly models?: readonly string[];
  /** Unix time in seconds; 0 or -1 (default 0) never expires. */
  readonly expiresAt?: number;
}

/** What a key's ledger holds, for audits: `used` counts live holds as well. */
export interface LedgerReport {
  readonly granted: number;
  readonly used: number;
  readonly available: number;
  /** Units of live holds; a part of `used`. */
  readonly held: number;
  readonly liveHolds: number;
  /** Units that were consumed beyond what the key had. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
}

export interface MemoryQuotaStoreOptions {
  /** Default: the machine's own. */
  readonly clock?: Clock;
  /**
   * How many settled and refused holds are remembered, so that a repeated call changes nothing; none for longer than an
   * hour. Default 100,000. Live holds and those whose lease has run out are not counted.
   */
  readonly maxRemembered?: number;
}

export interface MemoryQuotaStore extends QuotaStore {
  /** Adds a key; throws a RangeError when its numbers are no quota, or the key is known already. */
  add(key: ApiKeyOptions): void;
  /** Forgets a key. Its live holds end without a charge. */
  remove(apiKey: string): void;
  /** The ledger of a key, or undefined when it is unknown. */
  report(apiKey: string): LedgerReport | undefined;
}

interface Account {
  readonly id: string;
  readonly name: string;
  readonly unlimited: boolean;
  readonly granted: number;
  readonly modelLimits: Readonly<Record<string, boolean>> | undefined;
  readonly expiresAt: number;
  /** Units charged, without live holds. */
  charged: number;
  estimated: number;
  held: number;
  overdraft: number;
  readonly live: Set<HoldEntry>;
  /** No live hold expires before this. */
  nextExpiry: number;
}

interface HoldEntry extends Remembered {
  readonly account: Account;
  readonly granted: number;
  state: "live" | "settled" | "expired" | "refused";
  expiresAt: number;
  /** What its last renewal noted; after it was resolved, what it was charged. */
  used: number;
  /** Of the charge, what the account could not cover. */
  overdraft: number;
}

/**
 * Quota in memory. Its verbs run to their end without waiting, so no two can race.
 *
 * @example
 * const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", granted: 1_000_000 }]);
 */
export function memoryQuotaStore(
  keys: readonly ApiKeyOptions[] = [],
  { clock = systemClock, maxRemembered = 100_000 }: MemoryQuotaStoreOptions = {},
): MemoryQuotaStore {
  assertUnits("maxRemembered", maxRemembered);
  const store = new Ledger(clock, maxRemembered);
  for (const key of keys) store.add(key);
  return store;
}

/** The hash of a key as its host writes it: with or without `sk-`. */
const hashOf = (apiKey: string): string => hashApiKey(apiKey.replace(/^sk-/, ""));

class Ledger implements MemoryQuotaStore {
  readonly #clock: Clock;
  readonly #byHash = new Map<string, Account>();
  readonly #byId = new Map<string, Account>();
  readonly #holds: Holds<HoldEntry>;
  #added = 0;

  constructor(clock: Clock, maxRemembered: number) {
    this.#clock = clock;
    this.#holds = new Holds(maxRemembered);
  }

  add({ apiKey, name, granted, used = 0, models, expiresAt = 0 }: ApiKeyOptions): void {
    const hash = hashOf(apiKey);
    if (this.#byHash.has(hash)) throw new RangeError("This API key is known already.");
    assertUnits("granted", granted ?? 0);
    assertUnits("used", used);
    if (granted !== undefined && used > granted)
      throw new RangeError("An API key cannot have used more than it was granted.");
    const id = `key-${++this.#added}`;
    const account: Account = {
      id,
      name: name ?? id,
      unlimited: granted === undefined,
      granted: granted ?? 0,
      modelLimits: models && Object.fromEntries(models.map((model) => [model, true])),
      expiresAt,
      charged: used,
      estimated: 0,
      held: 0,
      overdraft: 0,
      live: new Set(),
      nextExpiry: Number.POSITIVE_INFINITY,
    };
    this.#byHash.set(hash, account);
    this.#byId.set(id, account);
  }

  remove(apiKey: string): void {
    const hash = hashOf(apiKey);
    const account = this.#byHash.get(hash);
    if (!account) return;
    this.#byHash.delete(hash);
    this.#byId.delete(account.id);
    for (const hold of account.live) this.#holds.drop(hold);
  }

  report(apiKey: string): LedgerReport | undefined {
    const account = this.#byHash.get(hashOf(apiKey));
    if (!account) return undefined;
    this.#expire(account);
    const { held, overdraft, estimated } = account;
    const [used, available] = [account.charged + held, availableTo(account)];
    return { granted: used + available, used, available, held, liveHolds: account.live.size, overdraft, estimated };
  }

  async find(apiKey: string): Promise<ApiKeyRecord | undefined> {
    const account = this.#byHash.get(hashApiKey(apiKey));
    if (!account) return undefined;
    this.#expire(account);
    const { id, name, unlimited, modelLimits, expiresAt } = account;
    return {
      id,
      name,
      used: account.charged + account.held,
      available: availableTo(account),
      unlimited,
      modelLimits: modelLimits ?? {},
      modelLimitsEnabled: modelLimits !== undefined,
      expiresAt,
    };
  }

  async reserve({ id, keyId, atLeast, atMost, expiresAt }: HoldRequest): Promise<Reservation | undefined> {
    assertUnits("atLeast", atLeast);
    assertUnits("atMost", atMost);
    if (atLeast > atMost) throw new RangeError("A hold's atLeast cannot be more than its atMost.");
    assertTime(expiresAt);
    const known = this.#holds.get(id);
    if (known && known.account.id !== keyId) throw new RangeError("A hold of this id belongs to another key.");
    const account = this.#byId.get(keyId);
    if (!account) return undefined;
    this.#expire(account);
    // What is over is no leave to run another call.
    if (known) return known.state === "live" ? { granted: known.granted } : undefined;
    const granted = grantable(account, atLeast, atMost);
    const hold: HoldEntry = { id, account, granted, state: "live", expiresAt, used: 0, overdraft: 0, overAt: 0 };
    if (granted < atLeast) {
      hold.state = "refused";
      this.#holds.close(hold, this.#clock.now());
      return undefined;
    }
    this.#holds.open(hold);
    account.live.add(hold);
    account.held += granted;
    account.nextExpiry = Math.min(account.nextExpiry, expiresAt);
    return { granted };
  }

  async extend(id: string, { expiresAt, used }: { expiresAt: number; used: number }): Promise<void> {
    assertUnits("used", used);
    assertTime(expiresAt);
    const hold = this.#holds.get(id);
    if (!hold) return;
    this.#expire(hold.account);
    if (hold.state !== "live") return;
    hold.expiresAt = expiresAt;
    hold.used = used;
    hold.account.nextExpiry = Math.min(hold.account.nextExpiry, expiresAt);
  }

  async settle(id: string, used: number, how: Certainty): Promise<void> {
    assertUnits("used", used);
    const hold = this.#holds.get(id);
    if (!hold) return;
    this.#expire(hold.account);
    if (hold.state === "live") this.#resolve(hold, "settled", used, how);
    else if (hold.state === "expired") this.#correct(hold, used, how);
  }

  /** Charges every hold whose lease has run out what its last renewal noted. */
  #expire(account: Account): void {
    const now = this.#clock.now();
    this.#holds.forget(now);
    if (account.nextExpiry > now) return;
    account.nextExpiry = Number.POSITIVE_INFINITY;
    for (const hold of account.live) {
      if (hold.expiresAt <= now) this.#resolve(hold, "expired", hold.used, "estimated");
      else account.nextExpiry = Math.min(account.nextExpiry, hold.expiresAt);
    }
  }

  #resolve(hold: HoldEntry, state: "settled" | "expired", used: number, how: Certainty): void {
    const { account } = hold;
    account.live.delete(hold);
    account.held -= hold.granted;
    hold.state = state;
    this.#charge(hold, used, how);
    if (state === "settled") this.#holds.close(hold, this.#clock.now());
    else this.#holds.expire(hold, this.#clock.now());
  }

  /** The true count has come after the lease had run out: it replaces what expiry charged. */
  #correct(hold: HoldEntry, used: number, how: Certainty): void {
    const { account } = hold;
    const charged = hold.used - hold.overdraft;
    account.charged -= charged;
    account.estimated -= charged;
    account.overdraft -= hold.overdraft;
    hold.state = "settled";
    this.#charge(hold, used, how);
  }

  #charge(hold: HoldEntry, used: number, how: Certainty): void {
    const { account } = hold;
    hold.used = used;
    hold.overdraft = account.unlimited ? 0 : Math.max(0, used - availableTo(account));
    const charged = used - hold.overdraft;
    account.charged += charged;
    account.overdraft += hold.overdraft;
    if (how === "estimated") account.estimated += charged;
  }
}

const availableTo = ({ granted, charged, held }: Account): number => Math.max(0, granted - charged - held);

/** The most that one call of an unlimited key holds: any number of them must add up exactly. */
const MOST_UNLIMITED = 2 ** 36;

const grantable = (account: Account, atLeast: number, atMost: number): number =>
  account.unlimited ? Math.max(atLeast, Math.min(atMost, MOST_UNLIMITED)) : Math.min(atMost, availableTo(account));

function assertUnits(name: string, units: number): void {
  if (!Number.isSafeInteger(units) || units < 0)
    throw new RangeError(`${name} must be an integer from 0 up, not ${units}`);
}

function assertTime(expiresAt: number): void {
  if (!Number.isSafeInteger(expiresAt))
    throw new RangeError(`expiresAt must be a time in whole milliseconds, not ${expiresAt}`);
}
