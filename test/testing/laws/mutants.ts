/** Quota stores that are broken on purpose, each in one way, and the law that must notice. */

import type { Reservation } from "../../../src/index.ts";
import type { OpenedQuotaStore, OpenQuotaStore } from "../../../src/testing/laws/index.ts";
import {
  assertOwnerTooEarly,
  chargingTwice,
  chargingTwiceAtOnce,
  ENDLESS_MS,
  type Fault,
  holdingAnew,
  idsByKey,
  openBySecret,
  openCascading,
  openMixingKeys,
  openOnTwoClocks,
  openOverspending,
  openUnrenewing,
  refusing,
  usingUpUnknownIds,
  verbsOf,
  withoutCorrection,
} from "./faults.ts";
import { openMemoryStore } from "./open-memory.ts";

/** A store with a fault. */
export interface Mutant {
  /** The fault, fit for a test's name. */
  readonly fault: string;
  /** The name of a law that it breaks. */
  readonly breaks: string;
  readonly open: OpenQuotaStore;
}

const mutant = (fault: string, breaks: string, verbs: Fault): Mutant => ({
  fault,
  breaks,
  open(setup) {
    const opened = openMemoryStore(setup);
    return { ...opened, store: { ...verbsOf(opened.store), ...verbs(opened.store, opened) } };
  },
});

const withFaultyBooks = (
  fault: string,
  breaks: string,
  change: (opened: OpenedQuotaStore) => Partial<OpenedQuotaStore>,
): Mutant => ({
  fault,
  breaks,
  open(setup) {
    const opened = openMemoryStore(setup);
    return { ...opened, ...change(opened) };
  },
});

const CORRECTION = "settling after expiry corrects what expiry charged, up or down, once";
const LEASE_END = "a lease that runs out is charged what its last renewal noted, as an estimate";
const LOWERED = "a renewal may lower its hold, and what it no longer holds is available";
const OVERDRAFT = "what a key could not cover is recorded as overdraft";
const ESTIMATES = "what rests on estimates is counted apart, as far as it was charged";
const REFUSAL = "less than atLeast is refused, holds nothing, and is told what there was";

