/** The strict upstreams of the loops, and a gateway on a loopback socket before them. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import { bedrockConverse, type CloudUpstream } from "../../src/clouds/aws.ts";
import type { ChatVerbs } from "../../src/formats/module.ts";
import { createGateway, memoryQuotaStore, memoryResponseStore, type ModelBackend } from "../../src/index.ts";
import type { JsonObject } from "../../src/model/json.ts";
import { relay, type RelayFormat, type RelayOptions } from "../../src/upstreams/relay/index.ts";
import { strictChatCompletions } from "./chat-completions.ts";
import { strictConverse } from "./converse.ts";
import { strictGenerateContent } from "./generate-content.ts";
import { strictMessages } from "./messages.ts";
import { strictResponses } from "./responses.ts";
import type { Script } from "./script.ts";
import {
  type Received,
  type Served,
  serveUpstream,
  type StrictFormat,
  type StrictUpstream,
  strictUpstream,
  UPSTREAM_KEY,
} from "./strict.ts";

/** A maker of models, and how a relay is set up for it. */
export interface Maker {
  readonly format: () => StrictFormat;
  /** The upstream's name of the model. Callers use the name of the maker. */
  readonly model: string;
  readonly options?: Partial<RelayOptions>;
  /** Returns the options for an upstream in a cloud, given its address. */
  readonly inCloud?: (endpoint: string) => Pick<RelayOptions, "format" | "baseUrl" | "apiKey">;
  /** How a caller of the same format must ask for thinking. Default: by effort in the formats of OpenAI, or else by a budget. */
  readonly asks?: Asks;
  /** The loops that the client cannot run before the maker itself, without a gateway between them. */
  readonly impossible?: readonly string[];
}

/** How a client asks for thinking: by an effort, by a budget, or not at all, where the model always thinks. */
export type Asks = "effort" | "budget" | "not";

export type MakerName =
  | "messages"
  | "messages-by-effort"
  | "generate-content"
  | "generate-content-without-ids"
  | "responses"
  | "responses-without-thinking"
  | "gemini"
  | "openai"
  | "openai-without-thinking"
  | "deepseek"
  | "openrouter"
  | "mistral"
  | "converse"
  | "converse-nova";

const MAX_TOKENS = { outputLimitField: "max_tokens" } as const;

export const MAKERS: Readonly<Record<MakerName, Maker>> = {
  messages: { format: () => strictMessages, model: "claude-sonnet-4-5" },
  "messages-by-effort": { format: () => strictMessages, model: "claude-opus-4-7", asks: "effort" },
  "generate-content": { format: () => strictGenerateContent(), model: "gemini-3-pro-preview" },
  "generate-content-without-ids": {
    format: () => strictGenerateContent(false),
    model: "gemini-3-flash-preview",
    // Nothing that the client sends back names the call.
    impossible: [
      "a forgetful client of generate-content, complete",
      "a forgetful client of generate-content, streamed",
    ],
  },
  responses: { format: () => strictResponses, model: "gpt-5" },
  "responses-without-thinking": { format: () => strictResponses, model: "gpt-4.1", asks: "not" },
  gemini: { format: () => strictChatCompletions("gemini"), model: "gemini-3-pro-preview" },
  openai: { format: () => strictChatCompletions("openai"), model: "gpt-5" },
  "openai-without-thinking": {
    format: () => strictChatCompletions("openai"),
    model: "gpt-4.1",
    asks: "not",
  },
  deepseek: {
    format: () => strictChatCompletions("deepseek"),
    model: "deepseek-v4",
    options: MAX_TOKENS,
  },
  openrouter: {
    format: () => strictChatCompletions("openrouter"),
    model: "anthropic/claude-sonnet-4.5",
    options: MAX_TOKENS,
    // The client keeps only the last piece of a stream's reasoning, also of an answer without calls, which has no id to know it by.
    impossible: ["openai, streamed"],
  },
  mistral: {
    format: () => strictChatCompletions("mistral"),
    model: "magistral-medium",
    // The model always thinks, and takes no word about it.
    options: { ...MAX_TOKENS, reasoning: () => "none" },
    asks: "not",
    // The clients expect a text where this maker streams a list of parts, or where it answers with one.
    impossible: [
      "openai, streamed",
      "openai runTools, streamed",
      "a forgetful client of chat-completions, streamed",
      "ai with @ai-sdk/openai, complete",
    ],
  },
  converse: {
    format: () => strictConverse,
    model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    inCloud: (endpoint) => converse(endpoint),
  },
  // Shows its thoughts, and takes none back.
  "converse-nova": {
    format: () => strictConverse,
    model: "us.amazon.nova-2-lite-v1:0",
    inCloud: (endpoint) => converse(endpoint),
  },
};

