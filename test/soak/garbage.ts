/**
 * The process that counts how much of each call V8 keeps until it collects the whole heap, though nothing needs it any more: what
 * it puts among the old by its own rules, and what that holds on to.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { getHeapSpaceStatistics } from "node:v8";
import { relay } from "../../src/backends/relay/index.ts";
import { isStream } from "../../src/http/answer.ts";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { backend } from "../bench/contestants.ts";
import { API_KEY, completeAnswer, SCENARIOS } from "../bench/workload.ts";

export const KINDS = ["complete", "streamed", "refused", "relayed"] as const;
export type Kind = (typeof KINDS)[number];

const AT_ONCE = 30;
/** After so many, V8 has begun to decide what goes where. */
const WARM_UP = 500;
const COUNTED = 2_500;

const HEADERS = { "content-type": "application/json", "x-api-key": API_KEY, "anthropic-version": "2023-06-01" };

/** A relay to a server of this process. */
async function relayed(): Promise<ModelBackend> {
  const answer = JSON.stringify(completeAnswer());
  const server = createServer((req, res) => {
    req.resume().on("end", () => void res.setHeader("content-type", "application/json").end(answer));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return relay({ format: "messages", baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: "sk-upstream" });
}

/** The bytes that each call adds to what is old. */
async function oldBytesOf(kind: Kind): Promise<number> {
  const granted = kind === "refused" ? 1 : Number.MAX_SAFE_INTEGER;
  const { answer } = createGateway({
    backend: kind === "relayed" ? await relayed() : backend,
    quotas: memoryQuotaStore([{ apiKey: API_KEY, granted }]),
  }).at("");
  const { body } = SCENARIOS[kind === "streamed" ? "streamed" : "complete"];
  const status = kind === "refused" ? 429 : 200;
  const ask = async (): Promise<void> => {
    const request = new Request("http://gateway.test/v1/messages", { method: "POST", headers: HEADERS, body });
    const answered = await answer(request);
    if (answered?.status !== status) throw new Error(`A call was answered with the status ${answered?.status}.`);
    if (isStream(answered.body)) for await (const frame of answered.body) if (frame === "") return;
  };
  const askOften = async (calls: number): Promise<void> => {
    let left = calls;
    const goOn = async (): Promise<void> => {
      while (left-- > 0) {
        await ask();
        await setImmediate();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, goOn));
  };
  await askOften(WARM_UP);
  globalThis.gc?.();
  const before = oldBytes();
  await askOften(COUNTED);
  return Math.round((oldBytes() - before) / COUNTED);
}

const oldBytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === "old_space")?.space_used_size ?? 0;

const counted: Partial<Record<Kind, number>> = {};
for (const kind of KINDS) counted[kind] = await oldBytesOf(kind);
process.stdout.write(JSON.stringify(counted), () => process.exit());
