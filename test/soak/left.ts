/** What a soak has left of what must leave nothing. */

import type { Crowded } from "./crowd.ts";
import type { Soaked } from "./soak.ts";
import { handlesIn, type Rest } from "./subject.ts";

/** Counts that are all to be zero. */
export interface Left {
  /** Calls whose signal fired though nothing had cut them short. */
  readonly falseAborts: number;
  readonly liveHolds: number;
  /** By how much the charge of the calls that ended differs from what they used, and what of it is not exact. */
  readonly chargedAmiss: number;
  readonly chargedByEstimate: number;
  readonly runningBackends: number;
  readonly timers: number;
  readonly moreHandles: number;
  readonly moreFiles: number;
  /** Whole MiB beyond what a heap may differ by from one collection to another. */
  readonly moreMib: number;
  /** What the host was told of. */
  readonly failures: number;
  /** Gateways that had calls to wait for when they closed. */
  readonly openGateways: number;
}

const MIB = 2 ** 20;
const HEAP_TOLERANCE = 2 * MIB;

export function leftOf({ falseAborts, units, before, after, closedAtOnce }: Soaked): Left {
  const { ended } = after.ledgers;
  return {
    falseAborts: falseAborts.length,
    liveHolds: liveHoldsIn(after),
    chargedAmiss: Math.abs((ended?.used ?? 0) - units),
    chargedByEstimate: ended?.estimated ?? 0,
    runningBackends: after.running,
    timers: after.timers,
    moreHandles: more(handlesIn(before), handlesIn(after)),
    moreFiles: more(before.files, after.files),
    moreMib: Math.floor(more(before.heapBytes + HEAP_TOLERANCE, after.heapBytes) / MIB),
    failures: after.failures.length,
    openGateways: closedAtOnce.filter((atOnce) => !atOnce).length,
  };
}

/** The same of a crowd, and by how many whole MiB memory grew while the crowd stood, or outside of the heap. */
export interface CrowdLeft extends Left {
  readonly cutIdle: number;
  readonly moreStandingMib: number;
  readonly moreBufferMib: number;
}

export function crowdLeftOf(crowded: Crowded): CrowdLeft {
  const { before, after, standing } = crowded;
  const heaps = standing.map(({ heapBytes }) => heapBytes);
  const half = Math.ceil(heaps.length / 2);
  // What grows stands higher at every moment of the second half than at any of the first.
  const grown = more(Math.max(...heaps.slice(0, half)) + HEAP_TOLERANCE, Math.min(...heaps.slice(half)));
  return {
    ...leftOf(crowded),
    cutIdle: crowded.cutIdle,
    moreStandingMib: Math.floor(grown / MIB),
    moreBufferMib: Math.floor(more(before.bufferBytes + HEAP_TOLERANCE, after.bufferBytes) / MIB),
  };
}

const more = (before = 0, after = 0): number => Math.max(0, after - before);

const liveHoldsIn = ({ ledgers }: Rest): number =>
  Object.values(ledgers).reduce((sum, ledger) => sum + (ledger?.liveHolds ?? 0), 0);
