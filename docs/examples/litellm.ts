// litellm.ts
import { flexibleRateLimiter, hashApiKey } from "polygate";
import { keyAdmin, type RefusedChange } from "polygate/admin";
import { relay } from "polygate/backends/relay";
import { route } from "polygate/backends/route";
import { priceTable } from "polygate/prices";
import { defineServer } from "polygate/serve";
import type { OpenedStores } from "polygate/stores";

const {
  OPENAI_URL = "https://api.openai.com/v1",
  ANTHROPIC_URL = "https://api.anthropic.com/v1",
  ...env
} = process.env;
const openai = relay({ name: "openai", format: "responses", baseUrl: OPENAI_URL, apiKey: env["OPENAI_API_KEY"] });
const anthropic = relay({ format: "messages", baseUrl: ANTHROPIC_URL, apiKey: env["ANTHROPIC_API_KEY"] });
const own = relay({ format: "chat-completions", baseUrl: "http://127.0.0.1:8000/v1", outputLimitField: "max_tokens" });

const careful = { backend: anthropic, model: "claude-sonnet-4-5" };
const backend = route({
  routes: {
    fast: {
      upstreams: [
        { backend: openai, model: "gpt-5-mini" },
        { ...careful, weight: 0 },
      ],
    },
    careful: { upstreams: [careful] },
    own: { upstreams: [{ backend: own, model: "meta-llama/Llama-3.1-8B-Instruct" }] },
  },
});

const prices = priceTable({
  "gpt-5-mini": { input: 0.25, output: 2 },
  "claude-sonnet-4-5": { input: 3, output: 15 },
  own: { input: 0, output: 0 },
});

/** Lets the secrets that LiteLLM has given work here. A call brings the secret, which its key then keeps. */
async function takeSecrets({ ports: { quotas } }: OpenedStores): Promise<void> {
  const keys = keyAdmin(quotas);
  const idOf = new Map<string, string>();
  for (let page = await keys.list({ limit: 1_000 }); page.length > 0;) {
    for (const { id, metadata } of page) idOf.set(metadata?.["litellm"] ?? "", id);
    page = await keys.list({ limit: 1_000, after: page.at(-1)?.id ?? "" });
  }
  const find = quotas.find.bind(quotas);
  quotas.find = async (apiKey, call) => {
    const token = hashApiKey(`sk-${apiKey}`); // As LiteLLM does.
    const [known, id] = [await find(apiKey, call), idOf.get(token)];
    if (id === undefined) return known;
    // Each secret is taken once: one that is removed later stays removed.
    if ((known ?? (await keys.usage(id))).metadata?.["litellm"] !== token) return known ?? find(apiKey, call);
    // Another call may have added the secret meanwhile, or the key is revoked.
    const unlessRefused = (error: RefusedChange) => (error.code === "conflict" ? undefined : Promise.reject(error));
    if (!known) await quotas.addSecret(id, apiKey).catch(unlessRefused);
    const key = known ?? (await find(apiKey, call));
    if (key) await keys.update(id, { metadata: { litellm: null } });
    return key;
  };
}

export default defineServer({
  port: 4_000,
  async gateway(stores) {
    await takeSecrets(stores);
    const rateLimiter = flexibleRateLimiter({ perKey: { requests: [stores.counter(60, 60)], callsAtOnce: 8 } });
    return { backend, ...prices, rateLimiter };
  },
});
