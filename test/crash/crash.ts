/** The crash trial: gateways on one store, under load, killed at random moments and started again. It audits the books afterwards. */

import { setTimeout as pause } from "node:timers/promises";
import { type Ledger, type SharedStore, sharedStores, type StoredHold } from "../stores/ledgers.ts";
import { Child } from "../trial/child.ts";
import type { Row, Trial } from "../trial/frame.ts";
import { Random } from "../trial/random.ts";
import { type CallerOrder, Upstream, type UpstreamCall } from "./upstream.ts";

export interface Plan {
  readonly seed: number;
  readonly kills: number;
  /** The callers that run at the same time. */
  readonly processes: number;
  /** The average number of pieces that the upstream sends between two kills, so that a slow machine does as much work. */
  readonly piecesPerKill: number;
  readonly leaseMs: number;
  /** The interval in which the store notes the usage of a call, in milliseconds. */
  readonly usageNoteMs: number;
  /** The most pieces of an answer. An answer has at least a third of them. */
  readonly maxPieces: number;
  /** True when the processes borrow blocks: the holds are then those of blocks, and only sums can be compared. */
  readonly isBorrowing?: boolean;
  /**
   * The least share of the running calls that the store has noted before a kill. The upstream waits where it has noted less, so that a slow
   * machine loses no more.
   */
  readonly noted?: number;
}

export interface Crashed extends Audit {
  /** The time from the end of the last process until nothing is held, in milliseconds. */
  readonly freeAfterMs: number;
  /** Balances that differ from the journal. */
  readonly differences: readonly unknown[];
  /** Keys whose reports differ from their balance. */
  readonly misreported: readonly unknown[];
  /** The charges in reports whose call has left no record. */
  readonly unrecorded: number;
  /** All calls. */
  readonly total: Sum;
}

const [LANES, KEYS] = [4, 8];
/** The interval between two pieces of an answer, in milliseconds. */
const PIECE_MS = 100;
/** A run without progress for this long fails. */
const STUCK_MS = 180_000;
/** The pause between two sweeps, in milliseconds. */
const SWEEP_MS = 100;
/** A kill follows its piece by up to this many milliseconds. */
const JITTER_MS = 20;

export async function crash(ledger: Ledger, plan: Plan): Promise<Crashed> {
  const {
    seed,
    kills,
    processes,
    piecesPerKill,
    leaseMs,
    usageNoteMs,
    maxPieces,
    isBorrowing = false,
    noted = 0,
  } = plan;
  const random = new Random(seed);
  await using upstream = new Upstream(seed, { pieceMs: PIECE_MS, maxPieces });
  const apiKeys = Array.from({ length: isBorrowing ? 1 : KEYS }, (_, index) => `sk-crash-${index}`);
  await ledger.store.addBudget({ id: ORG, amount: 10 ** 12, period: "month" });
  for (const id of TEAMS) await ledger.store.addBudget({ id, amount: 10 ** 12, parent: ORG });
  const keyIds = await Promise.all(
    apiKeys.map((apiKey, index) =>
      ledger.store.add({ apiKey, granted: 10 ** 12, budget: TEAMS[index % TEAMS.length] ?? ORG }),
    ),
  );
  const { address, prefix } = ledger;
  const load = { apiKeys, leaseMs, usageNoteMs, isBorrowing, lanes: LANES };
  const common = { address, prefix, upstream: await upstream.listen(), ...load };
  await using children = new AsyncDisposableStack();
  const start = (): Child<never, never> => {
    const order: CallerOrder = { ...common, seed: random.int(1, 2 ** 31) };
    return children.use(new Child("crash/caller.ts", { args: [JSON.stringify(order)] }));
  };

  const callers = Array.from({ length: processes }, start);
  for (let killed = 0; killed < kills; killed++) {
    await whileMoving(upstream.progress(random.int(1, 2 * piecesPerKill)), upstream);
    if (noted > 0) await whileMoving(untilNoted(ledger, keyIds, upstream, noted), upstream);
    await pause(random.int(0, JITTER_MS));
    // The last kills end one process each; nothing starts again.
    const isLast = kills - killed <= processes;
    if (kills - killed === processes) {
      const isMatch = (hold: StoredHold): boolean =>
        isBorrowing ? hold.used > 0 : upstream.calls.get(hold.id)?.kind === "counted";
      await whileMoving(untilSettled(ledger, keyIds, isMatch), upstream);
    }
    const index = isLast ? kills - killed - 1 : random.int(0, processes - 1);
    await callers[index]?.kill();
    if (!isLast) callers[index] = start();
  }

  const freeAfterMs = await untilFree(ledger, keyIds, leaseMs);
  const differences = (await Promise.all(keyIds.map((keyId) => ledger.differences(keyId)))).flat();
  differences.push(...(await budgetDifferences(ledger, keyIds)));
  const calls = [...upstream.calls.values()];
  const reports = await Promise.all(keyIds.map((keyId) => ledger.store.report(keyId)));
  const told = await Promise.all(keyIds.map(async (keyId) => ledger.reported?.(keyId)));
  const misreported = told.flatMap((one, at) => {
    const report = reports[at];
    const units = (report?.used ?? 0) + (report?.overdraft ?? 0);
    return !one || one.units === units ? [] : [{ keyId: keyIds[at], charged: units, reported: one.units }];
  });
  const unrecorded = told.reduce((sum, one) => sum + (one?.unrecorded ?? 0), 0);
  const total: Sum = {
    calls: calls.length,
    charged: reports.reduce((sum, report) => sum + (report?.used ?? 0) + (report?.overdraft ?? 0), 0),
    counted: calls.reduce((sum, call) => sum + countOf(call), 0),
  };
  return { ...(await audit(ledger, keyIds, upstream.calls)), freeAfterMs, differences, misreported, unrecorded, total };
}

