/** The benchmark of the relay: an upstream called directly, through the gateway, plain proxies, and nginx where it is installed. */

import { Child } from "../../trial/child.ts";
import { median, row, spread } from "../report.ts";
import { interleaved, type Load, type Sample, sample, type Server, warmUp } from "../sample.ts";
import { type ChatName, CHATS, SCENARIOS } from "../workload.ts";
import type { Pace, RelayContestant } from "./contestants.ts";
import type { FirstTokenOrder } from "./first-token.ts";
import { hasNginx } from "./nginx.ts";

interface Plan {
  readonly rounds: number;
  readonly windowMs: number;
  /** The calls to warm up each contestant. A contestant with more code needs more calls until all of it is compiled. */
  readonly warmUpCalls: Readonly<Record<ChatName, number>>;
  /** The calls of each round that are timed one by one. */
  readonly timedCalls: number;
}

const FULL: Plan = {
  rounds: 20,
  windowMs: 500,
  warmUpCalls: { complete: 30_000, streamed: 12_000 },
  timedCalls: 100,
};
const QUICK: Plan = { rounds: 7, windowMs: 250, warmUpCalls: { complete: 5_000, streamed: 2_000 }, timedCalls: 50 };

const HAS_NGINX = hasNginx();

const NODES = ["direct", "relay", "fetch proxy", "undici proxy"] as const;
const NAMES: readonly RelayContestant[] = HAS_NGINX ? [...NODES, "nginx"] : NODES;

/** The pairs to compare. */
const RATIOS: readonly (readonly [RelayContestant, RelayContestant])[] = [
  ["relay", "direct"],
  ["relay", "fetch proxy"],
  ["relay", "undici proxy"],
  ["undici proxy", "direct"],
  ["undici proxy", "fetch proxy"],
  ...(HAS_NGINX ? [["relay", "nginx"] as const] : []),
];

type Round<Value> = ReadonlyMap<RelayContestant, Value>;
type Servers = ReadonlyMap<RelayContestant, Server>;

export async function benchRelay(isQuick: boolean): Promise<void> {
  const plan = isQuick ? QUICK : FULL;
  for (const scenario of CHATS) await compareLoad(plan, scenario);
  await compareFirstToken(plan);
}

async function compareLoad(plan: Plan, scenario: ChatName): Promise<void> {
  await using processes = new AsyncDisposableStack();
  const servers = await started(processes, "at once");
  const load: Load = processes.use(new Child("bench/load.ts"));
  for (const server of servers.values()) await warmUp(server, load, scenario, plan.warmUpCalls[scenario]);
  const measure = (server: Server): Promise<Sample> => sample(server, load, scenario, plan.windowMs);
  console.log(ratesOf(scenario, await interleaved(plan.rounds, servers, measure)));
}

/** Compares the delay of the first text with the upstream itself, one call after the other. */
async function compareFirstToken(plan: Plan): Promise<void> {
  await using processes = new AsyncDisposableStack();
  const servers = await started(processes, "paced");
  const load: Load = processes.use(new Child("bench/load.ts"));
  for (const server of servers.values()) await warmUp(server, load, "streamed", plan.warmUpCalls.streamed);
  const timer = processes.use(new Child<FirstTokenOrder, readonly number[]>("bench/relay/first-token.ts"));
  const time = async (server: Server): Promise<number> =>
    median(await timer.ask({ port: (await server.ask("state")).port, calls: plan.timedCalls }));
  for (const server of servers.values()) await time(server);
  console.log(latencyOf(await interleaved(plan.rounds, servers, time)));
}

/** Starts the upstream and all contestants before it, each in a process of its own. */
async function started(processes: AsyncDisposableStack, pace: Pace): Promise<Servers> {
  const direct: Server = processes.use(new Child("bench/relay/server.ts", { args: ["direct", pace] }));
  const upstream = `http://127.0.0.1:${(await direct.ask("state")).port}`;
  const before = (name: RelayContestant): Server =>
    name === "direct" ? direct : processes.use(new Child("bench/relay/server.ts", { args: [name, upstream] }));
  return new Map(NAMES.map((name) => [name, before(name)]));
}

/**
 * Tables calls a second and CPU time. Upstream, contestant and load share the machine: on a machine with fewer than three cores, the calls
 * a second depend on the cores, and only the CPU time shows the cost of a contestant.
 */
function ratesOf(scenario: ChatName, rounds: readonly Round<Sample>[]): string {
  const title = `${scenario}, ${SCENARIOS[scenario].connections} connections, ${rounds.length} rounds: median (min–max)`;
  const [calls, cpu] = [rounds.map(each("answersPerSecond")), rounds.map(each("cpuMicrosPerAnswer"))];
  const rows = NAMES.map((name) =>
    row(
      name,
      spread(calls, (of) => of(name), 0),
      spread(cpu, (of) => of(name), 0),
    ),
  );
  const ratios = RATIOS.map(([one, other]) =>
    row(
      `${one} / ${other}`,
      spread(calls, (of) => of(one) / of(other), 2),
      spread(cpu, (of) => of(other) / of(one), 2),
    ),
  );
  return [title, row("", "calls/s", "CPU µs each"), ...rows, ...ratios, ""].join("\n");
}

const each =
  (field: keyof Sample) =>
  (round: Round<Sample>) =>
  (name: RelayContestant): number =>
    round.get(name)?.[field] ?? Number.NaN;

function latencyOf(rounds: readonly Round<number>[]): string {
  const title = `time to the first piece of text, one call at a time, ${rounds.length} rounds, in ms: median (min–max)`;
  const of = (round: Round<number>, name: RelayContestant): number => round.get(name) ?? Number.NaN;
  const rows = NAMES.map((name) =>
    row(
      name,
      spread(rounds, (round) => of(round, name), 3),
      name === "direct" ? "" : spread(rounds, (round) => of(round, name) - of(round, "direct"), 3),
    ),
  );
  return [title, row("", "ms", "added"), ...rows, ""].join("\n");
}
