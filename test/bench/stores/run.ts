/** The benchmark of stores: each beside hand-written statements, and a gateway on each available store beside memory. */

import { type Ledger, sharedStores } from "../../stores/ledgers.ts";
import { Child } from "../../trial/child.ts";
import type { LoadOrder, LoadResult } from "../load.ts";
import { row, spread } from "../report.ts";
import type { ServerState } from "../server.ts";
import { API_KEY } from "../workload.ts";
import { benchBorrowing } from "./borrowing.ts";
import { benchPairs } from "./pairs.ts";
import type { StoreAt } from "./server.ts";

interface Plan {
  readonly rounds: number;
  readonly windowMs: number;
  readonly warmUpMs: number;
}

const FULL: Plan = { rounds: 10, windowMs: 1_000, warmUpMs: 3_000 };
const QUICK: Plan = { rounds: 5, windowMs: 400, warmUpMs: 1_500 };

const MEMORY = "memory";

/** The figures of a gateway in one window of each kind. */
interface Sample {
  /** The rate under many calls of one key at the same time. */
  readonly callsPerSecond: number;
  /** The time of a call, one after the other, in milliseconds. */
  readonly latencyMs: number;
}

export async function benchStores(isQuick: boolean): Promise<void> {
  const plan = isQuick ? QUICK : FULL;
  await benchPairs(plan.rounds, plan.windowMs);
  await benchBorrowing(plan.rounds, plan.windowMs);
  await using processes = new AsyncDisposableStack();
  const load = processes.use(new Child<LoadOrder, LoadResult>("bench/load.ts"));
  const ports = new Map<string, number>();
  const serve = async (name: string, at?: StoreAt): Promise<void> => {
    const args = at ? [JSON.stringify(at)] : [];
    const server = processes.use(new Child<"state", ServerState>("bench/stores/server.ts", { args }));
    ports.set(name, (await server.ask("state")).port);
  };
  await serve(MEMORY);
  for (const store of sharedStores) {
    const { name, available } = store;
    if (!available) console.log(`${name} does not answer.`);
    if (!available) continue;
    const ledger: Ledger = await store.open();
    processes.defer(() => ledger.remove());
    await ledger.store.add({ apiKey: API_KEY, granted: 2 ** 50 });
    await serve(name, { address: ledger.address, prefix: ledger.prefix });
  }

  const rate = async (name: string, ms: number, connections?: number): Promise<number> => {
    const order = { port: ports.get(name) ?? 0, scenario: "complete", until: { ms } } as const;
    const { answers, seconds } = await load.ask(connections === undefined ? order : { ...order, connections });
    return answers / seconds;
  };
  const sample = async (name: string, ms: number): Promise<Sample> => ({
    callsPerSecond: await rate(name, ms),
    latencyMs: 1_000 / (await rate(name, ms, 1)),
  });
  const names = [...ports.keys()];
  for (const name of names) await sample(name, plan.warmUpMs);
  const rounds: ReadonlyMap<string, Sample>[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const samples = new Map<string, Sample>();
    // Rotate the order, so that no contestant always follows the same other.
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round) % names.length] ?? MEMORY;
      samples.set(name, await sample(name, plan.windowMs));
    }
    rounds.push(samples);
  }
  console.log(report(names, rounds));
}

function report(names: readonly string[], rounds: readonly ReadonlyMap<string, Sample>[]): string {
  const of = (round: ReadonlyMap<string, Sample>, name: string): Sample =>
    round.get(name) ?? { callsPerSecond: Number.NaN, latencyMs: Number.NaN };
  const title = `complete answers of one key, ${rounds.length} rounds: median (min–max)`;
  const header = row("", "calls/s, 50 at once", "ms a call, one by one", "ms added to memory");
  const lines = names.map((name) =>
    row(
      name,
      spread(rounds, (round) => of(round, name).callsPerSecond, 0),
      spread(rounds, (round) => of(round, name).latencyMs, 2),
      spread(rounds, (round) => of(round, name).latencyMs - of(round, MEMORY).latencyMs, 2),
    ),
  );
  return [title, header, ...lines, ""].join("\n");
}
