/** The process of a racer: a gateway on a shared store. It makes all calls of its order at once when told to, and counts the answers. */

import { type OpenedStore, openStore } from "../../src/admin/open-store.ts";
import { borrowingQuotaStore, createGateway, type ModelBackend } from "../../src/index.ts";
import { answerParent } from "../trial/child.ts";
import type { RacerOrder, Statuses } from "./race.ts";

const backendOf = ({ usage }: RacerOrder): ModelBackend => ({
  async *chat() {
    yield "done";
    yield { type: "finish", reason: "stop", usage };
  },
});

const requestOf = ({ apiKey, usage }: RacerOrder): Request =>
  new Request("http://gateway/v1/messages", {
    method: "POST",
    headers: { "x-api-key": apiKey, "compat-version": "2023-06-01", "content-type": "application/json" },
    body: JSON.stringify({
      model: "m",
      max_tokens: usage.outputTokens,
      messages: [{ role: "user", content: "x".repeat(4 * usage.inputTokens) }],
    }),
  });

async function race(order: RacerOrder, opened: OpenedStore): Promise<Statuses> {
  // No call may time out: the race counts which calls the balance admits, however slow the store is.
  const limits = { storeTimeoutMs: 600_000, leaseMs: 600_000 };
  const borrowing = order.isBorrowing ? borrowingQuotaStore(opened.store, { minCalls: 0 }) : undefined;
  const gateway = createGateway({ backend: backendOf(order), quotas: borrowing ?? opened.store, limits });
  const statuses: Record<number, number> = {};
  const call = async (): Promise<void> => {
    const response = await gateway.fetch(requestOf(order));
    await response.arrayBuffer();
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: order.calls }, call));
  await gateway.close();
  await borrowing?.close();
  await opened.close();
  return statuses;
}

let ready: readonly [RacerOrder, OpenedStore] | undefined;

answerParent(async (question: RacerOrder | "go"): Promise<Statuses> => {
  if (question === "go") return ready ? race(...ready) : {};
  const { address, prefix } = question;
  ready = [question, await openStore(address, { prefix, connections: 6, forGateway: true })];
  return {};
});
