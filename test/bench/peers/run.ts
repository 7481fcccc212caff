/** The benchmark of other gateways, all before one upstream on the loopback: calls, CPU time, added latency and memory. */

import { readFileSync } from "node:fs";
import { arch, cpus } from "node:os";
import { Child } from "../../trial/child.ts";
import { cpuMicros, hasNginx } from "../relay/nginx.ts";
import { median } from "../report.ts";
import { fetchPeer, PACKAGES, type PeerState } from "./fetched.ts";
import type { PeerOrder, PeerResult } from "./load.ts";

type Server = Child<"state", PeerState>;

interface Scenario {
  readonly name: string;
  readonly stream: boolean;
  readonly pieces: number;
}

const SCENARIOS: readonly Scenario[] = [
  { name: "complete", stream: false, pieces: 64 },
  { name: "streamed, 64 frames", stream: true, pieces: 64 },
  { name: "streamed, 2,000 frames", stream: true, pieces: 2_000 },
];
const CONNECTIONS = [1, 50, 1_000] as const;

const FULL = { rounds: 7, windowMs: 2_000, warmUpMs: 6_000 } as const;
const QUICK = { rounds: 3, windowMs: 700, warmUpMs: 2_500 } as const;

const DIRECT = "upstream";

/** The figures of a contestant in one window. */
interface Sample extends PeerResult {
  readonly cpuMicros: number;
}

export async function benchPeers(isQuick: boolean): Promise<void> {
  const { rounds, windowMs, warmUpMs } = isQuick ? QUICK : FULL;
  const names = await contestants();
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? arch()}; upstream, load and contestant share it.\n`,
  );
  for (const scenario of SCENARIOS) {
    await using processes = new AsyncDisposableStack();
    const load = processes.use(new Child<PeerOrder, PeerResult>("bench/peers/load.ts"));
    const states = new Map<string, PeerState>();
    for (const name of names) {
      const server: Server = processes.use(
        new Child("bench/peers/server.ts", { args: [name, originOf(states.get(DIRECT))] }),
      );
      states.set(name, await server.ask("state"));
    }
    const upstream = originOf(states.get(DIRECT));
    const { stream, pieces } = scenario;
    const ask = async ({ port, pid }: PeerState, connections: number, ms: number): Promise<Sample> => {
      const before = cpuMicros(pid);
      const result = await load.ask({ port, upstream, stream, pieces, connections, ms });
      return { ...result, cpuMicros: cpuMicros(pid) - before };
    };
    for (const state of states.values()) await ask(state, 50, warmUpMs);
    for (const connections of CONNECTIONS) {
      const samples = new Map<string, Sample[]>(names.map((name) => [name, []]));
      const order = [...states];
      for (let round = 0; round < rounds; round++) {
        const first = round % order.length;
        for (const [name, state] of [...order.slice(first), ...order.slice(0, first)])
          samples.get(name)?.push(await ask(state, connections, windowMs));
      }
      console.log(tableOf(`${scenario.name}, ${connections} connections, ${rounds} rounds: medians`, samples, states));
    }
  }
}

/** Returns the available contestants, the upstream first, and prints the missing ones. */
async function contestants(): Promise<string[]> {
  const names = [DIRECT, "polygate", "undici proxy"];
  if (hasNginx()) names.push("nginx");
  else console.log("nginx: skipped, it is not installed here.");
  for (const name of Object.keys(PACKAGES) as (keyof typeof PACKAGES)[]) {
    const missing = (await fetchPeer(name)) ?? (name === "Portkey" ? undefined : "nothing here knows how to start it");
    if (missing === undefined) names.push(name);
    else console.log(`${name}: skipped, ${missing}.`);
  }
  return names;
}

const originOf = (state: PeerState | undefined): string => `http://127.0.0.1:${state?.port ?? 0}`;

const HEADER = ["", "calls/s", "CPU µs a call", "added ms, median", "added ms, 99th", "MiB", "failed"];

function tableOf(
  title: string,
  samples: ReadonlyMap<string, readonly Sample[]>,
  states: ReadonlyMap<string, PeerState>,
): string {
  const direct = samples.get(DIRECT) ?? [];
  const rows = [...samples].map(([name, own]) => {
    const of = (measure: (sample: Sample, round: number) => number): number => median(own.map(measure));
    // Compare with the upstream within a round: a slow moment of the machine slows both.
    const added = (field: "medianMs" | "p99Ms"): string =>
      name === DIRECT ? "" : of((sample, round) => sample[field] - (direct[round]?.[field] ?? Number.NaN)).toFixed(2);
    const failed = String(own.reduce((sum, { failures }) => sum + failures, 0));
    const memory = residentMebibytes(states.get(name)?.pid).toFixed(0);
    if (own.every(({ answers }) => answers === 0)) return [name, "none", "", "", "", memory, failed];
    return [
      name,
      of(({ answers, seconds }) => answers / seconds).toFixed(0),
      of((sample) => sample.cpuMicros / sample.answers).toFixed(0),
      added("medianMs"),
      added("p99Ms"),
      memory,
      failed,
    ];
  });
  return [title, ...[HEADER, ...rows].map(line), ""].join("\n");
}

const line = ([name = "", ...cells]: readonly string[]): string =>
  `  ${name.padEnd(14)}${cells.map((cell) => cell.padStart(18)).join("")}`;

/** Returns the resident memory of a process in MiB. */
const residentMebibytes = (pid: number | undefined): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
