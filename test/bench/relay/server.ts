/** The process of a contestant: it listens on a free port of the loopback, and reports the port and its CPU time. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { answerParent } from "../../trial/child.ts";
import type { ServerState } from "../server.ts";
import { type RelayContestant, serverOf } from "./contestants.ts";
import { startNginx } from "./nginx.ts";

async function start(name: RelayContestant, upstream: string): Promise<() => ServerState> {
  if (name === "nginx") return startNginx(upstream);
  const server = serverOf(name, upstream);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return () => {
    const { user, system } = process.cpuUsage();
    return { port: (server.address() as AddressInfo).port, cpuMicros: user + system };
  };
}

const [name, upstream = ""] = process.argv.slice(2);
const state = start(name as RelayContestant, upstream);
answerParent(async (_question: "state"): Promise<ServerState> => (await state)());
