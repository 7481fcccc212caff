/** The process of a contestant: it listens on a free port of the loopback, and reports the port, its CPU time and its memory. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerParent } from "../../trial/child.ts";
import { type AgentContestant, agentListener } from "./contestants.ts";
import type { ChatFormat } from "./requests.ts";

export interface AgentServerState {
  readonly port: number;
  /** The CPU time of the process so far, in microseconds. */
  readonly cpuMicros: number;
  /** The memory in use after a collection of all garbage, in bytes. Only for the question `memory`. */
  readonly heldBytes: number;
}

const [name, upstream = "", format = "messages"] = process.argv.slice(2);
// Kept connections wait while others are measured: a server that closes one meanwhile fails the next call on it.
const server = createServer(
  { keepAliveTimeout: 0 },
  agentListener(name as AgentContestant, upstream, format as ChatFormat),
);
const listening = once(server.listen({ port: 0, host: "127.0.0.1", backlog: 4_096 }), "listening");

answerParent(async (question: "state" | "memory"): Promise<AgentServerState> => {
  await listening;
  const { user, system } = process.cpuUsage();
  const { port } = server.address() as AddressInfo;
  return { port, cpuMicros: user + system, heldBytes: question === "memory" ? await heldBytes() : 0 };
});

/** Collects twice, because finalizers of the first collection free more. */
async function heldBytes(): Promise<number> {
  for (let time = 0; time < 2; time++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