const ORG = "crash-org";
/** The ids come before and after that of the parent. */
const TEAMS = ["crash-a", "crash-z"];

/** Compares the budgets with their keys, once nothing is held. The month may end in the middle of a run: only the sums of keys count. */
async function budgetDifferences({ store }: Ledger, keyIds: readonly string[]): Promise<readonly unknown[]> {
  const keys = await Promise.all(keyIds.map((keyId) => store.report(keyId)));
  const found: unknown[] = [];
  for (const id of TEAMS) {
    const expected = keys.reduce((sum, key) => sum + (key?.budget === id ? key.used : 0), 0);
    const report = await store.budgetReport(id);
    if (report?.used !== expected || report.held !== 0) found.push({ ...report, expected });
  }
  return found;
}

/** Waits for work, and rejects once the upstream sends nothing any more. */
function whileMoving<T>(work: Promise<T>, upstream: Upstream): Promise<T> {
  const { promise: stuck, reject } = Promise.withResolvers<never>();
  let before = -1;
  const timer = setInterval(() => {
    if (upstream.pieces === before) reject(new Error("The load stands still."));
    before = upstream.pieces;
  }, STUCK_MS);
  return Promise.race([work, stuck]).finally(() => clearInterval(timer));
}

const holdsOf = async (ledger: Ledger, keyIds: readonly string[]): Promise<readonly StoredHold[]> =>
  (await Promise.all(keyIds.map((keyId) => ledger.holds(keyId)))).flat();

/** Waits until the store has noted this share of the calls that run, and meanwhile keeps the upstream from sending more. */
async function untilNoted(ledger: Ledger, keyIds: readonly string[], upstream: Upstream, share: number): Promise<void> {
  for (;;) {
    const counts = new Map([...upstream.calls].flatMap(([id, call]) => (call.isOver ? [] : [[id, countOf(call)]])));
    const holds = await holdsOf(ledger, keyIds);
    const running = holds.filter(({ id, state }) => state === "live" && counts.has(id));
    const noted = running.reduce((sum, hold) => sum + (hold.noted ?? 0), 0);
    const counted = running.reduce((sum, { id }) => sum + (counts.get(id) ?? 0), 0);
    upstream.isHeld = noted < share * counted;
    if (!upstream.isHeld) return;
    await pause(SWEEP_MS);
  }
}

/** Waits until the store has settled such a hold, so that a slow machine has one too. */
async function untilSettled(
  ledger: Ledger,
  keyIds: readonly string[],
  isMatch: (hold: StoredHold) => boolean,
): Promise<void> {
  for (;;) {
    const holds = await holdsOf(ledger, keyIds);
    if (holds.some((hold) => isSettled(hold) && isMatch(hold))) return;
    await pause(SWEEP_MS);
  }
}

/** Sweeps until nothing is held. Returns the time taken in milliseconds. Gives up a minute after the lease. */
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

/** The sum over calls of one kind. */
interface Sum {
  readonly calls: number;
  /** The units that the store has charged. */
  readonly charged: number;
  /** The tokens that the upstream has counted for the same calls. */
  readonly counted: number;
}

