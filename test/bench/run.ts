/**
 * `npm run bench`: compares the gateway with a bare h3 server and a bare `node:http` server. `npm run bench -- NAME` runs one of the other
 * benchmarks. `--quick` takes fewer and shorter samples; `--profile` lists the functions that take the gateway's time.
 */

import process from "node:process";
import { parseArgs } from "node:util";
import { Child } from "../trial/child.ts";
import { benchAgent } from "./agent/run.ts";
import { type ContestantName, CONTESTANTS } from "./contestants.ts";
import type { BenchOptions } from "./options.ts";
import { benchPeers } from "./peers/run.ts";
import { profiled } from "./profile.ts";
import { benchRelay } from "./relay/run.ts";
import { report, type Round } from "./report.ts";
import { benchRuntimes } from "./runtimes/run.ts";
import { type Load, type Sample, sample, type Server, warmUp } from "./sample.ts";
import { benchStart } from "./start/run.ts";
import { benchStores } from "./stores/run.ts";
import { benchUploads } from "./uploads/run.ts";
import { type ScenarioName, SCENARIOS } from "./workload.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, profile: { type: "boolean", default: false } },
});

/**
 * The rounds, and the time of each contestant in a round, in milliseconds. The windows are short and many, because a small machine has slow
 * seconds: a slow second then slows all contestants of a round.
 */
const plan = values.quick
  ? { rounds: 7, windowMs: 200, profileMs: 3_000 }
  : { rounds: 20, windowMs: 500, profileMs: 6_000 };

const NAMES = Object.keys(CONTESTANTS) as ContestantName[];

async function compare(scenario: ScenarioName): Promise<void> {
  await using processes = new AsyncDisposableStack();
  const load: Load = processes.use(new Child("bench/load.ts"));
  const servers = new Map(NAMES.map((name) => [name, processes.use(serverOf(name))]));
  for (const server of servers.values()) await warmUp(server, load, scenario, SCENARIOS[scenario].warmUpCalls);

  const rounds: Round[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const samples: Partial<Record<ContestantName, Sample>> = {};
    // Rotate the order, so that no contestant always follows the same other.
    const order = NAMES.map((_, index) => NAMES[(index + round) % NAMES.length] ?? "gateway");
    for (const name of order) {
      const server = servers.get(name);
      if (server) samples[name] = await sample(server, load, scenario, plan.windowMs);
    }
    rounds.push(samples as Round);
  }
  console.log(report(scenario, rounds));
}

async function profile(scenario: ScenarioName): Promise<void> {
  const top = await profiled(async (execArgv) => {
    await using load: Load = new Child("bench/load.ts");
    await using server = serverOf("gateway", execArgv);
    await warmUp(server, load, scenario, SCENARIOS[scenario].warmUpCalls);
    await sample(server, load, scenario, plan.profileMs);
  });
  console.log(`${scenario}: the gateway's self time\n${top}\n`);
}

const serverOf = (name: ContestantName, execArgv: string[] = []): Server =>
  new Child("bench/server.ts", { args: [name], execArgv });

const OTHERS: Readonly<Record<string, (options: BenchOptions) => Promise<void>>> = {
  agent: benchAgent,
  relay: ({ isQuick }) => benchRelay(isQuick),
  runtimes: ({ isQuick }) => benchRuntimes(isQuick),
  start: benchStart,
  stores: ({ isQuick }) => benchStores(isQuick),
  uploads: benchUploads,
  peers: ({ isQuick }) => benchPeers(isQuick),
};

const [name, ...only] = positionals;
const bench = name === undefined ? undefined : OTHERS[name];
if (bench) {
  await bench({ isQuick: values.quick, isProfile: values.profile, only });
  process.exit();
}
if (name !== undefined) {
  console.error(`There is no benchmark "${name}". There are ${Object.keys(OTHERS).join(", ")}.`);
  process.exit(2);
}
const step = values.profile ? profile : compare;
for (const scenario of Object.keys(SCENARIOS) as ScenarioName[]) await step(scenario);
