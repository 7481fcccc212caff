/** The transport on Node: uses connections that undici keeps alive. This is many times faster than Node's built-in fetch. */

import { type Transform, Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { Dispatcher, Pool } from "undici";
import { GatewayError } from "../../errors.ts";
import { concatenated } from "../../http/body.ts";
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
        return await handler.response;
      } catch (error) {
        if (handler.hasBegun || exchange.reason !== undefined || !isClosed(error)) throw error;
        return dispatched(pool, request, exchange).response;
      }
    },
    async close() {
      await (await opened)?.close();
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

/** One request on its connection. */
class Handler implements Dispatcher.DispatchHandler, Carrier {
  readonly response: Promise<UpstreamResponse>;
  readonly #exchange: Exchange;
  #controller: Dispatcher.DispatchController | undefined;
  #answer: NodeResponse | undefined;
  #resolve!: (response: UpstreamResponse) => void;
  #reject!: (error: unknown) => void;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    exchange.carrier = this;
    if (exchange.reason !== undefined) this.#reject(exchange.reason);
  }

  /** True once the request has begun on a connection: the upstream may then have read it. */
  get hasBegun(): boolean {
    return this.#controller !== undefined;
  }

  // Without a connection there is no controller yet: `onRequestStart` then aborts the request.
  cut(reason: Error): void {
    this.#reject(reason);
    this.#answer?.cut(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#exchange.reason) controller.abort(this.#exchange.reason);
    else this.#exchange.connected();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: NodeHeaders): void {
    if (status < 200) return;
    this.#answer = new NodeResponse(status, headers, controller);
    this.#resolve(decompressed(this.#answer));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#answer?.push(chunk);
  }

  onResponseEnd(): void {
    this.#answer?.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error);
    this.#answer?.fail(error);
  }
}

type NodeHeaders = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

/** When this many bytes wait to be read, the connection is paused. */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Each waiting piece counts as this many bytes at least, so that an upstream that sends single bytes cannot fill the memory with
 * pieces.
 */
const MIN_PIECE_BYTES = 1024;

/** An answer whose bytes may come faster than they are read. Some bytes wait here; when there are too many, the connection is paused. */
export class NodeResponse implements UpstreamResponse {
  readonly status: number;
  readonly #headers: NodeHeaders;
  readonly #connection: Pick<Dispatcher.DispatchController, "pause" | "resume">;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  /** Wakes the reader that waits for a piece, or for the end. */
  #wake: (() => void) | undefined;
  #ended: { readonly error?: unknown } | undefined;

  constructor(
    status: number,
    headers: NodeHeaders,
    connection: Pick<Dispatcher.DispatchController, "pause" | "resume">,
  ) {
    this.status = status;
    this.#headers = headers;
    this.#connection = connection;
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

  push(piece: Uint8Array): void {
    if (this.#ended) return;
    this.#waiting.push(piece);
    this.#waitingBytes += Math.max(MIN_PIECE_BYTES, piece.byteLength);
    this.#wake?.();
    if (this.#isPaused || this.#waitingBytes < MAX_WAITING_BYTES) return;
    this.#isPaused = true;
    this.#connection.pause();
  }

  /** Ends the body. The pieces that wait can still be read. */
  end(): void {
    this.#ended ??= {};
    this.#wake?.();
  }

  /** Ends the body with an error. The pieces that wait can be read before the error is thrown. */
  fail(error: unknown): void {
    this.#ended ??= { error };
    this.#wake?.();
  }

  /** Ends the body with an error at once, and drops the pieces that wait. */
  cut(error: unknown): void {
    this.#waiting = [];
    this.#ended = { error };
    this.#wake?.();
  }

  /** Returns all waiting pieces as one, because undici's parser delivers each chunk of a body alone, even when many arrive together. */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#waiting.length === 0 && !this.#ended) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#waiting.length === 0) {
      if (this.#ended && "error" in this.#ended) throw this.#ended.error;
      return undefined;
    }
    const pieces = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#connection.resume();
    }
    return concatenated(pieces);
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
      throw new GatewayError("backend_failed", "The model backend failed.", { port: "model-backend", cause });
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
