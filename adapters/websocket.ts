/** Mounts a gateway's WebSockets on Node's http server, and so below every framework that listens with one. */

import { type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { Answer, Mountable, Mounted, MountOptions, SocketHandler, SocketPeer } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { wrongAddress } from "../src/wrong-address.ts";
import { mountedRoutes } from "./mount.ts";
import { requestOf, send } from "./node-mount.ts";

assertNodeVersion();

/** A listener for the event `upgrade` of Node's http server. */
export type UpgradeHandler = (this: Server | void, req: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** The options of the handler of upgrades to WebSockets. */
export interface UpgradeHandlerOptions<Context = unknown> extends MountOptions {
  /** Makes the host's own context for a message. The backend and the stores receive it as `call.context`. */
  readonly context?: (req: IncomingMessage) => Context;
}

/** The time between two pings of a connection, in milliseconds. A client that has not answered the last one is gone. */
const PING_MS = 30_000;

const ignore = (): void => {};

/** A message is held back while more than this waits for its client, in bytes. */
const HIGH_WATER_BYTES = 64 * 1024;

/**
 * Returns a listener for the upgrades of an http server: a client of the Responses format then gets its events over a WebSocket. An upgrade
 * that the gateway does not own is left to the server's other listeners; without any, it gets the 404 of `wrongAddress`. Frameworks remove no path from an
 * upgrade, so `prefix` is the whole path of the gateway.
 *
 * @example server.on("upgrade", toUpgradeHandler(gateway, { prefix: "/ai" }));
 */
export function toUpgradeHandler<Context = unknown>(
  gateway: Mountable<Context>,
  options: UpgradeHandlerOptions<Context> = {},
): UpgradeHandler {
  const routes = mountedRoutes("toUpgradeHandler", gateway, options, { prefix: "string?", context: "function?" });
  const { prefix = "", context } = options;
  const peers = new Peers();
  return function (req, stream, head) {
    const socket = stream as Socket;
    const mounted: Mounted<Context> = {
      get context() {
        return context?.(req);
      },
      clientAddress: socket.remoteAddress,
      onDisconnect: (listener) => {
        socket.once("close", listener);
        return () => socket.off("close", listener);
      },
    };
    const request = isFree(req, socket) ? requestOf(req) : undefined;
    // Each message becomes a request of the same address.
    const connecting = request && URL.canParse(request.url) ? routes.connect(request, mounted) : undefined;
    if (!connecting) {
      if (this && this.listenerCount("upgrade") > 1) return;
      const body = JSON.stringify(wrongAddress(gateway, req.method, req.url, prefix, req.headers));
      return refuse(req, socket, { status: 404, headers: { "content-type": "application/json" }, body });
    }
    // A client may leave before it is accepted.
    socket.on("error", ignore);
    void connecting
      .then((accepted) => {
        socket.off("error", ignore);
        if (!("message" in accepted)) return refuse(req, socket, accepted);
        if (socket.destroyed) return accepted.closed();
        peers.accept(req, socket, head, accepted);
      })
      .catch(() => socket.destroy());
  };
}

/**
 * Tells whether all earlier requests of a connection are answered. A client that sends an upgrade behind an open request can get no answer to
 * it: bytes of both answers would mix, and Node throws where a second response takes the socket.
 */
function isFree(req: IncomingMessage, socket: Socket): boolean {
  const res = new ServerResponse(req);
  try {
    res.assignSocket(socket);
    res.detachSocket(socket);
    return true;
  } catch {
    return false;
  }
}

/** Answers an upgrade with a plain answer, and closes the connection. Closes it without an answer while an earlier request has none. */
function refuse(req: IncomingMessage, socket: Socket, answer: Answer): void {
  socket.on("error", ignore);
  if (!isFree(req, socket)) return void socket.destroy();
  const res = new ServerResponse(req);
  res.assignSocket(socket);
  res.once("finish", () => socket.end());
  void send(res, { ...answer, headers: { ...answer.headers, connection: "close" } });
}

/** The open WebSockets of one mount. One timer pings all, because an idle connection should cost little. */
class Peers {
  readonly #peers = new Set<Peer>();
  #server: WebSocketServer | undefined;
  #timer: NodeJS.Timeout | undefined;

  accept(req: IncomingMessage, socket: Socket, head: Buffer, handler: SocketHandler): void {
    // No compression: a small message could become a large one. No answer to pings by itself: a client that reads none could fill the memory.
    this.#server ??= new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      autoPong: false,
      maxPayload: handler.maxMessageBytes,
    });
    let isOpen = false;
    socket.once("close", () => isOpen || handler.closed());
    this.#server.handleUpgrade(req, socket, head, (ws) => {
      isOpen = true;
      const peer = new Peer(ws, socket, handler);
      this.#peers.add(peer);
      ws.once("close", () => this.#forget(peer));
      this.#timer ??= setInterval(() => this.#pingAll(), PING_MS).unref();
      handler.open(peer);
    });
  }

  #forget(peer: Peer): void {
    this.#peers.delete(peer);
    if (this.#peers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #pingAll(): void {
    for (const peer of this.#peers) peer.ping();
  }
}

