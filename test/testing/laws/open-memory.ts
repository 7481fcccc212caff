/** Opens the memory store for the laws of its port: as it is, and as a distant server would serve it. */

import { setImmediate } from "node:timers/promises";
import { memoryQuotaStore, type QuotaStore } from "../../../src/index.ts";
import { manualClock, type OpenedQuotaStore, type QuotaStoreSetup } from "../../../src/testing/laws/index.ts";

/** A memory store on a clock that stands still until it is advanced. */
export function openMemoryStore({ keys }: QuotaStoreSetup): OpenedQuotaStore {
  // The clock begins at the machine's time: a store that reads the wrong clock must not be found out by chance.
  const clock = manualClock(Date.now());
  const store = memoryQuotaStore(keys, { clock });
  return {
    store,
    advance: (ms) => clock.advance(ms),
    audit(keyId) {
      const report = store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
}

/** The time that passes with each call, in milliseconds. */
const CALL_MS = 40;

/** A memory store behind a slow connection: late, in any order, while its clock runs on. */
export function openSlowStore({ keys }: QuotaStoreSetup): OpenedQuotaStore {
  const clock = manualClock();
  const store = memoryQuotaStore(keys, { clock });
  let calls = 0;
  async function later<T>(work: () => T | Promise<T>): Promise<T> {
    // Neighbours are late by different amounts, so that they overtake one another.
    for (let turns = (calls++ * 7) % 5; turns >= 0; turns--) await setImmediate();
    await clock.advance(CALL_MS);
    const answer = await work();
    await setImmediate();
    return answer;
  }
  const verbs: QuotaStore = {
    find: (apiKey) => later(() => store.find(apiKey)),
    balance: (keyId) => later(() => store.balance(keyId)),
    reserve: (hold) => later(() => store.reserve(hold)),
    renew: (id, renewal) => later(() => store.renew(id, renewal)),
    settle: (id, outcome) => later(() => store.settle(id, outcome)),
  };
  return {
    store: verbs,
    advance: (ms) => clock.advance(ms),
    audit: (keyId) =>
      later(() => {
        const report = store.report(keyId);
        if (!report) throw new Error(`The store does not know the key ${keyId}.`);
        return report;
      }),
    removeSecret: (apiKey) => later(() => store.removeSecret(apiKey)),
  };
}
