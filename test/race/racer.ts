/** A process with a gateway of its own on a shared store. Told to, it makes all its calls at once, and tells how they were answered. */

import process from "node:process";
import { openStore } from "../../src/admin/open-store.ts";
import { createGateway, type ModelBackend } from "../../src/index.ts";
import { INPUT, OUTPUT, type RacerOrder } from "./order.ts";

const backend: ModelBackend = {
  async *chat() {
    yield "done";
    yield { type: "finish", reason: "stop", usage: { inputTokens: INPUT, outputTokens: OUTPUT } };
  },
};

async function race({ address, prefix, apiKey, calls }: RacerOrder): Promise<void> {
  const opened = await openStore(address, { prefix, connections: 6, forGateway: true });
  // As long as it takes: it is counted here who is let in, and nobody is to give up.
  const limits = { storeTimeoutMs: 600_000, leaseMs: 600_000 };
  const gateway = createGateway({ backend, quotas: opened.store, limits });
  const request = (): Request =>
    new Request("http://gateway/v1/messages", {
      method: "POST",
      headers: { "x-api-key": apiKey, "compat-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", max_tokens: OUTPUT, messages: [{ role: "user", content: "x".repeat(16) }] }),
    });
  // All processes are up before any begins.
  process.send?.("ready");
  await new Promise((resolve) => process.once("message", resolve));
  const statuses: Record<number, number> = {};
  const call = async (): Promise<void> => {
    const response = await gateway.fetch(request());
    await response.arrayBuffer();
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: calls }, call));
  await gateway.close();
  await opened.close();
  process.send?.(statuses);
  process.disconnect();
}

await race(JSON.parse(process.argv[2] ?? "") as RacerOrder);
