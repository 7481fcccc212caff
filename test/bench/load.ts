/** The process that asks: keeps every connection busy for a while, and reads and checks each answer to its end. */

import { type Dispatcher, Pool } from "undici";
import { answerParent } from "./child.ts";
import { API_KEY, type ScenarioName, SCENARIOS } from "./workload.ts";

export interface LoadOrder {
  readonly port: number;
  readonly scenario: ScenarioName;
  readonly ms: number;
}

export interface LoadResult {
  readonly answers: number;
  readonly seconds: number;
  /** Of the bodies of all answers. */
  readonly bytes: number;
}

/** By port: connections last from one window to the next. */
const pools = new Map<number, Pool>();

const headers = { "content-type": "application/json", "x-api-key": API_KEY, "anthropic-version": "2023-06-01" };

answerParent(async ({ port, scenario, ms }: LoadOrder): Promise<LoadResult> => {
  const { connections, body, end } = SCENARIOS[scenario];
  const origin = `http://127.0.0.1:${port}`;
  const pool = pools.get(port) ?? new Pool(origin, { connections, pipelining: 1 });
  pools.set(port, pool);
  const request: Dispatcher.DispatchOptions = { origin, path: "/v1/messages", method: "POST", headers, body };
  const [total, begin] = [{ answers: 0, bytes: 0 }, performance.now()];

  const askUntilTimeIsUp = async (): Promise<void> => {
    while (performance.now() - begin < ms) {
      const bytes = await answerLength(pool, request, Buffer.from(end));
      total.bytes += bytes;
      total.answers++;
    }
  };
  // A process that sleeps must be woken, at the cost of the one that writes to it: the slower a server, the more of its
  // time would go into that. This one never sleeps.
  let awake = setImmediate(function stayAwake() {
    awake = setImmediate(stayAwake);
  });
  await Promise.all(Array.from({ length: connections }, askUntilTimeIsUp));
  clearImmediate(awake);
  return { ...total, seconds: (performance.now() - begin) / 1000 };
});

/** The length of one answer's body; rejects an answer that is no success or does not end as it should. */
function answerLength(pool: Pool, request: Dispatcher.DispatchOptions, end: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    let [status, bytes] = [0, 0];
    let tail: Buffer = Buffer.alloc(0);
    pool.dispatch(request, {
      onRequestStart() {},
      onResponseStart(_controller, statusCode) {
        status = statusCode;
      },
      onResponseData(_controller, chunk) {
        bytes += chunk.length;
        tail = chunk.length < end.length ? Buffer.concat([tail, chunk]) : chunk;
      },
      onResponseEnd() {
        if (status === 200 && tail.subarray(-end.length).equals(end)) resolve(bytes);
        else reject(new Error(`An answer of status ${status} ends with ${JSON.stringify(tail.toString().slice(-80))}`));
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    });
  });
}
