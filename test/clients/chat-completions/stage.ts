/** What the suites of chat completions run with: a gateway at an address, and the clients that speak to it. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAI } from "@ai-sdk/openai";
import type { LanguageModel } from "ai";
import type OpenAI from "openai";
import type { ClientOptions } from "openai";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, type GatewayOptions, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import type { Sdk } from "../openai/sdk.ts";

/** A request of either form: the client adds which. */
export type Body = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream">;

/** A client with the unlimited key and without retries, unless told. */
export const connect = ({ sdk, url }: { sdk: Sdk; url: string }, options: ClientOptions = {}): OpenAI =>
  new sdk.OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-demo", maxRetries: 0, ...options });

export const chatModel = (url: string, apiKey = "sk-demo", id = "demo-chat"): LanguageModel =>
  createOpenAI({ baseURL: `${url}/v1`, apiKey }).chat(id);

/** A request that says one thing. */
export const say = (content: string, more: Partial<Body> = {}): Body => ({
  model: "demo-chat",
  messages: [{ role: "user", content }],
  ...more,
});

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
}

/** A gateway on a socket, before a backend that a test has written. */
export async function serve(
  chat: NonNullable<ModelBackend["chat"]>,
  options: Partial<GatewayOptions> = {},
): Promise<ScriptedServer> {
  const quotas = memoryQuotaStore([{ apiKey: "sk-demo" }]);
  const server = createServer(
    toNodeHandler(createGateway({ onFailure: () => {}, quotas, ...options, backend: { chat } })),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The platform's fetch, and all that came back. */
export function listeningFetch(): { readonly fetch: typeof fetch; readonly heard: () => Promise<string> } {
  const copies: Promise<string>[] = [];
  const listening: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    copies.push(response.clone().text());
    return response;
  };
  return { fetch: listening, heard: async () => (await Promise.all(copies)).join("") };
}

/** A backend that is silent before its answer and within it, for longer than a keep-alive takes. */
export function quiet(): {
  readonly clock: ReturnType<typeof manualClock>;
  readonly chat: () => AsyncGenerator<string>;
} {
  const clock = manualClock(Date.now());
  return {
    clock,
    async *chat() {
      await clock.advance(20_000);
      yield "Hello";
      await clock.advance(20_000);
      yield " there";
    },
  };
}

interface FunctionTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: Record<string, unknown>;
    readonly strict?: boolean;
  };
}

const city = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

export const WEATHER: FunctionTool = {
  type: "function",
  function: { name: "get_weather", description: "Tells the weather", parameters: city, strict: true },
};
export const TIME: FunctionTool = {
  type: "function",
  function: { name: "get_time", description: "Tells the time", parameters: city },
};
