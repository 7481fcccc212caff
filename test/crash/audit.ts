/** Compares what a store has charged with what the upstream has counted, call by call. */

import type { Ledger, StoredHold } from "../stores/ledgers.ts";
import type { UpstreamCall } from "./upstream.ts";

/** Calls of one sort, added up. */
export interface Sum {
  readonly calls: number;
  /** Units. */
  readonly charged: number;
  /** What the upstream has counted for the same calls. */
  readonly counted: number;
}

export interface Audit {
  /** Settled by the upstream's own count, and by how much the charges differ from it, call by call. */
  readonly exact: Sum & { readonly amiss: readonly string[] };
  /** Settled by the gateway's estimate: the upstream told no count. */
  readonly estimated: Sum;
  /** Settled by the gateway's estimate: the client left in the middle. */
  readonly left: Sum;
  /** Charged what their last renewal had noted: the process was killed. */
  readonly expired: Sum;
  /** Calls that the upstream has answered and nobody holds anything for, and charges for calls that it knows nothing of. */
  readonly unmatched: readonly string[];
  readonly liveHolds: number;
}

const countOf = ({ inputTokens, outputTokens }: UpstreamCall): number => inputTokens + outputTokens;

const isSettled = ({ state }: StoredHold): boolean => state === "settled" || state === "corrected";

/** @param calls What the upstream has answered, by the ids of their holds. */
export async function audit(
  ledger: Ledger,
  keyIds: readonly string[],
  calls: ReadonlyMap<string, UpstreamCall>,
): Promise<Audit> {
  const holds = (await Promise.all(keyIds.map((keyId) => ledger.holds(keyId)))).flat();
  const known = new Set(holds.map(({ id }) => id));
  const pairs = holds.map((hold) => ({ ...hold, call: calls.get(hold.id) }));
  const sumOf = (wanted: (pair: (typeof pairs)[number]) => boolean): Sum => {
    const found = pairs.filter((pair) => pair.call && wanted(pair));
    const add = (units: (pair: (typeof pairs)[number]) => number): number =>
      found.reduce((total, pair) => total + units(pair), 0);
    return {
      calls: found.length,
      charged: add(({ used }) => used),
      counted: add(({ call }) => (call ? countOf(call) : 0)),
    };
  };
  const amiss = pairs.filter(
    (pair) => isSettled(pair) && pair.call?.kind === "counted" && pair.used !== countOf(pair.call),
  );
  const strange = pairs.filter(({ call, used }) => !call && used > 0);
  return {
    exact: {
      ...sumOf((pair) => isSettled(pair) && pair.call?.kind === "counted"),
      amiss: amiss.map(({ id, used }) => `${id}: ${used}`),
    },
    estimated: sumOf((pair) => isSettled(pair) && pair.call?.kind === "uncounted"),
    left: sumOf((pair) => isSettled(pair) && pair.call?.kind === "left"),
    expired: sumOf(({ state }) => state === "expired"),
    unmatched: [...strange.map(({ id }) => id), ...[...calls.keys()].filter((id) => !known.has(id))],
    liveHolds: pairs.filter(({ state }) => state === "live").length,
  };
}