/** The time for a client to read the refusal of its message, in milliseconds. */
const FAREWELL_MS = 1_000;

/** Reads no more of a client whose message has no room. */
function refuseRest(ws: WebSocket): void {
  ws.pause();
  ws.close(1013, "no room for the message");
  setTimeout(() => ws.terminate(), FAREWELL_MS).unref();
}

/** Follows the headers of a client's frames, to tell the bytes of a message from those of pings and pongs. */
class Frames {
  #first = 0;
  #headerBytes = 0;
  /** The header up to the end of the length, and up to the end of the mask, in bytes. */
  #lengthBytes = 2;
  #wholeHeaderBytes = 2;
  /** The bytes of the payload that are still to come. */
  #payloadBytes = 0;

  /** Takes bytes of the connection. Returns the number of those that belong to a message without its end. */
  take(chunk: Uint8Array): number {
    let unfinished = 0;
    for (let at = 0; at < chunk.length;) {
      let taken = 1;
      if (this.#headerBytes < this.#wholeHeaderBytes) this.#header(chunk[at] ?? 0);
      else {
        taken = Math.min(this.#payloadBytes, chunk.length - at);
        this.#payloadBytes -= taken;
      }
      at += taken;
      const isControl = (this.#first & 0x08) !== 0;
      if (!isControl) unfinished += taken;
      if (this.#headerBytes < this.#wholeHeaderBytes || this.#payloadBytes > 0) continue;
      const isFinal = (this.#first & 0x80) !== 0;
      if (isFinal && !isControl) unfinished = 0;
      this.#headerBytes = 0;
      this.#wholeHeaderBytes = 2;
    }
    return unfinished;
  }

  /** Takes a byte of a header. RFC 6455, section 5.2. */
  #header(byte: number): void {
    const at = this.#headerBytes++;
    if (at === 0) this.#first = byte;
    else if (at === 1) {
      const length = byte & 0x7f;
      const moreBytes = length === 127 ? 8 : length === 126 ? 2 : 0;
      this.#payloadBytes = moreBytes > 0 ? 0 : length;
      this.#lengthBytes = 2 + moreBytes;
      this.#wholeHeaderBytes = this.#lengthBytes + ((byte & 0x80) !== 0 ? 4 : 0);
    } else if (at < this.#lengthBytes) this.#payloadBytes = this.#payloadBytes * 256 + byte;
  }
}

class Peer implements SocketPeer {
  readonly #ws: WebSocket;
  /** True while a ping has no answer. */
  #isAsked = false;

  constructor(ws: WebSocket, socket: Socket, handler: SocketHandler) {
    this.#ws = ws;
    const frames = new Frames();
    // Called behind the listener that gives the complete messages of the chunk.
    socket.on("data", (chunk: Buffer) => {
      const bytes = frames.take(chunk);
      if (bytes > 0 && !handler.arriving(bytes)) refuseRest(ws);
    });
    ws.on("message", (data: Buffer, isBinary: boolean) => handler.message(isBinary ? data : data.toString()));
    ws.on("ping", (data: Buffer) => {
      // A client that sends pings and reads nothing gets no further answers.
      if (ws.bufferedAmount < HIGH_WATER_BYTES) ws.pong(data);
    });
    ws.on("pong", () => (this.#isAsked = false));
    // A message that breaks the protocol closes the connection.
    ws.on("error", () => {});
    ws.once("close", () => handler.closed());
  }

  send(message: string): Promise<void> | undefined {
    const ws = this.#ws;
    if (ws.readyState !== ws.OPEN) return undefined;
    if (ws.bufferedAmount + message.length < HIGH_WATER_BYTES) {
      ws.send(message);
      return undefined;
    }
    // Called also for a connection that has ended.
    return new Promise((resolve) => ws.send(message, () => resolve()));
  }

  close(code: number, reason: string): void {
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  /** Asks for a sign of life. Ends a connection that has not answered the last time. */
  ping(): void {
    if (this.#isAsked) return this.#ws.terminate();
    this.#isAsked = true;
    this.#ws.ping();
  }
}
