/** The side of the runtime: gateways whose backend and quota live in the process of the tests. */

import { readFileSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import {
  type CallContext,
  createGateway,
  type Gateway,
  type GatewayOptions,
  type ModelBackend,
  type QuotaStore,
} from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../contracts/manual-clock.ts";
import { ownAnswer } from "../host.ts";
import type { Generator, Opening, PlainOptions } from "./opening.ts";
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

interface Stage {
  readonly gateway: Gateway;
  readonly server: Server;
  readonly clock: ManualClock | undefined;
}

/** The host's own answer, where a runtime has it as a response. */
export async function answerByItself(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  return new Response(ownAnswer(pathname + search, await request.text()));
}

/** Does as the process of the tests says, until that ends. */
export function obey(serve: Serve): void {
  const stages = new Map<number, Stage>();
  const at = (id: number): Stage => {
    const stage = stages.get(id);
    if (!stage) throw new Error(`There is no stage ${id}.`);
    return stage;
  };
  const peer = new Peer((line) => void process.stdout.write(line), {
    async open(id: number, opening: Opening): Promise<number> {
      const clock = opening.clockStart === undefined ? undefined : manualClock(opening.clockStart);
      const gateway = createGateway({ ...remoteOptions(peer, id, opening), ...(clock && { clock }) });
      const server = await serve(gateway, opening.prefix);
      stages.set(id, { gateway, server, clock });
      return server.port;
    },
    stop: async (id: number) => {
      await at(id).server.stop();
      stages.delete(id);
    },
    close: (id: number, options: Parameters<Gateway["close"]>[0]) => at(id).gateway.close(options),
    async advance(id: number, ms: number): Promise<number> {
      const { clock } = at(id);
      await clock?.advance(ms);
      return clock?.pending ?? 0;
    },
    sync: () => {},
  });
  process.stdout.on("error", end);
  createInterface({ input: process.stdin }).on("line", peer.receive).on("close", end);
}

function remoteOptions(peer: Peer, id: number, { models, generators, hangUp, options }: Opening): GatewayOptions {
  // What stands alone among the options is called at once, what belongs to a port is waited for.
  const functionAt = (path: string) =>
    path.includes(".")
      ? (...args: unknown[]) => peer.call("option", id, path, args)
      : (...args: unknown[]) => callAtOnce("optionAtOnce", id, path, args);
  const generatorsOf = generators.map((generator) => [
    generator,
    (request: unknown, call: CallContext) => remoteAnswer(peer, id, generator, request, call),
  ]);
  const backend: ModelBackend = {
    hangUp,
    ...(models && { models: () => peer.call("models", id) }),
    ...Object.fromEntries(generatorsOf),
  };
  const quotas: QuotaStore = {
    find: (apiKey) => peer.call("find", id, apiKey),
    reserve: (hold) => peer.call("reserve", id, hold),
    extend: (hold, renewal) => peer.call("extend", id, hold, renewal),
    settle: (hold, used, how) => peer.call("settle", id, hold, used, how),
  };
  return {
    ...(unpack(JSON.parse(options), functionAt) as PlainOptions),
    backend,
    quotas,
    onFailure: (failure) => void peer.call("failed", id, failure),
  };
}

/** Calls the process of the tests, and stands still until it has answered through a named pipe. */
function callAtOnce(method: string, ...args: readonly unknown[]): unknown {
  writeSync(1, `${JSON.stringify({ call: 0, method, args: pack(args) })}\n`);
  return unpack(JSON.parse(readFileSync(ANSWERS, "utf8")));
}

let answers = 0;

/** Each event is asked for when the gateway wants it, so its back-pressure reaches the play. */
async function* remoteAnswer(
  peer: Peer,
  id: number,
  generator: Generator,
  request: unknown,
  { signal, ...call }: CallContext,
): AsyncGenerator {
  const answer = ++answers;
  const abort = (): void => void peer.call("abort", answer, signal.reason);
  signal.addEventListener("abort", abort);
  try {
    await peer.call("begin", id, answer, generator, request, call);
    for (;;) {
      const step = await peer.call<IteratorResult<unknown, void>>("next", answer);
      if (step.done) return;
      yield step.value;
    }
  } finally {
    await peer.call("return", answer);
  }
}
