/** Mounts a gateway on hosts that answer a fetch `Request`: the parts that the adapters of Bun, Deno and the edge share. */

import type { Answer, CoreRoutes, Mounted, SocketHandler, WaitUntil } from "../src/index.ts";

export const FETCH_SHAPES = { prefix: "string?", fallback: "function?", context: "function?" } as const;

/** Gives the gateway the facts about a request that only the host knows. Makes the host's context only when the gateway begins a call. */
export class FetchMount<Context> implements Mounted<Context> {
  readonly clientAddress: string | undefined;
  readonly waitUntil: WaitUntil | undefined;
  readonly #context: () => Context | undefined;

  constructor(context: () => Context | undefined, clientAddress: string | undefined, waitUntil?: WaitUntil) {
    this.#context = context;
    this.clientAddress = clientAddress;
    this.waitUntil = waitUntil;
  }

  get context(): Context | undefined {
    return this.#context();
  }
}

/**
 * Asks for a WebSocket, and switches protocols when the gateway accepts. Returns undefined for a request that asks for none.
 *
 * @param upgrade Switches protocols. Returns undefined, or throws, where the runtime cannot, or the handshake is broken.
 * @param handle Answers the request without a WebSocket: the route then refuses the upgrade.
 */
export function connect<Context>(
  routes: CoreRoutes<Context>,
  request: Request,
  mounted: Mounted<Context>,
  upgrade: (handler: SocketHandler) => Response | undefined,
  handle: () => Promise<Response> | undefined,
): Promise<Response> | undefined {
  return routes.connect(request, mounted)?.then((accepted) => {
    if (!("message" in accepted)) return refused(accepted);
    try {
      const switched = upgrade(accepted);
      if (switched) return switched;
    } catch {
      // Bun without `websocket`, or Deno at a broken handshake: the answer below refuses the upgrade.
    }
    accepted.closed();
    return handle() ?? routes.fetch(request);
  });
}

/** Returns a refusal, whose body is never a stream. */
const refused = ({ status, headers, body }: Answer): Response =>
  new Response(typeof body === "string" ? body : null, { status, headers });

/**
 * A mount for servers whose requests share one event loop, such as Bun's and Deno's. Reads a request's signal only when its call
 * still runs after one turn of the loop, because reading the signal is expensive for a short call. A client that disconnected during
 * that turn is noticed when the signal is read.
 */
export class ServerMount<Context> extends FetchMount<Context> {
  protected readonly request: Request;

  constructor(request: Request, context: () => Context | undefined, clientAddress: string | undefined) {
    super(context, clientAddress);
    this.request = request;
  }

  onDisconnect(listener: () => void): () => void {
    const disconnect = new Disconnect(this.request, listener);
    if (begun.push(disconnect) === 1) setImmediate(listenToAll);
    return () => disconnect.stop();
  }
}

/** The calls that began in this turn of the event loop. */
let begun: Disconnect[] = [];

function listenToAll(): void {
  const calls = begun;
  begun = [];
  for (const call of calls) call.listen();
}

/** Calls the listener when a client disconnects. `stop` releases the request and the listener when the call ends. */
class Disconnect {
  #request: Request | undefined;
  #listener: (() => void) | undefined;

  constructor(request: Request, listener: () => void) {
    this.#request = request;
    this.#listener = listener;
  }

  listen(): void {
    const signal = this.#request?.signal;
    if (signal?.aborted) this.#listener?.();
    else signal?.addEventListener("abort", () => this.#listener?.(), { once: true });
  }

  stop(): void {
    this.#request = this.#listener = undefined;
  }
}

/** The longest wait for the next piece of a refused request's body, in milliseconds. */
const SILENCE_MS = 3_000;
/** The longest time for reading the body of a refused request, in milliseconds. */
const PATIENCE_MS = 30_000;

/**
 * Delays a refusal until the request's body has been read: a client that still sends would lose the refusal with its connection.
 *
 * @param maxBytes The most bytes that are read. A client that sends more may lose the refusal.
 */
export async function afterBody(request: Request, answering: Promise<Response>, maxBytes: number): Promise<Response> {
  const response = await answering;
  if (response.status >= 400) await discard(request, maxBytes).catch(() => {});
  return response;
}

async function discard({ body, headers, signal }: Request, maxBytes: number): Promise<void> {
  if (!body || body.locked || Number(headers.get("content-length")) > maxBytes) return;
  const reader = body.getReader();
  const giveUpAt = Date.now() + PATIENCE_MS;
  try {
    for (let bytes = 0; bytes <= maxBytes && Date.now() < giveUpAt && !signal.aborted;) {
      const step = await unlessSilent(reader.read());
      if (!step || step.done) return;
      bytes += step.value.length;
    }
  } finally {
    // Release the lock and do not cancel: a runtime may close the connection for a locked or cancelled body.
    reader.releaseLock();
  }
}

/** Returns the result of a read, or undefined when the client sends nothing for `SILENCE_MS`. */
function unlessSilent<T>(reading: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, SILENCE_MS, undefined);
    reading.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
