/**
 * The benchmark of an agent's call: tools and a hundred turns, answered by a stream of 300 frames with a tool call. It compares the relay
 * with proxies before the same upstream, and the gateway with bare h3, by CPU time, delay of the first text and memory. A name behind
 * `agent` runs the tables or rows with this name: `npm run bench -- agent messages streamed`.
 */

import { Child } from "../../trial/child.ts";
import type { BenchOptions } from "../options.ts";
import { profiled } from "../profile.ts";
import { spread } from "../report.ts";
import type { AgentContestant } from "./contestants.ts";
import type { AgentOrder, AgentResult } from "./load.ts";
import { type AgentBody, CHAT_FORMATS, type ChatFormat } from "./requests.ts";
import type { AgentServerState } from "./server.ts";

interface Plan {
  readonly rounds: number;
  readonly windowMs: number;
  readonly profileMs: number;
  /** The calls that warm up a contestant, for a call of 100 KB. */
  readonly warmUpCalls: number;
  readonly timedCalls: number;
  /** The idle streams in one process. */
  readonly idle: readonly number[];
  readonly largestKilobytes: number;
}

const FULL: Plan = {
  rounds: 15,
  windowMs: 500,
  profileMs: 8_000,
  warmUpCalls: 2_000,
  timedCalls: 50,
  idle: [1_000, 10_000],
  largestKilobytes: 10_000,
};
const QUICK: Plan = {
  rounds: 5,
  windowMs: 250,
  profileMs: 4_000,
  warmUpCalls: 500,
  timedCalls: 20,
  idle: [1_000],
  largestKilobytes: 1_000,
};

type Server = Child<"state" | "memory", AgentServerState>;
type Load = Child<AgentOrder, AgentResult>;

interface Row {
  readonly name: string;
  /** The caller's format, and the upstream's. */
  readonly format: ChatFormat;
  readonly upstream: ChatFormat;
  readonly body: AgentBody;
}

interface Table {
  readonly title: string;
  /** The contestant to measure comes last; its ratios to the others are told. */
  readonly contestants: readonly AgentContestant[];
  readonly rows: readonly Row[];
}

const AGENT: AgentBody = { kilobytes: 100, isStreamed: true, frames: 300 };

const rowOf = (format: ChatFormat, upstream: ChatFormat, changes: Partial<AgentBody> = {}): Row => {
  const body = { ...AGENT, ...changes };
  const pair = format === upstream ? format : `${format} → ${upstream}`;
  const name = `${pair}, ${body.isStreamed ? "streamed" : "complete"}, ${body.kilobytes} KB, ${body.frames} frames`;
  return { name, format, upstream, body };
};

const PAIRS = [
  ...CHAT_FORMATS.map((format) => [format, format] as const),
  ["messages", "chat-completions"],
  ["chat-completions", "messages"],
] as const;

const PROXIES: readonly AgentContestant[] = ["undici proxy", "fetch proxy", "relay"];
const SIZES = [10, 100, 1_000];

const tablesOf = (plan: Plan): readonly Table[] => [
  {
    title: "calls",
    contestants: PROXIES,
    rows: PAIRS.flatMap(([format, upstream]) =>
      [true, false].map((isStreamed) => rowOf(format, upstream, { isStreamed })),
    ),
  },
  {
    title: "bodies",
    contestants: PROXIES,
    rows: SIZES.map((kilobytes) => rowOf("messages", "messages", { kilobytes })),
  },
  {
    title: "first calls",
    contestants: ["undici proxy", "fetch proxy", "forgetful relay"],
    rows: SIZES.map((kilobytes) => rowOf("messages", "messages", { kilobytes })),
  },
  {
    title: "frames",
    contestants: PROXIES,
    rows: [30, 300, 3_000].map((frames) => rowOf("messages", "messages", { kilobytes: 10, frames })),
  },
  {
    title: "without an upstream",
    contestants: ["bare h3", "gateway"],
    rows: [1, ...SIZES, 10_000]
      .filter((kilobytes) => kilobytes <= plan.largestKilobytes)
      .map((kilobytes) => rowOf("messages", "messages", { kilobytes, isStreamed: false, frames: 1 })),
  },
];

