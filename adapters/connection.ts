/** What every host on Node's http server owes a connection: that no client keeps it by sending on, or by reading nothing. */

import type { IncomingMessage, ServerResponse } from "node:http";

/** How long a client may keep its connection so, in milliseconds, where the host does not say. */
export const PATIENCE_MS = 60_000;

/** Lets go by what is still to come of a body that is answered already: a client may send all of it before it reads. */
export function drain(req: IncomingMessage, patienceMs: number): void {
  // A request that is closed already says so no more: its timer would keep it.
  if (req.complete || req.destroyed) return;
  // The listener of a reader that has stopped; it would collect what it is given.
  req.removeAllListeners("data").resume();
  const timer = setTimeout(() => req.destroy(), patienceMs).unref();
  req.once("close", () => clearTimeout(timer));
}

/** Closes the connection of a client that takes nothing of what is written to it. */
export function dropIdle(res: ServerResponse, patienceMs: number): void {
  const { socket } = res;
  // One whose request was pipelined gets its connection when the answers before it are out.
  if (!socket) return void res.once("socket", () => dropIdle(res, patienceMs));
  if (socket.timeout) return;
  // A stream may be quiet for as long as it likes: it is the client's silence that counts.
  res.setTimeout(patienceMs, () => res.writableLength > 0 && res.destroy());
  // First of all, because Node then sets how long the connection is kept for the next request.
  res.prependOnceListener("finish", () => socket.setTimeout(0));
}
