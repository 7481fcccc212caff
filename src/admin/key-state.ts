/** A key as JSON has it, and its states and its limit in words, for the command line and for the page. */

import type { BudgetReport } from "../stores/budgets.ts";
import type { KeyReport } from "../stores/durable.ts";

/** A budget that a key draws on, in units. */
export type BudgetShown = Pick<BudgetReport, "id" | "name" | "granted" | "used" | "available" | "held" | "overdraft">;

/** A key as JSON has it. Such a key is unlimited only without a budget. */
export interface KeyShown extends Omit<KeyReport, "modelLimits" | "modelLimitsEnabled"> {
  /** The models that the key may use. Null for every model. */
  readonly models: readonly string[] | null;
  /** The charges of the key, as reports of usage sum them up: also beyond its quota, without the holds of running calls. */
  readonly spent: number;
  /** The key's budget, its parent, and so on. Absent without a budget. */
  readonly budgets?: readonly BudgetShown[];
  /**
   * The units that calls of the key can still use: the fewest available ones of its own quota and its budgets. Null for an unlimited key, and
   * for a revoked one, which nothing makes usable again.
   */
  readonly left: number | null;
  /** The id of the budget that has these units. Null for the key's own quota, and where `left` is null. */
  readonly limitedBy: string | null;
  /**
   * Set for a key that has nothing left of what was granted, also of what running calls hold: says whether its own quota or a budget is used up.
   */
  readonly usedUp?: "quota" | "budget";
}

export const KEY_STATES = ["active", "paused", "expired", "revoked"] as const;

/**
 * The state of a key. A paused or expired key is refused, but not revoked: `update` makes it active again, with `paused: false` or with a
 * later expiry. A key that is both is paused.
 */
export type KeyState = (typeof KEY_STATES)[number];

/** Returns the state of a key at `now`, in milliseconds since the Unix epoch. */
export function stateOf(
  { revoked, paused, expiresAt }: Pick<KeyReport, "revoked" | "paused" | "expiresAt">,
  now: number,
): KeyState {
  if (revoked) return "revoked";
  if (paused) return "paused";
  return expiresAt > 0 && expiresAt * 1_000 <= now ? "expired" : "active";
}

/** True for a revoked key without secrets: another revocation has nothing to do. */
export const isRevokedAlready = ({ revoked, secrets }: Pick<KeyReport, "revoked" | "secrets">): boolean =>
  revoked && secrets === 0;

/** Returns the budget that limits a key the most; undefined for a key that its own quota limits the most, or nothing. */
export const limitingBudget = ({
  budgets = [],
  limitedBy,
}: Pick<KeyShown, "budgets" | "limitedBy">): BudgetShown | undefined => budgets.find(({ id }) => id === limitedBy);

/** True for a key whose own quota, or the budget that limits it, was given nothing: it is stopped, and has used up nothing. */
export const isZero = (key: KeyShown): boolean => key.left === 0 && (limitingBudget(key) ?? key).granted === 0;

/**
 * True for a key that has less than a thousandth of what was granted left, also of what running calls hold: it may be too little for any call,
 * and looks like nothing.
 */
function isNearlyUsedUp(key: KeyShown): boolean {
  const { granted, held } = limitingBudget(key) ?? key;
  return key.left !== null && granted !== null && (key.left + held) * 1_000 < granted;
}

/**
 * Returns the state of a key in words, with what is used up, or nearly, or 0: its own quota or a budget. A key that is refused for its state is refused
 * before its quota is asked.
 */
export function stateInWords(key: KeyShown, now: number): string {
  const state = stateOf(key, now);
  const { usedUp, limitedBy } = key;
  if (state !== "active") return state;
  if (isZero(key)) return limitedBy === null ? "quota is 0" : "budget is 0";
  if (usedUp === undefined && isNearlyUsedUp(key))
    return limitedBy === null ? "nearly used up" : "budget nearly used up";
  if (usedUp === undefined) return state;
  return usedUp === "quota" ? "used up" : "budget used up";
}
