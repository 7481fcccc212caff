/** One call of a benchmark's client, checked to its last bytes. */

import type { Dispatcher, Pool } from "undici";

/** Returns the length of an answer's body. Rejects an answer that is not a complete success. */
export function answerLength(pool: Pool, request: Dispatcher.DispatchOptions, end: Buffer): Promise<number> {
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
