/** Writes an answer word by word, within the output limit and up to a stop sequence. Pauses and breaks on command. */

import { setTimeout as pause } from "node:timers/promises";
import type { ChatRequest, ContentEvent, FinishReason } from "../index.ts";
import type { Commands } from "./commands.ts";
import type { PlannedCall } from "./tool-calls.ts";
import type { Spoken } from "./usage.ts";
import { countTokens, Loop, tokensOf } from "./words.ts";

/** The finish reason of an answer or a piece of the answer. After `stop`, the next piece can follow. */
export interface Ending {
  readonly reason: FinishReason;
  readonly stopSequence?: string;
}

/** The tokens of an image or a sound. */
const MEDIUM_TOKENS = 1_290;

/** Writes a single answer, and counts its tokens. */
export class Speaker implements Spoken {
  readonly #limit: number;
  readonly #stopSequences: readonly string[];
  readonly #commands: Commands;
  readonly #signal: AbortSignal;
  readonly #loop = new Loop();
  total = 0;
  thoughts = 0;
  images = 0;
  sounds = 0;
  read = 0;
  /** The tokens of the text so far, for log probabilities. */
  readonly said: string[] = [];

  constructor({ maxOutputTokens, stopSequences }: ChatRequest, commands: Commands, signal: AbortSignal) {
    this.#limit = maxOutputTokens;
    this.#stopSequences = stopSequences;
    this.#commands = commands;
    this.#signal = signal;
  }

  async *say(text: string): AsyncGenerator<ContentEvent, Ending> {
    const { text: said, stopSequence } = await this.#beforeStop(text);
    const middle = this.#commands.break ? Math.ceil((await countTokens(said)) / 2) : undefined;
    let index = 0;
    for (const word of tokensOf(said)) {
      if (index === middle) throw this.#commands.break;
      if (this.total >= this.#limit) return { reason: "length" };
      if (index++ > 0) await this.#pause();
      this.total++;
      this.said.push(word);
      yield { type: "text-delta", text: word };
    }
    return stopSequence === undefined ? { reason: "stop" } : { reason: "stop-sequence", stopSequence };
  }

  /** Thinks within a budget of tokens. Hidden thoughts count, too. */
  async *think(text: string, budget: number, visible: boolean): AsyncGenerator<ContentEvent> {
    for (const word of tokensOf(text)) {
      if (this.total >= Math.min(this.#limit, budget)) return;
      this.total++;
      this.thoughts++;
      if (visible) yield { type: "reasoning-delta", text: word };
      await this.#pause();
    }
  }

  /** Calls tools in parallel, with arguments in pieces. The first call carries the signature. Omits calls that exceed the output limit. */
  async *call(calls: readonly PlannedCall[], signature?: string): AsyncGenerator<ContentEvent, Ending> {
    for (const [index, { id, name, input }] of calls.entries()) {
      const json = JSON.stringify(input);
      if (this.total + (await countTokens(json)) > this.#limit) return { reason: "length" };
      yield { type: "tool-call-start", id, name, ...(index === 0 && signature !== undefined && { signature }) };
      for (const piece of tokensOf(json)) {
        this.total++;
        yield { type: "tool-call-delta", id, json: piece };
        await this.#pause();
      }
      yield { type: "tool-call-end", id };
    }
    return { reason: "tool-calls" };
  }

  /** Writes code to run. Omits code that exceeds the output limit or contains a stop sequence. */
  async *write(code: string): AsyncGenerator<ContentEvent, Ending> {
    const { stopSequence } = await this.#beforeStop(code);
    if (stopSequence !== undefined) return { reason: "stop-sequence", stopSequence };
    const tokens = await countTokens(code);
    if (this.total + tokens > this.#limit) return { reason: "length" };
    this.total += tokens;
    yield { type: "code", language: "python", code };
    await this.#pause();
    return { reason: "stop" };
  }

  /** Shows an image or plays a sound, unless it exceeds the output limit. */
  async *show(kind: "images" | "sounds", mediaType: string, bytes: Uint8Array): AsyncGenerator<ContentEvent, Ending> {
    if (this.total + MEDIUM_TOKENS > this.#limit) return { reason: "length" };
    this.total += MEDIUM_TOKENS;
    this[kind] += MEDIUM_TOKENS;
    yield { type: "media", mediaType, data: Buffer.from(bytes).toString("base64") };
    await this.#pause();
    return { reason: "stop" };
  }

  /** Cuts a text before its first stop sequence. */
  async #beforeStop(text: string): Promise<{ text: string; stopSequence?: string }> {
    let first: { at: number; stopSequence: string } | undefined;
    for (const stopSequence of this.#stopSequences) {
      // A search of a long text for many sequences takes long.
      await this.#loop.yield();
      this.#signal.throwIfAborted();
      const at = text.indexOf(stopSequence);
      if (at >= 0 && (!first || at < first.at)) first = { at, stopSequence };
    }
    return first ? { text: text.slice(0, first.at), stopSequence: first.stopSequence } : { text };
  }

  async #pause(): Promise<void> {
    if (this.#commands.delayMs > 0) await pause(this.#commands.delayMs, undefined, { signal: this.#signal });
    else await this.#loop.yield();
  }
}
