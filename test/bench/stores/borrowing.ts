/** Compares borrowed blocks with direct calls: several processes on one key of one store. */

import { openStore } from "../../../src/admin/open-store.ts";
import { borrowingQuotaStore, type QuotaStore } from "../../../src/index.ts";
import { sharedStores } from "../../stores/ledgers.ts";
import { answerParent, Child } from "../../trial/child.ts";
import { median, row, spread } from "../report.ts";

/** The processes, and the pairs of reserve and settle at the same time in each. */
const [PROCESSES, LANES] = [4, 200];
const KEY_ID = "hot";
/** The units of a hold, and the units of its settlement. */
const [HELD, USED] = [1_000, 700];

/** The stores to compare, with the least factor that blocks should reach. */
const LINES: readonly { readonly store: string; readonly target: number }[] = [
  { store: "PostgreSQL", target: 20 },
  { store: "Redis", target: 8 },
];

interface Order {
  readonly isBorrowing: boolean;
  readonly ms: number;
}

/** The place of a store, as the first argument of a process. */
interface Place {
  readonly address: string;
  readonly prefix: string;
}

export async function benchBorrowing(rounds: number, windowMs: number): Promise<void> {
  console.log(`reserve and settle of one key, ${PROCESSES} processes with ${LANES} pairs at once: median (min–max)`);
  console.log(row("", "direct, pairs/s", "borrowed, pairs/s", "factor", "target"));
  for (const { store, target } of LINES) {
    const shared = sharedStores.find(({ name }) => name === store);
    if (!shared?.available) {
      console.log(row(store, "does not answer"));
      continue;
    }
    await using opened = new AsyncDisposableStack();
    const ledger = await shared.open();
    opened.defer(() => ledger.remove());
    await ledger.store.add({ id: KEY_ID, granted: 2 ** 50 });
    const place: Place = { address: ledger.address, prefix: ledger.prefix };
    const processes = Array.from({ length: PROCESSES }, () =>
      opened.use(new Child<Order, number>("bench/stores/borrowing.ts", { args: [JSON.stringify(place)] })),
    );
    const rate = async (isBorrowing: boolean): Promise<number> => {
      const rates = await Promise.all(processes.map((process) => process.ask({ isBorrowing, ms: windowMs })));
      return rates.reduce((sum, each) => sum + each, 0);
    };
    const sample = async () => ({ direct: await rate(false), borrowed: await rate(true) });
    await sample();
    const samples: { direct: number; borrowed: number }[] = [];
    for (let round = 0; round < rounds; round++) samples.push(await sample());
    const factor = median(samples.map(({ direct, borrowed }) => borrowed / direct));
    const { differences, held } = {
      differences: await ledger.differences(KEY_ID),
      held: (await ledger.store.report(KEY_ID))?.held,
    };
    console.log(
      row(
        store,
        spread(samples, ({ direct }) => direct, 0),
        spread(samples, ({ borrowed }) => borrowed, 0),
        spread(samples, ({ direct, borrowed }) => borrowed / direct, 1),
        `${target} ${factor >= target ? "met" : "missed"}`,
      ),
    );
    if (differences.length > 0 || held !== 0)
      console.log(`The books are wrong: ${JSON.stringify({ held, differences })}`);
  }
  console.log("");
}

/** The pairs in a second. */
async function rateOf(store: QuotaStore, ms: number): Promise<number> {
  const begin = performance.now();
  let pairs = 0;
  const lane = async (index: number): Promise<void> => {
    for (; performance.now() - begin < ms; pairs++) {
      const id = `${process.pid}-${index}-${begin}-${pairs}`;
      const answer = await store.reserve({ id, keyId: KEY_ID, atLeast: HELD, atMost: HELD, leaseMs: 60_000 });
      if (answer.refused) throw new Error("The bench's key is used up.");
      await store.settle(id, { used: USED, certainty: "exact" });
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, index) => lane(index)));
  return (pairs * 1_000) / (performance.now() - begin);
}

if (process.send) {
  const { address, prefix } = JSON.parse(process.argv[2] ?? "") as Place;
  const opening = openStore(address, { prefix, connections: 10, forGateway: true });
  answerParent(async ({ isBorrowing, ms }: Order): Promise<number> => {
    const { store } = await opening;
    if (!isBorrowing) return rateOf(store, ms);
    const borrowing = borrowingQuotaStore(store);
    const rate = await rateOf(borrowing, ms);
    await borrowing.close();
    return rate;
  });
}