const converse = (endpoint: string): CloudUpstream<ChatVerbs> =>
  bedrockConverse({ region: "us-east-1", endpoint, apiKey: UPSTREAM_KEY });

export const MAKER_NAMES = Object.keys(MAKERS) as MakerName[];

export interface RelayedMaker extends AsyncDisposable {
  readonly upstream: StrictUpstream;
  readonly backend: ModelBackend;
}

/** Makes a strict upstream with a relay before it. Callers use the name of the maker as the name of the model. */
export async function relayedMaker(
  name: MakerName,
  {
    script,
    onSocket = false,
    model = MAKERS[name].model,
  }: { readonly script?: Script; readonly onSocket?: boolean; readonly model?: string } = {},
): Promise<RelayedMaker> {
  const { format, options, inCloud } = MAKERS[name];
  const upstream = strictUpstream(format(), name, script);
  const served = onSocket ? await serveUpstream(upstream) : undefined;
  const baseUrl = `${served?.url ?? "http://upstream.test"}${upstream.version}`;
  const backend = relay({
    // The cast is safe: a format that no relay knows by name is in a cloud.
    ...(inCloud?.(baseUrl) ?? { format: upstream.format as RelayFormat, baseUrl, apiKey: UPSTREAM_KEY }),
    models: { [name]: model },
    showUpstreamMessages: true,
    ...(!served && { fetch: (url, init) => upstream.fetch(new Request(url, init)) }),
    ...options,
  });
  return {
    upstream,
    backend,
    async [Symbol.asyncDispose]() {
      await backend.close();
      await served?.[Symbol.asyncDispose]();
    },
  };
}

/** The key of the callers. */
export const KEY = "sk-caller-0123456789";

/** Serves a gateway before a backend on a loopback socket. */
export async function serveGateway(backend: ModelBackend, port = 0): Promise<Served> {
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    responseStore: memoryResponseStore(),
    messages: { ranges: "vendor", imageSources: "vendor" },
    onFailure: () => {},
  });
  const server = createServer(toNodeHandler(gateway)).listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await gateway.close({ deadlineMs: 0 });
    },
  };
}

/** Returns how a client of a format must ask a maker for thinking. */
export function asksOf(name: MakerName, caller: string): Asks {
  const usual = caller === "chat-completions" || caller === "responses" ? "effort" : "budget";
  const { format, asks = usual } = MAKERS[name];
  return format().format === caller ? asks : usual;
}

/** Tells whether a request to an upstream asks for thoughts. */
export function asksToThink({ body }: Received): boolean {
  const {
    thinking,
    generationConfig,
    reasoning_effort: effort,
    reasoning,
    additionalModelRequestFields: fields = {},
  } = body as {
    readonly thinking?: { readonly type: string };
    readonly generationConfig?: { readonly thinkingConfig?: { readonly includeThoughts?: boolean } };
    readonly reasoning_effort?: string;
    readonly reasoning?: unknown;
    readonly additionalModelRequestFields?: JsonObject;
  };
  // Models of Bedrock are not asked for anything else here.
  if (["thinking", "reasoningConfig", "reasoning"].some((name) => name in fields)) return true;
  if (thinking) return thinking.type !== "disabled";
  if (reasoning !== undefined || (effort !== undefined && effort !== "none")) return true;
  return generationConfig?.thinkingConfig?.includeThoughts === true;
}
