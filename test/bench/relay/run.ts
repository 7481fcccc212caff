/** The relay's benchmark: an upstream asked directly, through the gateway, and through a plain proxy over the built-in fetch. */

import { Child } from "../child.ts";
import type { LoadOrder, LoadResult } from "../load.ts";
import { median, row, spread } from "../report.ts";
import type { ServerState } from "../server.ts";
import { type ScenarioName, SCENARIOS } from "../workload.ts";
import { RELAY_CONTESTANTS, type RelayContestant } from "./contestants.ts";
import type { FirstTokenOrder } from "./first-token.ts";

type Server = Child<"state", ServerState>;

interface Plan {
  readonly rounds: number;
  readonly windowMs: number;
  /** By how many calls each contestant is warmed up: a slow machine takes its time. */
  readonly warmUpCalls: number;
  /** How many calls are timed one by one in each round. */
  readonly timedCalls: number;
}

const FULL: Plan = { rounds: 20, windowMs: 500, warmUpCalls: 5_000, timedCalls: 100 };
const QUICK: Plan = { rounds: 7, windowMs: 250, warmUpCalls: 2_000, timedCalls: 50 };

type Round<Value> = Readonly<Record<RelayContestant, Value>>;

export async function benchRelay(isQuick: boolean): Promise<void> {
  const plan = isQuick ? QUICK : FULL;
  await using processes = new AsyncDisposableStack();
  const direct: Server = processes.use(new Child("relay/server.ts", { args: ["direct"] }));
  const upstream = `http://127.0.0.1:${(await direct.ask("state")).port}`;
  const open = (name: RelayContestant): Server =>
    name === "direct" ? direct : processes.use(new Child("relay/server.ts", { args: [name, upstream] }));
  const ports = new Map<RelayContestant, number>();
  for (const name of RELAY_CONTESTANTS) ports.set(name, (await open(name).ask("state")).port);
  const portOf = (name: RelayContestant): number => ports.get(name) ?? 0;

  for (const scenario of Object.keys(SCENARIOS) as ScenarioName[]) {
    const load = processes.use(new Child<LoadOrder, LoadResult>("load.ts"));
    const warmUp = async (name: RelayContestant): Promise<void> => {
      for (let calls = 0; calls < plan.warmUpCalls;)
        calls += (await load.ask({ port: portOf(name), scenario, until: { ms: plan.windowMs } })).answers;
    };
    const rate = async (name: RelayContestant, ms: number): Promise<number> => {
      const { answers, seconds } = await load.ask({ port: portOf(name), scenario, until: { ms } });
      return answers / seconds;
    };
    for (const name of RELAY_CONTESTANTS) await warmUp(name);
    const rounds = await interleaved(plan.rounds, (name) => rate(name, plan.windowMs));
    console.log(ratesOf(scenario, rounds));
  }
  const timer = processes.use(new Child<FirstTokenOrder, readonly number[]>("relay/first-token.ts"));
  const time = async (name: RelayContestant): Promise<number> =>
    median(await timer.ask({ port: portOf(name), calls: plan.timedCalls }));
  for (const name of RELAY_CONTESTANTS) await time(name);
  console.log(latencyOf(await interleaved(plan.rounds, time)));
}

/** Each round begins with another contestant, so that none always runs in the wake of the same other. */
async function interleaved<Value>(
  rounds: number,
  measure: (name: RelayContestant) => Promise<Value>,
): Promise<Round<Value>[]> {
  const measured: Round<Value>[] = [];
  for (let round = 0; round < rounds; round++) {
    const values: Partial<Record<RelayContestant, Value>> = {};
    for (let turn = 0; turn < RELAY_CONTESTANTS.length; turn++) {
      const name = RELAY_CONTESTANTS[(turn + round) % RELAY_CONTESTANTS.length] ?? "direct";
      values[name] = await measure(name);
    }
    measured.push(values as Round<Value>);
  }
  return measured;
}

function ratesOf(scenario: ScenarioName, rounds: readonly Round<number>[]): string {
  const title = `${scenario}, ${SCENARIOS[scenario].connections} connections, ${rounds.length} rounds: median (min–max)`;
  const rates = RELAY_CONTESTANTS.map((name) =>
    row(
      name,
      spread(rounds, (round) => round[name], 0),
    ),
  );
  const ratio = (one: RelayContestant, other: RelayContestant): string =>
    row(
      `${one} / ${other}`,
      spread(rounds, (round) => round[one] / round[other], 2),
    );
  return [
    title,
    ...rates,
    ratio("relay", "direct"),
    ratio("relay", "fetch proxy"),
    ratio("undici proxy", "fetch proxy"),
    "",
  ].join("\n");
}

function latencyOf(rounds: readonly Round<number>[]): string {
  const title = `time to the first piece of text, one call at a time, ${rounds.length} rounds, in ms: median (min–max)`;
  const times = RELAY_CONTESTANTS.map((name) =>
    row(
      name,
      spread(rounds, (round) => round[name], 3),
    ),
  );
  const added = (name: RelayContestant): string =>
    row(
      `added by ${name}`,
      spread(rounds, (round) => round[name] - round.direct, 3),
    );
  return [title, ...times, added("relay"), added("fetch proxy"), added("undici proxy"), ""].join("\n");
}