/** Faults that stores over databases have had, or could well have. */
export const mutants: readonly Mutant[] = [
  {
    fault: "holds without a condition: the check and the hold are two steps",
    breaks: "of 300 reservations at once on a balance for 30, exactly 30 are admitted",
    open: openOverspending,
  },
  mutant(
    "takes an id for two keys that ask at once",
    "an id for which two keys race belongs to one of them, and the other is rejected",
    idsByKey(assertOwnerTooEarly),
  ),
  mutant(
    "keeps ids apart by key, so that a foreign id is taken for a new one",
    "an id belongs to the key that it was reserved for, and is rejected for another",
    idsByKey(async () => {}),
  ),
  mutant(
    "charges twice what is settled twice",
    "settling charges what was used and returns the rest, once",
    chargingTwice,
  ),
  mutant(
    "charges twice what is settled twice at once",
    "the same hold settled by many callers at once is charged once",
    chargingTwiceAtOnce,
  ),
  withFaultyBooks("never records overdraft", OVERDRAFT, (opened) => ({
    audit: async (keyId) => ({ ...(await opened.audit(keyId)), overdraft: 0 }),
  })),
  mutant(
    "charges no more than some most",
    "settling above the hold takes what is still available, and no more",
    (store) => ({
      settle: (id, outcome) => store.settle(id, { ...outcome, used: outcome.used > 20 ? 20 : outcome.used }),
    }),
  ),
  mutant("takes every settlement for exact", ESTIMATES, (store) => ({
    settle: (id, outcome) => store.settle(id, { ...outcome, certainty: "exact" }),
  })),
  mutant("takes every settlement for an estimate", ESTIMATES, (store) => ({
    settle: (id, outcome) => store.settle(id, { ...outcome, certainty: "estimated" }),
  })),
  withFaultyBooks("counts no estimates", LEASE_END, (opened) => ({
    audit: async (keyId) => ({ ...(await opened.audit(keyId)), estimated: 0 }),
  })),
  mutant("lets no lease end", LEASE_END, (store) => ({
    reserve: (hold) => store.reserve({ ...hold, leaseMs: hold.leaseMs > 0 ? ENDLESS_MS : hold.leaseMs }),
    renew: (id, renewal) =>
      store.renew(id, { ...renewal, leaseMs: renewal.leaseMs > 0 ? ENDLESS_MS : renewal.leaseMs }),
  })),
  {
    fault: "begins leases by another clock than it ends them",
    breaks: "a lease begins and ends by the store's own clock, whatever other clocks tell",
    open: openOnTwoClocks,
  },
  mutant("takes a lease's milliseconds for seconds", LEASE_END, (store) => ({
    reserve: (hold) => store.reserve({ ...hold, leaseMs: hold.leaseMs * 1_000 }),
    renew: (id, renewal) => store.renew(id, { ...renewal, leaseMs: renewal.leaseMs * 1_000 }),
  })),
  { fault: "renews no lease", breaks: "a renewed lease keeps its hold alive", open: openUnrenewing },
  mutant("lowers no hold", LOWERED, (store) => ({
    renew: (id, { keep, ...renewal }) =>
      keep === undefined || Number.isSafeInteger(keep)
        ? store.renew(id, renewal)
        : store.renew(id, { ...renewal, keep }),
  })),
  mutant("lowers a hold below what it has used", LOWERED, (store) => ({
    async renew(id, renewal) {
      const { keep = Number.POSITIVE_INFINITY, used } = renewal;
      await store.renew(id, keep < used ? { ...renewal, used: keep } : renewal);
    },
  })),
  mutant(
    "takes a mixed outcome for an estimate",
    "an outcome of several calls tells which part of it is an estimate",
    (store) => ({
      settle: (id, outcome) =>
        store.settle(
          id,
          outcome.estimated === undefined || outcome.estimated > outcome.used
            ? outcome
            : { used: outcome.used, certainty: outcome.certainty },
        ),
    }),
  ),
  mutant("notes nothing at a renewal", LEASE_END, (store) => ({
    renew: (id, renewal) => store.renew(id, { ...renewal, used: Math.min(0, renewal.used) }),
  })),
  mutant(
    "never shortens a lease",
    "each lease is as long as it was asked for, and a renewal may make it shorter",
    (store) => ({
      renew: (id, renewal) =>
        store.renew(id, { ...renewal, leaseMs: renewal.leaseMs > 0 ? renewal.leaseMs * 4 : renewal.leaseMs }),
    }),
  ),
  mutant("drops what is settled after expiry", CORRECTION, withoutCorrection),
  {
    fault: "loses the holds of a key when one secret is removed",
    breaks: "removing a secret loses no charge",
    open: openCascading,
  },
  {
    fault: "loses the holds of a key when its last secret is removed",
    breaks: "removing the last secret loses no charge of a call under way",
    open: openCascading,
  },
  mutant(
    "tells in a refusal that nothing was available",
    REFUSAL,
    refusing((refusal) => ({ ...refusal, available: 0 })),
  ),
  mutant(
    "tells in a refusal that nothing was held",
    REFUSAL,
    refusing((refusal) => ({ ...refusal, held: 0 })),
  ),
  mutant("remembers refused ids", "the id of a refused hold is free: it can be reserved later", (store) => {
    const refusals = new Map<string, Reservation>();
    return {
      async reserve(hold) {
        const answer = refusals.get(hold.id) ?? (await store.reserve(hold));
        if (answer.refused) refusals.set(hold.id, answer);
        return answer;
      },
    };
  }),
  mutant("grants a settled id again", "the id of a resolved hold is refused, and not opened again", (store) => {
    const grants = new Map<string, Reservation>();
    return {
      async reserve(hold) {
        const answer = await store.reserve(hold);
        if (!answer.refused) grants.set(hold.id, answer);
        return grants.get(hold.id) ?? answer;
      },
    };
  }),
  mutant(
    "tells the balance with the key",
    "what is found of a key is changed by no call, so that it can be cached",
    (store) => ({
      async find(apiKey) {
        const key = await store.find(apiKey);
        return key && { ...key, ...(await store.balance(key.id)) };
      },
    }),
  ),
  mutant(
    "holds anew what is reserved again",
    "the same hold reserved by many callers at once is held once",
    holdingAnew,
  ),
  mutant("gives all or nothing", "a hold gets what is available between atLeast and atMost", (store) => ({
    reserve: (hold) => store.reserve(hold.atLeast <= hold.atMost ? { ...hold, atLeast: hold.atMost } : hold),
  })),
  mutant(
    "grants a live hold again in another size",
    "the same id gets the same grant for as long as its hold lives, and holds nothing more",
    (store) => ({
      async reserve(hold) {
        const answer = await store.reserve(hold);
        return answer.refused ? answer : { granted: Math.max(hold.atLeast, answer.granted) };
      },
    }),
  ),
  mutant("tells the secret", "a key is found as it was declared, without its secret", (store) => ({
    async find(apiKey) {
      const key = await store.find(apiKey);
      return key && { ...key, secret: apiKey };
    },
  })),
  mutant(
    "lets strangers call for free",
    "a secret or a key that there is not is undefined, and gets nothing",
    (store) => ({
      async reserve(hold) {
        const answer = await store.reserve(hold);
        return (await store.balance(hold.keyId)) ? answer : { granted: 0 };
      },
    }),
  ),
  mutant("uses up ids that it does not know", "an unknown hold is renewed and settled without harm", usingUpUnknownIds),
  mutant("takes amounts that are no integers", "amounts are integers from 0 up, and others are rejected", (store) => ({
    settle: (id, outcome) => store.settle(id, { ...outcome, used: Math.ceil(outcome.used) }),
  })),
  mutant("takes leases that are none", "a lease is an integer from 1 up, and others are rejected", (store) => ({
    renew: (id, renewal) => store.renew(id, { ...renewal, leaseMs: Math.max(1, Math.ceil(renewal.leaseMs)) }),
  })),
  mutant(
    "takes what it cannot count, and drops it",
    "a key's usage ends at 2^53 - 1: what would pass it is refused, and other keys are left alone",
    (store) => ({
      async settle(id, outcome) {
        try {
          await store.settle(id, outcome);
        } catch (error) {
          if (!Number.isSafeInteger(outcome.used) || outcome.used < 0) throw error;
        }
      },
    }),
  ),
  { fault: "mixes up keys", breaks: "a key's holds leave other keys alone", open: openMixingKeys },
  {
    fault: "keeps a ledger for each secret",
    breaks: "every secret of a key leads to the same ledger",
    open: openBySecret,
  },
];
