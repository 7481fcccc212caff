/** Backpressure: pieces of an answer that come faster than they are read. */

import { expect, it } from "vitest";
import { QueuedResponse } from "../../../src/upstreams/relay/queued-response.ts";

function tapped(resumed?: (bytes: QueuedResponse) => void): { bytes: QueuedResponse; told: string[] } {
  const told: string[] = [];
  const bytes = new QueuedResponse(
    200,
    {},
    {
      pause: () => told.push("pause"),
      resume: () => {
        told.push("resume");
        resumed?.(bytes);
      },
    },
  );
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
  expect(await bytes.read()).toHaveLength(most * size);
  expect(told).toEqual(["pause", "resume"]);
});

it("pause a connection again that sends as much as soon as it is resumed", async () => {
  const { bytes, told } = tapped((bytes) => bytes.push(new Uint8Array(256 * 1024)));
  bytes.push(new Uint8Array(256 * 1024));
  await bytes.read();
  expect(told).toEqual(["pause", "resume", "pause"]);
});

it("are read together where several have come, in their order, and then the end", async () => {
  const { bytes } = tapped();
  const reading = bytes.read();
  bytes.push(Uint8Array.of(1, 2));
  bytes.push(Uint8Array.of(3));
  expect(await reading).toEqual(Uint8Array.of(1, 2, 3));
  bytes.push(Uint8Array.of(4));
  bytes.end();
  expect(await bytes.read()).toEqual(Uint8Array.of(4));
  expect(await bytes.read()).toBeUndefined();
});

it("are still read where the body has broken off behind them, and not where it was cut", async () => {
  const [broken, cut] = [tapped().bytes, tapped().bytes];
  for (const bytes of [broken, cut]) bytes.push(Uint8Array.of(1));
  broken.fail(new Error("broken off"));
  expect(await broken.read()).toEqual(Uint8Array.of(1));
  await expect(broken.read()).rejects.toThrow("broken off");
  cut.cut(new Error("cut"));
  await expect(cut.read()).rejects.toThrow("cut");
  expect([cut.arrived(), cut.arrived()]).toEqual([Uint8Array.of(1), new Uint8Array()]);
});
