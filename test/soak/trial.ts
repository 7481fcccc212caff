/** The soak and crowd trials: the full plans, the limits, and the tables. */

import type { Row, Trial } from "../trial/frame.ts";
import { crowd, crowdLeftOf, type CrowdPlan } from "./crowd.ts";
import { leftOf, type Plan, soak, type Soaked } from "./soak.ts";
import { handlesIn, type SoakHost, soakHosts } from "./subject.ts";

const PLAN: Plan = {
  warmUp: { completions: 4_000, hangUps: 2_000 },
  completions: 100_000,
  hangUps: 10_000,
  timed: 1_200,
};

/** The crowd of a busy day. */
const CROWD: Omit<CrowdPlan, "goesOn" | "seed"> = {
  sockets: 10_000,
  idle: 5_000,
  unread: 500,
  uploads: 16,
  // An image must be smaller than 25 MiB.
  uploadBytes: 25 * 2 ** 20 - 1,
  completions: 1_000,
  replaced: 100,
  warmUpRounds: 2,
};

/** The most time from a hang-up to its signal for 99 in 100 calls, in milliseconds. */
const ALLOWED_MS = 50;

export const soakTrial: Trial<SoakHost> = {
  name: "soak",
  does: "Puts every host under 100,000 calls and 10,000 hang-ups, and counts what is left.",
  flags: {},
  subjects: soakHosts,
  async run(host) {
    const soaked = await soak(host, PLAN);
    const { timedMs, delaysMs } = soaked;
    const slowSignalMs = Math.max(0, Math.ceil(quantile(timedMs, 0.99) - ALLOWED_MS));
    const row = {
      ...rowOf(host, soaked),
      "p50 ms": quantile(timedMs, 0.5).toFixed(1),
      "p99 ms": quantile(timedMs, 0.99).toFixed(1),
      "max ms": quantile(timedMs, 1).toFixed(1),
      // The slowest signal when 90 clients hang up in the same turn.
      "max of 90 ms": quantile(delaysMs, 1).toFixed(1),
    };
    return { rows: [row], problems: problemsIn({ ...leftOf(soaked), slowSignalMs }) };
  },
};

export const crowdTrial: Trial<SoakHost, { readonly minutes: number; readonly seed: number }> = {
  name: "crowd",
  does: "Holds 10,000 quiet WebSockets, 5,000 idle streams and 500 unread ones at a host, beside large uploads and mixed traffic.",
  flags: { minutes: 10, seed: 1 },
  subjects: soakHosts,
  usual: ["node"],
  async run(host, { minutes, seed }) {
    let begin: number | undefined;
    // Makes two rounds at least: the memory of the rounds is compared.
    const goesOn = (rounds: number): boolean =>
      rounds < 2 || performance.now() - (begin ??= performance.now()) < minutes * 60_000;
    const crowded = await crowd(host, { ...CROWD, goesOn, seed });
    const { rounds, uploads, cutUnread, before, after, standing, socketBytes } = crowded;
    const row = {
      ...rowOf(host, crowded),
      rounds,
      uploads,
      dropped: cutUnread,
      "KiB a socket": (socketBytes / 1024).toFixed(1),
      "buffers MiB": `${inMib(before.bufferBytes)} → ${inMib(after.bufferBytes)}`,
      "heap in crowd MiB": `${inMib(standing[0]?.heapBytes ?? 0)} → ${inMib(standing.at(-1)?.heapBytes ?? 0)}`,
    };
    return { rows: [row], problems: problemsIn(crowdLeftOf(crowded)) };
  },
};

function rowOf({ name }: SoakHost, soaked: Soaked): Row {
  const { completions, hangUps, falseAborts, before, after } = soaked;
  return {
    host: name,
    completions,
    "false aborts": falseAborts.length,
    "hang-ups": hangUps,
    "live holds": leftOf(soaked).liveHolds,
    // A runtime that lists no handles counts its sockets as files.
    handles: `${handlesIn(before)} → ${handlesIn(after)}`,
    files: `${before.files ?? "?"} → ${after.files ?? "?"}`,
    "heap MiB": `${inMib(before.heapBytes)} → ${inMib(after.heapBytes)}`,
  };
}

const problemsIn = (left: object): string[] =>
  Object.entries(left).flatMap(([name, count]) => (count === 0 ? [] : [`${name}: ${count}`]));

const inMib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
