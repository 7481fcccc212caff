/** Mounts a gateway in `Bun.serve`. */

import type { Mountable, MountOptions, SocketHandler, SocketPeer } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { afterBody, connect, FETCH_SHAPES, FetchMount, ServerMount } from "./fetch-mount.ts";
import { mountedRoutes } from "./mount.ts";

assertNodeVersion();

/** The most bytes that are read of the body of a refused request: Bun itself refuses more, by default. */
const MAX_BYTES = 128 * 1024 * 1024;

/** The parts of Bun's server that the handler uses. */
export interface BunServer {
  timeout(request: Request, seconds: number): void;
  requestIP?(request: Request): { readonly address: string } | null;
  upgrade?(request: Request, options: { readonly data: unknown }): boolean;
}

/** A `fetch` function for `Bun.serve`. */
export type BunHandler<Server extends BunServer> = (request: Request, server: Server) => Response | Promise<Response>;

/** The options of the handler for `Bun.serve`. */
export interface BunMountOptions<Server extends BunServer, Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: the 404 of `wrongAddress`. */
  readonly fallback?: BunHandler<Server>;
  /** Makes the host's own context for a request. The backend and the stores receive it as `call.context`. */
  readonly context?: (request: Request, server: Server) => Context;
}

/**
 * Returns the gateway as the `fetch` of `Bun.serve`, or as one of its `routes`. Switches off Bun's idle timeout of ten seconds during a
 * call, because the gateway has a deadline of its own. Behind a call, an idle connection ends after two minutes.
 *
 * @example Bun.serve({ fetch: toBunHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }) });
 */
export function toBunHandler<Server extends BunServer = BunServer, Context = unknown>(
  gateway: Mountable<Context>,
  options: BunMountOptions<Server, Context> = {},
): BunHandler<Server> {
  const routes = mountedRoutes("toBunHandler", gateway, options, FETCH_SHAPES);
  const { fallback, context } = options;
  return (request, server) => {
    const address = server.requestIP?.(request)?.address;
    const contextOf = (): Context | undefined => context?.(request, server);
    const handle = (): Promise<Response> | undefined => {
      const mounted = new BunMount(request, contextOf, address, server);
      const response = routes.handle(request, mounted);
      if (!response) return undefined;
      mounted.awaits(response);
      // Bun closes such a connection behind its answer, even if the client still sends.
      return /close/i.test(request.headers.get("connection") ?? "")
        ? afterBody(request, response, MAX_BYTES)
        : response;
    };
    if (server.upgrade && request.headers.has("upgrade")) {
      const mounted = new FetchMount(contextOf, address);
      const connecting = connect(routes, request, mounted, (handler) => upgraded(handler, request, server), handle);
      if (connecting) return connecting;
    }
    return handle() ?? (fallback ? fallback(request, server) : routes.fetch(request));
  };
}

/** The idle timeout of a connection behind a call, in seconds. Longer than most proxies keep a connection that they use no more. */
const IDLE_SECONDS = 120;

/** Switches off Bun's idle timeout during a call. Bun keeps a changed timeout for all later requests of the connection. */
class BunMount<Context> extends ServerMount<Context> {
  readonly #server: BunServer;
  #isCall = false;

  constructor(
    request: Request,
    context: () => Context | undefined,
    clientAddress: string | undefined,
    server: BunServer,
  ) {
    super(request, context, clientAddress);
    this.#server = server;
  }

  /** Switches the timeout off up to the head of an answer that is no call, such as the admin's: a report may take longer. */
  awaits(response: Promise<Response>): void {
    if (this.#isCall) return;
    const { request } = this;
    const server = this.#server;
    server.timeout(request, 0);
    const end = (): void => server.timeout(request, IDLE_SECONDS);
    void response.then(end, end);
  }

  override onDisconnect(listener: () => void): () => void {
    this.#isCall = true;
    const server = this.#server;
    const { request } = this;
    const stop = super.onDisconnect(listener);
    server.timeout(request, 0);
    return () => {
      stop();
      server.timeout(request, IDLE_SECONDS);
    };
  }
}

/** A message is held back while more than this waits for its client, in bytes. */
const HIGH_WATER_BYTES = 64 * 1024;

/** The gateway's end of a connection, which Bun hands on with each event. */
class BunSocketData implements SocketPeer {
  readonly handler: SocketHandler;
  ws: BunSocket | undefined;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(handler: SocketHandler) {
    this.handler = handler;
  }

  send(message: string): Promise<void> | undefined {
    // Bun returns -1 for a message that waits for the client.
    if (!this.ws || this.ws.send(message) >= 0) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  drained(): void {
    // Bun calls this for each part that the client has read.
    if (this.ws && this.ws.getBufferedAmount() > HIGH_WATER_BYTES) return;
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  close(code: number, reason: string): void {
    this.ws?.close(code, reason);
  }

  terminate(): void {
    this.ws?.terminate();
  }

  closed(): void {
    this.ws = undefined;
    this.drained();
    this.handler.closed();
  }
}

/** A WebSocket of Bun, as far as the gateway uses it. */
export interface BunSocket {
  readonly data: unknown;
  send(message: string): number;
  getBufferedAmount(): number;
  close(code?: number, reason?: string): void;
  terminate(): void;
}

/** The `websocket` of `Bun.serve`, as far as the gateway uses it. */
export interface BunWebSocketHandler {
  open(ws: BunSocket): void;
  message(ws: BunSocket, message: string | Uint8Array): void;
  drain(ws: BunSocket): void;
  close(ws: BunSocket): void;
  readonly maxPayloadLength: number;
  readonly backpressureLimit: number;
  readonly perMessageDeflate: false;
}

/**
 * Returns the `websocket` of `Bun.serve`, for the WebSockets of gateways that `toBunHandler` mounts. A connection of the host's own is
 * recognised by its `data`, and ignored here.
 *
 * @example Bun.serve({ fetch: toBunHandler(gateway), websocket: toBunWebSocket() });
 */
export const toBunWebSocket = (): BunWebSocketHandler => ({
  // As large as a body may be by default; the gateway's own limit decides below that.
  maxPayloadLength: 32 * 1024 * 1024,
  // No limit: Bun would drop a message without a word, and the gateway holds messages back.
  backpressureLimit: 0,
  // A small message could become a large one.
  perMessageDeflate: false,
  open: (ws) => {
    const { data } = ws;
    if (!(data instanceof BunSocketData)) return;
    data.ws = ws;
    data.handler.open(data);
  },
  message: ({ data }, message) => data instanceof BunSocketData && data.handler.message(message),
  drain: ({ data }) => data instanceof BunSocketData && data.drained(),
  close: ({ data }) => data instanceof BunSocketData && data.closed(),
});

/** Switches protocols. Bun then answers the client itself. Throws where `Bun.serve` was called without `websocket`. */
const upgraded = (handler: SocketHandler, request: Request, server: BunServer): Response | undefined =>
  server.upgrade?.(request, { data: new BunSocketData(handler) }) ? new Response(null) : undefined;
