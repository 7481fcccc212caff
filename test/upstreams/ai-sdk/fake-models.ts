/** Scripted models of the providers' interface, called without a gateway. */

import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import type { ImageEvent, ImageRequest } from "../../../src/model/image.ts";
import {
  type AiSdkChatModel,
  type AiSdkImageModel,
  type AiSdkOptions,
  aiSdk,
} from "../../../src/upstreams/ai-sdk/index.ts";
import { callContext, chatRequest } from "../relay/stage.ts";

export type Part = Readonly<Record<string, unknown>>;

/** The options of one call of a model. */
export type Asked = Readonly<Record<string, unknown>> & { readonly abortSignal?: AbortSignal };

export interface Script {
  readonly version?: "v2" | "v3" | "v4";
  readonly provider?: string;
  readonly modelId?: string;
  readonly supportedUrls?: unknown;
  /** The parts of a stream, or a function that may hang or throw. */
  readonly stream?: readonly unknown[] | ((asked: Asked) => unknown);
  readonly answer?: (asked: Asked) => unknown;
}

export interface FakeModel extends AiSdkChatModel {
  readonly asked: Asked[];
}

export function fakeModel({
  version = "v4",
  provider = "fake.chat",
  modelId = "fake-1",
  supportedUrls = {},
  stream = [],
  answer,
}: Script): FakeModel {
  const asked: Asked[] = [];
  const note = (options: Asked): Asked => (asked.push(options), options);
  return {
    asked,
    specificationVersion: version,
    provider,
    modelId,
    supportedUrls,
    async doStream(options: Asked) {
      note(options);
      return typeof stream === "function" ? stream(options) : { stream: streamOf(stream) };
    },
    async doGenerate(options: Asked) {
      return answer?.(note(options));
    },
  };
}

export const streamOf = (parts: readonly unknown[]): ReadableStream<unknown> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

export const USAGE = {
  inputTokens: { total: 12, noCache: 5, cacheRead: 4, cacheWrite: 3 },
  outputTokens: { total: 30, text: 20, reasoning: 10 },
};
export const START: Part = { type: "stream-start", warnings: [] };
export const FINISH: Part = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: USAGE };
export const said = (text: string): Part[] => [
  { type: "text-start", id: "1" },
  { type: "text-delta", id: "1", delta: text },
  { type: "text-end", id: "1" },
];

export interface Outcome {
  readonly events: readonly ChatEvent[];
  readonly text: string;
  readonly error: Partial<Record<"code" | "message" | "cause" | "retryAfterMs", unknown>> | undefined;
  readonly conversions: readonly Conversion[];
}

/** Calls a model and reads its answer to the end, or to an error. */
export async function ask(
  model: AiSdkChatModel,
  more: Partial<ChatRequest> = {},
  options: Partial<AiSdkOptions> = {},
  signal?: AbortSignal,
): Promise<Outcome> {
  const events: ChatEvent[] = [];
  let conversions: readonly Conversion[] = [];
  const call = { ...callContext(signal), signal: signal ?? new AbortController().signal };
  call.reportConversions = (told) => void (conversions = told);
  let error: Outcome["error"];
  try {
    const backend = aiSdk({ chat: { "plain-1": model }, ...options });
    for await (const event of backend.chat?.(chatRequest(more), call) ?? [])
      events.push(typeof event === "string" ? { type: "text-delta", text: event } : event);
  } catch (thrown) {
    error = thrown as object;
  }
  const text = events.map((event) => (event.type === "text-delta" ? event.text : "")).join("");
  return { events, text, error, conversions };
}

export const imageModel = (
  answer: (asked: Asked) => unknown,
  more: Partial<AiSdkImageModel> & {
    readonly supportsMaskInputs?: boolean;
    readonly supportsFileInputs?: boolean;
  } = {},
): AiSdkImageModel => ({
  specificationVersion: "v4",
  provider: "fake.image",
  modelId: "fake-draw",
  maxImagesPerCall: 10,
  async doGenerate(options: Asked) {
    return answer(options);
  },
  ...more,
});

export async function draw(
  model: AiSdkImageModel,
  more: Partial<ImageRequest> = {},
  options: Partial<AiSdkOptions> = {},
): Promise<{ events: readonly ImageEvent[]; error: Outcome["error"]; conversions: readonly Conversion[] }> {
  const events: ImageEvent[] = [];
  let conversions: readonly Conversion[] = [];
  const call = { ...callContext(), signal: new AbortController().signal };
  call.reportConversions = (told) => void (conversions = told);
  const request: ImageRequest = {
    model: "image-model-2",
    operation: "generate",
    prompt: "A lighthouse",
    images: [],
    count: 1,
    size: "256x256",
    delivery: "data",
    stream: false,
    ...more,
  };
  try {
    const backend = aiSdk({ images: { "image-model-2": model }, ...options });
    for await (const event of backend.image?.(request, call) ?? []) events.push(event);
    return { events, error: undefined, conversions };
  } catch (error) {
    return { events, error: error as object, conversions };
  }
}
