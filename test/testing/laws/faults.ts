/** The faults of quota stores that are broken on purpose, as changes to the memory store. */

import { setImmediate } from "node:timers/promises";
import type { QuotaStore, Refusal, Reservation } from "../../../src/index.ts";
import type { OpenedQuotaStore, QuotaStoreSetup } from "../../../src/testing/laws/index.ts";
import { openMemoryStore } from "./open-memory.ts";

/** Replaces some verbs of a memory store. */
export type Fault = (store: QuotaStore, opened: OpenedQuotaStore) => Partial<QuotaStore>;

export const verbsOf = (store: QuotaStore): QuotaStore => ({
  find: (apiKey) => store.find(apiKey),
  balance: (keyId) => store.balance(keyId),
  reserve: (hold) => store.reserve(hold),
  renew: (id, renewal) => store.renew(id, renewal),
  settle: (id, outcome) => store.settle(id, outcome),
});

/** A refusal as another store would word it. */
export const refusing =
  (word: (refusal: Refusal) => Reservation): Fault =>
  (store) => ({
    async reserve(hold) {
      const answer = await store.reserve(hold);
      return answer.refused ? word(answer) : answer;
    },
  });

/** A lease that cannot end while a test runs, in milliseconds. */
export const ENDLESS_MS: number = 2 ** 40;

/** Reads the available units, and holds them a moment later, although others were held in between. */
export function openOverspending({ keys }: QuotaStoreSetup): OpenedQuotaStore {
  const hidden = 1_000_000;
  const opened = openMemoryStore({
    keys: keys.map((key) => ({ ...key, ...(key.granted !== undefined && { granted: key.granted + hidden }) })),
  });
  const { store } = opened;
  const availableOf = (available: number): number => Math.max(0, available - hidden);
  const balance: QuotaStore["balance"] = async (keyId) => {
    const found = await store.balance(keyId);
    return found && { ...found, available: availableOf(found.available) };
  };
  return {
    ...opened,
    async audit(keyId) {
      const audit = await opened.audit(keyId);
      return { ...audit, available: audit.available === null ? null : availableOf(audit.available) };
    },
    store: {
      ...verbsOf(store),
      balance,
      async reserve(hold) {
        const { available } = (await balance(hold.keyId)) ?? { available: 0 };
        await setImmediate();
        const granted = Math.min(hold.atMost, available);
        if (granted < hold.atLeast) return { refused: true, available, held: (await opened.audit(hold.keyId)).held };
        const answer = await store.reserve({ ...hold, atLeast: granted, atMost: granted });
        return answer.refused ? { ...answer, available: availableOf(answer.available) } : answer;
      },
    },
  };
}

/** Keeps ids apart by key, so that a foreign id is free unless its owner is checked. */
export const idsByKey =
  (assertOwner: (owner: string | undefined, keyId: string) => Promise<void>): Fault =>
  (store) => {
    const owners = new Map<string, string>();
    const own = (id: string): string => `${owners.get(id)}/${id}`;
    return {
      async reserve(hold) {
        await assertOwner(owners.get(hold.id), hold.keyId);
        const reservation = await store.reserve({ ...hold, id: `${hold.keyId}/${hold.id}` });
        if (!reservation.refused) owners.set(hold.id, hold.keyId);
        return reservation;
      },
      renew: (id, renewal) => store.renew(own(id), renewal),
      settle: (id, outcome) => store.settle(own(id), outcome),
    };
  };

/** Checks the owner of an id, and takes the id a moment later: both keys of a race find it free. */
export const assertOwnerTooEarly = async (owner: string | undefined, keyId: string): Promise<void> => {
  await setImmediate();
  if (owner !== undefined && owner !== keyId) throw new RangeError("A hold of this id belongs to another key.");
};

/** Charges a second settlement beside the first. */
export const chargingTwice: Fault = (store) => {
  const keyIds = new Map<string, string>();
  const settled = new Map<string, number>();
  return {
    async reserve(hold) {
      const reservation = await store.reserve(hold);
      if (!reservation.refused) keyIds.set(hold.id, hold.keyId);
      return reservation;
    },
    async settle(id, outcome) {
      const [keyId, count = 0] = [keyIds.get(id), settled.get(id)];
      settled.set(id, count + 1);
      if (keyId === undefined || count === 0) return store.settle(id, outcome);
      const again = `${id} again ${count}`;
      await store.reserve({ id: again, keyId, atLeast: 0, atMost: outcome.used, leaseMs: 1_000 });
      await store.settle(again, outcome);
    },
  };
};

/** Checks that a hold is live, and settles it a moment later: all calls at once find it live. */
export const chargingTwiceAtOnce: Fault = (store, opened) => {
  const twice = chargingTwice(store, opened);
  const settled = new Set<string>();
  return {
    ...twice,
    async settle(id, outcome) {
      if (settled.has(id)) return;
      await setImmediate();
      settled.add(id);
      await twice.settle?.(id, outcome);
    },
  };
};

