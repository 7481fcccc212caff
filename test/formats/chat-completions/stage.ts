/** A gateway in this process, before a backend that plays what a case tells it and keeps what it was asked. */

import { createParser } from "eventsource-parser";
import {
  type ApiKeyOptions,
  type CallContext,
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";

export type Play = (request: ChatRequest, call: CallContext) => AsyncIterable<ChatEvent | string>;

/** A play of given events. */
export const plays = (...events: readonly (ChatEvent | string)[]): Play =>
  async function* () {
    yield* events;
  };

/** A play of given events that ends with a failure. */
export const fails = (error: unknown, ...before: readonly (ChatEvent | string)[]): Play =>
  async function* () {
    yield* before;
    throw error;
  };

export interface StageOptions extends Partial<Omit<GatewayOptions, "backend" | "quotas">> {
  readonly keys?: readonly ApiKeyOptions[];
  /** The address that is asked. */
  readonly path?: string;
}

export interface Stage {
  readonly received: ChatRequest[];
  /** Sends a body as a case has it. */
  readonly ask: (body: unknown, headers?: Readonly<Record<string, string>>) => Promise<Response>;
}

/** The first second of 2026, as the answers of a stage have it. */
export const CREATED: number = Date.UTC(2026, 0, 1) / 1000;

export function openStage(
  play: Play,
  { keys = [], path = "/v1/chat/completions", ...options }: StageOptions = {},
): Stage {
  const received: ChatRequest[] = [];
  const gateway = createGateway({
    backend: {
      chat(request, call) {
        received.push(request);
        return play(request, call);
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }, ...keys]),
    clock: manualClock(CREATED * 1000),
    onFailure: () => {},
    ...options,
  });
  const ask: Stage["ask"] = (body, headers = {}) =>
    gateway.fetch(
      new Request(`http://gateway.test${path}`, {
        method: "POST",
        headers: { authorization: "Bearer sk-test", "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    );
  return { received, ask };
}

/** A body that is in order, but for what is changed. */
export const having = (changes: object = {}): object => ({
  model: "model-a",
  messages: [{ role: "user", content: "Hi" }],
  ...changes,
});

/** The data of each frame of a stream. */
export async function framesOf(response: Response): Promise<string[]> {
  const frames: string[] = [];
  createParser({ onEvent: ({ data }) => void frames.push(data) }).feed(await response.text());
  return frames;
}
