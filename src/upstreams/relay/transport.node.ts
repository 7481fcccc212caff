/** The transport on Node: uses connections that undici keeps alive. This is many times faster than Node's built-in fetch. */

import { type Transform, Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { Dispatcher, Pool } from "undici";
import { backendError } from "../../errors.ts";
import { type AnswerHeaders, QueuedResponse } from "./queued-response.ts";
import type { Carrier, Exchange, OpenTransport, UpstreamRequest, UpstreamResponse } from "./transport.ts";

export const openTransport: OpenTransport = (origin, { connectMs }) => {
  let opened: Promise<Pool> | undefined;
  let pool: Pool | undefined;
  const open = async (): Promise<Pool> => {
    // Load undici with the first request: on a Node that is too old for undici, the import of this library then throws its own clear
    // error.
    const undici = await import("undici");
    // No timeouts here: the exchange limits the waits for the answer.
    return new undici.Pool(origin, {
      connect: { timeout: connectMs },
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    });
  };
  return {
    /**
     * Sends a request. Repeats the request once if its connection was closed before a byte of it was written. After that the upstream
     * may have begun to work on it. This happens with kept connections: undici checks such a connection before it writes, and when
     * the connection was reset, the waiting request fails.
     */
    async send(request, exchange) {
      pool ??= await (opened ??= open());
      const handler = dispatched(pool, request, exchange);
      try {
        return await handler.response.promise;
      } catch (error) {
        if (handler.hasBegun || exchange.reason !== undefined || !isClosed(error)) throw error;
        return dispatched(pool, request, exchange).response.promise;
      }
    },
    async close() {
      const closing = await opened;
      // A pool that is closed already rejects a second close.
      if (closing?.destroyed === false) await closing.close();
    },
  };
};

function dispatched(pool: Pool, { method, path, headers, body }: UpstreamRequest, exchange: Exchange): Handler {
  const handler = new Handler(exchange);
  pool.dispatch({ method, path, headers, body: body ?? null }, handler);
  return handler;
}

/** Error codes of a connection that ended. */
const CLOSED = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

const isClosed = (error: unknown): boolean =>
  CLOSED.has(String((error as { code?: unknown } | null | undefined)?.code));

/** A request on its connection. */
class Handler implements Dispatcher.DispatchHandler, Carrier {
  readonly response: PromiseWithResolvers<UpstreamResponse> = Promise.withResolvers();
  readonly #exchange: Exchange;
  #controller: Dispatcher.DispatchController | undefined;
  #answer: QueuedResponse | undefined;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    exchange.carrier = this;
    if (exchange.reason !== undefined) this.response.reject(exchange.reason);
  }

  /** True once the request has begun on a connection: the upstream may then have read it. */
  get hasBegun(): boolean {
    return this.#controller !== undefined;
  }

  // Without a connection there is no controller yet: `onRequestStart` then aborts the request.
  cut(reason: Error): void {
    this.response.reject(reason);
    this.#answer?.cut(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#exchange.reason) controller.abort(this.#exchange.reason);
    else this.#exchange.connected();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200) return;
    this.#answer = new QueuedResponse(status, headers, controller);
    this.response.resolve(decompressed(this.#answer));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#answer?.push(chunk);
  }

  onResponseEnd(): void {
    this.#answer?.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.response.reject(error);
    this.#answer?.fail(error);
  }
}

const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/**
 * Returns the response with its body decompressed: an upstream may compress although the request forbids it. Reading throws
 * `backend_failed` when the coding is unknown.
 */
function decompressed(response: UpstreamResponse): UpstreamResponse {
  const coding = (response.header("content-encoding") ?? "identity").trim().toLowerCase();
  if (coding === "identity" || coding === "") return response;
  const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding]?.() : undefined;
  const pieces = decoder && decodedPieces(response, decoder);
  return {
    status: response.status,
    header: (name) => response.header(name),
    headers: () => response.headers(),
    async read() {
      if (pieces) return (await pieces.next()).value;
      const cause = new Error(`The upstream's answer is coded as ${JSON.stringify(coding.slice(0, 64))}.`);
      throw backendError("failed", cause);
    },
  };
}

function decodedPieces(response: UpstreamResponse, decoder: Transform): AsyncIterator<Uint8Array, undefined> {
  const compressed = Readable.from(compressedPieces(response), { objectMode: false });
  // Keep a listener: without one, an error between two reads would end the process.
  decoder.on("error", () => {});
  compressed.on("error", (error) => decoder.destroy(error));
  return compressed.pipe(decoder)[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
}

async function* compressedPieces(response: UpstreamResponse): AsyncGenerator<Uint8Array> {
  for (let piece = await response.read(); piece; piece = await response.read()) yield piece;
}