/** Starts the contestants, and the upstream where one of them needs it. */
async function started(
  processes: AsyncDisposableStack,
  names: readonly AgentContestant[],
  format: ChatFormat,
  execArgv: Readonly<Partial<Record<AgentContestant, string[]>>> = {},
): Promise<ReadonlyMap<AgentContestant, Server>> {
  const start = (name: AgentContestant, upstream = ""): Server =>
    processes.use(
      new Child("bench/agent/server.ts", {
        args: [name, upstream, format],
        execArgv: ["--expose-gc", ...(execArgv[name] ?? [])],
      }),
    );
  const upstream = names.some((name) => name.endsWith("relay")) ? start("upstream") : undefined;
  const address = upstream && `http://127.0.0.1:${(await upstream.ask("state")).port}`;
  const servers = new Map<AgentContestant, Server>();
  for (const name of names) servers.set(name, name === "upstream" && upstream ? upstream : start(name, address));
  return servers;
}

/** Warms up with fewer of the larger bodies: each runs the same code more often. */
const warmUpCallsOf = ({ warmUpCalls }: Plan, { kilobytes, frames }: AgentBody): number =>
  Math.max(20, Math.round((warmUpCalls * 400) / Math.max(kilobytes + frames, 200)));

/** Returns the CPU time of a call, in microseconds. */
async function sample(server: Server, load: Load, { format, body }: Row, ms: number): Promise<number> {
  const { port, cpuMicros } = await server.ask("state");
  const { answers } = await load.ask({ port, format, body, task: { until: { ms } } });
  const after = await server.ask("state");
  return (after.cpuMicros - cpuMicros) / answers;
}

/** Measures all contestants in each round. The order rotates, so that none always follows the same other. */
async function rounds<Value>(
  count: number,
  servers: ReadonlyMap<AgentContestant, Server>,
  measure: (server: Server) => Promise<Value>,
): Promise<readonly ReadonlyMap<AgentContestant, Value>[]> {
  const measured: ReadonlyMap<AgentContestant, Value>[] = [];
  const entries = [...servers];
  for (let round = 0; round < count; round++) {
    const values = new Map<AgentContestant, Value>();
    const first = round % entries.length;
    for (const [name, server] of [...entries.slice(first), ...entries.slice(0, first)])
      values.set(name, await measure(server));
    measured.push(values);
  }
  return measured;
}

const of = (round: ReadonlyMap<AgentContestant, number>, name: AgentContestant): number =>
  round.get(name) ?? Number.NaN;

const cells = (name: string, values: readonly string[]): string =>
  `  ${name.padEnd(58)}${values.map((value) => value.padStart(22)).join("")}`;

const heading = (title: string, columns: readonly string[], note: string): void =>
  console.log(`${title}: ${note}\n${cells("", columns)}`);

async function compare(plan: Plan, { title, contestants, rows }: Table): Promise<void> {
  const [measured, others] = [contestants.at(-1) ?? "relay", contestants.slice(0, -1)];
  const columns = [...contestants.map((name) => `${name}, µs`), ...others.map((name) => `${name} / ${measured}`)];
  heading(title, columns, `CPU µs a call, and ratios within a round; ${plan.rounds} rounds, median (min–max)`);
  for (const upstream of new Set(rows.map((row) => row.upstream))) {
    await using processes = new AsyncDisposableStack();
    const servers = await started(processes, contestants, upstream);
    const load: Load = processes.use(new Child("bench/agent/load.ts"));
    for (const row of rows.filter((each) => each.upstream === upstream)) {
      for (const server of servers.values()) {
        const { port } = await server.ask("state");
        const calls = warmUpCallsOf(plan, row.body);
        await load.ask({ port, format: row.format, body: row.body, task: { until: { calls } } });
      }
      const samples = await rounds(plan.rounds, servers, (server) => sample(server, load, row, plan.windowMs));
      console.log(
        cells(row.name, [
          ...contestants.map((name) => spread(samples, (round) => of(round, name), 0)),
          ...others.map((name) => spread(samples, (round) => of(round, name) / of(round, measured), 2)),
        ]),
      );
    }
  }
  console.log();
}

