/** The benchmark of runtimes: the gateway in Bun and in Deno, each beside a bare fetch handler. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Child } from "../../trial/child.ts";
import { profiled } from "../profile.ts";
import { row, spread } from "../report.ts";
import { interleaved, type Load, type Sample, sample, type Server, warmUp } from "../sample.ts";
import { type ChatName, CHATS } from "../workload.ts";

const RUNTIMES = { bun: ["run"], deno: ["run", "--allow-all", "--unstable-no-legacy-abort"] } as const satisfies Record<
  string,
  readonly string[]
>;

type RuntimeName = keyof typeof RUNTIMES;
type Role = "bare" | "gateway";
type Contestant = `${RuntimeName} ${Role}`;
type Round = ReadonlyMap<Contestant, Sample>;

interface Plan {
  readonly rounds: number;
  readonly windowMs: number;
  /** The calls to warm up each contestant. */
  readonly warmUpCalls: Readonly<Record<ChatName, number>>;
}

const PROFILE_MS = 5_000;

const FULL: Plan = { rounds: 20, windowMs: 500, warmUpCalls: { complete: 30_000, streamed: 8_000 } };
const QUICK: Plan = { rounds: 9, windowMs: 250, warmUpCalls: { complete: 15_000, streamed: 3_000 } };

const CONNECTIONS = 50;

/** The least share of the bare handler's rate that the gateway should reach. */
const EXPECTED = {
  bun: { complete: 0.45, streamed: 0.6 },
  deno: { complete: 0.3, streamed: 0.6 },
} as const satisfies Record<RuntimeName, Record<ChatName, number>>;

export async function benchRuntimes(isQuick: boolean): Promise<void> {
  const plan = isQuick ? QUICK : FULL;
  const runtimes = (Object.keys(RUNTIMES) as RuntimeName[]).filter((name) => existsSync(commandOf(name)));
  for (const scenario of CHATS)
    if (process.argv.includes("--profile")) for (const runtime of runtimes) await profile(plan, scenario, runtime);
    else await compare(plan, scenario, runtimes);
}

async function profile(plan: Plan, scenario: ChatName, runtime: RuntimeName): Promise<void> {
  const top = await profiled(async (execArgv) => {
    await using load: Load = new Child("bench/load.ts");
    await using server = serverOf(runtime, "gateway", execArgv);
    await warmUp(server, load, scenario, plan.warmUpCalls[scenario]);
    await sample(server, load, scenario, PROFILE_MS, CONNECTIONS);
  });
  console.log(`${scenario}, ${runtime}: the gateway's self time\n${top}\n`);
}

const serverOf = (runtime: RuntimeName, role: Role, execArgv: readonly string[] = []): Server =>
  new Child("bench/runtimes/server.ts", {
    args: [role],
    execPath: commandOf(runtime),
    execArgv: [...RUNTIMES[runtime], ...execArgv],
  });

const commandOf = (runtime: RuntimeName): string =>
  fileURLToPath(new URL(`../../../node_modules/.bin/${runtime}`, import.meta.url));

async function compare(plan: Plan, scenario: ChatName, runtimes: readonly RuntimeName[]): Promise<void> {
  await using processes = new AsyncDisposableStack();
  const load: Load = processes.use(new Child("bench/load.ts"));
  const servers = new Map<Contestant, Server>();
  for (const runtime of runtimes)
    for (const role of ["bare", "gateway"] as const) {
      const server = processes.use(serverOf(runtime, role));
      await warmUp(server, load, scenario, plan.warmUpCalls[scenario]);
      servers.set(`${runtime} ${role}`, server);
    }
  const measure = (server: Server): Promise<Sample> => sample(server, load, scenario, plan.windowMs, CONNECTIONS);
  console.log(report(scenario, runtimes, await interleaved(plan.rounds, servers, measure)));
}

function report(scenario: ChatName, runtimes: readonly RuntimeName[], rounds: readonly Round[]): string {
  const title = `${scenario}, ${CONNECTIONS} connections, ${rounds.length} rounds: median (min–max)`;
  const of = (name: Contestant, field: keyof Sample) => (round: Round) => round.get(name)?.[field] ?? Number.NaN;
  const rows = runtimes.flatMap((runtime) => {
    const [bare, gateway] = [`${runtime} bare`, `${runtime} gateway`] as const;
    const figures = ([bare, gateway] as const).map((name) =>
      row(
        name,
        spread(rounds, of(name, "answersPerSecond"), 0),
        spread(rounds, of(name, "cpuMicrosPerAnswer"), 0),
        spread(rounds, of(name, "bytesPerAnswer"), 0),
      ),
    );
    // Compare within a round: a slow moment of the machine slows both.
    const ratio = row(
      `gateway / bare`,
      spread(rounds, (round) => of(gateway, "answersPerSecond")(round) / of(bare, "answersPerSecond")(round), 2),
      spread(rounds, (round) => of(bare, "cpuMicrosPerAnswer")(round) / of(gateway, "cpuMicrosPerAnswer")(round), 2),
      `at least ${EXPECTED[runtime][scenario]}`,
    );
    return [...figures, ratio];
  });
  return [title, row("", "answers/s", "CPU µs each", "bytes each"), ...rows, ""].join("\n");
}
