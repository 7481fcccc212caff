/** Faults of a borrowing store. */

import type { BorrowingMutant } from "./world.ts";

const ONCE = "a confirmed charge is in the ledger once, and another at most once";
const TOGETHER = "together, processes hand out no more than the quota";
const ADMITTED = "a call that fits into what is free is admitted in time";
const isBlock = (id: string): boolean => id.startsWith("block-");

export const borrowingMutants: readonly BorrowingMutant[] = [
  {
    fault: "confirms a settlement before the store has noted it",
    breaks: [ONCE],
    above: (store) => ({
      async settle(id, outcome) {
        store.settle(id, outcome).catch(() => {});
      },
    }),
  },
  {
    fault: "notes nothing of its blocks",
    breaks: [ONCE],
    seed: 20,
    below: (shared) => ({
      renew: (id, renewal) => shared.renew(id, isBlock(id) ? { ...renewal, used: 0 } : renewal),
    }),
  },
  {
    fault: "charges a block twice",
    breaks: [ONCE],
    below: (shared) => ({
      settle: (id, outcome) => shared.settle(id, isBlock(id) ? { ...outcome, used: 2 * outcome.used } : outcome),
    }),
  },
  {
    fault: "takes estimates of blocks for exact",
    breaks: ["a confirmed estimate is counted as one, and nothing else of it"],
    below: (shared) => ({
      settle: (id, outcome) => shared.settle(id, isBlock(id) ? { used: outcome.used, certainty: "exact" } : outcome),
    }),
  },
  {
    fault: "lends more than the store has granted",
    breaks: [TOGETHER, "overdraft comes from calls that use more than they hold, or settle late"],
    below: (shared) => ({
      async reserve(hold) {
        const answer = await shared.reserve(hold);
        return isBlock(hold.id) && !answer.refused ? { granted: hold.atMost } : answer;
      },
    }),
  },
  {
    fault: "lends from blocks whose lease is over",
    breaks: [TOGETHER, "overdraft comes from calls that use more than they hold, or settle late"],
    below: (shared) => ({
      reserve: (hold) => shared.reserve(isBlock(hold.id) ? { ...hold, leaseMs: Math.ceil(hold.leaseMs / 20) } : hold),
      renew: (id, renewal) =>
        shared.renew(id, isBlock(id) ? { ...renewal, leaseMs: Math.ceil(renewal.leaseMs / 20) } : renewal),
    }),
  },
  {
    fault: "hears no recall",
    breaks: [ADMITTED],
    below: () => ({ recalled: async () => [] }),
  },
  {
    fault: "keeps the free units of a block that calls still use",
    breaks: [ADMITTED],
    seed: 51,
    below: (shared) => ({ renew: (id, { keep: _keep, ...renewal }) => shared.renew(id, renewal) }),
  },
  {
    fault: "waits for other processes without end",
    breaks: [ADMITTED],
    options: { recallWaitMs: 5_000 },
  },
  {
    fault: "counts its free units twice in a balance",
    breaks: ["a balance is within its bound"],
    above: (store) => ({
      async balance(keyId) {
        const balance = await store.balance(keyId);
        const { free } = store.borrowed(keyId);
        return balance && { ...balance, used: balance.used - free, available: balance.available + free };
      },
    }),
  },
  {
    fault: "does not end its blocks",
    breaks: ["what is idle returns to the store"],
    below: (shared) => ({
      settle: (id, outcome) =>
        isBlock(id) ? shared.renew(id, { leaseMs: 3_600_000, used: outcome.used }) : shared.settle(id, outcome),
    }),
  },
  {
    fault: "remembers a key for too long",
    breaks: ["a revoked key is forgotten in time"],
    options: { keyCacheMs: 60_000 },
  },
  {
    fault: "gives a settlement up that fails once",
    breaks: ["a settlement is confirmed once the store answers"],
    above: (store) => {
      const given = new Set<string>();
      return {
        settle(id, outcome) {
          if (given.has(id)) return new Promise(() => {});
          given.add(id);
          return store.settle(id, outcome);
        },
      };
    },
  },
];
