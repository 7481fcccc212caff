/** What a seed decides before its world begins: the store, the keys, how many lives there are, and how often things go wrong. */

import type { Limits } from "../../../src/index.ts";
import { Random } from "./random.ts";

export type StoreName = "memory" | "sqlite" | "redis";

export interface KeyPlan {
  readonly id: string;
  readonly apiKey: string;
  /** Absent for an unlimited key. */
  readonly granted?: number;
}

/** How often something goes wrong with one message, from 0 to 1. */
export interface Rates {
  /** A message, or its answer, is lost. */
  readonly drop: number;
  /** A message is delivered twice. */
  readonly duplicate: number;
  /** A message, or its answer, is on its way for seconds. */
  readonly delay: number;
  /** A store says that it failed: before its work, or after. */
  readonly fail: number;
}

export interface Plan {
  readonly seed: number;
  readonly store: StoreName;
  readonly lives: number;
  /** In which time the lives begin, in milliseconds. */
  readonly spanMs: number;
  readonly keys: readonly [KeyPlan, ...KeyPlan[]];
  /** How many gateways run side by side. */
  readonly processes: number;
  /** How likely a process is to crash, and how likely it is to be closed. */
  readonly crash: number;
  readonly close: number;
  readonly rates: Rates;
}

/** Short times, so that leases end, stores time out and deadlines pass in the middle of many lives. */
export const LIMITS: Partial<Limits> & Pick<Limits, "leaseMs" | "deadlineMs" | "storeTimeoutMs"> = {
  leaseMs: 6_000,
  usageNoteMs: 500,
  storeTimeoutMs: 1_000,
  deadlineMs: 20_000,
  keepAliveMs: 3_000,
};

/** How long the clients of a backend that drains are waited for, in milliseconds. */
export const DRAIN_MS = 4_000;

/** The longest that a message is on its way, in milliseconds: longer than a lease. */
export const LONGEST_DELAY_MS = 12_000;

/**
 * When everything must have ended, after the last life has begun, in milliseconds: a call at its deadline, settlements that are
 * retried every half minute at least until the store takes them, and messages that were late.
 */
export const REST_MS: number =
  LIMITS.deadlineMs + DRAIN_MS + 20 * (LIMITS.storeTimeoutMs + 30_000) + 2 * LONGEST_DELAY_MS;

const CALM: Rates = { drop: 0, duplicate: 0.02, delay: 0, fail: 0 };
const ROUGH: Rates = { drop: 0.02, duplicate: 0.05, delay: 0.03, fail: 0.02 };
const STORMY: Rates = { drop: 0.06, duplicate: 0.25, delay: 0.1, fail: 0.05 };

/** Of a hundred worlds, how many keep their quota where; the others are in memory. */
const SHARES = { sqlite: 12, redis: 3 };

/** How many lives a world has: of the durable stores few, for each of theirs takes longer. */
const LIVES: Readonly<Record<StoreName, number>> = { memory: 200, sqlite: 60, redis: 40 };

/** @param wanted The store, in place of the one that the seed says. */
export function planOf(seed: number, wanted?: StoreName): Plan {
  const random = new Random(seed);
  const told = storeOf(random.int(0, 99));
  const store = wanted ?? told;
  const lives = LIVES[store];
  return {
    seed,
    store,
    lives,
    // Now and then all at once.
    spanMs: random.chance(0.1) ? 50 : lives * random.int(50, 400),
    keys: [
      { id: "tight", apiKey: "sk-tight", granted: random.int(0, 300) },
      { id: "metered", apiKey: "sk-metered", granted: random.int(5, 40) * lives },
      { id: "rich", apiKey: "sk-rich", granted: 1_000_000_000 },
      { id: "unlimited", apiKey: "sk-unlimited" },
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
