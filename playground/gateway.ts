/** The gateway of the demo and of the hosts to copy from: a model that answers offline, or a real one, and Python for code. */

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
import { type DemoMetrics, demoMetrics } from "./metrics.ts";
import { hasPython, pythonRunner } from "./python/runner.ts";
import { type PlaygroundQuotas, playgroundQuotas } from "./quotas.ts";
import { upstreamBackend } from "./upstream.ts";

/** The demo's gateway, and what ends after it. */
export interface DemoGateway {
  readonly gateway: Gateway;
  readonly store: PlaygroundQuotas;
  /** Undefined where Python is not installed. */
  readonly codeRunner: ReturnType<typeof pythonRunner> | undefined;
  /** Undefined where OpenTelemetry is not installed. */
  readonly metrics: DemoMetrics | undefined;
}

/** Makes the gateway as the environment says. Rejects with the reason, in one line that shows no secret, when that is wrong. */
export async function demoGateway(address?: string): Promise<DemoGateway> {
  const metrics = await demoMetrics();
  const upstream = upstreamBackend(metrics?.observer);
  const store = await playgroundQuotas(address);
  const codeRunner = hasPython() ? pythonRunner() : undefined;
  const gateway = createGateway({
    backend: upstream ? withUpstream(demoModel(), upstream) : demoModel(),
    quotas: store.quotas,
    replayStore: memoryReplayStore(),
    responseStore: memoryResponseStore(),
    ...(codeRunner && { codeRunner }),
    // Compactions can be opened as long as the process lives.
    responses: { compaction: { keys: [{ name: "playground", secret: crypto.getRandomValues(new Uint8Array(32)) }] } },
    // Python starts slowly where other programs keep the machine busy.
    limits: { codeDeadlineMs: 120_000 },
    ...(metrics && { observer: metrics.observer }),
    ...(store.records.onCall && { onCall: store.records.onCall }),
  });
  return { gateway, store, codeRunner, metrics };
}

/** The upstream answers what it can, and lets every name through; the demo's model answers to its own names, and the rest. */
const withUpstream = (demo: ModelBackend, upstream: ModelBackend): ModelBackend => ({
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
