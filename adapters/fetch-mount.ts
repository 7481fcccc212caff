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
