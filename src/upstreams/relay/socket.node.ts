/** WebSockets to upstreams on Node, by `ws`. */

import type { Socket } from "node:net";
import { type OpenSocket, SocketRefused, type UpstreamSocket } from "./socket.ts";

/** An upstream that sends pings and reads nothing gets no answers while more than this waits for it, in bytes. */
const HIGH_WATER_BYTES = 64 * 1024;

export const openSocket: OpenSocket = async (
  address,
  { headers, maxMessageBytes: maxPayload, connectMs },
  listener,
) => {
  // Load ws with the first connection, as the transport loads undici.
  const { WebSocket } = await import("ws");
  // No compression: a small message could become a large one. A redirect would send the key to an address that the host has not named.
  const ws = new WebSocket(address, {
    headers: { ...headers },
    maxPayload,
    perMessageDeflate: false,
    followRedirects: false,
    autoPong: false,
  });
  // The handshake's own timeout begins anew with each byte of the upstream.
  const timer = setTimeout(() => ws.terminate(), connectMs);
  const opened = new Promise<UpstreamSocket>((resolve, reject) => {
    let connection: Socket | undefined;
    let isOpen = false;
    /** True when this side ends the connection because of a mistake of the other. */
    let isBroken = false;
    ws.once("upgrade", ({ socket }) => (connection = socket));
    ws.once("unexpected-response", (request, { statusCode }) => {
      request.destroy();
      reject(new SocketRefused(statusCode ?? 0));
    });
    ws.on("error", (error) => {
      isBroken = true;
      reject(error);
    });
    ws.on("ping", (data: Buffer) => {
      if (ws.bufferedAmount < HIGH_WATER_BYTES) ws.pong(data);
    });
    ws.on("message", (data: Buffer) => listener.message(data.toString()));
    ws.once("close", (code) => {
      // 1006 stands for a connection without a close.
      if (isOpen) listener.closed(isBroken || code === 1006 ? undefined : code);
      reject(new Error("The upstream closed the connection."));
    });
    ws.once("open", () => {
      isOpen = true;
      resolve({
        send: (message) => ws.send(message, ignore),
        pause: () => ws.pause(),
        resume: () => ws.resume(),
        hold: (isUsed) => void (isUsed ? connection?.ref() : connection?.unref()),
        close: () => ws.close(1000),
        terminate: () => ws.terminate(),
      });
    });
  });
  return opened.finally(() => clearTimeout(timer));
};

/** An error of a message also closes the connection. */
const ignore = (): void => {};
