/** The mount for runtimes like Workers: how much it reads of the body of a request that it refuses. */

import { expect, it } from "vitest";
import { toEdgeHandler } from "../../adapters/edge-mount.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";

const MIB = 1024 * 1024;
const handler = toEdgeHandler(
  createGateway({ quotas: memoryQuotaStore([]), backend: { chat: () => [] as never }, onFailure: () => {} }),
);

/** A request without a key whose body never ends, and the bytes that were read of it. */
function refused(headers: Readonly<Record<string, string>> = {}, path = "/v1/chat/completions") {
  const read = { bytes: 0 };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        read.bytes += MIB;
        controller.enqueue(new Uint8Array(MIB));
      },
    },
    { highWaterMark: 0 },
  );
  const init = { method: "POST", headers: { "content-type": "application/json", ...headers }, body, duplex: "half" };
  return { request: new Request(`http://edge.test${path}`, init), read };
}

it("reads no more than 4 MiB of a refused request, and leaves its body unlocked", async () => {
  const { request, read } = refused();
  expect((await handler(request)).status).toBe(401);
  expect(read.bytes).toBe(5 * MIB);
  expect(request.body?.locked).toBe(false);
});

it("reads the body of a request to a wrong address, too", async () => {
  const { request, read } = refused({}, "/chat/completions");
  expect((await handler(request)).status).toBe(404);
  expect(read.bytes).toBe(5 * MIB);
});

it("reads nothing of a refused request that declares more", async () => {
  const { request, read } = refused({ "content-length": String(4 * MIB + 1) });
  expect((await handler(request)).status).toBe(401);
  expect(read.bytes).toBe(0);
});
