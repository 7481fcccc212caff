/** A gateway for tests: with a key, with stores in memory, and with the records of its calls in view. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { GATEWAY_SHAPES } from "../every-format.ts";
import {
  type ApiKeyOptions,
  type BudgetOptions,
  type CallObserver,
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayOptions,
  memoryQuotaStore,
  memoryReplayStore,
  memoryResponseStore,
  type Mountable,
  type Observer,
} from "../index.ts";
import { assertOptions, type Shapes } from "../options.ts";
import { quietly } from "../pipeline/reports.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type { ManualClock } from "./laws/manual-clock.ts";
import { scriptedBackend } from "./scripted-backend.ts";

/** The options of `testGateway` that `createGateway` does not have. */
export interface TestKeyOptions {
  /** The secret of the key. With a quota store of your own, it must be a secret of that store. Default: `sk-test`. */
  readonly apiKey?: string;
  /** The rest of the key: its quota, its models and so on. Default: the id `test`, and a million units. Not for a quota store of your own. */
  readonly key?: Omit<ApiKeyOptions, "apiKey">;
  /** The budgets of the store in memory, a parent before its children: `key.budget` names one of them. Not for a quota store of your own. */
  readonly budgets?: readonly BudgetOptions[];
}

/**
 * The options of `testGateway`: all those of `createGateway`, none of which is required, and the key. Default: a backend that answers every
 * chat with `Hello.`, and the quota, replay and response stores in memory.
 */
export type TestGatewayOptions<Context = unknown> = Partial<GatewayOptions<Context>> & TestKeyOptions;

/** A whole gateway of `createGateway`, which all mounts take, with its key and the records of its calls for tests. */
export interface TestGateway<Context = unknown> extends Gateway<Context>, AsyncDisposable {
  /** The secret of the key. */
  readonly apiKey: string;
  /**
   * Answers a request without a socket. It is a `fetch` for SDKs, and no request leaves the process: the gateway answers all hosts. An address
   * without a host is one of the gateway. A path that is none of its routes gets the 404 of `wrongAddress`, as at `listen`. A call rejects once
   * its signal is aborted.
   */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /**
   * Listens at a free port of this machine. Resolves with the address, such as `http://127.0.0.1:41234`; a second call with the same. It is
   * the base URL for the SDKs of Anthropic and Google; those of OpenAI need `/v1` behind it. Rejects after `close`.
   */
  readonly listen: () => Promise<string>;
  /** The records of the calls that have ended, in the order of their ends. */
  readonly records: readonly CallRecord<Context>[];
  /** The failures whose cause the caller was not told. The option `onFailure` receives them as well; nothing is printed. */
  readonly failures: readonly Failure[];
  /**
   * Resolves when all calls that have begun are recorded. An answer ends before its record is made, and the record of a client that hangs up
   * comes later still.
   */
  readonly settled: () => Promise<void>;
  /** Waits like `settled`, and resolves with the cost of all calls, in quota units. */
  readonly charged: () => Promise<number>;
  /** Cuts the calls in flight, settles them, and stops listening. `await using` calls it. */
  readonly close: () => Promise<void>;
}

/** The host of addresses without one. No request reaches it. */
const HOST = "http://polygate.test";

/** The virtual time between two looks at a gateway that closes on a manual clock, in milliseconds. */
const STEP_MS = 1_000;

/**
 * Makes a gateway for tests.
 *
 * @throws TypeError and RangeError for wrong options, as `createGateway` does, and for a `key` or `budgets` beside `quotas`.
 * @example
 * import OpenAI from "openai";
 * import { scriptedBackend, testGateway } from "polygate/testing";
 *
 * await using gateway = testGateway({ backend: scriptedBackend(["Hi"]) });
 * const client = new OpenAI({ apiKey: gateway.apiKey, fetch: gateway.fetch });
 * const { output_text } = await client.responses.create({ model: "any", input: "Hello" });
 * console.log(output_text); // Hi
 */
