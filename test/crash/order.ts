/** What the processes that are killed are told, and how their calls differ. */

/** As JSON in the first argument of the process. */
export interface CallerOrder {
  readonly address: string;
  readonly prefix: string;
  /** Where the upstream listens. */
  readonly upstream: string;
  readonly apiKeys: readonly string[];
  readonly leaseMs: number;
  readonly usageNoteMs: number;
  /** How many calls it makes at once, one after the other. */
  readonly lanes: number;
  readonly seed: number;
}

/**
 * - `counted`: the upstream tells its own count in the end.
 * - `uncounted`: it tells none, and the gateway estimates.
 * - `left`: the client leaves in the middle, and the gateway estimates what came until then.
 */
export const KINDS = ["counted", "uncounted", "left"] as const;

export type Kind = (typeof KINDS)[number];

/** Numbers from 0 to 1, always the same for a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** An integer from `least` up to `most`. */
export const between = (random: () => number, least: number, most: number): number =>
  least + Math.floor(random() * (most - least + 1));
