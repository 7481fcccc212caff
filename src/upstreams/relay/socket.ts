/** A WebSocket to an upstream: the functions and the events of each side. Each runtime has its own implementation. */

import type { Pausable } from "./queued-response.ts";

/** The relay's end of a WebSocket. Its functions do nothing once it is closed. */
export interface UpstreamSocket extends Pausable {
  send(message: string): void;
  /** Tells whether a call uses the socket. One without a call does not keep the process alive. */
  hold(isUsed: boolean): void;
  /** Closes the connection behind all messages. */
  close(): void;
  /** Ends the connection at once. */
  terminate(): void;
}

/** Receives the events of a WebSocket. */
export interface SocketListener {
  message(text: string): void;
  /**
   * The connection is closed. Called once, after everything else.
   *
   * @param code The code of the upstream's own close; undefined for a connection that was lost.
   */
  closed(code: number | undefined): void;
}

interface SocketOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** The longest message, in bytes. A longer one ends the connection. */
  readonly maxMessageBytes: number;
  /** The longest wait for the connection, in milliseconds. */
  readonly connectMs: number;
}

/** The upstream has answered the upgrade with a status: it takes no WebSocket here. */
export class SocketRefused extends Error {
  override readonly name = "SocketRefused";
  readonly status: number;

  constructor(status: number) {
    super(`The upstream answered the upgrade with ${status}.`);
    this.status = status;
  }
}

/** Opens a WebSocket to an address such as `wss://api.example.com/v1/responses`. Rejects when there is none. */
export type OpenSocket = (address: string, options: SocketOptions, listener: SocketListener) => Promise<UpstreamSocket>;
