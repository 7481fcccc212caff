/** The process of the load: it keeps every connection busy for a time or a number of calls, and checks each answer to its end. */

import { type Dispatcher, Pool } from "undici";
import { answerParent } from "../trial/child.ts";
import { answerLength } from "./answer-length.ts";
import { type ScenarioName, SCENARIOS } from "./workload.ts";

export interface LoadOrder {
  readonly port: number;
  readonly scenario: ScenarioName;
  /** The end of the load, by time or by number of calls. */
  readonly until: { readonly ms: number } | { readonly calls: number };
  /** Default: the number in the scenario. */
  readonly connections?: number;
}

export interface LoadResult {
  readonly answers: number;
  readonly seconds: number;
  /** The bytes of the bodies of all answers. */
  readonly bytes: number;
}

/** The connections by port and number. They last from one window to the next. */
const pools = new Map<string, Pool>();

answerParent(async ({ port, scenario, until, ...order }: LoadOrder): Promise<LoadResult> => {
  const { path, body, end, ...usual } = SCENARIOS[scenario];
  const { connections } = { ...usual, ...order };
  const headers = { "content-type": "application/json", ...usual.headers };
  const origin = `http://127.0.0.1:${port}`;
  const name = `${port}/${connections}`;
  const pool = pools.get(name) ?? new Pool(origin, { connections, pipelining: 1 });
  pools.set(name, pool);
  const request: Dispatcher.DispatchOptions = { origin, path, method: "POST", headers, body };
  const [total, begin] = [{ answers: 0, bytes: 0 }, performance.now()];
  let asked = 0;
  const goesOn = (): boolean => ("ms" in until ? performance.now() - begin < until.ms : asked++ < until.calls);

  const askUntilTheEnd = async (): Promise<void> => {
    while (goesOn()) {
      const bytes = await answerLength(pool, request, Buffer.from(end));
      total.bytes += bytes;
      total.answers++;
    }
  };
  // Never let this process sleep: to wake it costs CPU time of the server that writes to it, and a slower server would pay more often.
  let awake = setImmediate(function stayAwake() {
    awake = setImmediate(stayAwake);
  });
  await Promise.all(Array.from({ length: connections }, askUntilTheEnd));
  clearImmediate(awake);
  return { ...total, seconds: (performance.now() - begin) / 1000 };
});
