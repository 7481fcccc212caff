/** Mounts a gateway on Node's own http server, and in every framework that calls a handler with (req, res, next). */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Answer, Mountable, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { mountedRoutes } from "./mount.ts";
import {
  drain,
  dropIdle,
  endConnection,
  endKept,
  NODE_SHAPES,
  NodeMount,
  PATIENCE_MS,
  requestOf,
  send,
} from "./node-mount.ts";

assertNodeVersion();

/** A handler for `http.createServer`; with a third argument, a middleware in Connect's form. */
export type NodeHandler = (req: IncomingMessage, res: ServerResponse, next?: (error?: Error) => void) => void;

/** The options of the handler for `http.createServer`, Express and other servers on Node. */
export interface NodeHandlerOptions<
  Context = unknown,
  Req extends IncomingMessage = IncomingMessage,
> extends MountOptions {
  /** Makes the host's own context for a request. The backend and the stores receive it as `call.context`. */
  readonly context?: (req: Req) => Context;
  /**
   * The time in milliseconds after which a client's connection is closed when the client does not read its answer, or when it still
   * sends its request after the answer. Default: 60,000. When the server has a `timeout` of its own, that time decides about clients
   * that do not read.
   */
  readonly patienceMs?: number;
}

/**
 * Returns the gateway as a Node handler. A route that the gateway does not own goes to `next`; without `next` it gets the 404 of `wrongAddress`.
 * An error of the mount itself goes to `next` as well; without `next` it gets a 500 without a body.
 *
 * @example http.createServer(toNodeHandler(gateway)).listen(3000);
 */
export function toNodeHandler<Context = unknown, Req extends IncomingMessage = IncomingMessage>(
  gateway: Mountable<Context>,
  options: NodeHandlerOptions<Context, Req> = {},
): NodeHandler {
  const routes = mountedRoutes("toNodeHandler", gateway, options, NODE_SHAPES);
  const { patienceMs = PATIENCE_MS, context } = options;
  // The host knows the type of its requests.
  const contextOf = context as ((req: IncomingMessage) => Context) | undefined;
  const answer = async (...[req, res, next]: Parameters<NodeHandler>): Promise<void> => {
    let answered: Answer | undefined;
    try {
      const mount = new NodeMount(req, res, req, contextOf);
      const request = requestOf(req, res, mount.path);
      answered = request && (await routes.answer(request, mount));
      if (!answered && !next) answered = request ? await plain(routes.fetch(request)) : emptyAnswer(404);
    } catch (error) {
      if (next) return next(error instanceof Error ? error : new Error(String(error)));
      answered = emptyAnswer(500);
    }
    if (!answered) return next?.();
    drain(req, patienceMs);
    if (gateway.isClosing()) endConnection(req, res);
    try {
      const sending = send(res, answered, req);
      // Skip the timeout for an answer that is completely written, which is the usual case.
      if (!res.writableFinished) dropIdle(res, patienceMs);
      await sending;
      if (gateway.isClosing()) endKept(req, res);
    } catch {
      // The answer ended early, and the client can no longer get an error. The call itself is already settled.
      res.destroy();
    }
  };
  // Do not catch an error of the host's `next`: the host must see it, as an unhandled rejection.
  return (req, res, next) => void answer(req, res, next);
}

/** Returns a response without a stream as data. */
async function plain(fetched: Promise<Response>): Promise<Answer> {
  const response = await fetched;
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: (await response.text()) || null,
  };
}

const emptyAnswer = (status: number): Answer => ({ status, headers: {}, body: null });