/** The delay that each contestant adds to the upstream's first text, one call after the other. */
async function compareFirstText(plan: Plan): Promise<void> {
  const names = ["upstream", ...PROXIES] as const;
  heading(
    "first text",
    ["upstream, ms", ...PROXIES.map((name) => `${name}, ms more`)],
    "one call at a time, median (min–max)",
  );
  await using processes = new AsyncDisposableStack();
  const servers = await started(processes, names, "messages");
  const load: Load = processes.use(new Child("bench/agent/load.ts"));
  for (const { name, format, body } of SIZES.map((kilobytes) => rowOf("messages", "messages", { kilobytes }))) {
    const ask = async (server: Server, task: AgentOrder["task"]): Promise<AgentResult> =>
      load.ask({ port: (await server.ask("state")).port, format, body, task });
    for (const server of servers.values()) await ask(server, { until: { calls: warmUpCallsOf(plan, body) } });
    const times = await rounds(plan.rounds, servers, async (server) => {
      const { firstTextMs } = await ask(server, { timedCalls: plan.timedCalls });
      return firstTextMs;
    });
    console.log(
      cells(name, [
        spread(times, (round) => of(round, "upstream"), 2),
        ...PROXIES.map((which) => spread(times, (round) => of(round, which) - of(round, "upstream"), 2)),
      ]),
    );
  }
  console.log();
}

/** The calls that are held open to measure the memory of one. */
const HELD_CALLS = 100;

/** The memory of a call whose stream is open: heap and buffers, after a collection of all garbage. */
async function compareMemory(plan: Plan): Promise<void> {
  const held = { isHeld: true } as const;
  const rows = [
    ...SIZES.map((kilobytes) => ({ contestants: PROXIES, streams: HELD_CALLS, kilobytes })),
    ...plan.idle.map((streams) => ({ contestants: ["bare h3", "gateway"] as const, streams, kilobytes: 1 })),
  ];
  heading("memory", [], "KB of heap and buffers for each open stream");
  for (const { contestants, streams, kilobytes } of rows) {
    await using processes = new AsyncDisposableStack();
    const servers = await started(processes, contestants, "messages");
    const load: Load = processes.use(new Child("bench/agent/load.ts"));
    const { format, body } = rowOf("messages", "messages", { kilobytes, ...held });
    const values = new Map<AgentContestant, number>();
    for (const [name, server] of servers) {
      const hold = async (open: number): Promise<void> =>
        void (await load.ask({ port: (await server.ask("state")).port, format, body, task: { open } }));
      // The first streams load and compile what all need.
      await hold(20);
      await hold(0);
      const before = await server.ask("memory");
      await hold(streams);
      const after = await server.ask("memory");
      await hold(0);
      values.set(name, (after.heldBytes - before.heldBytes) / streams / 1_000);
    }
    const told = [...values].map(([name, value]) => `${name} ${value.toFixed(1)}`);
    const [measured = Number.NaN, least = Number.NaN] = [[...values.values()].at(-1), [...values.values()][0]];
    console.log(
      `  ${`${streams} streams, ${kilobytes} KB`.padEnd(28)}${told.join("   ")}   ratio to ${contestants[0]} ${(measured / least).toFixed(2)}`,
    );
  }
  console.log();
}

async function profile(plan: Plan, { title, contestants, rows }: Table): Promise<void> {
  const measured = contestants.at(-1) ?? "relay";
  for (const row of rows) {
    const top = await profiled(async (execArgv) => {
      await using processes = new AsyncDisposableStack();
      const servers = await started(processes, [measured], row.upstream, { [measured]: execArgv });
      const load: Load = processes.use(new Child("bench/agent/load.ts"));
      const server = servers.get(measured);
      if (server) await sample(server, load, row, plan.profileMs);
    });
    console.log(`${title}, ${row.name}: the self time of ${measured}\n${top}\n`);
  }
}

export async function benchAgent({ isQuick, isProfile, only }: BenchOptions): Promise<void> {
  const plan = isQuick ? QUICK : FULL;
  const isChosen = (name: string): boolean => only.every((word) => name.includes(word));
  for (const table of tablesOf(plan)) {
    const rows = table.rows.filter(({ name }) => isChosen(`${table.title}, ${name}`));
    if (rows.length > 0) await (isProfile ? profile : compare)(plan, { ...table, rows });
  }
  if (isProfile) return;
  if (isChosen("first text")) await compareFirstText(plan);
  if (isChosen("memory")) await compareMemory(plan);
}
