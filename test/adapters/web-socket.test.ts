/** WebSockets with the browsers' interface, which can only ask a client to close: a client that answers nothing keeps no place and no call. */

import { afterEach, expect, it, vi } from "vitest";
import { toDenoHandler } from "../../adapters/deno.ts";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/index.ts";

afterEach(() => void vi.unstubAllGlobals());

/** The runtime's end of a connection whose client is silent. */
class SilentSocket extends EventTarget {
  readonly readyState = 1;
  bufferedAmount = 0;
  readonly sent: string[] = [];
  isClosing = false;

  send(message: string): void {
    this.sent.push(message);
  }

  close(): void {
    this.isClosing = true;
  }
}

/** A gateway with room for one connection. */
function stage(backend: ModelBackend) {
  const clock = manualClock(Date.now());
  const limits = { maxSockets: 1, maxSocketsPerKey: 1, socketLifeMs: 300_000 };
  const gateway = createGateway({ backend, clock, limits, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]) });
  const handler = toDenoHandler(gateway);
  const open = async (): Promise<{ status: number; socket: SilentSocket }> => {
    const socket = new SilentSocket();
    vi.stubGlobal("Deno", { upgradeWebSocket: () => ({ socket, response: new Response(null, { status: 204 }) }) });
    const headers = { authorization: "Bearer sk-one", upgrade: "websocket" };
    const { status } = await handler(new Request("http://host/v1/responses", { headers }), undefined);
    return { status, socket };
  };
  return { clock, gateway, open };
}

const speaks: ModelBackend = {
  async *chat() {
    yield "Hi";
  },
};

it("a client that answers no close gives its place back after half a minute", async () => {
  const { clock, open } = stage(speaks);
  const { socket } = await open();
  await clock.advance(300_000);
  expect(socket.isClosing).toBe(true);
  expect((await open()).status).toBe(503);
  await clock.advance(30_000);
  expect((await open()).status).toBe(204);
  // The runtime tells later what the gateway knows.
  socket.dispatchEvent(new Event("close"));
  expect((await open()).status).toBe(503);
});

it("a client that reads nothing for a minute ends its call, and gives its place back", async () => {
  const { clock, gateway, open } = stage(speaks);
  const { socket } = await open();
  socket.bufferedAmount = Number.MAX_SAFE_INTEGER;
  const data = JSON.stringify({ type: "response.create", model: "m", input: "a", store: false });
  socket.dispatchEvent(new MessageEvent("message", { data }));
  await expect.poll(() => socket.sent.length).toBeGreaterThan(0);
  await clock.advance(60_000);
  expect(socket.isClosing).toBe(true);
  await expect.poll(async () => (await gateway.health()).calls).toBe(0);
  expect((await open()).status).toBe(204);
  expect(socket.sent).toHaveLength(1);
});
