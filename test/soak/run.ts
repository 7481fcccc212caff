/** The soak in full, of all hosts or of those named; it fails where anything is left, or a signal is slow. */

import { leftOf } from "./left.ts";
import { soakHosts } from "./hosts.ts";
import { type Plan, soak, type Soaked } from "./soak.ts";
import { handlesIn } from "./subject.ts";

const PLAN: Plan = {
  warmUp: { completions: 4_000, hangUps: 2_000 },
  completions: 100_000,
  hangUps: 10_000,
  timed: 1_200,
};

/** How long after a hang-up the signals of 99 in 100 calls may fire, in milliseconds. */
const ALLOWED_MS = 50;

type Column = readonly [name: string, cell: (soaked: Soaked) => string | number];

const COLUMNS: readonly Column[] = [
  ["completions", ({ completions }) => completions],
  ["false aborts", ({ falseAborts }) => falseAborts.length],
  ["hang-ups", ({ hangUps }) => hangUps],
  ["live holds", (soaked) => leftOf(soaked).liveHolds],
  // A runtime that lists none has its sockets among its files.
  ["handles", ({ before, after }) => `${handlesIn(before)} → ${handlesIn(after)}`],
  ["files", ({ before, after }) => `${before.files ?? "?"} → ${after.files ?? "?"}`],
  ["heap MiB", ({ before, after }) => `${inMib(before.heapBytes)} → ${inMib(after.heapBytes)}`],
  ["p50 ms", ({ timedMs }) => quantile(timedMs, 0.5).toFixed(1)],
  ["p99 ms", ({ timedMs }) => quantile(timedMs, 0.99).toFixed(1)],
  ["max ms", ({ timedMs }) => quantile(timedMs, 1).toFixed(1)],
  // Of 90 clients that hang up in the same turn.
  ["max of 90 ms", ({ delaysMs }) => quantile(delaysMs, 1).toFixed(1)],
];

const inMib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

const row = (name: string, cells: readonly (string | number)[]): string =>
  `${name.padEnd(10)}${cells.map((cell, index) => String(cell).padStart(widthOf(index))).join("")}`;

const widthOf = (index: number): number => Math.max(11, COLUMNS[index]?.[0].length ?? 0) + 2;

console.log(
  row(
    "host",
    COLUMNS.map(([name]) => name),
  ),
);
const named = process.argv.slice(2);
const hosts = soakHosts.filter(({ name }) => named.length === 0 || named.includes(name));
for (const host of hosts.filter(({ available }) => available)) {
  const soaked = await soak(host, PLAN);
  console.log(
    row(
      host.name,
      COLUMNS.map(([, cell]) => cell(soaked)),
    ),
  );
  const left = Object.entries(leftOf(soaked)).filter(([, count]) => count !== 0);
  for (const [name, count] of left) console.log(`  ${name}: ${count}`);
  if (left.length > 0 || quantile(soaked.timedMs, 0.99) > ALLOWED_MS) process.exitCode = 1;
}
