/** Two gateways in a row: official clients call a gateway of the official providers' models, and these call a gateway of the demo. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { demoModel } from "../../../src/demo/backend.ts";
import { createGateway, type Gateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk, type AiSdkChatModel, type AiSdkOptions } from "../../../src/upstreams/ai-sdk/index.ts";

type Fetch = typeof fetch;

/** A request that was sent upstream. */
export interface Sent {
  readonly url: string;
  readonly body: Record<string, unknown>;
}

export interface Upstream {
  readonly fetch: Fetch;
  readonly sent: Sent[];
}

const fetchOf =
  (gateway: Gateway): Fetch =>
  (url, init) =>
    gateway.fetch(new Request(url instanceof Request ? url.url : url, init));

/** Makes a gateway with all formats that records its requests. */
export function upstreamOf(backend: ModelBackend = demoModel()): Upstream {
  const gateway = createGateway({
    backend: {
      ...backend,
      models: () => [{ id: "upstream-model" }, { id: "image-model-multi" }, { id: "image-model-2" }],
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-upstream" }]),
    onFailure: () => {},
  });
  const sent: Sent[] = [];
  return {
    sent,
    fetch: async (url, init) => {
      const body = typeof init?.body === "string" ? (JSON.parse(init.body) as Sent["body"]) : {};
      sent.push({ url: String(url instanceof Request ? url.url : url), body });
      return fetchOf(gateway)(url, init);
    },
  };
}

const CONNECTION = { apiKey: "sk-upstream" } as const;

/** Makes a model of each official provider, by the provider's name. */
const modelsOn = (upstream: Upstream): Readonly<Record<"anthropic" | "google" | "openai", AiSdkChatModel>> => {
  const { fetch } = upstream;
  return {
    anthropic: createAnthropic({ ...CONNECTION, baseURL: "http://upstream.test/v1", fetch })("upstream-model"),
    google: createGoogle({ ...CONNECTION, baseURL: "http://upstream.test/v1beta", fetch })("upstream-model"),
    openai: createOpenAI({ ...CONNECTION, baseURL: "http://upstream.test/v1", fetch }).chat("upstream-model"),
  };
};

export const PROVIDERS = ["anthropic", "google", "openai"] as const;

export const backendOn = (
  upstream: Upstream,
  provider: (typeof PROVIDERS)[number],
  options: Partial<AiSdkOptions> = {},
): ModelBackend => aiSdk({ chat: { "model-a": modelsOn(upstream)[provider] }, ...options });

export interface Clients {
  readonly gateway: Gateway;
  readonly anthropic: Anthropic;
  readonly genai: GoogleGenAI;
  readonly openai: OpenAI;
  /** The fields that the last answer named as dropped. */
  readonly dropped: () => string | null;
  readonly used: () => Promise<number | undefined>;
}

/** Makes the official clients of a gateway with this backend. */
export function clientsBefore(backend: ModelBackend): Clients {
  const quotas = memoryQuotaStore([{ apiKey: "sk-test", granted: 10_000_000 }]);
  const gateway = createGateway({ backend, quotas, onFailure: () => {} });
  let dropped: string | null = null;
  const fetch: Fetch = async (url, init) => {
    const response = await fetchOf(gateway)(url, init);
    dropped = response.headers.get("polygate-dropped");
    return response;
  };
  const common = { apiKey: "sk-test", maxRetries: 0, fetch } as const;
  return {
    gateway,
    anthropic: new Anthropic({ ...common, baseURL: "http://gateway.test" }),
    genai: new GoogleGenAI({
      apiKey: "sk-test",
      httpOptions: { baseUrl: "http://gateway.test", fetch, retryOptions: { attempts: 1 } },
    }),
    openai: new OpenAI({ ...common, baseURL: "http://gateway.test/v1" }),
    dropped: () => dropped,
    used: async () => (await quotas.balance((await quotas.find("test"))?.id ?? ""))?.used,
  };
}
