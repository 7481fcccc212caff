/** The two majors of the official SDK, as the suites take them, and what the suites share. */

import Anthropic, { type ClientOptions } from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import type { AutoParseableOutputFormat } from "@anthropic-ai/sdk/lib/parser";
import type { BetaRunnableTool } from "@anthropic-ai/sdk/lib/tools/BetaRunnableTool";
import AnthropicZero from "anthropic-sdk-0";
import { betaTool as betaToolZero } from "anthropic-sdk-0/helpers/beta/json-schema";
import { jsonSchemaOutputFormat as jsonSchemaOutputFormatZero } from "anthropic-sdk-0/helpers/json-schema";
import type { Site } from "../playground.ts";

interface City {
  readonly city: string;
}

/** A major of the SDK. */
export interface Sdk {
  readonly name: string;
  readonly Anthropic: typeof Anthropic;
  /** A tool for its tool runner, made by its own helper. */
  readonly weatherTool: (tellWeather: (city: string) => string) => BetaRunnableTool<City>;
  /** The format of an answer that names a city, made by its own helper. */
  readonly cityFormat: AutoParseableOutputFormat<City>;
  /** The header in which it sends the key. */
  readonly keyHeader: string;
  /** What its beta calls add to the address. */
  readonly betaQuery: string;
  /** Whether it knows conversations that the server keeps. */
  readonly hasThreads: boolean;
}

const citySchema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
} as const;

const weatherTool = { name: "get_weather", description: "Tells the weather of a city.", inputSchema: citySchema };

const newer: Sdk = {
  name: "@anthropic-ai/sdk 1.x",
  Anthropic,
  weatherTool: (tellWeather) => betaTool({ ...weatherTool, run: ({ city }) => tellWeather(city) }),
  cityFormat: jsonSchemaOutputFormat(citySchema),
  keyHeader: "authorization",
  betaQuery: "",
  hasThreads: true,
};

const older: Sdk = {
  name: "@anthropic-ai/sdk 0.x",
  // The suites use what both majors have; TypeScript cannot call a union of the two majors' overloads.
  Anthropic: AnthropicZero as unknown as typeof Anthropic,
  weatherTool: (tellWeather) => betaToolZero({ ...weatherTool, run: ({ city }) => tellWeather(city) }),
  cityFormat: jsonSchemaOutputFormatZero(citySchema),
  keyHeader: "x-api-key",
  betaQuery: "?beta=true",
  hasThreads: false,
};

export const sdks: readonly Sdk[] = [newer, older];

/** What a suite runs with. */
export interface Stage {
  readonly sdk: Sdk;
  readonly playground: () => Site;
  /** A client of the playground: with the unlimited key and without retries, unless told. */
  readonly connect: (options?: ClientOptions) => Anthropic;
}

export function stageOf(sdk: Sdk, playground: () => Site): Stage {
  const connect = (options: ClientOptions = {}): Anthropic =>
    new sdk.Anthropic({ baseURL: playground().url, apiKey: "sk-demo", maxRetries: 0, ...options });
  return { sdk, playground, connect };
}

/** The platform's fetch, which keeps what it sent. */
export function recordingFetch(): { readonly fetch: typeof fetch; readonly sent: Request[] } {
  const sent: Request[] = [];
  const recording: typeof fetch = (input, init) => {
    sent.push(new Request(input, init));
    return fetch(input, init);
  };
  return { fetch: recording, sent };
}

export type Message = Anthropic.Message;
export type MessageParam = Anthropic.MessageParam;
export type StreamEvent = Anthropic.RawMessageStreamEvent;
/** The newer major's types leave the sampling out, which it sends all the same and the spec has (2.6). */
export type Params = Anthropic.MessageCreateParamsNonStreaming & {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
};

/** A request that says one thing. */
export const say = (content: MessageParam["content"], more: Partial<Params> = {}): Params => ({
  model: "demo-chat",
  max_tokens: 1_000,
  messages: [{ role: "user", content }],
  ...more,
});

/** All text of an answer. */
export const textOf = ({ content }: { readonly content: readonly { readonly type: string }[] }): string =>
  content.map((block) => (block.type === "text" && "text" in block ? String(block.text) : "")).join("");

/** The error that a call ends with; a call that succeeds fails the test. */
export async function errorOf(call: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  try {
    await call;
  } catch (error) {
    // Each test says which class it expects; this is what all of them share.
    return error as InstanceType<typeof Anthropic.APIError>;
  }
  throw new Error("The call was expected to fail.");
}
