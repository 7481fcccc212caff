/** WebSockets to upstreams by the runtime's own class, where it sends headers: on Bun and Deno. */

import { type OpenSocket, SocketRefused } from "./socket.ts";

/** The class of Bun and Deno, which takes headers. The standard types have only protocols. */
type SocketClass = new (address: string, options: { readonly headers: Readonly<Record<string, string>> }) => WebSocket;

export const openSocket: OpenSocket = (address, { headers, maxMessageBytes, connectMs }, listener) => {
  // Elsewhere the credential could not be sent. In Workers, no other request may use the connection.
  if (!("Bun" in globalThis || "Deno" in globalThis)) return Promise.reject(new SocketRefused(426));
  return new Promise((resolve, reject) => {
    const ws = new (WebSocket as unknown as SocketClass)(address, { headers });
    let isOpen = false;
    let isBroken = false;
    const end = (): void => {
      isBroken = true;
      ws.close();
    };
    const timer = setTimeout(end, connectMs);
    ws.addEventListener("message", ({ data }) => {
      if (typeof data === "string" && data.length <= maxMessageBytes) listener.message(data);
      else end();
    });
    ws.addEventListener("error", () => (isBroken = true));
    ws.addEventListener("close", ({ code }) => {
      clearTimeout(timer);
      if (isOpen) listener.closed(isBroken || code === 1006 ? undefined : code);
      reject(new Error("The upstream takes no WebSocket."));
    });
    ws.addEventListener("open", () => {
      clearTimeout(timer);
      isOpen = true;
      resolve({
        send(message) {
          if (ws.readyState === ws.OPEN) ws.send(message);
        },
        // The runtime collects messages by itself: the queue of the answer is bounded instead.
        pause: () => {},
        resume: () => {},
        hold: () => {},
        close: () => ws.close(1000),
        terminate: () => ws.close(),
      });
    });
  });
};
