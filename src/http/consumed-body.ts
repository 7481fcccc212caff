/** A body that host middleware has read already: what it left where the gateway can find it. */

import { GatewayError } from "../errors.ts";

/** Node's own request, in reach of the fetch request that stands for it; `body` is where its body parsers leave theirs. */
interface NodeSource {
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/** What is left: bytes, a text, or what was parsed; undefined where nobody has read. Throws `internal` where nothing is. */
export function consumedBody(request: Request): unknown {
  const source = (request as { runtime?: { node?: { req?: NodeSource } } }).runtime?.node?.req;
  // Some parsers leave an empty object where they read nothing, so a body counts only where the stream was read.
  if (!isRead(request, source)) return source?.readableEnded ? "" : undefined;
  const left = source?.rawBody instanceof Uint8Array ? source.rawBody : source?.body;
  if (left == null) throw readBefore();
  return left;
}

const isRead = (request: Request, source: NodeSource | undefined): boolean =>
  request.bodyUsed || (source?.readableDidRead ?? false);

/** The error of a body of which nothing that can be used is left: the host's mistake, so the host alone hears what to do. */
export const readBefore = (): GatewayError =>
  new GatewayError("internal", "This service could not hand the request body to the gateway.", {
    cause: new Error(
      "The request body was read by another middleware before it came to the gateway. Mount the gateway before that middleware, " +
        "let the middleware read a clone of the request, or, on Node, let it leave what it has parsed in req.body.",
    ),
  });
