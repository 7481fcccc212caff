/** A process with a gateway of its own on a shared store, before a shared upstream: it makes calls until it is killed. */

import process from "node:process";
import { openStore } from "../../src/admin/open-store.ts";
import { relay } from "../../src/backends/relay/index.ts";
import { createGateway, type ModelBackend } from "../../src/index.ts";
import { between, type CallerOrder, KINDS, seeded } from "./order.ts";

// A process without its parent has no one to kill it.
process.on("disconnect", () => process.exit());
const order = JSON.parse(process.argv[2] ?? "") as CallerOrder;
const { leaseMs, usageNoteMs } = order;
const random = seeded(order.seed);
const pick = <T>(items: readonly [T, ...T[]]): T => items[between(random, 0, items.length - 1)] ?? items[0];

/** Words of four bytes each on average, spaces included, as the gateway's estimate has it. */
const PROMPT = "an old king has one ".repeat(60);

const upstream = relay({ format: "chat-completions", baseUrl: order.upstream });
const backend: ModelBackend = {
  chat(request, call) {
    if (!upstream.chat) throw new TypeError("The relay does no chat.");
    // So that the upstream knows which hold pays for the call.
    return upstream.chat({ ...request, model: `${request.model}:${call.requestId}` }, call);
  },
};

const { store } = await openStore(order.address, { prefix: order.prefix, connections: 6, forGateway: true });
// A machine that is slow must not look like a store that is down.
const gateway = createGateway({
  backend,
  quotas: store,
  // So that what is charged by estimate can be compared with the upstream's count.
  countTokens: (text) => text.length / 4,
  limits: { leaseMs, usageNoteMs, storeTimeoutMs: 600_000 },
});

async function call(): Promise<void> {
  const kind = pick(KINDS);
  const request = new Request("http://gateway/v1/messages", {
    method: "POST",
    headers: {
      "x-api-key": pick(order.apiKeys as [string]),
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
  let chunks = kind === "left" ? between(random, 5, 30) : Number.POSITIVE_INFINITY;
  for await (const _ of response.body ?? []) if (--chunks <= 0) break;
}

async function callForever(): Promise<never> {
  for (;;) await call();
}

// A call that fails ends the process by itself, which its parent takes for a failure.
await Promise.all(Array.from({ length: order.lanes }, callForever));
