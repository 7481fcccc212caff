/** A bare client of the generate-content endpoints: what goes over its socket, and what it reads there. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";

export const COMPLETE = "/v1beta/models/demo-chat:generateContent";
export const STREAM = "/v1beta/models/demo-chat:streamGenerateContent";
export const KEY = { "x-goog-api-key": "sk-demo" };

/** A request that says one thing. */
export const say = (text: string, more: object = {}): object => ({ contents: [{ parts: [{ text }] }], ...more });

export interface Asked {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A connection to the playground. */
export async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  await once(socket, "connect");
  return socket.setNoDelay();
}

/** The head of a request, by its whole address. */
export const head = (address: string, headers: Readonly<Record<string, string>>, version = "1.1"): string =>
  [
    `POST ${address.replace(/^https?:\/\/[^/]+/, "")} HTTP/${version}`,
    "host: playground",
    "content-type: application/json",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "\r\n",
  ].join("\r\n");

export interface Bytes {
  readonly head: string;
  readonly body: Buffer;
}

/** An answer as its bytes: the server writes the body of HTTP/1.0 bare, and closes the connection at its end. */
export async function bytesOf(url: string, { path = COMPLETE, headers = KEY, body = "" }: Asked): Promise<Bytes> {
  const socket = await open(url);
  const length = { "content-length": String(Buffer.byteLength(body)) };
  socket.write(head(url + path, { ...headers, ...length }, "1.0") + body);
  const answer = await readAll(socket);
  const end = answer.indexOf("\r\n\r\n");
  return { head: answer.subarray(0, end).toString("latin1"), body: answer.subarray(end + 4) };
}

export async function readAll(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

/** What the tests read of an answer. */
export interface Answer {
  readonly candidates?: readonly {
    readonly content?: { readonly parts: readonly { readonly text?: string }[] };
    readonly finishReason?: string;
  }[];
  readonly error?: {
    readonly code: number;
    readonly status: string;
    readonly message: string;
    readonly details: unknown;
  };
}

/** What a plain client gets, by fetch. */
export async function ask(
  url: string,
  body: unknown,
  { path = COMPLETE, headers = KEY }: Asked = {},
): Promise<Answer & { status: number }> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, ...((await response.json()) as Answer) };
}

/** All text of an answer, or of the chunks of one. */
export const textOf = (answers: readonly Answer[]): string =>
  answers
    .flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? [])
    .map(({ text }) => text ?? "")
    .join("");

/** Where the playground is, once it has started. */
export type Url = () => string;
