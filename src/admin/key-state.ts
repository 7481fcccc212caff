/** The states of a key, and their words on the command line and on the page. */

import type { KeyReport } from "../stores/durable.ts";

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

/**
 * Returns the state of a key in words, with what is used up. A key that is refused for its state is refused before its quota is asked.
 *
 * @param usedUp Says whether the own quota or a budget of the key has nothing left.
 * @param granted The units that this quota or budget was given. A key without any is stopped, and has used up nothing.
 */
export function stateInWords(
  state: KeyState,
  usedUp: "quota" | "budget" | undefined,
  granted: number | null | undefined,
): string {
  if (state !== "active" || usedUp === undefined) return state;
  if (granted === 0) return `${usedUp} is 0`;
  return usedUp === "quota" ? "used up" : "budget used up";
}
