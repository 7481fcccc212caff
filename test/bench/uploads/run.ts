/** The benchmark of uploads: the memory that 16 files of 25 MiB in one request take beyond their own bytes. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { Child } from "../../trial/child.ts";
import type { UploadServerState } from "./server.ts";

const MIB = 1024 * 1024;
const FILES = 16;
const FILE_BYTES = 25 * MIB;
const ALLOWED_MIB = 64;

/** Sends a form of files in chunks, as a client streams them from a disk. Returns the sizes that arrived. */
async function upload(port: number, files: number, fileBytes: number): Promise<readonly number[]> {
  const sending = httpRequest({
    port,
    host: "127.0.0.1",
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=form" },
  });
  const answered = once(sending, "response");
  const chunk = Buffer.alloc(64 * 1024, "x");
  const send = async (piece: string | Uint8Array): Promise<void> => {
    if (!sending.write(piece)) await once(sending, "drain");
  };
  for (let file = 0; file < files; file++) {
    await send(`--form\r\ncontent-disposition: form-data; name="image[]"; filename="${file}.png"\r\n\r\n`);
    for (let sent = 0; sent < fileBytes; sent += chunk.length) await send(chunk.subarray(0, fileBytes - sent));
    await send("\r\n");
  }
  sending.end("--form--\r\n");
  const [answer] = (await answered) as [NodeJS.ReadableStream];
  return (JSON.parse(await text(answer)) as { sizes: number[] }).sizes;
}

const inMib = (bytes: number): string => (bytes / MIB).toFixed(1);

export async function benchUploads(): Promise<void> {
  await using server: Child<"state", UploadServerState> = new Child("bench/uploads/server.ts");
  const { port } = await server.ask("state");
  await upload(port, 2, MIB);
  const before = await server.ask("state");
  const sizes = await upload(port, FILES, FILE_BYTES);
  const after = await server.ask("state");
  assert.deepEqual(
    sizes,
    Array.from({ length: FILES }, () => FILE_BYTES),
  );
  assert.equal(after.takenBytes, 0);

  const extra = after.peakResidentBytes - before.residentBytes - FILES * FILE_BYTES;
  console.log(`${FILES} files of ${inMib(FILE_BYTES)} MiB: ${inMib(FILES * FILE_BYTES)} MiB of bytes`);
  console.log(`before ${inMib(before.residentBytes)} MiB, peak ${inMib(after.peakResidentBytes)} MiB resident`);
  console.log(`beside the bytes: ${inMib(extra)} MiB of ${ALLOWED_MIB} MiB allowed`);
  if (extra > ALLOWED_MIB * MIB) process.exitCode = 1;
}
