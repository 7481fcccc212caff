/**
 * The process that counts the garbage of a call that V8 keeps until it collects the whole heap: objects that V8 puts into the old
 * generation, and everything that these refer to. Its argument is the kind of call.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { getHeapSpaceStatistics } from "node:v8";
import { isStream } from "../../src/http/answer.ts";
import { createGateway, memoryQuotaStore, type ModelBackend, type QuotaStore } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { median } from "../bench/report.ts";
import { backend, API_KEY, completeAnswer, SCENARIOS } from "../bench/workload.ts";

export type Kind = "complete" | "streamed" | "refused" | "relayed" | "slowly stored";

const AT_ONCE = 30;
/** The calls after which V8 has settled where it allocates objects. */
const WARM_UP = 500;
/** The groups of counted calls. The median counts, because a collection of the whole heap may fall into one group. */
const GROUPS = 5;
const GROUP = 200;

const HEADERS = { "content-type": "application/json", "x-api-key": API_KEY, "anthropic-version": "2023-06-01" };

/** Makes a relay to a server of this process. */
async function relayed(): Promise<ModelBackend> {
  const answer = JSON.stringify(completeAnswer());
  const server = createServer((req, res) => {
    req.resume().on("end", () => void res.setHeader("content-type", "application/json").end(answer));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return relay({ format: "messages", baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: "sk-upstream" });
}

/** Delays the answers of a store, as a network does. */
function delayed(store: QuotaStore): QuotaStore {
  return {
    find: (...given) => later(store.find(...given)),
    balance: (...given) => later(store.balance(...given)),
    reserve: (...given) => later(store.reserve(...given)),
    renew: (...given) => later(store.renew(...given)),
    settle: (...given) => later(store.settle(...given)),
  };
}

const later = <Value>(value: Promise<Value>): Promise<Value> => setImmediate().then(() => value);

/** Returns the bytes that each call adds to the old generation. */
async function oldBytesOf(kind: Kind): Promise<number> {
  const granted = kind === "refused" ? 1 : Number.MAX_SAFE_INTEGER;
  const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted }]);
  const { answer } = createGateway({
    backend: kind === "relayed" ? await relayed() : backend,
    quotas: kind === "slowly stored" ? delayed(quotas) : quotas,
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
  const grown: number[] = [];
  for (let group = 0; group < GROUPS; group++) {
    const before = oldBytes();
    await askOften(GROUP);
    grown.push(Math.round((oldBytes() - before) / GROUP));
  }
  return median(grown);
}

/** Returns the bytes of the old generation between two groups, with all that is alive then: V8 moves what survives two collections. */
function oldBytes(): number {
  for (let collection = 0; collection < 2; collection++) globalThis.gc?.({ type: "minor" });
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === "old_space")?.space_used_size ?? 0;
}

const oldBytesEach = await oldBytesOf(process.argv[2] as Kind);
process.stdout.write(String(oldBytesEach), () => process.exit());
