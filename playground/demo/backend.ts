/** The demo's model: deterministic, offline, and obedient to all that a chat request can ask for. */

import { setTimeout as pause } from "node:timers/promises";
import {
  type CallContext,
  type ChatEvent,
  type ChatRequest,
  GatewayError,
  type ModelBackend,
} from "../../src/index.ts";
import { answer } from "./answer.ts";
import { inTurns } from "./candidates.ts";
import { readCommands } from "./commands.ts";
import { embed } from "./embedding.ts";
import { drawImages, IMAGE_MODELS } from "./images.ts";
import { lastTurn } from "./last-words.ts";
import { soundFormatOf } from "./sound.ts";
import { countInput, tokensIn, usageOf } from "./usage.ts";

export const demoBackend = (): ModelBackend => ({
  models: () => [
    { id: "demo-chat", kinds: ["chat"] },
    ...IMAGE_MODELS.map((model) => ({ ...model, kinds: ["image"] as const })),
    { id: "demo-embedding", kinds: ["embedding"] },
  ],
  chat,
  image: drawImages,
  embed,
});

async function* chat(request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent> {
  const { words, before } = lastTurn(request);
  const commands = readCommands(words);
  if (commands.silentMs > 0) await pause(commands.silentMs, undefined, { signal: call.signal });
  if (commands.fail) throw commands.fail;
  if (request.cachedContent !== undefined)
    throw new GatewayError("failed_precondition", `There is no cached content "${request.cachedContent}".`, {
      path: ["cachedContent"],
    });
  refuseHostedTools(request);
  const soundFormat = soundFormatOf(request);
  const input = await countInput(request);
  const inputTokens = tokensIn(input);
  yield { type: "start", usage: { inputTokens, details: { input } } };

  if (commands.block) return yield* block(inputTokens);
  const answers = Array.from({ length: request.candidateCount ?? 1 }, (_, candidate) =>
    answer({ request, commands, before, call, soundFormat }, candidate),
  );
  const spoken = yield* inTurns(answers);
  yield { type: "usage", usage: usageOf(input, spoken) };
}

/** Refuses the tools that OpenAI runs itself, such as web search: nobody runs them here. */
function refuseHostedTools({ tools }: ChatRequest): void {
  for (const [index, tool] of tools.entries())
    if (tool.type === "provider" && tool.format === "responses")
      throw new GatewayError(
        "invalid_request",
        `tools.${index}.type: nobody runs ${String(tool.definition["type"])} here`,
        {
          path: ["tools", index, "type"],
        },
      );
}

/** Finds the prompt unsafe. */
function* block(inputTokens: number): Generator<ChatEvent> {
  const ratings = [{ category: "dangerous-content", probability: "high", blocked: true }] as const;
  yield { type: "prompt-feedback", blockReason: "safety", ratings };
  yield { type: "finish", reason: "content-filter", usage: { inputTokens, outputTokens: 0 } };
}
