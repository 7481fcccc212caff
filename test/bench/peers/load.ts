/** The process of the load on peers: it keeps its connections busy, checks the end of each answer, and times every call. */

import { type Dispatcher, Pool } from "undici";
import { answerParent } from "../../trial/child.ts";
import { API_KEY } from "../workload.ts";

export interface PeerOrder {
  readonly port: number;
  /** The target for Portkey. Every contestant gets the same headers. */
  readonly upstream: string;
  readonly stream: boolean;
  readonly pieces: number;
  readonly connections: number;
  readonly ms: number;
}

export interface PeerResult {
  readonly answers: number;
  readonly failures: number;
  readonly seconds: number;
  /** The time of a call, in milliseconds. */
  readonly medianMs: number;
  readonly p99Ms: number;
}

const pools = new Map<string, Pool>();

answerParent(async ({ port, upstream, stream, pieces, connections, ms }: PeerOrder): Promise<PeerResult> => {
  const origin = `http://127.0.0.1:${port}`;
  const name = `${port}/${connections}`;
  const pool = pools.get(name) ?? new Pool(origin, { connections, pipelining: 1, headersTimeout: 60_000 });
  pools.set(name, pool);
  const messages = [{ role: "user", content: "What makes one gateway faster than another?" }];
  const body = JSON.stringify({ model: `bench-${pieces}`, max_completion_tokens: 100_000, stream, messages });
  const headers = {
    "content-type": "application/json",
    authorization: `Bearer ${API_KEY}`,
    "x-portkey-provider": "openai",
    "x-portkey-custom-host": `${upstream}/v1`,
  };
  const request: Dispatcher.DispatchOptions = { origin, path: "/v1/chat/completions", method: "POST", headers, body };
  const end = stream ? "[DONE]" : "}";
  const times: number[] = [];
  let failures = 0;
  const begin = performance.now();
  const ask = async (): Promise<void> => {
    while (performance.now() - begin < ms) {
      const asked = performance.now();
      if (await isWhole(pool, request, end)) times.push(performance.now() - asked);
      else failures++;
    }
  };
  await Promise.all(Array.from({ length: connections }, ask));
  const seconds = (performance.now() - begin) / 1000;
  times.sort((one, other) => one - other);
  const at = (share: number): number =>
    times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN;
  return { answers: times.length, failures, seconds, medianMs: at(0.5), p99Ms: at(0.99) };
});

function isWhole(pool: Pool, request: Dispatcher.DispatchOptions, end: string): Promise<boolean> {
  return new Promise((resolve) => {
    let status = 0;
    let tail = "";
    pool.dispatch(request, {
      onRequestStart() {},
      onResponseStart(_controller, statusCode) {
        status = statusCode;
      },
      onResponseData(_controller, chunk) {
        tail = (chunk.length < 16 ? tail : "") + chunk.subarray(-16).toString("latin1");
      },
      onResponseEnd: () => resolve(status === 200 && tail.trimEnd().endsWith(end)),
      onResponseError: () => resolve(false),
    });
  });
}
