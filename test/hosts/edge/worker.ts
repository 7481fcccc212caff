/** The side of workerd: gateways whose backend and quota live in the process of the tests. Each call there is a subrequest. */

import { env, waitUntil } from "cloudflare:workers";
import { createGateway, type EdgeHandler, toEdgeHandler } from "../../../adapters/edge.ts";
import type { Cancel, Clock } from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { answerByItself } from "../host.ts";
import { type PriceTable, priceOf } from "../prices.ts";
import { callOver } from "../remote/exchange.ts";
import { type Opened, OpenedStages } from "../remote/opened.ts";
import type { Opening } from "../remote/opening.ts";
import { remoteOptions } from "../remote/options.ts";
import { type Call, type Handlers, Peer } from "../remote/peer.ts";

interface Stage extends Opened {
  readonly port: number;
  readonly handler: EdgeHandler<[env: unknown, context: ExecutionContext]>;
}

const stages = new OpenedStages<Stage>();

/** What is said to the tests and not waited for. */
const said = new Set<Promise<unknown>>();
const SAID: readonly string[] = ["failed", "abort", "option"];

const ask = callOver(async (body) => (await env.TESTS.fetch("http://tests/", { method: "POST", body })).text());

const call: Call = <T>(method: string, ...args: readonly unknown[]) => {
  const answer = ask<T>(method, ...args);
  if (SAID.includes(method)) {
    said.add(answer);
    // It is to arrive though the gateway does not wait for it, and though its client is gone.
    waitUntil(answer.catch(() => {}).finally(() => said.delete(answer)));
  }
  return answer;
};

/** Keeps the request under way alive, until it is told otherwise: workerd ends one that waits for nothing of its own. */
function stayAlive(): () => void {
  const waiting = setTimeout(() => {}, 3_600_000);
  return () => clearTimeout(waiting);
}

/**
 * A clock that the tests wind. What it fires runs on behalf of the request that set it, as with the runtime's own timers, and
 * not of the one that winds it.
 */
function windable(clock: ManualClock): Clock {
  const after: Clock["after"] = (ms, callback) => {
    const due = Promise.withResolvers<void>();
    const [rest, cancel] = [stayAlive(), clock.after(ms, due.resolve)];
    let wanted = true;
    const fire = async (): Promise<void> => {
      await due.promise;
      rest();
      if (wanted) callback();
    };
    void fire();
    return () => {
      wanted = false;
      rest();
      cancel();
    };
  };
  const every: Clock["every"] = (ms, callback) => {
    const again = (): Cancel =>
      after(ms, () => {
        cancel = again();
        callback();
      });
    let cancel = again();
    return () => cancel();
  };
  return { now: () => clock.now(), after, every };
}

/** A price that is asked for at once is told from its table; the tests hear of it. */
const tablePrice =
  (id: number) =>
  (path: string, fields: unknown) =>
  (...args: readonly [{ readonly model: string }]): number => {
    void call("option", id, path, args);
    return priceOf(fields as PriceTable, ...args);
  };

/** What the tests may call. */
const handlers: Handlers = {
  open(id: number, port: number, opening: Opening) {
    const clock = opening.clockStart === undefined ? undefined : manualClock(opening.clockStart);
    const options = remoteOptions(call, tablePrice(id), id, opening);
    const gateway = createGateway({ ...options, ...(clock && { clock: windable(clock) }) });
    const handler: Stage["handler"] = toEdgeHandler(gateway, { prefix: opening.prefix, fallback: answerByItself });
    stages.set(id, { port, gateway, handler, clock });
  },
  stop: (id: number) => void stages.delete(id),
  ...stages.handlers,
  async sync() {
    await Promise.allSettled(said);
  },
};

/** A request to a stage's port is for its gateway; any other is the connection that the tests call over. */
export const serve: Stage["handler"] = async (request, bindings, context) => {
  const { port } = new URL(request.url);
  for (const stage of stages.values())
    if (String(stage.port) === port) return stage.handler(request, bindings, context);
  const { 0: tests, 1: socket } = new WebSocketPair();
  const { receive } = new Peer((line) => socket.send(line), handlers);
  socket.accept();
  socket.addEventListener("message", ({ data }) => receive(data));
  return new Response(null, { status: 101, webSocket: tests });
};
