/** A window of load on one server: the number of answers, and the CPU time of the server. */

import type { Child } from "../trial/child.ts";
import type { LoadOrder, LoadResult } from "./load.ts";
import type { ServerState } from "./server.ts";
import type { ScenarioName } from "./workload.ts";

export type Server = Child<"state", ServerState>;
export type Load = Child<LoadOrder, LoadResult>;

/** The figures of a contestant in one window. */
export interface Sample {
  readonly answersPerSecond: number;
  readonly bytesPerAnswer: number;
  /** The CPU time of the server's process, in microseconds. */
  readonly cpuMicrosPerAnswer: number;
}

/** Warms a server up by a number of calls. A warm-up by time would be too short on a busy machine. */
export async function warmUp(server: Server, load: Load, scenario: ScenarioName, calls: number): Promise<void> {
  const { port } = await server.ask("state");
  await load.ask({ port, scenario, until: { calls } });
}

/** @param connections Default: the number in the scenario. */
export async function sample(
  server: Server,
  load: Load,
  scenario: ScenarioName,
  ms: number,
  connections?: number,
): Promise<Sample> {
  const before = await server.ask("state");
  const order: LoadOrder = { port: before.port, scenario, until: { ms } };
  const { answers, seconds, bytes } = await load.ask(connections === undefined ? order : { ...order, connections });
  const after = await server.ask("state");
  return {
    answersPerSecond: answers / seconds,
    bytesPerAnswer: bytes / answers,
    cpuMicrosPerAnswer: (after.cpuMicros - before.cpuMicros) / answers,
  };
}

/** Measures every server in each round. The order rotates, so that no server always follows the same other. */
export async function interleaved<Name, Value>(
  rounds: number,
  servers: ReadonlyMap<Name, Server>,
  measure: (server: Server, name: Name) => Promise<Value>,
): Promise<ReadonlyMap<Name, Value>[]> {
  const measured: ReadonlyMap<Name, Value>[] = [];
  const entries = [...servers];
  for (let round = 0; round < rounds; round++) {
    const values = new Map<Name, Value>();
    const first = round % entries.length;
    for (const [name, server] of [...entries.slice(first), ...entries.slice(0, first)])
      values.set(name, await measure(server, name));
    measured.push(values);
  }
  return measured;
}
