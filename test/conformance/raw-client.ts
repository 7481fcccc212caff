/** A client that a test can hang up in every manner there is: over a bare socket, or with no socket between. */

import { connect } from "node:net";
import { post, type Stage } from "./stage.ts";

export const MANNERS = ["closes", "resets", "half-closes"] as const;

export type Manner = (typeof MANNERS)[number];

export interface RawClient {
  /** Resolves when the text has come. */
  until(text: string): Promise<void>;
  /** Reads on, after it was told not to. */
  read(): void;
  hangUp(manner: Manner): void;
}

/** Sends a messages request and reads its answer, unless `reading` is false: then nothing is taken off the connection. */
export function rawClient(stage: Stage, body: unknown, reading = true): RawClient {
  return stage.host.url === undefined ? directly(stage, body, reading) : overSocket(stage, body, reading);
}

/** What has come last, and who waits for a text in it. */
class Received {
  #tail = "";
  #waiting: ((tail: string) => void) | undefined;

  add(text: string): void {
    this.#tail = this.#tail.slice(-100) + text;
    this.#waiting?.(this.#tail);
  }

  until(text: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = (tail) => tail.includes(text) && resolve();
      this.#waiting(this.#tail);
    });
  }
}

function overSocket({ host, path }: Stage, body: unknown, reading: boolean): RawClient {
  const { host: authority, hostname, port } = new URL(host.url ?? "");
  const received = new Received();
  const { headers, body: text } = post(body);
  const lines = Object.entries({ host: authority, ...headers, "content-length": Buffer.byteLength(text) });
  const socket = connect(Number(port), hostname);
  socket.setEncoding("utf8").on("data", (chunk: string) => received.add(chunk));
  if (!reading) socket.pause();
  socket.on("error", () => {});
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`POST ${path("/v1/messages")} HTTP/1.1\r\n${head}\r\n${text}`);
  const manners: Record<Manner, () => void> = {
    closes: () => socket.destroy(),
    resets: () => socket.resetAndDestroy(),
    "half-closes": () => socket.end(),
  };
  return {
    until: (part) => received.until(part),
    read: () => void socket.resume(),
    hangUp: (manner) => manners[manner](),
  };
}

function directly(stage: Stage, body: unknown, reading: boolean): RawClient {
  const received = new Received();
  const [hangUp, mayRead] = [new AbortController(), Promise.withResolvers<void>()];
  if (reading) mayRead.resolve();
  const answer = async (): Promise<void> => {
    const response = await stage.send(body, { signal: hangUp.signal });
    await mayRead.promise;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    hangUp.signal.addEventListener("abort", () => void reader?.cancel());
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) received.add(step.value);
  };
  answer().catch(() => {});
  return { until: (part) => received.until(part), read: mayRead.resolve, hangUp: () => hangUp.abort() };
}