export function testGateway<Context = unknown>(options: TestGatewayOptions<Context> = {}): TestGateway<Context> {
  assertOptions<TestGatewayOptions>("testGateway", options, SHAPES);
  const { apiKey = "sk-test", key, budgets = [], quotas, clock = systemClock } = options;
  const { apiKey: _apiKey, key: _key, budgets: _budgets, observer, onFailure, ...own } = options;
  for (const name of ["key", "budgets"] as const)
    if (options[name] && quotas)
      throw new TypeError(`testGateway: ${name} is for the store in memory; give it to quotas instead.`);
  const budget = key?.budget;
  if (budget !== undefined && !budgets.some(({ id }) => id === budget))
    throw new TypeError(
      `testGateway: key.budget: there is no budget ${JSON.stringify(budget)}; write budgets: [{ id: ${JSON.stringify(budget)}, amount: 1_000_000 }].`,
    );
  const failures: Failure[] = [];
  const calls = new CallLog<Context>();
  const gateway = createGateway<Context>({
    ...own,
    backend: own.backend ?? scriptedBackend("Hello."),
    quotas: quotas ?? memoryQuotaStore([{ id: "test", granted: 1_000_000, ...key, apiKey }], { clock, budgets }),
    replayStore: own.replayStore ?? memoryReplayStore({ clock }),
    responseStore: own.responseStore ?? memoryResponseStore({ clock }),
    observer: calls.observedBy(observer),
    onFailure(failure) {
      failures.push(failure);
      return onFailure?.(failure);
    },
  });
  let listening: Promise<Server> | undefined;
  let closing: Promise<void> | undefined;

  async function closeAll(): Promise<void> {
    const server = await listening;
    server?.close();
    await windOn(gateway.close({ deadlineMs: 0 }), clock);
    server?.closeAllConnections();
  }

  const close = (): Promise<void> => {
    CLOSED.add(calls.records);
    return (closing ??= closeAll());
  };
  return {
    ...gateway,
    apiKey,
    failures,
    records: calls.records,
    async fetch(input, init) {
      const request = new Request(typeof input === "string" ? new URL(input, HOST) : input, init);
      // Only with an address does the gateway reject once the signal is aborted.
      return gateway.fetch(request.url, request);
    },
    async listen() {
      if (closing) throw new Error("testGateway: the gateway is closed.");
      const server = await (listening ??= listen(gateway));
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    settled: () => calls.settled(),
    async charged() {
      await calls.settled();
      return calls.records.reduce((sum, { units }) => sum + units, 0);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The records of the gateways that are closed, or about to be. */
const CLOSED = new WeakSet<readonly CallRecord[]>();

/** Tells whether the gateway with these records is closed, or about to be. */
export const isClosed = (records: readonly CallRecord[]): boolean => CLOSED.has(records);

const SHAPES = {
  ...GATEWAY_SHAPES,
  backend: { optional: GATEWAY_SHAPES.backend },
  quotas: { optional: GATEWAY_SHAPES.quotas },
  apiKey: "string?",
  key: "object?",
  budgets: "list?",
} as Shapes<TestGatewayOptions>;

async function listen<Context>(gateway: Mountable<Context>): Promise<Server> {
  const server = createServer(toNodeHandler(gateway)).on("upgrade", toUpgradeHandler(gateway));
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A test that fails before it closes the gateway must not keep its runner alive.
  return server.unref();
}

/** Waits for a gateway to close. Advances a manual clock, which would otherwise stand still. */
async function windOn(closed: Promise<void>, clock: Clock | ManualClock): Promise<void> {
  if (!("advance" in clock)) return closed;
  const state = { isClosed: false };
  const over = closed.finally(() => (state.isClosed = true));
  for (let ms = 0; !state.isClosed; ms = STEP_MS) await clock.advance(ms);
  await over;
}

/** Collects the records of calls, and knows which calls have none yet. */
class CallLog<Context> {
  readonly records: CallRecord<Context>[] = [];
  #begun = 0;
  #waiting: (() => void)[] = [];

  settled(): Promise<void> {
    if (this.#begun === this.records.length) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Returns an observer that passes all that it sees on to the host's own, whose errors change nothing here. */
  observedBy(host: Observer<Context> | undefined): Observer<Context> {
    return {
      watchGateway: (gauges) => host?.watchGateway?.(gauges),
      begin: (call) => {
        this.#begun++;
        return this.#callOf(quietly(() => host?.begin(call)));
      },
    };
  }

  #callOf(host: CallObserver<Context> | undefined): CallObserver<Context> {
    const run = host?.run?.bind(host);
    return {
      ...(run && { run }),
      rateLimit: (decision) => host?.rateLimit?.(decision),
      hold: (change) => host?.hold?.(change),
      upstream: (asked) => host?.upstream?.(asked),
      end: (record) => {
        this.records.push(record);
        quietly(() => host?.end(record));
        if (this.#begun === this.records.length) for (const resolve of this.#waiting.splice(0)) resolve();
      },
    };
  }
}
