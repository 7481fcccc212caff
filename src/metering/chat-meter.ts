/** The meter of chat: counts tokens by the backend's word where it gave one, by estimate where it did not. */

import { GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent, ChatEvent, Ending, FinishEvent, FinishReason } from "../model/event.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import { assertTokens, type CountTokens } from "./estimate.ts";
import type { Meter } from "./meter.ts";
import { charge, type Price } from "./price.ts";

export interface ChatMeterOptions {
  /** The request as its hold affords it. */
  readonly request: ChatRequest;
  readonly inputTokens: number;
  readonly countTokens: CountTokens;
  readonly price: Price;
}

const FINISH_REASONS: ReadonlySet<string> = new Set(
  Object.keys({
    stop: true,
    "stop-sequence": true,
    length: true,
    "tool-calls": true,
    "content-filter": true,
    recitation: true,
    language: true,
    blocklist: true,
    "prohibited-content": true,
    "personal-data": true,
    "unsafe-image": true,
    "malformed-tool-call": true,
    other: true,
  } satisfies Record<FinishReason, true>),
);

/** What a picture or a sound that an answer holds is taken to cost, where its backend has not said. */
const MEDIA_TOKENS = 1_290;

/**
 * How far an estimate may be beyond the limit before the backend is taken to ignore it: estimates are rough, most of all those
 * of short answers.
 */
const TOLERANCE = { times: 2, tokens: 64 };

export class ChatMeter implements Meter<ChatEvent | string, AnswerEvent> {
  readonly #options: ChatMeterOptions;
  /** Tokens of what was said, called and written as code, by estimate; media are counted apart, by a guess. */
  #outputEstimate = 0;
  #media = 0;
  #known: Partial<Usage> = {};
  #touched = false;
  /** The candidates that call tools, and how those ended that have. */
  readonly #callers: Set<number> = new Set();
  readonly #finished: Map<number, FinishEvent> = new Map();
  #candidates = 1;
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
    const others = Array.from({ length: this.#candidates - 1 }, (_, index) => this.#ending(index + 1));
    return { type: "finish", endings: [this.#ending(0), ...others], usage: this.#usage };
  }

  get overrun(): boolean {
    const { maxOutputTokens } = this.#options.request;
    const limit = maxOutputTokens * this.#candidates;
    return this.#finished.size === 0 && this.#outputEstimate > limit * TOLERANCE.times + TOLERANCE.tokens;
  }

  /** Known counts, completed by estimates. */
  get #usage(): Usage {
    const estimated = Math.ceil(this.#outputEstimate) + this.#media * MEDIA_TOKENS;
    const known = this.#known.outputTokens;
    return {
      inputTokens: this.#known.inputTokens ?? this.#options.inputTokens,
      // Before the end, a count may be older than the text.
      outputTokens: this.#complete ? (known ?? Math.max(1, estimated)) : Math.max(known ?? 0, estimated),
      cacheReadTokens: this.#known.cacheReadTokens ?? 0,
      cacheWriteTokens: this.#known.cacheWriteTokens ?? 0,
      reasoningTokens: this.#known.reasoningTokens ?? 0,
      ...(this.#known.toolUseTokens !== undefined && { toolUseTokens: this.#known.toolUseTokens }),
      ...(this.#known.details && { details: this.#known.details }),
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

  /** Why a candidate ended. One that calls tools ends for them, even where its backend said `stop`. */
  #ending(candidate: number): Ending {
    const finish = this.#finished.get(candidate);
    const said = finish?.reason ?? (this.overrun ? "length" : "stop");
    const reason = said === "stop" && this.#callers.has(candidate) ? "tool-calls" : said;
    return { candidate, reason, stopSequence: reason === "stop-sequence" ? finish?.stopSequence : undefined };
  }

  #count(event: ChatEvent): void {
    if ("candidate" in event && event.candidate !== undefined) this.#meet(event.candidate);
    switch (event.type) {
      case "start":
      case "usage":
        return this.#learn(event.usage);
      case "finish":
        // The first reason counts; counts that come later still replace earlier ones.
        if (!FINISH_REASONS.has(event.reason))
          throw new GatewayError("backend_failed", "The model backend ended for no known reason.");
        if (!this.#finished.has(event.candidate ?? 0)) this.#finished.set(event.candidate ?? 0, event);
        return this.#learn(event.usage);
      case "text-delta":
      case "reasoning-delta":
        return this.#estimate(event.text);
      case "tool-call":
        this.#callers.add(event.candidate ?? 0);
        this.#estimate(event.name);
        return this.#estimate(JSON.stringify(event.input));
      case "tool-call-start":
        this.#callers.add(event.candidate ?? 0);
        return this.#estimate(event.name);
      case "tool-call-delta":
        return this.#estimate(event.json);
      case "redacted-reasoning":
        return this.#estimate(event.data);
      case "code":
        return this.#estimate(event.code);
      case "media":
        this.#touched = true;
        this.#media++;
        return;
      // What code printed was not generated; a backend that reads it again counts it among its input.
      case "code-result":
      case "annotation":
      case "prompt-feedback":
      case "reasoning-signature":
      case "tool-call-end":
        this.#touched = true;
        return;
      default:
        event satisfies never;
        throw new GatewayError("backend_failed", "The model backend yielded an event of no known type.");
    }
  }

  #meet(candidate: number): void {
    const { candidateCount = 1 } = this.#options.request;
    if (!(Number.isInteger(candidate) && candidate >= 0 && candidate < candidateCount))
      throw new GatewayError("backend_failed", "The model backend answered with a candidate that nobody asked for.");
    this.#candidates = Math.max(this.#candidates, candidate + 1);
  }

  #learn(usage: Partial<Usage> | undefined): void {
    if (!usage) return;
    const { details, ...counts } = usage;
    for (const { tokens } of Object.values(details ?? {}).flat()) assertCount("details", tokens);
    for (const [name, count] of Object.entries(counts)) assertCount(name, count);
    this.#touched = true;
    this.#known = { ...this.#known, ...usage };
  }

  #estimate(text: string): void {
    this.#touched = true;
    this.#outputEstimate += assertTokens(this.#options.countTokens(text));
  }
}

function assertCount(name: string, count: number | undefined): void {
  if (count === undefined || !Number.isSafeInteger(count) || count < 0)
    throw new GatewayError("backend_failed", `The model backend reported a usage that is no count: ${name}.`);
}
