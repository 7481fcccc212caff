/** The process of a contestant: it listens on a free port of the loopback, and reports the port and its CPU time. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerParent } from "../trial/child.ts";
import { type ContestantName, CONTESTANTS } from "./contestants.ts";

export interface ServerState {
  readonly port: number;
  /** The CPU time of the process so far, in microseconds. */
  readonly cpuMicros: number;
}

const server = createServer(CONTESTANTS[process.argv[2] as ContestantName]());
const listening = once(server.listen(0, "127.0.0.1"), "listening");

answerParent(async (_question: "state"): Promise<ServerState> => {
  await listening;
  const { user, system } = process.cpuUsage();
  return { port: (server.address() as AddressInfo).port, cpuMicros: user + system };
});
