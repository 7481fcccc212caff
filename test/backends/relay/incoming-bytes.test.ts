/** Pieces that an upstream sends faster than they are read. */

import { expect, it } from "vitest";
import { IncomingBytes } from "../../../src/backends/relay/incoming-bytes.ts";

function tapped(): { bytes: IncomingBytes; told: string[] } {
  const told: string[] = [];
  const bytes = new IncomingBytes({ pause: () => told.push("pause"), resume: () => told.push("resume") });
  return { bytes, told };
}

it.each([
  [1, 256],
  [1024, 256],
  [64 * 1024, 4],
])("pause the connection: pieces of %i bytes after %i of them", async (size, most) => {
  const { bytes, told } = tapped();
  for (let sent = 1; sent < most; sent++) bytes.push(new Uint8Array(size));
  expect(told).toEqual([]);
  bytes.push(new Uint8Array(size));
  expect(told).toEqual(["pause"]);
  for (let read = 0; read < most; read++) expect(await bytes.read()).toHaveLength(size);
  expect(told).toEqual(["pause", "resume"]);
});
