/** The side of the host: a gateway for each policy in a process of its own, and all that can be counted there. */

import process from "node:process";
import { createInterface } from "node:readline";
import {
  type Gateway,
  type GatewayOptions,
  type LedgerReport,
  type Limits,
  memoryQuotaStore,
} from "../../src/index.ts";
import { Peer } from "../hosts/remote/peer.ts";
import { Plays } from "./backend.ts";
import { apiKeyOf, nextTurn, nowMs, type Payer, PAYERS, type Policy, POLICIES } from "./calls.ts";
import { countingClock } from "./counting-clock.ts";

export interface Served {
  readonly url: string | undefined;
  readonly gateway: Pick<Gateway, "close">;
  stop(): Promise<void>;
}

/** What there is in a host's process at one moment. */
export interface Census {
  readonly ledgers: Readonly<Record<Payer, LedgerReport | undefined>>;
  /** Calls that a backend is at. */
  readonly running: number;
  /** Timers of the gateways. */
  readonly timers: number;
  /** What keeps the process alive, by its kind, where the runtime lists it. */
  readonly handles: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
}

/** Long enough for all calls to go on for which that is meant; no other timer of a gateway is as long. */
const DRAIN_MS = 599_999;

/** Longer than any soak: no call of it is to end by itself, and no upload because the machine is slow. */
const LIMITS: Partial<Limits> = { deadlineMs: 24 * 3_600_000, bodyStallMs: 24 * 3_600_000, minBodyBytesPerSecond: 1 };

const HANG_UP = { cancels: "cancel", drains: { drainMs: DRAIN_MS }, cuts: { drainMs: 20 } } as const satisfies Record<
  Policy,
  NonNullable<GatewayOptions["backend"]["hangUp"]>
>;

/** Serves the gateways until the parent is gone. */
export async function beSoaked(serve: (options: GatewayOptions) => Promise<Served>): Promise<void> {
  const failures: string[] = [];
  const plays = new Plays({
    waiting: (id) => void peer.call("waiting", id),
    fired: (id, atMs) => void peer.call("fired", id, atMs),
  });
  const clock = countingClock((ms) => ms === DRAIN_MS && void peer.call("draining"));
  const keys = PAYERS.map((payer) => ({ apiKey: apiKeyOf(payer), id: apiKeyOf(payer) }));
  // Retaining few holds that are over, it is full early: what grows from there on is a leak.
  const quotas = memoryQuotaStore(keys, { clock, maxRetained: 1_000 });
  const onFailure: NonNullable<GatewayOptions["onFailure"]> = ({ text }) => void failures.push(text);
  const open = (policy: Policy): Promise<Served> =>
    serve({ backend: plays.backend(HANG_UP[policy]), quotas, clock, onFailure, limits: LIMITS });
  const served: Served[] = [];

  const peer = new Peer((line) => void process.stdout.write(line), {
    open: async (): Promise<readonly number[]> => {
      for (const policy of POLICIES) served.push(await open(policy));
      return served.map(({ url = "" }) => Number(new URL(url).port));
    },
    now: nowMs,
    goOn: (id: number) => plays.goOn(id),
    heapBytes,
    bufferBytes: () => process.memoryUsage().external,
    census: (): Census => ({
      ledgers: Object.fromEntries(PAYERS.map((payer) => [payer, quotas.report(apiKeyOf(payer))])) as Census["ledgers"],
      running: plays.running,
      timers: clock.pending,
      handles: countByKind(process.getActiveResourcesInfo()),
      failures,
    }),
    close: (): Promise<boolean[]> => Promise.all(served.map(({ gateway }) => closesAtOnce(gateway))),
  });
  process.stdout.on("error", () => process.exit());
  createInterface({ input: process.stdin })
    .on("line", peer.receive)
    .on("close", () => process.exit());
}

function countByKind(kinds: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of kinds.toSorted()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** The heap in use when all garbage is collected: twice, because what one collection finalizes the next one frees. */
async function heapBytes(): Promise<number> {
  const { gc } = globalThis as { gc?: (options: object) => void };
  for (let round = 0; round < 2; round++) {
    // In V8 this flavor lets go of code as well that has not run lately; it would be a gain of memory by and by.
    gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
    await nextTurn();
  }
  return process.memoryUsage().heapUsed;
}

/** Whether a gateway has no live call: it would wait for that. */
async function closesAtOnce(gateway: Served["gateway"]): Promise<boolean> {
  const closed = gateway.close({ deadlineMs: 60_000 }).then(() => true);
  return Promise.race([closed, nextTurn().then(() => false)]);
}
