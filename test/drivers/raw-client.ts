/** A client that a test can hang up in every manner there is: over a bare socket, or with no socket between. */

import { connect } from "node:net";
import type { Stage } from "../hosts/stage.ts";
import type { Sent } from "./driver.ts";

export const MANNERS = ["closes", "resets", "half-closes"] as const;

export type Manner = (typeof MANNERS)[number];

export interface RawClient {
  /** Resolves when all of the request has been handed to the connection, or cannot be any more. */
  readonly sent: Promise<void>;
  /** Resolves when the text has come, or the whole answer where none is told. */
  until(text: RegExp | undefined): Promise<void>;
  /** Reads on, after it was told not to. */
  read(): void;
  hangUp(manner: Manner): void;
}

/** Sends a request and reads its answer, unless `reading` is false: then nothing is taken off the connection. */
export function rawClient(stage: Stage, sent: Sent, reading = true): RawClient {
  return stage.host.url === undefined ? directly(stage, sent, reading) : overSocket(stage, sent, reading);
}

/** A whole answer over a socket: its last chunk has come, or as many bytes as its head has told. */
function isWhole(text: string): boolean {
  const [head = "", body] = text.split(/\r\n\r\n([^]*)/, 2);
  if (body === undefined) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  return length === undefined ? body.endsWith("\r\n0\r\n\r\n") : body.length >= Number(length);
}

/** As much as is kept of what has come: more than the answers whose whole is waited for have. */
const KEPT = 10_000;

/** What has come last, and who waits for something in it. */
class Received {
  #text = "";
  #isOver = false;
  #look: () => void = () => {};

  add(text: string): void {
    this.#text = (this.#text + text).slice(-KEPT);
    this.#look();
  }

  end(): void {
    this.#isOver = true;
    this.#look();
  }

  until(text: RegExp | undefined): Promise<void> {
    const hasCome = (): boolean => (text ? text.test(this.#text) : this.#isOver || isWhole(this.#text));
    return new Promise((resolve) => {
      this.#look = () => hasCome() && resolve();
      this.#look();
    });
  }
}

function overSocket({ host, path }: Stage, sent: Sent, reading: boolean): RawClient {
  const { host: authority, hostname, port } = new URL(host.url ?? "");
  const received = new Received();
  const { headers, body } = sent.init;
  const lines = Object.entries({ host: authority, ...headers, "content-length": Buffer.byteLength(body) });
  const socket = connect(Number(port), hostname);
  // A byte is a character, so that bytes can be counted.
  socket.setEncoding("latin1").on("data", (chunk: string) => received.add(chunk));
  if (!reading) socket.pause();
  socket.on("error", () => {});
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const written = Promise.withResolvers<void>();
  socket.write(`POST ${path(sent.path)} HTTP/1.1\r\n${head}\r\n${body}`, () => written.resolve());
  const manners: Record<Manner, () => void> = {
    closes: () => socket.destroy(),
    resets: () => socket.resetAndDestroy(),
    "half-closes": () => socket.end(),
  };
  return {
    sent: written.promise,
    until: (part) => received.until(part),
    read: () => void socket.resume(),
    hangUp: (manner) => manners[manner](),
  };
}

function directly(stage: Stage, sent: Sent, reading: boolean): RawClient {
  const received = new Received();
  const [hangUp, mayRead] = [new AbortController(), Promise.withResolvers<void>()];
  if (reading) mayRead.resolve();
  const answer = async (): Promise<void> => {
    const response = await stage.request(sent.path, { ...sent.init, signal: hangUp.signal });
    await mayRead.promise;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    hangUp.signal.addEventListener("abort", () => void reader?.cancel());
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) received.add(step.value);
    received.end();
  };
  answer().catch(() => {});
  return {
    sent: Promise.resolve(),
    until: (part) => received.until(part),
    read: mayRead.resolve,
    hangUp: () => hangUp.abort(),
  };
}
