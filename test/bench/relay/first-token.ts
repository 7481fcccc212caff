/** The process that measures the time to the first text of a stream, one call after the other on one connection. */

import { Pool } from "undici";
import { answerParent } from "../../trial/child.ts";
import { API_KEY, SCENARIOS } from "../workload.ts";

const pools = new Map<number, Pool>();
const headers = { "content-type": "application/json", "x-api-key": API_KEY, "anthropic-version": "2023-06-01" };

export interface FirstTokenOrder {
  readonly port: number;
  readonly calls: number;
}

/** The time of each call, in milliseconds. */
answerParent(async ({ port, calls }: FirstTokenOrder): Promise<readonly number[]> => {
  const origin = `http://127.0.0.1:${port}`;
  const pool = pools.get(port) ?? new Pool(origin, { connections: 1 });
  pools.set(port, pool);
  const times: number[] = [];
  for (let call = 0; call < calls; call++) times.push(await timeOf(pool, origin));
  return times;
});

function timeOf(pool: Pool, origin: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const begin = performance.now();
    let [first, text] = [0, ""];
    const { body } = SCENARIOS.streamed;
    pool.dispatch(
      { origin, path: "/v1/messages", method: "POST", headers, body },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData(_controller, chunk) {
          if (first > 0) return;
          text += chunk.toString();
          if (text.includes("text_delta")) first = performance.now();
        },
        onResponseEnd: () => (first > 0 ? resolve(first - begin) : reject(new Error("A stream without text came."))),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
}
