/** The gateway of the demo and of the example hosts: an offline model or a real model, and Python for code. */

import { demoModel } from "../src/demo/backend.ts";
import { embed } from "../src/demo/embedding.ts";
import { drawImages } from "../src/demo/images.ts";
import {
  createGateway,
  type Gateway,
  memoryReplayStore,
  memoryResponseStore,
  type ModelBackend,
} from "../src/index.ts";
import { type PriceRows, priceTable } from "../src/prices/index.ts";
import { type DemoMetrics, demoMetrics } from "./metrics.ts";
import { hasPython, pythonRunner } from "./python/runner.ts";
import { type PlaygroundQuotas, playgroundQuotas } from "./quotas.ts";
import { upstreamBackend } from "./upstream.ts";

/** The prices in dollars. A million tokens cost a dollar, so that everybody can check a charge. */
const PRICES: PriceRows = {
  "demo-embedding": { input: 0.1, output: 0 },
  "image-model-2": { pictures: { "256x256": 0.016, "512x512": 0.018, "*": 0.02 } },
  "image-model-3": { pictures: { "hd/1024x1024": 0.08, hd: 0.12, "1024x1024": 0.04, "*": 0.08 } },
  "image-model-multi": { pictures: { low: 0.016, high: 0.25, "1024x1024": 0.042, "*": 0.063 } },
  "*": { input: 1, output: 1, pictures: 0.08 },
};

/** The demo's gateway, and the parts to close after the gateway. */
export interface DemoGateway {
  readonly gateway: Gateway;
  readonly store: PlaygroundQuotas;
  /** Undefined if Python is not installed. */
  readonly codeRunner: ReturnType<typeof pythonRunner> | undefined;
  /** Undefined if OpenTelemetry is not installed. */
  readonly metrics: DemoMetrics | undefined;
}

/** Makes the gateway from the environment. Rejects with a single line without secrets if a variable is wrong. */
export async function demoGateway(address?: string): Promise<DemoGateway> {
  const metrics = await demoMetrics();
  const upstream = upstreamBackend(metrics?.observer);
  const opened = await playgroundQuotas(address);
  const removeBudgets = metrics?.addBudgets(opened.quotas);
  const store: PlaygroundQuotas = {
    ...opened,
    close() {
      removeBudgets?.();
      return opened.close();
    },
  };
  const codeRunner = hasPython() ? pythonRunner() : undefined;
  const gateway = createGateway({
    backend: upstream ? withUpstream(demoModel(), upstream) : demoModel(),
    quotas: store.quotas,
    ...priceTable(PRICES),
    replayStore: memoryReplayStore(),
    responseStore: memoryResponseStore(),
    ...(codeRunner && { codeRunner }),
    // Compactions are readable only during the life of the process.
    responses: { compaction: { keys: [{ name: "playground", secret: crypto.getRandomValues(new Uint8Array(32)) }] } },
    // Python starts slowly on a busy machine.
    limits: { codeDeadlineMs: 120_000 },
    ...(metrics && { observer: metrics.observer }),
    ...(store.records.onCall && { onCall: store.records.onCall }),
  });
  return { gateway, store, codeRunner, metrics };
}

/** Combines the upstream and the demo's model: the upstream accepts all names, and the demo's model answers its own names and missing kinds. */
const withUpstream = (demo: ModelBackend, upstream: ModelBackend): ModelBackend => ({
  async models() {
    const models = [...((await upstream.models?.()) ?? []), ...((await demo.models?.()) ?? [])];
    // The demo's own models win.
    return [...new Map(models.map((model) => [model.id, model])).values()];
  },
  takesUnlisted: true,
  image: (request, call) => upstream.image?.(request, call) ?? drawImages(request, call),
  embed(request, call) {
    if (request.model === "demo-embedding" || !upstream.embed) return embed(request, call);
    return upstream.embed(request, call);
  },
  chat(request, call) {
    const answering = request.model === "demo-chat" || !upstream.chat ? demo : upstream;
    if (!answering.chat) throw new TypeError("A model of the playground does no chat.");
    return answering.chat(request, call);
  },
});
