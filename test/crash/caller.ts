/** The process of a caller: a gateway on the shared store, before the shared upstream. It makes calls until it is killed. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { borrowingQuotaStore, createGateway, type ModelBackend } from "../../src/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { openSocket, type SocketClient } from "../drivers/socket.ts";
import { Random } from "../trial/random.ts";
import { type CallerOrder, KINDS } from "./upstream.ts";

// Without its parent, nothing would kill this process.
process.on("disconnect", () => process.exit());
const order = JSON.parse(process.argv[2] ?? "") as CallerOrder;
const { leaseMs, usageNoteMs } = order;
const random = new Random(order.seed);

/** Words of four bytes on average, spaces included, because the gateway below estimates four bytes a token. */
const PROMPT = "an old king has one ".repeat(60);

const upstream = relay({ format: "chat-completions", baseUrl: order.upstream });
const backend: ModelBackend = {
  chat(request, call) {
    if (!upstream.chat) throw new TypeError("The relay does no chat.");
    // The request id is the id of the hold: the audit matches calls and holds by it.
    return upstream.chat({ ...request, model: `${request.model}:${call.requestId}` }, call);
  },
};

const { address, prefix } = order;
const stores = await openStores(address, { prefix, connections: 6, migrate: false, sweepMs: 0 });
const store = stores.ports.quotas;
// A long store timeout, so that a slow machine does not look like a store that is down.
const gateway = createGateway({
  backend,
  quotas: order.isBorrowing ? borrowingQuotaStore(store, { minCalls: 0 }) : store,
  // One token for each word of the prompt and the answer, as the upstream counts.
  countTokens: (text) => text.length / 4,
  limits: { leaseMs, usageNoteMs, storeTimeoutMs: 600_000 },
  // Short enough that some records are written before a kill, and some are lost.
  ...(!address.startsWith("redis") && { onCall: stores.recorder({ flushMs: 200 }) }),
});

const server = createServer().on("upgrade", toUpgradeHandler(gateway));
await once(server.listen(0, "127.0.0.1"), "listening");
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function call(): Promise<void> {
  const kind = random.pick(KINDS);
  const request = new Request("http://gateway/v1/messages", {
    method: "POST",
    headers: {
      "x-api-key": random.pick(order.apiKeys as [string]),
      "compat-version": "2023-06-01",
      "content-type": "application/json",
    },
    body: JSON.stringify({
      model: kind,
      max_tokens: 4_096,
      stream: true,
      messages: [{ role: "user", content: PROMPT }],
    }),
  });
  const response = await gateway.fetch(request);
  if (response.status !== 200) throw new Error(`A call got ${response.status}: ${await response.text()}`);
  let chunks = kind === "left" ? random.int(5, 30) : Number.POSITIVE_INFINITY;
  for await (const _ of response.body ?? []) if (--chunks <= 0) break;
}

/** Takes turns over one WebSocket until its client leaves one in the middle. */
async function converse(): Promise<void> {
  const client = await openSocket(url, { authorization: `Bearer ${random.pick(order.apiKeys as [string])}` });
  for (let kind: (typeof KINDS)[number] = random.pick(KINDS); ; kind = random.pick(KINDS)) {
    client.send({ type: "response.create", model: kind, max_output_tokens: 4_096, input: PROMPT, store: false });
    if (kind === "left") return leave(client, random.int(5, 30));
    const last = (await client.rest()).at(-1);
    if (last?.type !== "response.completed") throw new Error(`A turn ended with ${JSON.stringify(last)}`);
  }
}

async function leave(client: SocketClient, events: number): Promise<void> {
  for (let left = events; left > 0; left--) if ((await client.next()).type === "response.completed") break;
  await client[Symbol.asyncDispose]();
}

async function callForever(make: () => Promise<void>): Promise<never> {
  for (;;) await make();
}

// A failed call ends the process, and the parent reports a process that ended by itself.
await Promise.all(Array.from({ length: order.lanes }, (_none, lane) => callForever(lane % 2 === 0 ? call : converse)));
