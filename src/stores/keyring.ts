/** The keys of the memory ledger: each account by its id, and by the hashes of its secrets. */

import type { ApiKey } from "../ports/quota-store.ts";
import { Account } from "./account.ts";
import { hashApiKey } from "./api-key-hash.ts";
import { assertExpiresAt } from "./expires-at.ts";
import { assertUnits } from "./units.ts";

/** An api key and its quota, as a host declares it. */
export interface ApiKeyOptions {
  /** The key's secret, or each of its secrets, with or without `sk-`. Only their hashes are kept. */
  readonly apiKey: string | readonly string[];
  /** Identifies the key, and is no secret. The default is the key's position: `key-1`. */
  readonly id?: string;
  /** Shown to its owner. The default is its id. */
  readonly name?: string;
  /** Quota in units, a non-negative integer; a key without any is unlimited. */
  readonly granted?: number;
  /** What of it was used before. */
  readonly used?: number;
  /** The models that the key may use; a key without this list may use every model. */
  readonly models?: readonly string[];
  /** Unix time in whole seconds; 0 or -1 (default 0) never expires. */
  readonly expiresAt?: number;
}

/** Accounts under their ids and their secrets. */
export class Keyring {
  readonly #accounts = new Map<string, Account>();
  readonly #bySecret = new Map<string, Account>();
  #added = 0;

  get(keyId: string): Account | undefined {
    return this.#accounts.get(keyId);
  }

  /** @param apiKey A secret without `sk-`. */
  find(apiKey: string): Account | undefined {
    return this.#bySecret.get(hashApiKey(apiKey));
  }

  add({ apiKey, id = this.#nextId(), granted, used = 0, ...described }: ApiKeyOptions): string {
    if (this.#accounts.has(id)) throw new RangeError(`An API key of the id ${id} is known already.`);
    const secrets = new Set([apiKey].flat().map((secret) => this.#hashNew(secret)));
    if (secrets.size === 0) throw new RangeError("An API key needs a secret.");
    assertUnits("granted", granted ?? 0);
    assertUnits("used", used);
    assertExpiresAt(described.expiresAt ?? 0);
    if (granted !== undefined && used > granted)
      throw new RangeError("An API key cannot have used more than it was granted.");
    const account = new Account(keyOf(id, granted === undefined, described), granted ?? 0, used);
    this.#accounts.set(id, account);
    for (const secret of secrets) this.#link(account, secret);
    return id;
  }

  /** Forgets a key, and returns its account. */
  remove(keyId: string): Account | undefined {
    const account = this.#accounts.get(keyId);
    if (!account) return undefined;
    this.#accounts.delete(keyId);
    for (const secret of account.secrets) this.#bySecret.delete(secret);
    return account;
  }

  addSecret(keyId: string, apiKey: string): void {
    const account = this.#accounts.get(keyId);
    if (!account) throw new RangeError(`There is no API key of the id ${keyId}.`);
    this.#link(account, this.#hashNew(apiKey));
  }

  removeSecret(apiKey: string): void {
    const secret = hashOf(apiKey);
    this.#bySecret.get(secret)?.secrets.delete(secret);
    this.#bySecret.delete(secret);
  }

  #nextId(): string {
    let id: string;
    do id = `key-${++this.#added}`;
    while (this.#accounts.has(id));
    return id;
  }

  #hashNew(apiKey: string): string {
    if (/^(sk-)?$/.test(apiKey)) throw new RangeError("An API key cannot be empty.");
    const secret = hashOf(apiKey);
    if (this.#bySecret.has(secret)) throw new RangeError("This API key is known already.");
    return secret;
  }

  #link(account: Account, secret: string): void {
    account.secrets.add(secret);
    this.#bySecret.set(secret, account);
  }
}

/** The one record of a key, which every call is given. */
function keyOf(
  id: string,
  unlimited: boolean,
  { name = id, models, expiresAt = 0 }: Pick<ApiKeyOptions, "name" | "models" | "expiresAt">,
): ApiKey {
  const modelLimits = Object.freeze(Object.fromEntries((models ?? []).map((model) => [model, true])));
  return Object.freeze({ id, name, unlimited, modelLimits, modelLimitsEnabled: models !== undefined, expiresAt });
}

/** The hash of a secret as its host writes it: with or without `sk-`. */
const hashOf = (apiKey: string): string => hashApiKey(apiKey.replace(/^sk-/, ""));