/** A comparison of the charges in a store with the counts of the upstream, call by call. */
interface Audit {
  /** Calls settled by the upstream's own count, and those whose charge differs from that count. */
  readonly exact: Sum & { readonly amiss: readonly string[] };
  /** Calls settled by the gateway's estimate: the upstream told no count. */
  readonly estimated: Sum;
  /** Calls settled by the gateway's estimate: the client left in the middle. */
  readonly left: Sum;
  /** Calls charged the usage in their last renewal: the process was killed. */
  readonly expired: Sum;
  /** Answered calls without a hold, and charges for calls that the upstream does not know. */
  readonly unmatched: readonly string[];
  readonly liveHolds: number;
}

const countOf = ({ inputTokens, outputTokens }: UpstreamCall): number => inputTokens + outputTokens;

const isSettled = ({ state }: StoredHold): boolean => state === "settled" || state === "corrected";

/** @param calls The calls that the upstream has answered, by the ids of their holds. */
async function audit(
  ledger: Ledger,
  keyIds: readonly string[],
  calls: ReadonlyMap<string, UpstreamCall>,
): Promise<Audit> {
  const holds = await holdsOf(ledger, keyIds);
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

/**
 * Answers of 24 to 72 seconds, noted ten times a second: the usage between two notes is small beside the usage of a call. A host with
 * rarer notes loses more of a killed call, up to the usage since the last note.
 */
const FULL: Omit<Plan, "seed"> = {
  kills: 200,
  processes: 4,
  piecesPerKill: 800,
  leaseMs: 20_000,
  usageNoteMs: 100,
  maxPieces: 720,
};

/** The most by which charges by estimate may differ from the upstream's count, as a share of that count. */
const ALLOWED = 0.02;
/** The most time beyond a lease until nothing is held: the store still works on requests of killed processes. */
const GRACE_MS = 2_000;

const together = (one: Sum, other: Sum): Sum => ({
  calls: one.calls + other.calls,
  charged: one.charged + other.charged,
  counted: one.counted + other.counted,
});

const deviation = ({ charged, counted }: Sum): number => charged / counted - 1;

export const crashTrial: Trial<SharedStore, { readonly seed: number }> = {
  name: "crash",
  does: "Kills gateways under load at random moments, and audits the books.",
  flags: { seed: 12 },
  subjects: sharedStores,
  usual: ["PostgreSQL", "Redis"],
  async run(store, { seed }) {
    const ledger = await store.open();
    const crashed = await crash(ledger, { ...FULL, seed });
    await ledger.remove();
    const { exact, estimated, left, expired, freeAfterMs } = crashed;
    const guessed = together(estimated, left);
    const row = (calls: string, sum: Sum): Row => ({
      store: store.name,
      calls,
      count: sum.calls,
      charged: sum.charged,
      "counted upstream": sum.counted,
      difference: `${(100 * deviation(sum)).toFixed(2)} %`,
    });
    return {
      rows: [
        row("settled by the upstream's count", exact),
        row("settled by estimate", estimated),
        row("settled as their clients left", left),
        row("both, settled by estimate", guessed),
        row("killed, by their last note", expired),
      ],
      notes: [`${FULL.kills} kills; nothing was held ${freeAfterMs.toFixed(0)} ms after the last one`],
      problems: problemsOf(crashed, guessed),
    };
  },
};

function problemsOf(
  { exact, expired, unmatched, liveHolds, differences, misreported, freeAfterMs }: Crashed,
  guessed: Sum,
): readonly string[] {
  const wrong = {
    "charges differ from the upstream's count": exact.amiss,
    "calls without a hold, or charges without a call": unmatched,
    "balances differ from the journal": differences,
    "reports differ from the balances": misreported,
  };
  const problems = Object.entries(wrong).flatMap(([name, found]) =>
    found.length > 0 ? [`${found.length} ${name}: ${JSON.stringify(found.slice(0, 5))}`] : [],
  );
  for (const [name, sum] of Object.entries({ "by estimate": guessed, "of killed calls": expired }))
    // A sum over no call has no deviation, and fails too.
    if (!(Math.abs(deviation(sum)) <= ALLOWED))
      problems.push(`The charges ${name} differ by more than ${100 * ALLOWED} %.`);
  if (liveHolds > 0) problems.push(`${liveHolds} holds are live.`);
  if (freeAfterMs > FULL.leaseMs + GRACE_MS) problems.push(`Units were held for ${freeAfterMs.toFixed(0)} ms.`);
  return problems;
}
