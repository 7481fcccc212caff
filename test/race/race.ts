/** The race: calls at once from several processes against a balance for a hundred calls. */

import { type Ledger, type SharedStore, sharedStores } from "../stores/ledgers.ts";
import { Child } from "../trial/child.ts";
import type { Trial } from "../trial/frame.ts";

/** The number of calls that the balance covers. */
export const ROOM = 100;

/** The usage of each call. */
const USAGE = { inputTokens: 4, outputTokens: 6 };

/** The order of a racer: it opens its store at once, and calls when it is told to go. */
export interface RacerOrder {
  readonly address: string;
  readonly prefix: string;
  readonly apiKey: string;
  readonly calls: number;
  /** True for a racer that borrows blocks of the key. */
  readonly isBorrowing: boolean;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number };
}

/** The number of calls by the status of their answers. */
export type Statuses = Readonly<Record<number, number>>;

export interface Raced {
  /** The answers of all processes. */
  readonly statuses: Statuses;
  /** The units that the key has left. */
  readonly available: number;
  /** Balances that differ from the journal. */
  readonly differences: readonly unknown[];
  /** The time from the common start to the last answer. */
  readonly seconds: number;
}

export type Racer = Child<RacerOrder | "go", Statuses>;

/** Starts the processes. They can run several races, one after the other. */
export const startRacers = (count: number): readonly Racer[] =>
  Array.from({ length: count }, () => new Child("race/racer.ts"));

export interface Plan {
  readonly racers: readonly Racer[];
  /** The calls of all racers; a multiple of their number. */
  readonly calls: number;
  readonly isBorrowing?: boolean;
}

export async function race(ledger: Ledger, { racers, calls, isBorrowing = false }: Plan): Promise<Raced> {
  const apiKey = isBorrowing ? "sk-borrowing-race" : "sk-race";
  const keyId = await ledger.store.add({ apiKey, granted: ROOM * (USAGE.inputTokens + USAGE.outputTokens) });
  const { address, prefix } = ledger;
  const order: RacerOrder = { address, prefix, apiKey, calls: calls / racers.length, isBorrowing, usage: USAGE };
  // Every process is ready before the first begins.
  await Promise.all(racers.map((racer) => racer.ask(order)));
  const begin = performance.now();
  const answers = await Promise.all(racers.map((racer) => racer.ask("go")));
  const seconds = (performance.now() - begin) / 1_000;
  const statuses: Record<string, number> = {};
  for (const [status, count] of answers.flatMap((each) => Object.entries(each)))
    statuses[status] = (statuses[status] ?? 0) + count;
  const available = (await ledger.store.report(keyId))?.available ?? Number.NaN;
  return { statuses, available, differences: await ledger.differences(keyId), seconds };
}

const FULL = { processes: 4, calls: 10_000 };

export const raceTrial: Trial<SharedStore> = {
  name: "race",
  does: "Makes ten thousand calls from four processes against a balance for a hundred, on every store.",
  flags: {},
  subjects: sharedStores,
  async run(store) {
    const ledger = await store.open();
    await using stack = new AsyncDisposableStack();
    const racers = startRacers(FULL.processes).map((racer) => stack.use(racer));
    const { statuses, available, differences, seconds } = await race(ledger, { racers, calls: FULL.calls });
    await ledger.remove();
    const { 200: admitted = 0, 429: refused = 0 } = statuses;
    const isExact = admitted === ROOM && refused === FULL.calls - ROOM && available === 0 && differences.length === 0;
    const books = { statuses, available, differences };
    return {
      rows: [{ store: store.name, calls: FULL.calls, admitted, refused, seconds: seconds.toFixed(1) }],
      problems: isExact ? [] : [`The balance covers exactly ${ROOM} calls, but: ${JSON.stringify(books)}`],
    };
  },
};
