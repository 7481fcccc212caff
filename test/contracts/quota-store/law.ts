/** What the laws of the QuotaStore are written with: a store that is opened and closed around each, and short verbs. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { ApiKeyOptions, Balance, Certainty, QuotaStore, Refusal, Reservation } from "../../../src/index.ts";
import type { OpenedQuotaStore, QuotaAudit, QuotaStoreLaw } from "./contract.ts";

/**
 * How long the laws' leases last, in milliseconds. Long, because a real store's clock runs on while a law is at work: "before the
 * end of the lease" is always minutes before it.
 */
export const LEASE_MS = 600_000;

/** A key that a law needs; its secret is `one`, `two` and so on unless told, made unique. */
export type Declared = Omit<ApiKeyOptions, "apiKey" | "id"> & { readonly secrets?: readonly string[] };

const ORDINALS = ["one", "two", "three"];

/**
 * A law on a fresh store with one key for each declaration. The store is closed whatever comes; when the law is broken as well,
 * that is what is told.
 */
export function law(
  name: string,
  declared: readonly Declared[],
  body: (...ledgers: Ledger[]) => Promise<void>,
): QuotaStoreLaw {
  return {
    name,
    async verify(open) {
      const run = randomUUID().slice(0, 8);
      const keys = declared.map(({ secrets, ...key }, index): ApiKeyOptions => {
        const named = (secrets ?? [ORDINALS[index] ?? `${index}`]).map((secret) => `${secret}-${run}`);
        return { ...key, apiKey: named.length === 1 && named[0] !== undefined ? named[0] : named };
      });
      const opened = await open({ keys });
      try {
        await body(...(await Promise.all(keys.map((key) => ledgerOf(opened, run, key)))));
      } catch (broken) {
        await (async () => opened.close?.())().catch(() => {});
        throw broken;
      }
      await opened.close?.();
    },
  };
}

async function ledgerOf(opened: OpenedQuotaStore, run: string, { apiKey, granted }: ApiKeyOptions): Promise<Ledger> {
  const secrets = [apiKey].flat();
  const found = await opened.store.find(secrets[0] ?? "");
  assert.ok(found, "find must know the keys that the store was opened with");
  return new Ledger(opened, run, found.id, secrets, granted);
}

/** One key of a store under test, with short verbs for its holds. */
export class Ledger {
  readonly store: QuotaStore;
  readonly keyId: string;
  readonly secrets: readonly string[];
  readonly #opened: OpenedQuotaStore;
  readonly #run: string;
  readonly #granted: number | undefined;

  constructor(opened: OpenedQuotaStore, run: string, keyId: string, secrets: readonly string[], granted?: number) {
    this.store = opened.store;
    this.keyId = keyId;
    this.secrets = secrets;
    this.#opened = opened;
    this.#run = run;
    this.#granted = granted;
  }

  /** The id of a hold, which no other law uses. */
  id(hold: string): string {
    return `${hold}-${this.#run}`;
  }

  reserve(hold: string, atLeast: number, atMost: number = atLeast, leaseMs: number = LEASE_MS): Promise<Reservation> {
    return this.store.reserve({ id: this.id(hold), keyId: this.keyId, atLeast, atMost, leaseMs });
  }

  renew(hold: string, used: number, leaseMs: number = LEASE_MS): Promise<void> {
    return this.store.renew(this.id(hold), { leaseMs, used });
  }

  settle(hold: string, used: number, certainty: Certainty = "exact"): Promise<void> {
    return this.store.settle(this.id(hold), { used, certainty });
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms);
  }

  async removeSecret(apiKey: string): Promise<void> {
    await this.#opened.removeSecret(apiKey);
  }

  async balance(): Promise<Balance> {
    const balance = await this.store.balance(this.keyId);
    assert.ok(balance, "balance must know a key that the store was opened with");
    return { used: balance.used, available: balance.available, held: balance.held };
  }

  /** Reserves what must be granted. */
  async hold(hold: string, units: number): Promise<void> {
    await this.expectGrant(this.reserve(hold, units), units, "what is available must be granted");
  }

  async expectGrant(reservation: Promise<Reservation>, granted: number, why: string): Promise<void> {
    const answer = await reservation;
    assert.deepEqual(answer.refused ? answer : { granted: answer.granted }, { granted }, why);
  }

  async expectRefusal(reservation: Promise<Reservation>, saw: Omit<Refusal, "refused">, why: string): Promise<void> {
    const answer = await reservation;
    assert.ok(answer.refused, why);
    assert.deepEqual(sawOf(answer), saw, `${why}; a refusal says what the store saw`);
  }

  /** Asserts what is used, live holds included, and that all the rest of the grant is available. */
  async expectUsed(used: number, why: string): Promise<void> {
    const balance = await this.balance();
    if (this.#granted === undefined) assert.equal(balance.used, used, why);
    else assert.deepEqual(balance, { ...balance, used, available: this.#granted - used }, why);
  }

  /** Asserts what the books say, and that they agree with the balance. */
  async expectBooks(expected: Partial<QuotaAudit>, why: string): Promise<void> {
    const audit = await this.#opened.audit(this.keyId);
    const told = Object.fromEntries(Object.keys(expected).map((field) => [field, audit[field as keyof QuotaAudit]]));
    assert.deepEqual(told, expected, why);
    const { used, available, held } = audit;
    assert.deepEqual(await this.balance(), { used, available, held }, "the books and the balance tell the same");
  }
}

/**
 * Calls `work` for 0 to count - 1 without waiting in between. All of it has ended when this does, so that no call is under way
 * when the store is closed.
 */
export async function atOnce<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const outcomes = await Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}

/** What a refusal says that the store saw. */
export const sawOf = ({ available, held }: Refusal): Omit<Refusal, "refused"> => ({ available, held });

/** What was granted, the most first. */
export const grantsOf = (reservations: readonly Reservation[]): number[] =>
  reservations.flatMap((answer) => (answer.refused ? [] : [answer.granted])).toSorted((a, b) => b - a);

/** Asserts a rejection with a RangeError, also with one of another realm or process. */
export const expectRangeError = (work: () => Promise<unknown>, why: string): Promise<void> =>
  assert.rejects(
    work,
    (error: unknown) => {
      assert.equal((error as Error | undefined)?.name, "RangeError", why);
      return true;
    },
    why,
  );
