/** Replay stores that are broken on purpose, each in one way, and the law that must notice. */

import { setImmediate } from "node:timers/promises";
import { memoryReplayStore, type ReplayStore } from "../../../src/index.ts";
import { manualClock, type OpenedReplayStore, type OpenReplayStore } from "../../../src/testing/laws/index.ts";

export function openMemoryReplays(): OpenedReplayStore {
  const clock = manualClock(Date.now());
  return { store: memoryReplayStore({ clock }), advance: (ms) => clock.advance(ms) };
}

/** A store with a fault. */
export interface ReplayMutant {
  /** The fault, fit for a test's name. */
  readonly fault: string;
  /** The name of a law that it breaks. */
  readonly breaks: string;
  readonly open: OpenReplayStore;
}

const mutant = (fault: string, breaks: string, verbs: (store: ReplayStore) => Partial<ReplayStore>): ReplayMutant => ({
  fault,
  breaks,
  open() {
    const opened = openMemoryReplays();
    const { store } = opened;
    const whole: ReplayStore = {
      claim: (claim) => store.claim(claim),
      record: (record) => store.record(record),
      release: (holder) => store.release(holder),
    };
    return { ...opened, store: { ...whole, ...verbs(store) } };
  },
});

const ONE = "of 50 calls that claim an entry at once, exactly one gets it";
const STAYS = "an answer that is recorded stays as it is, whoever records or releases";

export const replayMutants: readonly ReplayMutant[] = [
  mutant(
    "ignores the body's hash",
    "whoever comes with another request is told the fingerprint of the first",
    (store) => ({
      async claim(claim) {
        const found = await store.claim(claim);
        return found.state === "claimed" ? found : { ...found, fingerprint: claim.fingerprint };
      },
    }),
  ),
  mutant("looks whether an entry is free, and takes it a moment later", ONE, (store) => {
    const taken = new Set<string>();
    return {
      async claim(claim) {
        if (taken.has(claim.id)) return store.claim(claim);
        await setImmediate();
        taken.add(claim.id);
        await store.claim(claim);
        return { state: "claimed" };
      },
    };
  }),
  mutant("keeps one entry for all", "entries of other names, and of other keys, are free", (store) => ({
    claim: (claim) => store.claim({ ...claim, id: "0".repeat(64) }),
    record: (record) => store.record({ ...record, id: "0".repeat(64) }),
    release: (holder) => store.release({ ...holder, id: "0".repeat(64) }),
  })),
  mutant("trims what it is given", "an answer is told as it was recorded, as often as it is asked for", (store) => ({
    record: (record) =>
      store.record({
        ...record,
        answer: { ...record.answer, body: record.answer.body?.replace(/\s$/, "") },
      }),
  })),
  mutant(
    "takes an answer without a body for an empty one",
    "an answer may be empty, without a body, or megabytes long",
    (store) => ({
      record: (record) => store.record({ ...record, answer: { ...record.answer, body: record.answer.body ?? "" } }),
    }),
  ),
  mutant("forgets no answer", "an answer is there to its end, and never after it", (store) => ({
    record: (record) => store.record({ ...record, retainMs: 2 ** 40 }),
  })),
  mutant("forgets answers with the lease", "an answer is there to its end, and never after it", (store) => ({
    record: (record) => store.record({ ...record, retainMs: 600_000 }),
  })),
  mutant("lets no lease end", "a claim whose lease has run out is free, and not before", (store) => ({
    claim: (claim) => store.claim({ ...claim, leaseMs: 2 ** 40 }),
  })),
  mutant("renews no lease", "a call that claims its entry again renews the lease", (store) => {
    const holders = new Map<string, string>();
    return {
      async claim(claim) {
        if (holders.get(claim.id) !== claim.callId) {
          const found = await store.claim(claim);
          if (found.state === "claimed") holders.set(claim.id, claim.callId);
          return found;
        }
        const found = await store.claim({ ...claim, callId: "probe" });
        if (found.state !== "claimed") return { state: "claimed" };
        await store.release({ ...claim, callId: "probe" });
        return store.claim(claim);
      },
    };
  }),
  mutant("hears whoever records", "a call whose lease has passed to another has lost the entry", (store) => {
    const holders = new Map<string, string>();
    return {
      async claim(claim) {
        const found = await store.claim(claim);
        if (found.state === "claimed") holders.set(claim.id, claim.callId);
        return found;
      },
      record: (record) => store.record({ ...record, callId: holders.get(record.id) ?? record.callId }),
    };
  }),
  mutant(
    "hears only those whose lease runs",
    "an answer whose claim nobody has any more is recorded all the same",
    (store) => ({
      async record(record) {
        const found = await store.claim({ ...record, callId: "probe", leaseMs: 600_000 });
        await store.release({ ...record, callId: "probe" });
        if (found.state === "running") await store.record(record);
      },
    }),
  ),
  mutant("releases nothing", "an entry that is released is free at once", () => ({ release: () => Promise.resolve() })),
  mutant("lets the last record count", STAYS, (store) => {
    const answers = new Map<string, Parameters<ReplayStore["record"]>[0]["answer"]>();
    return {
      async record(record) {
        await store.record(record);
        answers.set(record.id, record.answer);
      },
      async claim(claim) {
        const found = await store.claim(claim);
        return found.state === "answered" ? { ...found, answer: answers.get(claim.id) ?? found.answer } : found;
      },
    };
  }),
  mutant(
    "lets the first that records have it",
    "of two calls that record at once, the one that has the entry is heard",
    (store) => {
      const holders = new Map<string, string>();
      const recorded = new Set<string>();
      return {
        async claim(claim) {
          const found = await store.claim(claim);
          if (found.state === "claimed") holders.set(claim.id, claim.callId);
          return found;
        },
        async record(record) {
          if (recorded.has(record.id)) return;
          recorded.add(record.id);
          await store.record({ ...record, callId: holders.get(record.id) ?? record.callId });
        },
      };
    },
  ),
  mutant("takes everything", "what can be no entry is refused", (store) => ({
    async claim(claim) {
      return store.claim(claim).catch(() => ({ state: "claimed" as const }));
    },
  })),
];

const apart = (): OpenReplayStore => () => ({ ...openMemoryReplays(), other: openMemoryReplays().store });

export const processMutant: ReplayMutant = {
  fault: "keeps its entries to its own process",
  breaks: "an answer that one process has recorded is told to every other",
  open: apart(),
};
