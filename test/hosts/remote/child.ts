/** The side of the runtime: gateways whose backend and quota live in the process of the tests. */

import { readFileSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { createGateway, type Gateway } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { type Opened, OpenedStages } from "./opened.ts";
import type { Opening } from "./opening.ts";
import { remoteOptions } from "./options.ts";
import { pack, unpack } from "./pack.ts";
import { Peer } from "./peer.ts";

/** The named pipe in which answers come that are stood still for. */
const ANSWERS = process.argv.at(-1) ?? "";

function end(): void {
  rmSync(dirname(ANSWERS), { recursive: true, force: true });
  process.exit();
}

/** How a runtime serves a gateway. */
export type Serve = (gateway: Gateway, prefix: string) => Promise<Server> | Server;

export interface Server {
  readonly port: number;
  stop(): Promise<void>;
}

interface Stage extends Opened {
  readonly server: Server;
}

/** Does as the process of the tests says, until that ends. */
export function obey(serve: Serve): void {
  const stages = new OpenedStages<Stage>();
  const peer = new Peer((line) => void process.stdout.write(line), {
    async open(id: number, opening: Opening): Promise<number> {
      const clock = opening.clockStart === undefined ? undefined : manualClock(opening.clockStart);
      const atOnce =
        (path: string) =>
        (...args: unknown[]) =>
          callAtOnce("optionAtOnce", id, path, args);
      const gateway = createGateway({ ...remoteOptions(peer.call, atOnce, id, opening), ...(clock && { clock }) });
      const server = await serve(gateway, opening.prefix);
      stages.set(id, { gateway, server, clock });
      return server.port;
    },
    stop: async (id: number) => {
      await stages.at(id).server.stop();
      stages.delete(id);
    },
    ...stages.handlers,
    sync: () => {},
  });
  process.stdout.on("error", end);
  createInterface({ input: process.stdin }).on("line", peer.receive).on("close", end);
}

/** Calls the process of the tests, and stands still until it has answered through a named pipe. */
function callAtOnce(method: string, ...args: readonly unknown[]): unknown {
  writeSync(1, `${JSON.stringify({ call: 0, method, args: pack(args) })}\n`);
  return unpack(JSON.parse(readFileSync(ANSWERS, "utf8")));
}
