/** The process of one contestant. It listens on a free port of the loopback, and tells it and the time that it has computed. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { answerParent } from "../child.ts";
import type { ServerState } from "../server.ts";
import { type RelayContestant, serverOf } from "./contestants.ts";

const [name, upstream = ""] = process.argv.slice(2);
const server = serverOf(name as RelayContestant, upstream);
const listening = once(server.listen(0, "127.0.0.1"), "listening");

answerParent(async (_question: "state"): Promise<ServerState> => {
  await listening;
  const { user, system } = process.cpuUsage();
  return { port: (server.address() as AddressInfo).port, cpuMicros: user + system };
});
