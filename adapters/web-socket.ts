/** WebSockets of runtimes that have the browsers' interface: the parts that the adapters of Deno and the edge share. */

import type { SocketHandler, SocketPeer } from "../src/index.ts";

/** A WebSocket of the runtime, as far as the gateway uses it. */
export interface WebSocketLike {
  /** `CONNECTING` until messages may be sent. */
  readonly readyState: number;
  /** The bytes that wait for the client. Missing in runtimes that do not count them. */
  readonly bufferedAmount?: number;
  send(message: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: { readonly data?: unknown }) => void): void;
}

/** A message is held back while more than this waits for its client, in bytes. */
const HIGH_WATER_BYTES = 64 * 1024;
/** The time between two looks at what waits, in milliseconds. */
const LOOK_MS = 20;

const CONNECTING = 0;

/** Gives the events of a WebSocket to the gateway. */
export function attach(socket: WebSocketLike, handler: SocketHandler): void {
  const peer = new WebPeer(socket, handler);
  socket.addEventListener("message", ({ data }) => {
    if (typeof data === "string") handler.message(data);
    else if (data instanceof ArrayBuffer) handler.message(new Uint8Array(data));
    else if (data instanceof Uint8Array) handler.message(data);
    else peer.close(1003, "only texts are understood");
  });
  socket.addEventListener("close", () => peer.closed());
  socket.addEventListener("error", () => peer.closed());
  if (socket.readyState === CONNECTING) socket.addEventListener("open", () => handler.open(peer));
  else handler.open(peer);
}

class WebPeer implements SocketPeer {
  #isClosed = false;
  readonly #socket: WebSocketLike;
  readonly #handler: SocketHandler;

  constructor(socket: WebSocketLike, handler: SocketHandler) {
    this.#socket = socket;
    this.#handler = handler;
  }

  send(message: string): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    this.#socket.send(message);
    return this.#isFull ? this.#emptied() : undefined;
  }

  close(code: number, reason: string): void {
    if (!this.#isClosed) this.#socket.close(code, reason);
  }

  /** Closes, and counts as closed: a client that answers no close would otherwise keep its place until its TCP connection ends. */
  terminate(): void {
    this.close(1013, "the client does not read");
    this.closed();
  }

  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#handler.closed();
  }

  get #isFull(): boolean {
    return (this.#socket.bufferedAmount ?? 0) > HIGH_WATER_BYTES;
  }

  /** Resolves when the client has read what waits. The interface has no event for that. */
  async #emptied(): Promise<void> {
    while (this.#isFull && !this.#isClosed) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
