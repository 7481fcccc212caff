// guardrail.ts
import { createGateway, GatewayError, memoryQuotaStore } from "polygate";
import { withDuring } from "polygate/hooks";
import { myBackend } from "./backend.ts";

// Ask your own service here.
const isHarmful = async (text: string): Promise<boolean> => text.includes("harmful");

/** Asks a guardrail about the request while the model already works. Only the first piece of the answer waits for the verdict. */
const verdicts = new WeakMap<object, Promise<boolean>>();
const guardrail = withDuring({
  before(request, call) {
    const verdict = isHarmful(JSON.stringify("messages" in request ? request.messages : request));
    // Where the call ends before its first piece, nobody else hears of a failure.
    verdict.catch(() => {});
    verdicts.set(call, verdict);
  },
  async during(_event, call) {
    const verdict = verdicts.get(call);
    if (!verdict) return;
    if (await verdict) throw new GatewayError("invalid_request", "This request is against our rules.");
    verdicts.delete(call);
  },
});

export const gateway = createGateway({
  backend: myBackend,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a", granted: 1_000_000 }]),
  hooks: [guardrail],
});
