/** The benchmark: the gateway beside a bare h3 and a bare node:http server, in one run, the load in a process of its own. */

import { Child } from "./child.ts";
import { type ContestantName, CONTESTANTS } from "./contestants.ts";
import { profiled } from "./profile.ts";
import { benchPeers } from "./peers/run.ts";
import { benchRelay } from "./relay/run.ts";
import { report, type Round } from "./report.ts";
import { type Load, type Sample, sample, type Server, warmUp } from "./sample.ts";
import { benchRuntimes } from "./runtimes/run.ts";
import { benchStores } from "./stores/run.ts";
import { type ScenarioName, SCENARIOS } from "./workload.ts";

/**
 * How often each contestant gets a window of time, and how long that lasts, in milliseconds. Many short
 * windows, because a small machine has slow seconds: those of one round fall into the same one.
 */
const plan = process.argv.includes("--quick")
  ? { rounds: 7, windowMs: 200, profileMs: 3_000 }
  : { rounds: 20, windowMs: 500, profileMs: 6_000 };

const NAMES = Object.keys(CONTESTANTS) as ContestantName[];

async function compare(scenario: ScenarioName): Promise<void> {
  await using processes = new AsyncDisposableStack();
  const load: Load = processes.use(new Child("load.ts"));
  const servers = new Map(NAMES.map((name) => [name, processes.use(serverOf(name))]));
  for (const server of servers.values()) await warmUp(server, load, scenario, SCENARIOS[scenario].warmUpCalls);

  const rounds: Round[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const samples: Partial<Record<ContestantName, Sample>> = {};
    // Each round begins with another one, so that none always runs in the wake of the same other.
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
    await using load: Load = new Child("load.ts");
    await using server = serverOf("gateway", execArgv);
    await warmUp(server, load, scenario, SCENARIOS[scenario].warmUpCalls);
    await sample(server, load, scenario, plan.profileMs);
  });
  console.log(`${scenario}: the gateway's self time\n${top}\n`);
}

const serverOf = (name: ContestantName, execArgv: string[] = []): Server =>
  new Child("server.ts", { args: [name], execArgv });

const others = {
  peers: benchPeers,
  relay: benchRelay,
  runtimes: benchRuntimes,
  stores: benchStores,
};
for (const [name, bench] of Object.entries(others))
  if (process.argv.includes(name)) {
    await bench(process.argv.includes("--quick"));
    process.exit();
  }
const step = process.argv.includes("--profile") ? profile : compare;
for (const scenario of Object.keys(SCENARIOS) as ScenarioName[]) await step(scenario);