/** Opens one hold more for each repetition of a reservation. */
export const holdingAnew: Fault = (store) => {
  const counts = new Map<string, number>();
  const last = (id: string): string => `${id} ${counts.get(id) ?? 0}`;
  return {
    reserve(hold) {
      counts.set(hold.id, (counts.get(hold.id) ?? 0) + 1);
      return store.reserve({ ...hold, id: last(hold.id) });
    },
    renew: (id, renewal) => store.renew(last(id), renewal),
    settle: (id, outcome) => store.settle(last(id), outcome),
  };
};

/** Takes the settlement of an unknown id for the end of a hold: the id is used up. */
export const usingUpUnknownIds: Fault = (store) => {
  const [reserved, ended] = [new Set<string>(), new Set<string>()];
  return {
    async reserve(hold) {
      if (ended.has(hold.id)) return { refused: true, available: 0, held: 0 };
      const reservation = await store.reserve(hold);
      if (!reservation.refused) reserved.add(hold.id);
      return reservation;
    },
    async settle(id, outcome) {
      await store.settle(id, outcome);
      if (!reserved.has(id)) ended.add(id);
    },
  };
};

// The ids of a memory store's keys are their positions.
const firstKey = (keyId: string): string => keyId.replace(/^key-\d$/, "key-1");

/** Keeps one ledger for all keys. */
export function openMixingKeys(setup: QuotaStoreSetup): OpenedQuotaStore {
  const opened = openMemoryStore(setup);
  const { store } = opened;
  return {
    ...opened,
    audit: (keyId) => opened.audit(firstKey(keyId)),
    store: {
      ...verbsOf(store),
      balance: (keyId) => store.balance(firstKey(keyId)),
      reserve: (hold) => store.reserve({ ...hold, keyId: firstKey(hold.keyId) }),
    },
  };
}

/** Keeps a ledger for each secret. */
export function openBySecret({ keys }: QuotaStoreSetup): OpenedQuotaStore {
  return openMemoryStore({
    keys: keys.flatMap(({ apiKey, ...key }) => [apiKey].flat().map((secret) => ({ ...key, apiKey: secret }))),
  });
}

/** Drops the settlement of a hold whose lease has run out. */
export const withoutCorrection: Fault = (store, opened) => {
  const keyIds = new Map<string, string>();
  return {
    async reserve(hold) {
      const reservation = await store.reserve(hold);
      if (!reservation.refused) keyIds.set(hold.id, hold.keyId);
      return reservation;
    },
    async settle(id, outcome) {
      const keyId = keyIds.get(id);
      if (keyId === undefined) return store.settle(id, outcome);
      // The grant of a live hold is returned again; a resolved hold is refused.
      const hold = await store.reserve({ id, keyId, atLeast: 0, atMost: 0, leaseMs: 1 });
      if (!hold.refused) await store.settle(id, outcome);
      await opened.audit(keyId);
    },
  };
};

/** Deletes the holds of a key along with one of its secrets. */
export function openCascading(setup: QuotaStoreSetup): OpenedQuotaStore {
  const opened = openMemoryStore(setup);
  const { store } = opened;
  const holds = new Map<string, string>();
  return {
    ...opened,
    store: {
      ...verbsOf(store),
      reserve(hold) {
        holds.set(hold.id, hold.keyId);
        return store.reserve(hold);
      },
    },
    async removeSecret(apiKey) {
      const keyId = (await store.find(apiKey))?.id;
      for (const [id, owner] of holds) if (owner === keyId) await store.settle(id, { used: 0, certainty: "exact" });
      await opened.removeSecret(apiKey);
    },
  };
}

/** Begins leases by the machine's clock and ends them by its own. */
export function openOnTwoClocks(setup: QuotaStoreSetup): OpenedQuotaStore {
  const opened = openMemoryStore(setup);
  const { store } = opened;
  let advanced = 0;
  const byMachine = (leaseMs: number): number => (leaseMs > 0 ? Math.max(1, leaseMs - advanced) : leaseMs);
  return {
    ...opened,
    advance(ms) {
      advanced += ms;
      return opened.advance(ms);
    },
    store: {
      ...verbsOf(store),
      reserve: (hold) => store.reserve({ ...hold, leaseMs: byMachine(hold.leaseMs) }),
      renew: (id, renewal) => store.renew(id, { ...renewal, leaseMs: byMachine(renewal.leaseMs) }),
    },
  };
}

/** Notes the units of a renewal and leaves the lease as it was. */
export function openUnrenewing(setup: QuotaStoreSetup): OpenedQuotaStore {
  const opened = openMemoryStore(setup);
  const { store } = opened;
  const ends = new Map<string, number>();
  let now = 0;
  return {
    ...opened,
    advance(ms) {
      now += ms;
      return opened.advance(ms);
    },
    store: {
      ...verbsOf(store),
      reserve(hold) {
        ends.set(hold.id, now + hold.leaseMs);
        return store.reserve(hold);
      },
      renew(id, { leaseMs, used }) {
        const left = (ends.get(id) ?? 0) - now;
        return store.renew(id, { leaseMs: left > 0 && leaseMs > 0 ? left : leaseMs, used });
      },
    },
  };
}
