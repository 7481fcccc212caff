/** The plan of a world, decided by its seed: the store, the keys, the number of lives, and the rates of failures. */

import type { BudgetOptions, Limits } from "../../../src/index.ts";
import { Random } from "../../trial/random.ts";

export const STORES = ["memory", "sqlite", "redis"] as const;
export type StoreName = (typeof STORES)[number];

export interface KeyPlan {
  readonly id: string;
  readonly apiKey: string;
  /** Absent for an unlimited key. */
  readonly granted?: number;
  /** The budget of the key: only for a key without a quota of its own. */
  readonly budget?: string;
}

export const DAY_MS = 86_400_000;

/**
 * The milliseconds of Redis in a millisecond of the world. The clock of the server is real, and goes on while a world stands still. So a
 * lease ends half a second early: on a machine of any speed, the lease then ends in exactly its millisecond of the world.
 */
export const REDIS_SCALE = 1_000;

/** The probabilities of failures of one message, from 0 to 1. */
export interface Rates {
  /** A message, or its answer, is lost. */
  readonly drop: number;
  /** A message is delivered twice. */
  readonly duplicate: number;
  /** A message, or its answer, takes seconds. */
  readonly delay: number;
  /** A store reports a failure, before its work or after. */
  readonly fail: number;
}

export interface Plan {
  readonly seed: number;
  readonly store: StoreName;
  readonly lives: number;
  /** The time in which the lives begin, in milliseconds. */
  readonly spanMs: number;
  readonly keys: readonly [KeyPlan, ...KeyPlan[]];
  readonly budgets: readonly BudgetOptions[];
  /** The number of gateways side by side. */
  readonly processes: number;
  /** The probabilities that a process crashes, and that it is closed. */
  readonly crash: number;
  readonly close: number;
  readonly rates: Rates;
}

/** Short limits, so that leases end, stores time out and deadlines pass in the middle of many lives. */
export const LIMITS: Partial<Limits> & Pick<Limits, "leaseMs" | "deadlineMs" | "storeTimeoutMs"> = {
  leaseMs: 6_000,
  usageNoteMs: 500,
  storeTimeoutMs: 1_000,
  deadlineMs: 20_000,
  keepAliveMs: 3_000,
};

/** The time for which a backend goes on without its client, in milliseconds. */
export const DRAIN_MS = 4_000;

/** The longest delay of a message, in milliseconds: longer than a lease. */
export const LONGEST_DELAY_MS = 12_000;

/**
 * The time from the begin of the last life until everything must be at rest, in milliseconds. It covers the deadline of a call, settlements
 * that are retried at least every half minute, and late messages.
 */
export const REST_MS: number =
  LIMITS.deadlineMs + DRAIN_MS + 20 * (LIMITS.storeTimeoutMs + 30_000) + 2 * LONGEST_DELAY_MS;

const CALM: Rates = { drop: 0, duplicate: 0.02, delay: 0, fail: 0 };
const ROUGH: Rates = { drop: 0.02, duplicate: 0.05, delay: 0.03, fail: 0.02 };
const STORMY: Rates = { drop: 0.06, duplicate: 0.25, delay: 0.1, fail: 0.05 };

/** The durable worlds in a hundred. All others are in memory. */
const SHARES = { sqlite: 12, redis: 3 };

/** The lives of a world. Worlds of durable stores have fewer, because their lives take longer. */
const LIVES: Readonly<Record<StoreName, number>> = { memory: 200, sqlite: 60, redis: 40 };

/** @param wanted The store, in place of the seed's choice. */
export function planOf(seed: number, wanted?: StoreName): Plan {
  const random = new Random(seed);
  const told = storeOf(random.int(0, 99));
  const store = wanted ?? told;
  const lives = LIVES[store];
  return {
    seed,
    store,
    lives,
    // A tenth of the worlds begins all lives at once.
    spanMs: random.chance(0.1) ? 50 : lives * random.int(50, 400),
    keys: [
      { id: "tight", apiKey: "sk-tight", granted: random.int(0, 300) },
      { id: "metered", apiKey: "sk-metered", granted: random.int(5, 40) * lives },
      { id: "rich", apiKey: "sk-rich", granted: 1_000_000_000 },
      { id: "unlimited", apiKey: "sk-unlimited" },
      { id: "member", apiKey: "sk-member", budget: "team" },
      { id: "colleague", apiKey: "sk-colleague", budget: "team" },
      { id: "manager", apiKey: "sk-manager", budget: "org" },
    ],
    budgets: [
      { id: "org", amount: random.int(5, 20) * lives },
      // A day of the team ends in the middle of each world. In Redis, a day has 86 seconds of the world.
      { id: "team", amount: random.int(2, 15) * lives, parent: "org", period: "day" },
    ],
    processes: random.int(1, 3),
    crash: random.pick([0, 0.5, 0.9]),
    close: random.pick([0, 0.2]),
    rates: random.pick([CALM, ROUGH, ROUGH, STORMY]),
  };
}

function storeOf(percent: number): StoreName {
  if (percent < SHARES.redis) return "redis";
  return percent < SHARES.redis + SHARES.sqlite ? "sqlite" : "memory";
}
