/** Mounts a gateway on Node's http server: the parts that the adapters of Node and Koa share. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest } from "srvx/node";
import type { Answer, Mounted } from "../src/index.ts";

/** The parts that a URL removes from a path, and the characters that it reads as a slash or drops. */
const REWRITTEN = /[\\\t\n\r]|\/(?:\.|%2e){1,2}(?:\/|$)/i;

/** The end of a mount's path that has taken a slash of the path below it: Express 4 routes `/ai//v1/models` as `/ai/v1/models`. */
const TOO_LONG = /\/(?:\/|$)/;

/**
 * Returns a request of Node as a web request. Returns undefined for one whose path a URL or the framework would rewrite, such as
 * `/x/../v1/models`: a guard of the host that reads the path as it was sent would not know it. Such a path is also the only one that needs a URL which its `host` header may
 * not make, such as `GET /..` with `host: h:99999`: every reader of the request would throw.
 *
 * @param removed The beginning of the path that the framework has removed.
 */
export function requestOf(req: IncomingMessage, res?: ServerResponse, removed = ""): Request | undefined {
  const [path = ""] = (req.url ?? "").split(/[?#]/, 1);
  if (REWRITTEN.test(removed + path) || TOO_LONG.test(removed)) return undefined;
  const request = new NodeRequest(res ? { req, res } : { req });
  try {
    return request.url === "" ? undefined : request;
  } catch {
    return undefined;
  }
}

/** Gives the gateway the facts about a request that only the host knows. Makes the host's context only when the gateway begins a call. */
export class NodeMount<Context> implements Mounted<Context> {
  /** The beginning of the request's path that the host's framework has removed from the address. */
  readonly path: string;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #context: ((req: IncomingMessage) => Context) | undefined;

  /** @param owner The object on which Connect, Express or Koa keeps the original address, as `originalUrl`. */
  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    owner: object,
    context: ((req: IncomingMessage) => Context) | undefined,
  ) {
    this.path = removedPath(req.url ?? "", owner);
    this.#req = req;
    this.#res = res;
    this.#context = context;
  }

  get context(): Context | undefined {
    return this.#context?.(this.#req);
  }

  get clientAddress(): string | undefined {
    return this.#req.socket?.remoteAddress;
  }

  onDisconnect(listener: () => void): void {
    const req = this.#req;
    const res = this.#res;
    if (res.destroyed || req.errored || (req.destroyed && !req.complete)) return listener();
    // Listen to the response: the request emits `close` as soon as its body is read.
    res.on("close", () => {
      if (!res.writableEnded) listener();
    });
  }
}

function removedPath(url: string, owner: object): string {
  const { originalUrl = url } = owner as { readonly originalUrl?: string };
  if (originalUrl === url) return "";
  const [rest, whole] = [withoutOrigin(url), withoutOrigin(originalUrl)];
  // At the root of a mount, frameworks add a slash: "/admin?a=b" becomes "/?a=b".
  const sent = whole.endsWith(rest) ? rest : rest.replace(/^\/(?=[?#]|$)/, "");
  return whole.endsWith(sent) ? whole.slice(0, whole.length - sent.length) : "";
}

/** Removes the origin of any scheme from a request target. Clients of a proxy send the origin, and frameworks do not remove it. */
const withoutOrigin = (target: string): string => target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?]*/i, "");

export const NODE_SHAPES = { prefix: "string?", patienceMs: "timerMs?", context: "function?" } as const;

/** The default of `patienceMs`, in milliseconds. */
export const PATIENCE_MS = 60_000;

/**
 * Discards the rest of a request's body after the answer, because some clients read nothing before they have sent everything. Closes
 * the connection when the client still sends after `patienceMs`.
 */
export function drain(req: IncomingMessage, patienceMs: number): void {
  // A closed request emits no further `close`, so its timer would never be cleared.
  if (req.complete || req.destroyed) return;
  // Remove the listeners of a reader that stopped early: they would still collect the data.
  req.removeAllListeners("data").resume();
  const timer = setTimeout(() => req.destroy(), patienceMs).unref();
  req.once("close", () => clearTimeout(timer));
}

/** Ends an HTTP/1 connection with this answer, because the gateway closes: the client's next call then reaches another process. */
export function endConnection(req: IncomingMessage, res: ServerResponse): void {
  if (req.httpVersionMajor === 1 && !res.headersSent) res.setHeader("connection", "close");
}

/**
 * Tells whether Node would close the connection behind the answer while the client still sends: the client would lose the answer. A proxy
 * in front, such as nginx, would answer 502 instead.
 */
export const cutsOff = (req: IncomingMessage, res: ServerResponse): boolean =>
  req.httpVersionMajor === 1 &&
  !req.complete &&
  // The request of a test that injects is never complete.
  !req.readableEnded &&
  !req.destroyed &&
  // Bun sets this flag for each connection.
  (!res.shouldKeepAlive || /close/i.test(`${req.headers.connection} ${String(res.getHeader("connection"))}`));

/**
 * Ends an HTTP/1 connection behind a stream that began before the gateway closed, so that its headers promised to keep the connection.
 * The server's own `close` would wait for such a connection until it times out.
 */
export function endKept(req: IncomingMessage, res: ServerResponse): void {
  if (req.httpVersionMajor !== 1) return;
  const { socket } = req;
  if (res.writableFinished) socket.end();
  else res.once("finish", () => socket.end());
}

/** Closes the connection of a client that reads nothing of its answer for `patienceMs`. */
export function dropIdle(res: ServerResponse, patienceMs: number): void {
  const { socket } = res;
  // The response to a pipelined request gets its socket only after the responses before it are sent.
  if (!socket) return void res.once("socket", () => dropIdle(res, patienceMs));
  // A request that a test injects has no real socket.
  if (socket.timeout || !("setTimeout" in socket)) return;
  // A stream may pause for any time. Close the connection only when the client does not read output that waits.
  res.setTimeout(patienceMs, () => res.writableLength > 0 && res.destroy());
  // Clear the timeout before Node's own `finish` listener sets the keep-alive timeout for the next request.
  res.prependOnceListener("finish", () => socket.setTimeout(0));
}

/**
 * Writes an answer to a response: a complete one at once; a stream until it ends or its client disconnects.
 *
 * @param req The request that `drain` reads. Without it, the response ends at once, even if the client still sends.
 */
export function send(res: ServerResponse, answer: Answer, req?: IncomingMessage): Promise<void> | undefined {
  const { status, headers, body } = answer;
  if (res.destroyed) return undefined;
  const isStream = typeof body === "object" && body !== null && Symbol.asyncIterator in body;
  const hasLength = isStream || body === null || "content-length" in headers;
  const length = hasLength ? {} : { "content-length": Buffer.byteLength(body) };
  const isCutOff = !isStream && req && cutsOff(req, res);
  // Compression would keep the answer until its end, and remove its length, without which a proxy waits for the end.
  const whole = isCutOff ? { "cache-control": "no-store, no-transform" } : {};
  res.writeHead(status, { ...headers, ...length, ...mergedHeaders(res, answer), ...whole });
  if (isStream) return sendStream(res, body);
  if (isCutOff) return sendBeforeEnd(req, res, body);
  res.end(body);
  return undefined;
}

/** Writes an answer at once, and ends it behind the rest of the request, which `drain` waits for. */
async function sendBeforeEnd(
  req: IncomingMessage,
  res: ServerResponse,
  body: string | Uint8Array | null,
): Promise<void> {
  res.flushHeaders();
  if (body !== null) res.write(body);
  // Bun closes the request only behind the response.
  await new Promise((resolve) => req.once("end", resolve).once("close", resolve));
  res.end();
}

/**
 * Writes the pieces as they come. Does not use `for await`: between two pieces it would keep the last one, and a stream may be silent for
 * hours.
 */
async function sendStream(res: ServerResponse, pieces: AsyncIterableIterator<string | Uint8Array>): Promise<void> {
  while (write(res, await pieces.next())) if (res.writableNeedDrain) await drained(res);
  if (!res.destroyed) res.end();
}

/** Writes one piece. Returns false for the end of the pieces. */
function write(res: ServerResponse, { done, value }: IteratorResult<string | Uint8Array>): boolean {
  if (!done && !res.destroyed) res.write(value);
  return !done;
}

/** Resolves when the response can take more data, or is closed. */
function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });
}

/**
 * Returns `vary` and the cookies of an answer with the values that the host's middleware has set. Otherwise the answer would overwrite them.
 */
export function mergedHeaders(
  res: ServerResponse,
  { headers: { vary }, cookies }: Answer,
): { vary?: string; "set-cookie"?: string[] } {
  const before = res.getHeader("vary");
  return {
    ...(before !== undefined && vary !== undefined && { vary: `${vary}, ${String(before)}` }),
    ...(cookies && { "set-cookie": [res.getHeader("set-cookie") ?? [], cookies].flat(2).map(String) }),
  };
}
