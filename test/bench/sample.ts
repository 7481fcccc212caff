/** One window of load on one server: what was answered, and what that took of the server's processor. */

import type { Child } from "./child.ts";
import type { LoadOrder, LoadResult } from "./load.ts";
import type { ServerState } from "./server.ts";
import type { ScenarioName } from "./workload.ts";

export type Server = Child<"state", ServerState>;
export type Load = Child<LoadOrder, LoadResult>;

/** What one contestant did in one window of time. */
export interface Sample {
  readonly answersPerSecond: number;
  readonly bytesPerAnswer: number;
  /** Of the server's process, in microseconds. */
  readonly cpuMicrosPerAnswer: number;
}

/** By calls and not by time: a busy machine would measure code that is not compiled yet. */
export async function warmUp(server: Server, load: Load, scenario: ScenarioName, calls: number): Promise<void> {
  const { port } = await server.ask("state");
  await load.ask({ port, scenario, until: { calls } });
}

export async function sample(server: Server, load: Load, scenario: ScenarioName, ms: number): Promise<Sample> {
  const before = await server.ask("state");
  const { answers, seconds, bytes } = await load.ask({ port: before.port, scenario, until: { ms } });
  const after = await server.ask("state");
  return {
    answersPerSecond: answers / seconds,
    bytesPerAnswer: bytes / answers,
    cpuMicrosPerAnswer: (after.cpuMicros - before.cpuMicros) / answers,
  };
}
