/** The transport on Node: connections that undici keeps alive, which is many times faster there than the built-in fetch. */

import type { Dispatcher, Pool } from "undici";
import { decompressed } from "./decompress.node.ts";
import type { Carrier, Exchange } from "./exchange.ts";
import { IncomingBytes } from "./incoming-bytes.ts";
import type { OpenTransport, Transport, UpstreamRequest, UpstreamResponse } from "./transport.ts";

type Headers_ = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

export const openTransport: OpenTransport = (origin, { connectMs }) =>
  // Loaded with the first request: a Node that is too old for it is to hear that from this library, at its import.
  new UndiciTransport(async () => {
    const undici = await import("undici");
    // Waiting is timed by the exchange; what an upstream's parser or socket may do alone is undici's to time.
    return new undici.Pool(origin, {
      connect: { timeout: connectMs },
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    });
  });

class UndiciTransport implements Transport {
  readonly #open: () => Promise<Pool>;
  #opening: Promise<Pool> | undefined;
  /** The same, once it is open: no request waits for it any more. */
  #pool: Pool | undefined;

  constructor(open: () => Promise<Pool>) {
    this.#open = open;
  }

  /**
   * Sends a request, and repeats it only where no byte of it was written: of all else an upstream may have begun to work. undici looks
   * whether a kept connection has ended before it writes to it; one that was reset fails the request that waits for that look.
   */
  async send(request: UpstreamRequest, exchange: Exchange): Promise<UpstreamResponse> {
    const pool = (this.#pool ??= await (this.#opening ??= this.#open()));
    const handler = dispatched(pool, request, exchange);
    try {
      return await handler.response;
    } catch (error) {
      if (handler.isBegun || exchange.reason !== undefined || !isClosed(error)) throw error;
      return dispatched(pool, request, exchange).response;
    }
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close();
  }
}

function dispatched(pool: Pool, { method, path, headers, body }: UpstreamRequest, exchange: Exchange): Handler {
  const handler = new Handler(exchange);
  pool.dispatch({ method, path, headers, body: body ?? null }, handler);
  return handler;
}

/** Codes of a connection that ended. */
const CLOSED = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

const isClosed = (error: unknown): boolean =>
  CLOSED.has(String((error as { code?: unknown } | null | undefined)?.code));

/** One request on its connection, and its answer. */
class Handler implements Dispatcher.DispatchHandler, Carrier {
  readonly response: Promise<UpstreamResponse>;
  readonly #exchange: Exchange;
  readonly #bytes: IncomingBytes;
  #controller: Dispatcher.DispatchController | undefined;
  #resolve!: (response: UpstreamResponse) => void;
  #reject!: (error: unknown) => void;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.#bytes = new IncomingBytes({
      pause: () => this.#controller?.pause(),
      resume: () => this.#controller?.resume(),
    });
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    exchange.carrier = this;
    if (exchange.reason !== undefined) this.#reject(exchange.reason);
  }

  /** Whether the request was begun on a connection: from then on, the upstream may have read it. */
  get isBegun(): boolean {
    return this.#controller !== undefined;
  }

  // Also while there is no connection yet: one that is made later is told then.
  cut(reason: Error): void {
    this.#reject(reason);
    this.#bytes.cut(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const { reason } = this.#exchange;
    if (reason instanceof Error) controller.abort(reason);
    else this.#exchange.connected();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers_): void {
    if (status >= 200) this.#resolve(decompressed(new NodeResponse(status, headers, this.#bytes)));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes.push(chunk);
  }

  onResponseEnd(): void {
    this.#bytes.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error);
    this.#bytes.fail(error);
  }
}

class NodeResponse implements UpstreamResponse {
  readonly status: number;
  readonly #headers: Headers_;
  readonly #bytes: IncomingBytes;

  constructor(status: number, headers: Headers_, bytes: IncomingBytes) {
    this.status = status;
    this.#headers = headers;
    this.#bytes = bytes;
  }

  header(name: string): string | undefined {
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  headers(): Headers {
    const headers = new Headers();
    for (const name of Object.keys(this.#headers)) headers.set(name, this.header(name) ?? "");
    return headers;
  }

  read(): Promise<Uint8Array | undefined> {
    return this.#bytes.read();
  }
}
