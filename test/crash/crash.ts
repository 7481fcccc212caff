/** Four gateways on one store, under load, killed at random moments and started again: what is left in the books. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { Ledger } from "../stores/ledgers.ts";
import { type Audit, audit } from "./audit.ts";
import { between, type CallerOrder, seeded } from "./order.ts";
import { Upstream } from "./upstream.ts";

export interface Plan {
  readonly seed: number;
  readonly kills: number;
  /** How many pieces the upstream sends from one kill to the next, on average: so much work is done, however slow the machine. */
  readonly piecesPerKill: number;
  readonly leaseMs: number;
  /** How often the store notes what a call has used, in milliseconds. */
  readonly usageNoteMs: number;
  /** How many pieces an answer has at most, and a third of that at least. */
  readonly maxPieces: number;
}

export interface Crashed extends Audit {
  /** How long after the last process had ended nothing was held any more, in milliseconds. */
  readonly freeAfterMs: number;
  /** Where the balances are not what the journal comes to. */
  readonly differences: readonly unknown[];
}

const [PROCESSES, LANES, KEYS] = [4, 4, 8];
/** How long after a piece of an answer the next one comes, in milliseconds. */
const PIECE_MS = 100;
/** A stuck run must fail, not hang. */
const STUCK_MS = 60_000;
/** How long after a sweep the next one begins, in milliseconds. */
const SWEEP_MS = 100;
/** A kill comes up to so much later than the piece that it follows, in milliseconds. */
const JITTER_MS = 20;

export async function crash(ledger: Ledger, plan: Plan): Promise<Crashed> {
  const { seed, kills, piecesPerKill, leaseMs, usageNoteMs, maxPieces } = plan;
  const random = seeded(seed);
  await using upstream = new Upstream(seed, { pieceMs: PIECE_MS, maxPieces });
  const apiKeys = Array.from({ length: KEYS }, (_, index) => `sk-crash-${index}`);
  const keyIds = await Promise.all(apiKeys.map((apiKey) => ledger.store.add({ apiKey, granted: 10 ** 12 })));
  const { address, prefix } = ledger;
  const place = { address, prefix, upstream: await upstream.listen(), apiKeys, leaseMs, usageNoteMs, lanes: LANES };
  const start = (): ChildProcess => callerWith({ ...place, seed: between(random, 1, 2 ** 31) });

  const callers = Array.from({ length: PROCESSES }, start);
  for (let killed = 0; killed < kills; killed++) {
    await whileMoving(upstream.progress(between(random, 1, 2 * piecesPerKill)), upstream);
    await pause(between(random, 0, JITTER_MS));
    // The last of them are not started again.
    const isLast = kills - killed <= PROCESSES;
    const index = isLast ? kills - killed - 1 : between(random, 0, PROCESSES - 1);
    await kill(callers[index]);
    if (!isLast) callers[index] = start();
  }

  const freeAfterMs = await untilFree(ledger, keyIds, leaseMs);
  const differences = (await Promise.all(keyIds.map((keyId) => ledger.differences(keyId)))).flat();
  return { ...(await audit(ledger, keyIds, upstream.calls)), freeAfterMs, differences };
}

function callerWith(order: CallerOrder): ChildProcess {
  return fork(new URL("caller.ts", import.meta.url), [JSON.stringify(order)]);
}

async function kill(caller: ChildProcess | undefined): Promise<void> {
  if (!caller || caller.exitCode !== null) throw new Error("A process ended by itself.");
  const exit = once(caller, "exit");
  caller.kill("SIGKILL");
  await exit;
}

/** Waits for work for as long as the upstream goes on sending, however slowly. */
function whileMoving<T>(work: Promise<T>, upstream: Upstream): Promise<T> {
  const { promise: stuck, reject } = Promise.withResolvers<never>();
  let before = -1;
  const timer = setInterval(() => {
    if (upstream.pieces === before) reject(new Error("The load stands still."));
    before = upstream.pieces;
  }, STUCK_MS);
  return Promise.race([work, stuck]).finally(() => clearInterval(timer));
}

/** Sweeps until nothing is held, and tells how long that took. Gives up long after the lease. */
async function untilFree(ledger: Ledger, keyIds: readonly string[], leaseMs: number): Promise<number> {
  const begin = performance.now();
  for (;;) {
    await ledger.store.sweep();
    const reports = await Promise.all(keyIds.map((keyId) => ledger.store.report(keyId)));
    const took = performance.now() - begin;
    if (reports.every((report) => report?.held === 0) || took > leaseMs + STUCK_MS) return took;
    await pause(SWEEP_MS);
  }
}
