/** What the Bun mount does to Bun's server, which would otherwise cut a quiet answer after ten seconds, and drop large messages. */

import { expect, it } from "vitest";
import { toBunHandler } from "../../adapters/bun.ts";
import { adminHandler, type AdminUser } from "../../src/admin/http/index.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { openSocket } from "../drivers/socket.ts";
import { MINIMAL } from "../formats/messages/bodies.ts";
import { remoteHost } from "./remote.ts";
import { KEY, openStage, plays, post } from "./stage.ts";

const gateway = createGateway({ backend: { chat: plays("Hello.") }, quotas: memoryQuotaStore([{ apiKey: KEY }]) });

function ask(
  path: string,
  body: unknown = MINIMAL,
  headers: Readonly<Record<string, string>> = {},
): { timeouts: number[]; response: Response | Promise<Response> } {
  const timeouts: number[] = [];
  const server = { timeout: (_request: Request, seconds: number) => void timeouts.push(seconds) };
  const handler = toBunHandler(gateway, { prefix: "/ai", fallback: () => new Response("own") });
  return { timeouts, response: handler(new Request(`http://host.test${path}`, post(body, headers)), server) };
}

it("switches the idle timeout off before the answer is there, and on behind it: Bun keeps it for the connection", async () => {
  const { timeouts, response } = ask("/ai/v1/messages");
  expect(timeouts).toEqual([0]);
  expect(await (await response).json()).toMatchObject({ type: "message" });
  expect(timeouts).toEqual([0, 120]);
});

it("leaves it off up to the end of a stream", async () => {
  const { timeouts, response } = ask("/ai/v1/messages", { ...MINIMAL, stream: true });
  const { body } = await response;
  expect(timeouts).toEqual([0]);
  expect(await new Response(body).text()).toContain("message_stop");
  expect(timeouts).toEqual([0, 120]);
});

it("switches it on behind a refusal: a caller without a key could hold any number of connections", async () => {
  const { timeouts, response } = ask("/ai/v1/messages", MINIMAL, { "x-api-key": "sk-unknown" });
  expect((await response).status).toBe(401);
  expect(timeouts).toEqual([0, 120]);
});

it.each([
  ["reads the rest of a refused request whose connection ends, so that the answer is not lost", "close", 20],
  ["leaves the rest of a refused request to Bun on a connection that is kept", "keep-alive", 0],
])("%s", async (_what, connection, read) => {
  let pieces = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (pieces === 20) return controller.close();
        pieces++;
        controller.enqueue(new Uint8Array(1_000_000));
      },
    },
    { highWaterMark: 0 },
  );
  const init = { ...post(MINIMAL, { "x-api-key": "sk-unknown", connection }), body, duplex: "half" };
  const handler = toBunHandler(gateway, { prefix: "/ai" });
  const response = await handler(new Request("http://host.test/ai/v1/messages", init), { timeout: () => {} });
  expect([response.status, pieces]).toEqual([401, read]);
});

it("switches it off up to the head of an answer of the admin, whose login or database may be slow", async () => {
  const login = Promise.withResolvers<AdminUser | undefined>();
  const admin = adminHandler(memoryQuotaStore([]).keys, { authorize: () => login.promise });
  const timeouts: number[] = [];
  const server = { timeout: (_request: Request, seconds: number) => void timeouts.push(seconds) };
  const response = toBunHandler(admin)(new Request("http://host.test/keys"), server);
  expect(timeouts).toEqual([0]);
  login.resolve({ name: "anna" });
  expect((await response).status).toBe(200);
  expect(timeouts).toEqual([0, 120]);
});

it("leaves it on for the host's own routes", async () => {
  const { timeouts, response } = ask("/ai/other");
  expect(await (await response).text()).toBe("own");
  expect(timeouts).toEqual([]);
});

it("brings the messages of a large answer whole, which Bun drops behind 16 MiB that wait", async () => {
  const play = plays("x".repeat(32 * 1024 * 1024));
  await using stage = await openStage({ host: remoteHost("bun", "bun.ts"), prefix: "/ai" }, { play });
  const headers = { authorization: `Bearer ${KEY}` };
  await using client = await openSocket(stage.host.url ?? "", headers, stage.path("/v1/responses"));
  const events = await client.turn({ input: "Count.", store: false, max_output_tokens: 20_000_000 });
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
});
