/** A body beyond the limit, from a client that sends all of it before it reads: the answer must not be lost (RFC 9112, 9.6). */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, it } from "vitest";
import type { Client } from "./servers.ts";

const MIB = 1024 * 1024;

/** A connection that nothing is read from yet, as with a client whose buffers are full. */
async function unread(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  await once(socket, "connect");
  // A write that fails says so itself.
  return socket.on("error", () => {}).pause();
}

const write = (socket: Socket, data: string | Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => socket.write(data, (error) => (error ? reject(error) : resolve())));

/** The answer, read to the end of its JSON. */
async function readAnswer(socket: Socket): Promise<string> {
  let answer = "";
  for await (const data of socket.setEncoding("utf8")) {
    answer += String(data);
    if (answer.endsWith("}")) break;
  }
  return answer;
}

const headOf = (url: string): string =>
  [
    `POST ${new URL(`${url}/v1/messages`).pathname} HTTP/1.1`,
    "host: playground",
    "x-api-key: sk-demo",
    "compat-version: 2023-06-01",
    "content-type: application/json",
  ].join("\r\n");

export const largeBody: Client = (playground) => {
  it("is answered with 413 where its length is declared", async () => {
    const socket = await unread(playground().url);
    await write(socket, `${headOf(playground().url)}\r\ncontent-length: ${33 * MIB}\r\n\r\n`);
    for (let sent = 0; sent < 33; sent++) await write(socket, Buffer.alloc(MIB, " "));
    expect(await readAnswer(socket)).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"request_too_large"/);
  });

  it("is answered with 413 where its length is not declared", async () => {
    const socket = await unread(playground().url);
    await write(socket, `${headOf(playground().url)}\r\ntransfer-encoding: chunked\r\n\r\n`);
    const chunk = Buffer.concat([Buffer.from(`${MIB.toString(16)}\r\n`), Buffer.alloc(MIB, " "), Buffer.from("\r\n")]);
    for (let sent = 0; sent < 34; sent++) await write(socket, chunk);
    await write(socket, "0\r\n\r\n");
    expect(await readAnswer(socket)).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"request_too_large"/);
  });
};
