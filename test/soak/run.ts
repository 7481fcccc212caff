/**
 * The soak in full, of all hosts or of those named; it fails where anything is left, or a signal is slow. With `crowd` as its first
 * name it is the soak of a crowd, on Node unless told, for `--minutes` and with a `--seed`.
 */

import { parseArgs } from "node:util";
import { crowd, type Crowded, type CrowdPlan } from "./crowd.ts";
import { crowdLeftOf, leftOf } from "./left.ts";
import { type SoakHost, soakHosts } from "./hosts.ts";
import { type Plan, soak, type Soaked } from "./soak.ts";
import { handlesIn } from "./subject.ts";

const PLAN: Plan = {
  warmUp: { completions: 4_000, hangUps: 2_000 },
  completions: 100_000,
  hangUps: 10_000,
  timed: 1_200,
};

/** A crowd of a big day. How long it stays is told. */
const CROWD: Omit<CrowdPlan, "goesOn" | "seed"> = {
  idle: 5_000,
  unread: 500,
  uploads: 16,
  // An image must be smaller than 25 MiB.
  uploadBytes: 25 * 2 ** 20 - 1,
  completions: 1_000,
  replaced: 100,
  warmUpRounds: 2,
};
const CROWD_MINUTES = 10;

/** How long after a hang-up the signals of 99 in 100 calls may fire, in milliseconds. */
const ALLOWED_MS = 50;

type Column<Of> = readonly [name: string, cell: (soaked: Of) => string | number];

const COMMON: readonly Column<Soaked>[] = [
  ["completions", ({ completions }) => completions],
  ["false aborts", ({ falseAborts }) => falseAborts.length],
  ["hang-ups", ({ hangUps }) => hangUps],
  ["live holds", (soaked) => leftOf(soaked).liveHolds],
  // A runtime that lists none has its sockets among its files.
  ["handles", ({ before, after }) => `${handlesIn(before)} → ${handlesIn(after)}`],
  ["files", ({ before, after }) => `${before.files ?? "?"} → ${after.files ?? "?"}`],
  ["heap MiB", ({ before, after }) => `${inMib(before.heapBytes)} → ${inMib(after.heapBytes)}`],
];

const SOAK_COLUMNS: readonly Column<Soaked>[] = [
  ...COMMON,
  ["p50 ms", ({ timedMs }) => quantile(timedMs, 0.5).toFixed(1)],
  ["p99 ms", ({ timedMs }) => quantile(timedMs, 0.99).toFixed(1)],
  ["max ms", ({ timedMs }) => quantile(timedMs, 1).toFixed(1)],
  // Of 90 clients that hang up in the same turn.
  ["max of 90 ms", ({ delaysMs }) => quantile(delaysMs, 1).toFixed(1)],
];

const CROWD_COLUMNS: readonly Column<Crowded>[] = [
  ...COMMON,
  ["rounds", ({ rounds }) => rounds],
  ["uploads", ({ uploads }) => uploads],
  ["dropped", ({ cutUnread }) => cutUnread],
  ["buffers MiB", ({ before, after }) => `${inMib(before.bufferBytes)} → ${inMib(after.bufferBytes)}`],
  [
    "heap in crowd MiB",
    ({ standing }) => `${inMib(standing[0]?.heapBytes ?? 0)} → ${inMib(standing.at(-1)?.heapBytes ?? 0)}`,
  ],
];

const inMib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** By how many milliseconds the signals of 99 in 100 calls fire too late. */
const slowness = ({ timedMs }: Soaked): number => Math.max(0, Math.ceil(quantile(timedMs, 0.99) - ALLOWED_MS));

const row = (cells: readonly (string | number)[], names: readonly string[]): string =>
  cells
    .map((cell, index) => {
      const width = Math.max(11, names[index]?.length ?? 0) + 2;
      return index === 0 ? String(cell).padEnd(10) : String(cell).padStart(width);
    })
    .join("");

/** Soaks host by host: a line for each, and what is left of it. */
async function soakEach<Of>(
  hosts: readonly SoakHost[],
  columns: readonly Column<Of>[],
  soakOne: (host: SoakHost) => Promise<Of>,
  leftIn: (soaked: Of) => object,
): Promise<void> {
  const names = ["host", ...columns.map(([name]) => name)];
  console.log(row(names, names));
  for (const host of hosts.filter(({ available }) => available)) {
    const soaked = await soakOne(host);
    console.log(row([host.name, ...columns.map(([, cell]) => cell(soaked))], names));
    const left = Object.entries(leftIn(soaked)).filter(([, count]) => count !== 0);
    for (const [name, count] of left) console.log(`  ${name}: ${count}`);
    if (left.length > 0) process.exitCode = 1;
  }
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    minutes: { type: "string", default: String(CROWD_MINUTES) },
    seed: { type: "string", default: "1" },
  },
});
const isCrowd = positionals[0] === "crowd";
const named = isCrowd ? positionals.slice(1) : positionals;
const hosts = soakHosts.filter(({ name }) => (named.length === 0 ? !isCrowd || name === "node" : named.includes(name)));

if (isCrowd) {
  const stayMs = Number(values.minutes) * 60_000;
  const crowdAt = (host: SoakHost): Promise<Crowded> => {
    let beganAt: number | undefined;
    // Two rounds at least: memory while the crowd stands is compared.
    const goesOn = (rounds: number): boolean =>
      rounds < 2 || performance.now() - (beganAt ??= performance.now()) < stayMs;
    return crowd(host, { ...CROWD, goesOn, seed: Number(values.seed) });
  };
  await soakEach(hosts, CROWD_COLUMNS, crowdAt, crowdLeftOf);
} else
  await soakEach(
    hosts,
    SOAK_COLUMNS,
    (host) => soak(host, PLAN),
    (soaked) => ({ ...leftOf(soaked), slowSignalMs: slowness(soaked) }),
  );
