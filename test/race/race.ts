/** Calls at once from several processes against a balance for a hundred. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Ledger } from "../stores/ledgers.ts";
import { type RacerOrder, type Statuses, UNITS } from "./order.ts";

/** For how many calls there is a balance. */
export const ROOM = 100;

export interface Raced {
  /** How many calls got each status, in all processes. */
  readonly statuses: Statuses;
  /** What the key has left. */
  readonly available: number;
  readonly differences: readonly unknown[];
  /** From the start of all to the end of the last. */
  readonly seconds: number;
}

export interface Plan {
  readonly processes: number;
  /** How many in all; a multiple of the processes. */
  readonly calls: number;
}

export async function race(ledger: Ledger, { processes, calls }: Plan): Promise<Raced> {
  const apiKey = "sk-race";
  const keyId = await ledger.store.add({ apiKey, granted: ROOM * UNITS });
  const { address, prefix } = ledger;
  const order: RacerOrder = { address, prefix, apiKey, calls: calls / processes };
  const script = new URL("racer.ts", import.meta.url);
  const racers = Array.from({ length: processes }, () => fork(script, [JSON.stringify(order)]));
  try {
    await Promise.all(racers.map(heard));
    const begin = performance.now();
    for (const racer of racers) racer.send("go");
    const told = (await Promise.all(racers.map(heard))) as Statuses[];
    const seconds = (performance.now() - begin) / 1_000;
    const available = (await ledger.store.report(keyId))?.available ?? Number.NaN;
    return { statuses: sumOf(told), available, differences: await ledger.differences(keyId), seconds };
  } finally {
    for (const racer of racers) racer.kill("SIGKILL");
  }
}

/** The next message of a process; rejects where it ends before. */
async function heard(racer: ChildProcess): Promise<unknown> {
  const ended = once(racer, "exit").then(([code]) => {
    throw new Error(`A racer ended with code ${code}.`);
  });
  const [message] = (await Promise.race([once(racer, "message"), ended])) as [unknown];
  return message;
}

function sumOf(told: readonly Statuses[]): Statuses {
  const sum: Record<string, number> = {};
  for (const [status, count] of told.flatMap((each) => Object.entries(each))) sum[status] = (sum[status] ?? 0) + count;
  return sum;
}
