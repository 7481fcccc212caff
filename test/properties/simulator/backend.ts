/** The backend of a world: it plays the script of each life at its times. */

import type { CallContext, ChatEvent, ChatRequest, ModelBackend } from "../../../src/index.ts";
import { type Life, lifeOf } from "./life.ts";
import { DRAIN_MS } from "./plan.ts";
import type { Process } from "./process.ts";
import type { WorldParts } from "./world-parts.ts";

/** The character of all answer words. No other part of an answer contains it. */
export const LETTER = "~";

export const DRAINING = "drains";

export function backendOf({ lifeLaws, trace }: WorldParts, process: Process): ModelBackend {
  return {
    hangUp: (model) => (model === DRAINING ? { drainMs: DRAIN_MS } : "cancel"),
    async *chat(request, context) {
      const life = lifeOf(context);
      life.asked = true;
      lifeLaws.asked(life);
      trace(() => `${process.name} asks the backend for ${life.id}`);
      if (!process.effect()) await FOR_EVER;
      yield* answer(life, request, context, process);
    },
  };
}

async function* answer(
  life: Life,
  request: ChatRequest,
  context: CallContext,
  process: Process,
): AsyncGenerator<ChatEvent | string> {
  const { pausesMs, word, honest, ending } = life.plan;
  for (const pauseMs of pausesMs) {
    await pause(pauseMs, life, context, process);
    const left = honest ? request.maxOutputTokens - life.yielded : word;
    const text = LETTER.repeat(Math.min(word, left));
    if (text === "") break;
    life.yielded += text.length;
    yield text;
  }
  if (ending === "throw") throw new Error("The model is away.");
  if (ending === "hang") await pause(undefined, life, context, process);
  const usage = usageOf(life);
  life.reported = usage !== undefined;
  life.ended = true;
  yield { type: "finish", reason: "stop", ...(usage && { usage }) };
}

function usageOf(life: Life): { inputTokens: number; outputTokens: number } | undefined {
  switch (life.plan.reports) {
    case "exact":
    case "more input":
      return { inputTokens: life.reportedInput, outputTokens: life.yielded };
    case "nonsense":
      return { inputTokens: 1, outputTokens: -1 };
    case "nothing":
      return undefined;
  }
}

const FOR_EVER: Promise<never> = new Promise(() => {});

/** Waits, without end when there is no time. An obedient backend stops waiting when it is cancelled. */
function pause(ms: number | undefined, life: Life, context: CallContext, process: Process): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = ms === undefined ? undefined : process.later(ms, resolve);
    if (!life.plan.obedient) return;
    const { signal } = context;
    const stop = (): void => {
      cancel?.();
      reject(signal.reason as Error);
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
