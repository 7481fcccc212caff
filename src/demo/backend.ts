/** The demo's model: deterministic, offline, and able to use every field of a chat request. */

import { setTimeout as pause } from "node:timers/promises";
import {
  type CallContext,
  type ChatEvent,
  type ChatRequest,
  type ContentEvent,
  type FinishEvent,
  GatewayError,
  type ModelBackend,
  type Tool,
} from "../index.ts";
import { answer } from "./answer.ts";
import { readCommands } from "./commands.ts";
import { embed } from "./embedding.ts";
import { drawImages, IMAGE_MODELS } from "./images.ts";
import { lastTurn } from "./reply.ts";
import { soundFormatOf } from "./sound.ts";
import { countInput, tokensIn, usageOf } from "./usage.ts";

/**
 * Makes the model of the playground: it works offline and always answers the same, in chat with tools, JSON schemas, thinking, sounds and
 * images, as an image model, and with embeddings. Messages may start with commands such as `/fail 503` or `/delay 100`, which the page
 * about the playground lists. Edits and variations of images, and formats other than PNG, need the package `sharp`.
 *
 * @param models The names of its chat models, such as those of your own gateway. Default: `demo-chat`.
 * @throws TypeError for anything but a list of texts.
 * @example const gateway = createGateway({ backend: demoModel(), quotas: memoryQuotaStore([{ apiKey: "sk-test" }]) });
 */
export function demoModel(models: readonly string[] = ["demo-chat"]): ModelBackend {
  if (!Array.isArray(models) || models.some((name) => typeof name !== "string"))
    throw new TypeError('demoModel: the names of its models must be a list of texts, such as ["demo-chat"].');
  return {
    models: () => [
      ...models.map((id) => ({ id, kinds: ["chat"] as const })),
      ...IMAGE_MODELS.map((model) => ({ ...model, kinds: ["image"] as const })),
      { id: "demo-embedding", kinds: ["embedding"] },
    ],
    chat,
    countInputTokens: async (request) =>
      tokensIn(await countInput({ ...request, tools: request.tools.filter(isRunHere) })),
    image: drawImages,
    embed,
  };
}

async function* chat(request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent> {
  const { words, before } = lastTurn(request);
  const commands = readCommands(words);
  if (commands.silentMs > 0) await pause(commands.silentMs, undefined, { signal: call.signal });
  if (commands.fail) throw commands.fail;
  if (request.cachedContent !== undefined)
    throw new GatewayError("not_found", `There is no cached content "${request.cachedContent}".`, {
      path: ["cachedContent"],
    });
  request = withoutHostedTools(request, call);
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

/** The types of provider tools that the caller runs. The demo can call these tools. */
const RUN_BY_CALLER = /^(?:computer|bash|text_editor|memory)_\d{8}$/;

/** Tells whether the caller or the demo runs a tool, and no provider. */
function isRunHere(tool: Tool): boolean {
  if (tool.type !== "provider") return true;
  // A tool of the generate-content format may have any value as its `type`.
  const { type } = tool.definition;
  return typeof type === "string" && RUN_BY_CALLER.test(type);
}

/** Removes the tools that a provider runs itself, such as web search: the demo cannot run them. Refuses a request that forces such a tool. */
function withoutHostedTools(request: ChatRequest, call: CallContext): ChatRequest {
  const { toolChoice: choice } = request;
  const tools = request.tools.filter(isRunHere);
  if (tools.length === request.tools.length) return request;
  const isLeft = (name: string | undefined): boolean =>
    tools.some((tool) => tool.type !== "code-execution" && tool.name === name);
  const isMet =
    choice?.type === "tool"
      ? isLeft(choice.name)
      : choice?.type !== "required" || (choice.names?.some(isLeft) ?? tools.length > 0);
  if (!isMet)
    throw new GatewayError(
      "failed_precondition",
      "The tool that must be called is of a provider, and nobody runs it here.",
      { path: ["tool_choice"] },
    );
  call.reportConversions([
    { field: "tools.provider", conversion: "dropped", why: "Nobody runs the provider's tools here." },
  ]);
  return { ...request, tools };
}

/** Yields the events of a prompt that is blocked as unsafe. */
function* block(inputTokens: number): Generator<ChatEvent> {
  const ratings = [{ category: "dangerous-content", probability: "high", blocked: true }] as const;
  yield { type: "prompt-feedback", blockReason: "safety", ratings };
  yield { type: "finish", reason: "content-filter", usage: { inputTokens, outputTokens: 0 } };
}

type AnswerPart = ContentEvent | FinishEvent;

/** Yields the events of all answers in turn, each with the number of its answer. Returns the results in the order in which the answers end. */
async function* inTurns<Outcome>(
  answers: readonly AsyncGenerator<AnswerPart, Outcome>[],
): AsyncGenerator<AnswerPart, Outcome[]> {
  const outcomes: Outcome[] = [];
  const open = new Map(answers.entries());
  while (open.size > 0)
    for (const [candidate, events] of open) {
      const step = await events.next();
      if (step.done) {
        outcomes.push(step.value);
        open.delete(candidate);
      } else yield candidate > 0 ? { ...step.value, candidate } : step.value;
    }
  return outcomes;
}
