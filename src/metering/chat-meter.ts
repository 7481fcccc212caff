/** The meter of chat: counts tokens by the backend's word where it gave one, by estimate where it did not. */

import { GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent, ChatEvent, FinishEvent, FinishReason } from "../model/event.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { CountTokens } from "./estimate.ts";
import type { Meter } from "./meter.ts";
import { charge, type Price } from "./price.ts";

export interface ChatMeterOptions {
  /** The request as its hold affords it. */
  readonly request: ChatRequest;
  readonly inputTokens: number;
  readonly countTokens: CountTokens;
  readonly price: Price;
}

/**
 * How far an estimate may be beyond the limit before the backend is taken to ignore it: estimates are rough, most of all those
 * of short answers.
 */
const TOLERANCE = { times: 2, tokens: 64 };

export class ChatMeter implements Meter<ChatEvent | string, AnswerEvent> {
  readonly #options: ChatMeterOptions;
  #outputEstimate = 0;
  #known: Partial<Usage> = {};
  #touched = false;
  #calledTools = false;
  #finish: FinishEvent | undefined;
  #complete = false;

  constructor(options: ChatMeterOptions) {
    this.#options = options;
  }

  start(first: ChatEvent | string | undefined): AnswerEvent {
    const start = typeof first === "object" && first.type === "start" ? first : undefined;
    if (start) this.#count(start);
    return {
      type: "start",
      id: start?.id,
      model: start?.model ?? this.#options.request.model,
      usage: { ...this.#usage, outputTokens: 0 },
    };
  }

  observe(yielded: ChatEvent | string): AnswerEvent | undefined {
    const event: ChatEvent = typeof yielded === "string" ? { type: "text-delta", text: yielded } : yielded;
    this.#count(event);
    return event.type === "start" || event.type === "usage" || event.type === "finish" ? undefined : event;
  }

  complete(): void {
    this.#complete = true;
  }

  finish(): AnswerEvent {
    const reason = this.#reason;
    const stopSequence = reason === "stop-sequence" ? this.#finish?.stopSequence : undefined;
    return { type: "finish", reason, stopSequence, usage: this.#usage };
  }

  get overrun(): boolean {
    const { maxOutputTokens } = this.#options.request;
    return !this.#finish && this.#outputEstimate > maxOutputTokens * TOLERANCE.times + TOLERANCE.tokens;
  }

  /** Known counts, completed by estimates. */
  get #usage(): Usage {
    const estimated = Math.ceil(this.#outputEstimate);
    const known = this.#known.outputTokens;
    return {
      inputTokens: this.#known.inputTokens ?? this.#options.inputTokens,
      // Before the end, a count may be older than the text.
      outputTokens: this.#complete ? (known ?? Math.max(1, estimated)) : Math.max(known ?? 0, estimated),
      cacheReadTokens: this.#known.cacheReadTokens ?? 0,
      cacheWriteTokens: this.#known.cacheWriteTokens ?? 0,
      reasoningTokens: this.#known.reasoningTokens ?? 0,
    };
  }

  get units(): number {
    if (!this.#touched && !this.#complete) return 0;
    return charge(this.#options.price, this.#usage, this.#options.request.model);
  }

  get certainty(): Certainty {
    const counted = this.#known.inputTokens !== undefined && this.#known.outputTokens !== undefined;
    return (this.#complete && counted) || !(this.#touched || this.#complete) ? "exact" : "estimated";
  }

  /** Why the answer ended. An answer that calls tools ends for them, even where its backend said `stop`. */
  get #reason(): FinishReason {
    if (this.overrun) return "length";
    const reason = this.#finish?.reason ?? "stop";
    return reason === "stop" && this.#calledTools ? "tool-calls" : reason;
  }

  #count(event: ChatEvent): void {
    switch (event.type) {
      case "start":
      case "usage":
        return this.#learn(event.usage);
      case "finish":
        // The first reason counts; counts that come later still replace earlier ones.
        this.#finish ??= event;
        return this.#learn(event.usage);
      case "text-delta":
      case "reasoning-delta":
        return this.#estimate(event.text);
      case "tool-call":
        this.#calledTools = true;
        this.#estimate(event.name);
        return this.#estimate(JSON.stringify(event.input));
      case "tool-call-start":
        this.#calledTools = true;
        return this.#estimate(event.name);
      case "tool-call-delta":
        return this.#estimate(event.json);
      case "redacted-reasoning":
        return this.#estimate(event.data);
      case "reasoning-signature":
      case "tool-call-end":
        return;
      default:
        event satisfies never;
        throw new GatewayError("backend_failed", "The model backend yielded an event of no known type.");
    }
  }

  #learn(usage: Partial<Usage> | undefined): void {
    if (!usage) return;
    for (const [name, count] of Object.entries(usage))
      if (!Number.isSafeInteger(count) || count < 0)
        throw new GatewayError("backend_failed", `The model backend reported a usage that is no count: ${name}.`);
    this.#touched = true;
    this.#known = { ...this.#known, ...usage };
  }

  #estimate(text: string): void {
    this.#touched = true;
    const tokens = this.#options.countTokens(text);
    if (!Number.isFinite(tokens) || tokens < 0)
      throw new GatewayError("internal", "The gateway's count of tokens is no number from 0 up.");
    this.#outputEstimate += tokens;
  }
}
