/** An upstream that answers in raw bytes, as no decent server would. */

import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";

/** An address where nobody listens. A port that a server has just left may be another's by now; no server is given a port as low as this. */
export const NOBODY = "127.0.0.1:2";

export interface RawRequest {
  /** The first line and the headers. */
  readonly head: string;
  readonly body: string;
}

export interface RawUpstream extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly RawRequest[];
  /** The number of connections made so far, and the number of open ones. */
  readonly connections: { readonly made: number; readonly open: number };
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>;
}

export type RawAnswer = (socket: Socket, request: RawRequest) => unknown;

/** @param greet What it does with a connection before anything has come. */
export async function rawUpstream(answer: RawAnswer, greet?: (socket: Socket) => unknown): Promise<RawUpstream> {
  const requests: RawRequest[] = [];
  const sockets = new Set<Socket>();
  const connections = { made: 0, open: 0 };
  let closed: (() => void) | undefined;
  const server = createServer((socket) => {
    connections.made++;
    connections.open++;
    sockets.add(socket);
    let received = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      received += chunk;
      const end = received.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0);
      if (end < 0 || received.length < end + 4 + length) return;
      const request = { head: received.slice(0, end), body: received.slice(end + 4, end + 4 + length) };
      received = received.slice(end + 4 + length);
      requests.push(request);
      answer(socket, request);
    });
    socket.on("error", () => {});
    greet?.(socket);
    socket.on("close", () => {
      connections.open--;
      sockets.delete(socket);
      if (connections.open === 0) closed?.();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    connections,
    allClosed: () =>
      new Promise((resolve) => {
        closed = resolve;
        if (connections.open === 0) resolve();
      }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The head of a response. */
export const head = (status: number, headers: Readonly<Record<string, string | number>> = {}): string =>
  `HTTP/1.1 ${status} Said\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`;

/** A whole response with a length. */
export function whole(
  status: number,
  type: string,
  body: string | Buffer,
  more: Readonly<Record<string, string>> = {},
): Buffer {
  const bytes = Buffer.from(body);
  const headers = { ...(type && { "content-type": type }), "content-length": bytes.length, ...more };
  return Buffer.concat([Buffer.from(head(status, headers)), bytes]);
}

export const STREAM_HEAD: string = head(200, { "content-type": "text/event-stream", connection: "close" });

/** Sends the first bytes, and then the others again and again. */
export const endless =
  (first: string, more: string): RawAnswer =>
  (socket) => {
    socket.write(first);
    const goOn = (): void => {
      if (!socket.destroyed) socket.write(more, () => void setImmediate().then(goOn));
    };
    goOn();
  };

/** Sends the first bytes, and then one event of 100 MB, while the connection is open. */
export const hundredMegabytes =
  (first: string): RawAnswer =>
  async (socket) => {
    const piece = Buffer.alloc(1024 ** 2, "a");
    socket.write(`${first}data: "`);
    for (let count = 0; count < 100 && !socket.destroyed; count++)
      await new Promise((written) => socket.write(piece, written));
    socket.end();
  };
