/** What a host knows of a request that the request does not say: where the gateway is mounted, who is there, its own context. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Mounted } from "../src/index.ts";
import { disconnectOf } from "./send.ts";

/** On Node's http server. The host's context is made when the gateway takes up the call, and for no other route. */
export class NodeMount<Context> implements Mounted<Context> {
  readonly path: string;
  readonly onDisconnect: (listener: () => void) => void;
  readonly #req: IncomingMessage;
  readonly #context: ((req: IncomingMessage) => Context) | undefined;

  /** @param whole Where Connect, Express and Koa leave the whole address as `originalUrl`, beside the one that the handler is to see. */
  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    whole: object,
    context: ((req: IncomingMessage) => Context) | undefined,
  ) {
    this.path = takenOff(req.url ?? "", whole);
    this.onDisconnect = disconnectOf(req, res);
    this.#req = req;
    this.#context = context;
  }

  get context(): Context | undefined {
    return this.#context?.(this.#req);
  }
  get clientAddress(): string | undefined {
    return this.#req.socket?.remoteAddress;
  }
}

/** What the host has taken off the beginning of the address. */
function takenOff(url: string, whole: object): string {
  const { originalUrl = url } = whole as { readonly originalUrl?: string };
  if (originalUrl === url) return "";
  const [rest, before] = [withoutOrigin(url), withoutOrigin(originalUrl)];
  return before.endsWith(rest) ? before.slice(0, before.length - rest.length) : "";
}

/** A proxy's client writes the origin into the request's target, which frameworks leave there. */
const withoutOrigin = (target: string): string => target.replace(/^https?:\/\/[^/?]*/i, "");
