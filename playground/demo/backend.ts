/** The demo's model: deterministic, offline, and obedient to all that a chat request can ask for. */

import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type {
  CallContext,
  ChatEvent,
  ChatRequest,
  FinishReason,
  ModelBackend,
  ResponseFormat,
} from "../../src/index.ts";
import { drawImages, IMAGE_MODELS } from "./images.ts";
import { type Commands, readCommands } from "./commands.ts";
import { lastUserParts, replyTo, textOf } from "./reply.ts";
import { satisfy } from "./satisfy.ts";
import { planCalls } from "./tool-calls.ts";
import { countInput, wordsOf } from "./words.ts";

export const demoBackend = (): ModelBackend => ({
  models: () => [{ id: "demo-chat" }, ...IMAGE_MODELS],
  chat,
  image: drawImages,
});

async function* chat(request: ChatRequest, { signal }: CallContext): AsyncGenerator<ChatEvent> {
  const commands = readCommands(textOf(lastUserParts(request)));
  if (commands.silentMs > 0) await pause(commands.silentMs, undefined, { signal });
  if (commands.fail) throw commands.fail;
  const inputTokens = countInput(request);
  yield { type: "start", usage: { inputTokens } };

  const speaker = new Speaker(request.maxOutputTokens, commands, signal);
  yield* think(request, commands, speaker);
  const calls = commands.repeat === undefined ? planCalls(request, commands.text) : [];
  const ending =
    calls.length > 0
      ? yield* speaker.call(calls)
      : yield* speaker.say(answerText(request, commands), request.stopSequences);
  // An answer too short to break in its middle breaks at its end.
  if (commands.break) throw commands.break;
  const usage = { inputTokens, outputTokens: Math.max(1, speaker.spoken), reasoningTokens: speaker.thought };
  yield { type: "finish", ...ending, usage };
}

async function* think({ reasoning }: ChatRequest, { text }: Commands, speaker: Speaker): AsyncGenerator<ChatEvent> {
  if (!reasoning || reasoning.type === "disabled") return;
  const budget = reasoning.type === "enabled" ? reasoning.budgetTokens : Number.POSITIVE_INFINITY;
  const thoughts = `The user wrote ${wordsOf(text).length} words. I will tell them back what arrived.`;
  yield* speaker.think(thoughts, budget);
  yield { type: "reasoning-signature", signature: createHash("sha256").update(thoughts).digest("base64") };
}

function answerText(request: ChatRequest, { repeat, text }: Commands): string {
  if (repeat !== undefined) return Array.from({ length: repeat }, () => "word").join(" ");
  const whole = request.responseFormat ? formatted(request.responseFormat, text) : replyTo(request, text);
  const last = request.messages.at(-1);
  const prefill = last?.role === "assistant" ? textOf(last.parts) : "";
  // The answer goes on where the prefill ends, and never says it again.
  return whole.startsWith(prefill) ? whole.slice(prefill.length) : whole;
}

const formatted = (format: ResponseFormat, text: string): string =>
  format.type === "enum"
    ? (format.values[0] ?? "")
    : JSON.stringify(satisfy(format.schema ?? {}, text, "the response schema"));

interface Ending {
  readonly reason: FinishReason;
  readonly stopSequence?: string;
}

/** Says things word by word within the output limit, pausing and breaking as commanded. */
class Speaker {
  readonly #limit: number;
  readonly #commands: Commands;
  readonly #signal: AbortSignal;
  spoken = 0;
  thought = 0;

  constructor(limit: number, commands: Commands, signal: AbortSignal) {
    this.#limit = limit;
    this.#commands = commands;
    this.#signal = signal;
  }

  async *say(text: string, stopSequences: readonly string[]): AsyncGenerator<ChatEvent, Ending> {
    const { text: said, stopSequence } = beforeStop(text, stopSequences);
    const words = wordsOf(said);
    const middle = Math.ceil(words.length / 2);
    for (const [index, word] of words.entries()) {
      if (this.#commands.break && index === middle) throw this.#commands.break;
      if (this.spoken >= this.#limit) return { reason: "length" };
      if (index > 0) await this.#pause();
      this.spoken++;
      yield { type: "text-delta", text: word };
    }
    return stopSequence === undefined ? { reason: "stop" } : { reason: "stop-sequence", stopSequence };
  }

  async *think(text: string, budget: number): AsyncGenerator<ChatEvent> {
    for (const word of wordsOf(text)) {
      if (this.spoken >= Math.min(this.#limit, budget)) return;
      this.spoken++;
      this.thought++;
      yield { type: "reasoning-delta", text: word };
      await this.#pause();
    }
  }

  /** Calls in parallel, their arguments in pieces; a call that no longer fits is not begun. */
  async *call(calls: ReturnType<typeof planCalls>): AsyncGenerator<ChatEvent, Ending> {
    for (const { id, name, input } of calls) {
      const pieces = JSON.stringify(input).match(/.{1,12}/gsu) ?? [];
      if (this.spoken + pieces.length > this.#limit) return { reason: "length" };
      yield { type: "tool-call-start", id, name };
      for (const json of pieces) {
        this.spoken++;
        yield { type: "tool-call-delta", id, json };
        await this.#pause();
      }
      yield { type: "tool-call-end", id };
    }
    return { reason: "tool-calls" };
  }

  async #pause(): Promise<void> {
    if (this.#commands.delayMs > 0) await pause(this.#commands.delayMs, undefined, { signal: this.#signal });
  }
}

/** A text up to the first of the stop sequences in it. */
function beforeStop(text: string, stopSequences: readonly string[]): { text: string; stopSequence?: string } {
  let first: { at: number; stopSequence: string } | undefined;
  for (const stopSequence of stopSequences) {
    const at = text.indexOf(stopSequence);
    if (at >= 0 && (!first || at < first.at)) first = { at, stopSequence };
  }
  return first ? { text: text.slice(0, first.at), stopSequence: first.stopSequence } : { text };
}
