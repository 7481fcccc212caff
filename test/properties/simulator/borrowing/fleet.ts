/** The fleet trial: a thousand borrowing stores over one store in virtual time, for the figures of docs/production.md. */

import {
  type BorrowingQuotaStore,
  borrowingQuotaStore,
  type BorrowingQuotaStoreOptions,
  type Cancel,
  type Clock,
  memoryQuotaStore,
  type MemoryQuotaStore,
  type QuotaRecalls,
  type QuotaStore,
} from "../../../../src/index.ts";
import type { Outcome, Row, Trial } from "../../../trial/frame.ts";
import { Random } from "../../../trial/random.ts";
import { quiescence } from "../timeline.ts";

interface FleetFlags extends Readonly<Record<string, number>> {
  readonly seed: number;
  readonly processes: number;
  readonly keys: number;
  /** Calls in a second, of all processes. */
  readonly calls: number;
  readonly seconds: number;
}

/** A way to run the fleet. */
interface Mode {
  readonly name: string;
  readonly options: BorrowingQuotaStoreOptions | undefined;
  /** The processes that get the calls of one key. Default: all. */
  readonly spread?: number;
}

export const fleetTrial: Trial<Mode, FleetFlags> = {
  name: "fleet",
  does: "Measures a thousand processes that borrow units of a million keys, in virtual time.",
  flags: { seed: 1, processes: 1_000, keys: 1_000_000, calls: 50_000, seconds: 6 },
  subjects: [
    { name: "direct", options: undefined },
    { name: "blocks", options: {} },
    { name: "blocks from the third call", options: { minCalls: 2 } },
    { name: "each key in ten processes", options: {}, spread: 10 },
    { name: "each key in one process", options: {}, spread: 1 },
  ],
  run: fleet,
};

/** The share of the hottest key, and the exponent that gives the first of a million keys this share. */
const [HOTTEST, EXPONENT] = [0.02, 0.855];
/** The time of a row for one write: 850 pairs in a second on PostgreSQL. And the time to the store and back, in milliseconds. */
const [ROW_MS, TRIP_MS] = [1_000 / (2 * 850), 2];
/** The units of a hold and of its settlement, as in the bench of stores. The mean duration of a call, in milliseconds. */
const [HELD, USED, MEAN_MS] = [1_000, 700, 1_000];
const LEASE_MS = 60_000;
/** The time until the first note of a call, and between two notes, in milliseconds. */
const [FIRST_NOTE_MS, NOTE_MS] = [100, 1_000];
const WARM_UP_MS = 5_000;
const QUOTA = 2 ** 46;
const [HOT, LITTLE] = ["key-1", "key-little"];

/** Virtual time in whole milliseconds. All that is due in a millisecond runs together. */
class Time {
  now = 0;
  readonly #due = new Map<number, (() => void)[]>();

  after(ms: number, run: () => void): Cancel {
    let isCancelled = false;
    const at = Math.max(Math.floor(this.now) + 1, Math.ceil(this.now + ms));
    const due = this.#due.get(at) ?? [];
    this.#due.set(at, due);
    due.push(() => void (isCancelled || run()));
    return () => void (isCancelled = true);
  }

  async runUntil(end: number, eachMs?: () => void): Promise<void> {
    await quiescence();
    while (this.now < end) {
      this.now++;
      const due = this.#due.get(this.now);
      this.#due.delete(this.now);
      eachMs?.();
      if (due) for (const run of due) run();
      if (due || eachMs) await quiescence();
    }
  }

  clock(isAlive: () => boolean): Clock {
    const every = (ms: number, run: () => void): Cancel => {
      let cancel = this.after(ms, again);
      function again(this: void): void {
        if (!isAlive()) return;
        cancel = set();
        run();
      }
      const set = (): Cancel => this.after(ms, again);
      return () => cancel();
    };
    return { now: () => this.now, after: (ms, run) => this.after(ms, () => void (isAlive() && run())), every };
  }
}

/** The shared store behind a network. It carries out the writes of a key one after the other. */
class Server {
  readonly time: Time;
  readonly ledger: MemoryQuotaStore;
  writes = 0;
  hotWrites = 0;
  polls = 0;
  readonly #busyUntil = new Map<string, number>();
  readonly #owners = new Map<string, string>();

  constructor(time: Time) {
    this.time = time;
    this.ledger = memoryQuotaStore([], { clock: time.clock(() => true), maxRetained: 0 });
  }

