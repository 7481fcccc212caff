/** The plan of a world whose processes borrow, decided by its seed, and the plans of its calls. */

import { Random } from "../../../trial/random.ts";
import { type KeyPlan, type Plan, planOf, type StoreName } from "../plan.ts";

export interface BorrowingPlan extends Plan {
  /** True when nothing fails: then each call that fits must be admitted. */
  readonly isCalm: boolean;
  readonly windowMs: number;
  readonly minCalls: number;
  /** The key that most calls use. */
  readonly hot: KeyPlan;
  /** The probability that a process pauses, that it is cut off, and that its clock jumps. */
  readonly pause: number;
  readonly cut: number;
  readonly jump: number;
  /** True when a key is revoked on the way. */
  readonly revokes: boolean;
}

/** @param wanted The store, in place of the seed's choice. */
export function borrowingPlanOf(seed: number, wanted?: StoreName): BorrowingPlan {
  const plan = planOf(seed, wanted ?? (seed % 8 === 0 ? "sqlite" : "memory"));
  const random = new Random(seed + 5_000_011);
  const isCalm = random.chance(0.3);
  const lives = plan.store === "memory" ? 150 : 60;
  return {
    ...plan,
    lives,
    spanMs: lives * random.int(5, 120),
    hot: random.pick(plan.keys),
    processes: random.int(2, 4),
    isCalm,
    windowMs: random.pick([500, 1_000, 2_000]),
    minCalls: random.int(0, 3),
    ...(isCalm && { crash: 0, close: 0, rates: { drop: 0, duplicate: 0, delay: 0, fail: 0 } }),
    pause: isCalm ? 0 : random.pick([0, 0.5]),
    cut: isCalm ? 0 : random.pick([0, 0.5]),
    jump: isCalm ? 0 : random.pick([0, 0.3]),
    revokes: plan.store === "memory" && random.chance(0.3),
  };
}

export interface CallPlan {
  readonly atLeast: number;
  readonly atMost: number;
  readonly leaseMs: number;
  readonly holdMs: number;
  /** True when the caller renews its lease in time. */
  readonly renews: boolean;
  /** The part of `atMost` that the call uses. */
  readonly share: number;
  readonly estimatedShare: number;
  /** True when the caller settles again what is settled. */
  readonly settlesTwice: boolean;
  /** True when the caller asks for the balance first. */
  readonly asksBalance: boolean;
}

export function callPlanOf(random: Random, { isCalm }: BorrowingPlan): CallPlan {
  const atMost = random.int(0, random.pick([10, 60, 60, 200]));
  const longest = random.pick([5, 50, 400, 3_000, 9_000]);
  return {
    atLeast: random.pick([atMost, atMost, random.int(0, atMost)]),
    atMost,
    leaseMs: random.pick([6_000, 6_000, 1_500]),
    holdMs: random.int(0, longest),
    renews: isCalm || random.chance(0.9),
    share: random.chance(0.1) ? random.next() * 2 : random.next(),
    estimatedShare: random.pick([0, 0, 1, random.next()]),
    settlesTwice: random.chance(0.1),
    asksBalance: random.chance(0.2),
  };
}
