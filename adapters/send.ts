/** Writes an answer to Node's response. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Answer } from "../src/index.ts";

/** Hands an answer to its response: a complete one at once; a stream until it is through, or its client is gone. */
export function send(res: ServerResponse, { status, headers, body }: Answer): Promise<void> | undefined {
  if (res.destroyed) return undefined;
  const complete = typeof body === "object" && body !== null && Symbol.asyncIterator in body ? undefined : body;
  const length =
    complete == null || "content-length" in headers ? {} : { "content-length": Buffer.byteLength(complete) };
  res.writeHead(status, { ...headers, ...length, ...varyOf(res, headers) });
  if (complete === undefined) return sendStream(res, body as AsyncIterableIterator<string>);
  res.end(complete);
  return undefined;
}

async function sendStream(res: ServerResponse, pieces: AsyncIterableIterator<string>): Promise<void> {
  for await (const piece of pieces) {
    if (!res.destroyed) res.write(piece);
    if (res.writableNeedDrain) await drained(res);
  }
  if (!res.destroyed) res.end();
}

/** Resolves when the response takes more, or is closed. */
function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });
}

/** Adds what the host's middleware varies by to what the answer does: the one would replace the other. */
export function varyOf(res: ServerResponse, headers: Answer["headers"]): { vary?: string } {
  const before = res.getHeader("vary");
  return before !== undefined && headers["vary"] !== undefined ? { vary: `${headers["vary"]}, ${String(before)}` } : {};
}

/** Tells when the client of a response has disconnected. */
export const disconnectOf =
  (req: IncomingMessage, res: ServerResponse) =>
  (listener: () => void): void => {
    const isGone = res.destroyed || req.errored || (req.destroyed && !req.complete);
    if (isGone) return listener();
    // The request's own `close` comes once its body is read: it is the response's that tells.
    res.on("close", () => {
      if (!res.writableEnded) listener();
    });
  };