  add(id: string, granted: number): void {
    if (!this.#busyUntil.has(id)) this.ledger.add({ id, apiKey: `sk-${id}`, granted });
    this.#busyUntil.set(id, this.#busyUntil.get(id) ?? 0);
  }

  /** Returns the store as a process sees it. A dead process sends nothing, and hears nothing. */
  seenBy(isAlive: () => boolean): QuotaStore & QuotaRecalls {
    const trip = <Answer>(ms: number, run: () => Promise<Answer>): Promise<Answer> =>
      new Promise((resolve, reject) => {
        if (!isAlive()) return;
        this.time.after(ms, () => {
          run().then((answer) => void (isAlive() && resolve(answer)), reject);
        });
      });
    const write = <Answer>(keyId: string, run: () => Promise<Answer>): Promise<Answer> => {
      if (!isAlive()) return new Promise(() => {});
      this.writes++;
      if (keyId === HOT) this.hotWrites++;
      const doneAt = Math.max(this.time.now, this.#busyUntil.get(keyId) ?? 0) + ROW_MS;
      this.#busyUntil.set(keyId, doneAt);
      return trip(doneAt - this.time.now + TRIP_MS, run);
    };
    const ownerOf = (id: string): string => this.#owners.get(id) ?? "";
    const { ledger } = this;
    return {
      find: (apiKey) => trip(TRIP_MS, () => ledger.find(apiKey)),
      balance: (keyId) => trip(TRIP_MS, () => ledger.balance(keyId)),
      reserve: (hold) => {
        this.#owners.set(hold.id, hold.keyId);
        return write(hold.keyId, () => ledger.reserve(hold));
      },
      renew: (id, renewal) => write(ownerOf(id), () => ledger.renew(id, renewal)),
      settle: (id, outcome) => {
        const owner = ownerOf(id);
        this.#owners.delete(id);
        return write(owner, () => ledger.settle(id, outcome));
      },
      recall: (keyId) => trip(TRIP_MS, () => ledger.recall(keyId)),
      recalled: (withinMs) => {
        this.polls++;
        return trip(TRIP_MS, () => ledger.recalled(withinMs));
      },
    };
  }
}

interface Replica {
  readonly store: QuotaStore;
  readonly borrowing: BorrowingQuotaStore | undefined;
  isAlive: boolean;
}

async function fleet(mode: Mode, { seed, processes, keys, calls, seconds }: FleetFlags): Promise<Outcome> {
  const random = new Random(seed);
  const time = new Time();
  const server = new Server(time);
  const replicas = Array.from({ length: processes }, (): Replica => {
    const shared = server.seenBy(() => replica.isAlive);
    const clock = time.clock(() => replica.isAlive);
    const borrowing = mode.options && borrowingQuotaStore(shared, { ...mode.options, clock });
    const replica: Replica = { store: borrowing ?? shared, borrowing, isAlive: true };
    return replica;
  });
  const [root, last] = [1 - EXPONENT, keys ** (1 - EXPONENT)];
  const rankOf = (): number => {
    if (random.chance(HOTTEST)) return 1;
    const first = 2 ** root;
    return Math.min(keys, Math.floor((first + random.next() * (last - first)) ** (1 / root)));
  };
  let born = 0;
  const hotWaits: number[] = [];
  let isMeasured = false;
  const call = async (rank: number): Promise<void> => {
    const keyId = `key-${rank}`;
    server.add(keyId, QUOTA);
    const spread = mode.spread ?? processes;
    const replica = replicas[(rank * 7_919 + random.int(0, spread - 1)) % processes];
    if (!replica) return;
    const { store } = replica;
    const id = `call-${++born}`;
    const durationMs = -Math.log(1 - random.next()) * MEAN_MS;
    const begin = time.now;
    await store.reserve({ id, keyId, atLeast: HELD, atMost: HELD, leaseMs: LEASE_MS });
    if (rank === 1 && isMeasured) hotWaits.push(time.now - begin);
    const end = time.now + durationMs;
    for (let waitMs = FIRST_NOTE_MS; time.now + waitMs < end; waitMs = NOTE_MS) {
      await new Promise<void>((resolve) => void time.after(waitMs, resolve));
      void store.renew(id, {
        leaseMs: LEASE_MS,
        used: Math.floor((USED * (time.now - begin)) / (durationMs + time.now)),
      });
    }
    await new Promise<void>((resolve) => void time.after(Math.max(0, end - time.now), resolve));
    void store.settle(id, { used: USED, certainty: "exact" });
  };
  let dueCalls = 0;
  const lent: number[] = [];
  const lentNow = (): number => replicas.reduce((sum, { borrowing }) => sum + (borrowing?.borrowed(HOT).free ?? 0), 0);
  const traffic = (): void => {
    dueCalls += calls / 1_000;
    for (; dueCalls >= 1; dueCalls--) void call(rankOf());
    if (isMeasured && time.now % 250 === 0) lent.push(lentNow());
  };
  await time.runUntil(WARM_UP_MS, traffic);
  isMeasured = true;
  Object.assign(server, { writes: 0, hotWrites: 0, polls: 0 });
  const bornBefore = born;
  await time.runUntil(WARM_UP_MS + seconds * 1_000, traffic);
  const made = born - bornBefore;
  const perSecond = (count: number): string => Math.round(count / seconds).toLocaleString("en");
  const waits = hotWaits.toSorted((one, other) => one - other);
  const lentMean = lent.reduce((sum, units) => sum + units, 0) / Math.max(1, lent.length);
  const row: Row = {
    mode: mode.name,
    "writes/s": perSecond(server.writes),
    "writes/call": (server.writes / made).toFixed(2),
    "writes/s, hottest key": perSecond(server.hotWrites),
    "wait p99, hottest key, ms": waits[Math.floor(waits.length * 0.99)] ?? "–",
    "polls/s": perSecond(server.polls),
    "lent and free, hottest key, s of use": (lentMean / (calls * HOTTEST * USED)).toFixed(2),
  };
  if (!mode.options) return { rows: [row], problems: [] };
  const [returnedMs, recalls] = [await death(replicas, server), await recallTimes(replicas, server, random)];
  return {
    rows: [
      {
        ...row,
        "units of a dead process return, s": (returnedMs / 1_000).toFixed(1),
        "recall, ms": `${recalls[Math.floor(recalls.length / 2)]} (most ${recalls.at(-1)})`,
      },
    ],
    problems: recalls.some((ms) => ms > 520) ? ["A recall took longer than the longest wait."] : [],
  };
}

/** Lets a process with a block of the hottest key die. Returns the time until nothing of the key is held any more. */
async function death(replicas: readonly Replica[], { time, ledger }: Server): Promise<number> {
  await time.runUntil(time.now + 20_000);
  const [replica] = replicas;
  if (!replica) throw new Error("There is no process.");
  for (let index = 0; index < 60; index++)
    void replica.store.reserve({ id: `last-${index}`, keyId: HOT, atLeast: HELD, atMost: HELD, leaseMs: LEASE_MS });
  await time.runUntil(time.now + 1_000);
  if ((ledger.report(HOT)?.held ?? 0) === 0) throw new Error("The process holds nothing.");
  replica.isAlive = false;
  const diedAt = time.now;
  while ((ledger.report(HOT)?.held ?? 0) > 0) await time.runUntil(time.now + 100);
  return time.now - diedAt;
}

/** Lets twenty processes borrow all units of a key, and one of them ask for all. Returns the sorted times until it has them. */
async function recallTimes(replicas: readonly Replica[], server: Server, random: Random): Promise<readonly number[]> {
  const { time } = server;
  const times: number[] = [];
  for (let round = 0; round < 20; round++) {
    const [keyId, units] = [`${LITTLE}-${round}`, 20 * 22];
    server.add(keyId, units);
    const borrowers = replicas.slice(1, 21);
    for (const [index, { store }] of borrowers.entries())
      for (let number = 0; number < 22; number++) {
        const id = `${keyId}-${index}-${number}`;
        void store
          .reserve({ id, keyId, atLeast: 0, atMost: 1, leaseMs: LEASE_MS })
          .then(() => store.settle(id, { used: 0, certainty: "exact" }));
      }
    await time.runUntil(time.now + 800 + random.int(0, 250));
    const begin = time.now;
    let tookMs: number | undefined;
    const hold = { id: `${keyId}-all`, keyId, atLeast: units, atMost: units, leaseMs: LEASE_MS };
    const asking = borrowers[random.int(0, borrowers.length - 1)];
    asking?.store.reserve(hold).then(
      ({ refused }) => void (tookMs = refused ? Number.POSITIVE_INFINITY : time.now - begin),
      () => {},
    );
    await time.runUntil(time.now + 5_000);
    times.push(tookMs ?? Number.POSITIVE_INFINITY);
  }
  return times.toSorted((one, other) => one - other);
}
