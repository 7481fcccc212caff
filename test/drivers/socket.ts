/** A client of responses over a WebSocket that reads message by message. */

import { once } from "node:events";
import { WebSocket } from "ws";

export type Event = Readonly<Record<string, unknown>> & { readonly type: string };

/** The events behind which nothing of a turn follows. */
const LAST = /^(?:error|response\.(?:completed|incomplete|failed))$/;

export class SocketClient implements AsyncDisposable {
  readonly ws: WebSocket;
  readonly #waiting: Event[] = [];
  #isClosed = false;
  #arrived: PromiseWithResolvers<void> = Promise.withResolvers();
  /** The code and the reason of the end, once the connection is closed. */
  readonly closed: Promise<readonly [code: number, reason: string]>;

  constructor(ws: WebSocket) {
    this.ws = ws;
    ws.on("message", (data: Buffer) => {
      this.#waiting.push(JSON.parse(data.toString()) as Event);
      this.#arrived.resolve();
    });
    ws.on("error", () => {});
    this.closed = new Promise((resolve) =>
      ws.once("close", (code, reason) => {
        this.#isClosed = true;
        this.#arrived.resolve();
        resolve([code, reason.toString()]);
      }),
    );
  }

  send(event: object): void {
    this.ws.send(JSON.stringify(event));
  }

  /** Returns the next event. Rejects when the connection has ended instead. */
  async next(): Promise<Event> {
    while (this.#waiting.length === 0) {
      if (this.#isClosed) throw new Error("The connection has ended.");
      await this.#arrived.promise;
    }
    const [event] = this.#waiting.splice(0, 1) as [Event];
    if (this.#waiting.length === 0 && !this.#isClosed) this.#arrived = Promise.withResolvers();
    return event;
  }

  /** Asks for a response, and returns its events up to the last one. */
  async turn(request: object): Promise<Event[]> {
    this.send({ type: "response.create", model: "m", ...request });
    return this.rest();
  }

  /** Returns the events of the running turn up to the last one. */
  async rest(): Promise<Event[]> {
    const events: Event[] = [];
    do events.push(await this.next());
    while (!LAST.test(events.at(-1)?.type ?? ""));
    return events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.ws.terminate();
    await this.closed;
  }
}

/** Opens a WebSocket. Rejects with the status of a refusal. */
export async function openSocket(
  url: string,
  headers: Readonly<Record<string, string>>,
  path = "/v1/responses",
): Promise<SocketClient> {
  const ws = new WebSocket(`${url.replace(/^http/, "ws")}${path}`, { headers: { ...headers } });
  const client = new SocketClient(ws);
  const refused = new Promise<never>((_resolve, reject) => {
    ws.once("unexpected-response", (request, response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        reject(new RefusedError(response.statusCode ?? 0, Buffer.concat(chunks).toString(), response.headers));
        request.destroy();
      });
    });
    ws.once("error", reject);
  });
  await Promise.race([once(ws, "open"), refused]);
  refused.catch(() => {});
  return client;
}

/** The answer to an upgrade that was refused. */
export class RefusedError extends Error {
  readonly status: number;
  readonly body: string;
  readonly headers: NodeJS.Dict<string | string[]>;

  constructor(status: number, body: string, headers: NodeJS.Dict<string | string[]>) {
    super(`${status} ${body}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** Returns the response of a turn's last event. */
export function responseOf(events: readonly Event[]): Readonly<Record<string, unknown>> & { readonly id: string } {
  return events.at(-1)?.["response"] as { readonly id: string };
}

/** Returns the text of a turn. */
export const textOf = (events: readonly Event[]): string =>
  events.flatMap((event) => (event.type === "response.output_text.delta" ? String(event["delta"]) : [])).join("");

/** Returns the code of the error that ends a turn. */
export function errorCodeOf(events: readonly Event[]): unknown {
  const error = events.at(-1)?.["error"] as { readonly code?: unknown } | undefined;
  return error?.code;
}
