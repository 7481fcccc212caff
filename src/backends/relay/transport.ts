/** What carries a request to an upstream and its answer back, byte by byte; each runtime has its own (`#transport`). */

import type { Exchange } from "./exchange.ts";

/** Carries requests to one origin. */
export interface Transport {
  /**
   * Sends a request; resolves when the answer's status and headers are there. Never follows a redirect, and hands on no 1xx.
   * Rejects with the exchange's reason once that is cut, and so does every read.
   */
  send(request: UpstreamRequest, exchange: Exchange): Promise<UpstreamResponse>;
  /** Lets requests end, and then closes every connection. */
  close(): Promise<void>;
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST";
  /** Path and query, from the origin's root. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface UpstreamResponse {
  readonly status: number;
  /** A header by its name in lower case. */
  header(name: string): string | undefined;
  headers(): Headers;
  /** The next piece of the body, decompressed; undefined at its end. One read at a time. */
  read(): Promise<Uint8Array | undefined>;
}

/** Opens the way to an origin, such as `https://example.com:8443`. */
export type OpenTransport = (origin: string, options: TransportOptions) => Transport;

export interface TransportOptions {
  /** How long a connection may take to be made, in milliseconds. */
  readonly connectMs: number;
}
