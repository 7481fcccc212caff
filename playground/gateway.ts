/** The gateway of the playground and of the hosts to copy from: a model that answers offline, or a real one, and Python for code. */

import {
  createGateway,
  type Gateway,
  memoryReplayStore,
  memoryResponseStore,
  type ModelBackend,
} from "../src/index.ts";
import { demoBackend } from "./demo/backend.ts";
import { embed } from "./demo/embedding.ts";
import { drawImages } from "./demo/images.ts";
import { observer } from "./metrics.ts";
import { pythonRunner } from "./python/runner.ts";
import { type PlaygroundQuotas, playgroundQuotas } from "./quotas.ts";
import { upstreamBackend } from "./upstream.ts";

export const codeRunner: ReturnType<typeof pythonRunner> = pythonRunner();
export const store: PlaygroundQuotas = await playgroundQuotas();
export const gateway: Gateway = createGateway({
  backend: playgroundBackend(),
  quotas: store.quotas,
  replayStore: memoryReplayStore(),
  responseStore: memoryResponseStore(),
  codeRunner,
  // Compactions can be opened as long as the process lives.
  responses: { compaction: { keys: [{ name: "playground", secret: crypto.getRandomValues(new Uint8Array(32)) }] } },
  // Python starts slowly where other programs keep the machine busy.
  limits: { codeDeadlineMs: 120_000 },
  observer,
  ...(store.records.onCall && { onCall: store.records.onCall }),
});

/**
 * The demo's model; where the environment names an upstream, that answers what it can, and lets every name through: all other chat,
 * and pictures and vectors.
 */
function playgroundBackend(): ModelBackend {
  const demo = demoBackend();
  const upstream = upstreamBackend();
  if (!upstream) return demo;
  return {
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
  };
}
