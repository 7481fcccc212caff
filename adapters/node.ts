/** Mounts a gateway on Node's own http server, or behind anything that calls a handler with (req, res, next). */

import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest } from "srvx/node";
import type { Answer, Gateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { drain, dropIdle, PATIENCE_MS } from "./connection.ts";
import { NodeMount } from "./node-mount.ts";
import { send } from "./send.ts";

assertNodeVersion();

/** A handler for `http.createServer`; with a third argument, a middleware in Connect's form. */
export type NodeHandler = (req: IncomingMessage, res: ServerResponse, next?: (error?: Error) => void) => void;

export interface NodeHandlerOptions<
  Context = unknown,
  Req extends IncomingMessage = IncomingMessage,
> extends MountOptions {
  /** Makes the host's own context for a request: what `call.context` is to the backend and the stores. */
  readonly context?: (req: Req) => Context;
  /**
   * How long a client may take nothing of its answer, or go on sending after it, before its connection is closed; in
   * milliseconds, a minute by default. Where the server has a `timeout`, the former is as long as that.
   */
  readonly patienceMs?: number;
}

/**
 * The gateway as a Node handler. A route that the gateway does not own goes to `next`, or is a bare 404 without one. So does a
 * failure of the mount itself, or it is a bare 500.
 *
 * @example http.createServer(toNodeHandler(gateway)).listen(3000);
 */
export function toNodeHandler<Context = unknown, Req extends IncomingMessage = IncomingMessage>(
  gateway: Gateway<Context>,
  { prefix = "", patienceMs = PATIENCE_MS, context }: NodeHandlerOptions<Context, Req> = {},
): NodeHandler {
  const routes = gateway.at(prefix);
  // The host knows what its requests are.
  const contextOf = context as ((req: IncomingMessage) => Context) | undefined;
  const answer = async (...[req, res, next]: Parameters<NodeHandler>): Promise<void> => {
    let answered: Answer | undefined;
    try {
      answered = await routes.answer(new NodeRequest({ req, res }), new NodeMount(req, res, req, contextOf));
    } catch (error) {
      if (next) return next(error instanceof Error ? error : new Error(String(error)));
      answered = bare(500);
    }
    if (!answered && next) return next();
    drain(req, patienceMs);
    try {
      const sending = send(res, answered ?? bare(404));
      // Most complete answers are out by now.
      if (!res.writableFinished) dropIdle(res, patienceMs);
      await sending;
    } catch {
      // An answer that breaks off has nobody left to be told; the call itself has settled by then.
      res.destroy();
    }
  };
  // What the host's own `next` throws is the host's: it stays an unhandled rejection.
  return (req, res, next) => void answer(req, res, next);
}

const bare = (status: number): Answer => ({ status, headers: {}, body: null });
