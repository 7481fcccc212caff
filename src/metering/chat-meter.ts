/** The meter of chat: counts tokens by the backend's word where it gave one, by estimate where it did not. */

import { GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat.ts";
import type {
  AnswerEvent,
  ChatEvent,
  ContentEvent,
  Ending,
  FinishEvent,
  FinishReason,
  NativeEvent,
  NativeFrame,
} from "../model/event.ts";
import { type Certainty, type Usage, withParts } from "../model/usage.ts";
import { assertChatEvent } from "./chat-event.ts";
import { type CountTokens, encryptedTokens, type TokenCounter, tokenCounter } from "./count-tokens.ts";
import type { Meter, MeterReport } from "./meter.ts";
import { charge, type Price } from "./price.ts";

export interface ChatMeterOptions {
  /** The request as its hold affords it. */
  readonly request: ChatRequest;
  readonly inputTokens: number;
  readonly countTokens: CountTokens;
  readonly price: Price;
  /** Told of counts of the backend's that cannot be true. */
  readonly doubt: (why: string) => void;
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
    pause: true,
    refusal: true,
    "context-window": true,
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
 * Cuts an answer that nobody counts where its estimate is beyond the output limit by so much: estimates are rough, most of all those
 * of short answers.
 */
const TOLERANCE = { times: 2, tokens: 64 };

/**
 * Doubts a backend's own count of the output that is below the estimate by so much. Honest counts are not: the estimate is within a
 * third of them for prose, code and JSON, and within eight times for long runs of one character. An answer whose estimate is so far
 * beyond its limit is cut also where the backend counts: no count within the limit could be believed, so its end may never come.
 */
const UNDERCOUNT = { times: 16, tokens: 256 };

/** How much of an answer's end may wait for its finish, in characters: as much as the largest whole answer that is relayed. */
const MOST_WAITING_CHARS = 64 * 1024 ** 2;

/** The largest count of tokens that is believed: no model takes or gives as many. */
const MOST_TOKENS = 2 ** 32;

export class ChatMeter implements Meter<ChatEvent | string, AnswerEvent> {
  readonly #options: ChatMeterOptions;
  /** Tokens of what was said, called and written as code, by estimate; media are counted apart, by a guess. */
  #outputEstimate = 0;
  /** Counts the text of each candidate as it comes: pieces of two candidates make no word together. */
  readonly #counters: TokenCounter[] = [];
  #media = 0;
  #known: Partial<Usage> = {};
  #touched = false;
  /** The candidates that call tools, and how those ended that have. */
  readonly #callers: Set<number> = new Set();
  readonly #finished: Map<number, FinishEvent> = new Map();
  #candidates = 1;
  #model: string | undefined;
  /** The answer's end in its provider's own format. */
  #native: { dialect: string; frames: NativeFrame[]; body: string | undefined } | undefined;
  /** How much of it waits for the finish, in characters. */
  #waitingChars = 0;
  #complete = false;
  /**
   * Whether the backend counts: its answer began with a start, or a usage has come. Such an answer ends with a finish, and its limit is the
   * backend's to keep.
   */
  #reportsUsage = false;
  /** The estimate when the last candidate finished: nobody counts what comes behind it. */
  #estimateAtFinish: number | undefined;
  /** Whether the gateway has ended the text, so that its backend has not come to its last counts. */
  #cut = false;
  /** Whether a count that cannot be true has come: then no count of this backend's is exact. */
  #doubtful = false;

  constructor(options: ChatMeterOptions) {
    this.#options = options;
  }

  start(first: ChatEvent | string | undefined): AnswerEvent {
    if (typeof first === "object") assertChatEvent(first);
    const native = typeof first === "object" && first.type === "native" ? first : undefined;
    const opening = native?.means[0] ?? first;
    const start = typeof opening === "object" && opening.type === "start" ? opening : undefined;
    if (start) this.#count(start);
    return {
      ...(native && { native: native.dialect }),
      type: "start",
      id: start?.id,
      model: start?.model ?? this.#options.request.model,
      usage: { ...this.#usage, outputTokens: 0 },
    };
  }

  observe(yielded: ChatEvent | string): AnswerEvent | undefined {
    const event: ChatEvent = typeof yielded === "string" ? { type: "text-delta", text: yielded } : yielded;
    assertChatEvent(event);
    if (event.type === "native") return this.#observeNative(event);
    this.#count(event);
    return isContent(event) ? event : undefined;
  }

  /** What a piece in the provider's own format means is counted; from the answer's end on, the piece itself waits for the finish. */
  #observeNative({ dialect, means, frames, body, unsaid }: NativeEvent): AnswerEvent {
    for (const event of means) {
      assertChatEvent(event);
      this.#count(event);
    }
    const content = means.filter(isContent);
    const isEnd = this.#native !== undefined || body !== undefined || means.some(({ type }) => type === "finish");
    const event = { type: "native", dialect, means: content, ...(unsaid && { unsaid }) } as const;
    if (!isEnd) return { ...event, frames };
    // The end that comes first is the one that the finish has.
    const isWhole = body !== undefined && !this.#native;
    const ending = (this.#native ??= { dialect, frames: [], body });
    for (const frame of frames ?? []) {
      ending.frames.push(frame);
      this.#waitingChars += frame.data.length;
    }
    if (this.#waitingChars > MOST_WAITING_CHARS)
      throw new GatewayError("backend_failed", "The model backend's answer does not end.", { port: "model-backend" });
    return isWhole ? { ...event, isWhole } : event;
  }

  /** The backend is left before it has counted all of its text. */
  cut(): void {
    this.#cut = true;
  }

  complete(): void {
    if (this.#reportsUsage && this.#finished.size === 0 && !this.overrun)
      throw new GatewayError("backend_failed", "The model backend's answer broke off.", { port: "model-backend" });
    this.#complete = true;
    this.#assertPlausible();
  }

  finish(): AnswerEvent {
    const others = Array.from({ length: this.#candidates - 1 }, (_, index) => this.#ending(index + 1));
    const native = this.#native && { native: this.#native };
    return { type: "finish", endings: [this.#ending(0), ...others], usage: this.#usage, ...native };
  }

  get overrun(): boolean {
    const limit = this.#options.request.maxOutputTokens * this.#candidates;
    // The backend's count ends at its last finish; text behind it is estimated.
    const uncounted = this.#outputEstimate - (this.#estimateAtFinish ?? 0);
    const isCounted = this.#reportsUsage && this.#estimateAtFinish === undefined;
    const { times, tokens } = isCounted ? UNDERCOUNT : TOLERANCE;
    return uncounted > limit * times + tokens;
  }

  /** Whether the backend's counts are its last: a backend that was left at a limit has not come to those. */
  get #isFinal(): boolean {
    return this.#complete && !this.#cut && !this.overrun && (this.#finished.size > 0 || !this.#reportsUsage);
  }

  /** Known counts, completed by estimates. */
  get #usage(): Usage {
    const estimated = Math.ceil(this.#outputEstimate) + this.#media * MEDIA_TOKENS;
    const counts = withParts(this.#known);
    const known = counts.outputTokens;
    return {
      inputTokens: counts.inputTokens ?? this.#options.inputTokens,
      // Before the end, a count may be older than the text.
      outputTokens: this.#isFinal ? (known ?? Math.max(1, estimated)) : Math.max(known ?? 0, estimated),
      cacheReadTokens: counts.cacheReadTokens ?? 0,
      cacheWriteTokens: counts.cacheWriteTokens ?? 0,
      reasoningTokens: counts.reasoningTokens ?? 0,
      ...(counts.toolUseTokens !== undefined && { toolUseTokens: counts.toolUseTokens }),
      ...(counts.details && { details: counts.details }),
      ...(counts.cacheWritesByTtl && { cacheWritesByTtl: counts.cacheWritesByTtl }),
      ...(counts.serverToolUses && { serverToolUses: counts.serverToolUses }),
      ...(counts.serviceTier !== undefined && { serviceTier: counts.serviceTier }),
    };
  }

  get units(): number {
    if (!this.#touched && !this.#complete) return 0;
    return charge(this.#options.price, this.#usage, this.#options.request.model);
  }

  get report(): MeterReport {
    return { usage: this.#touched || this.#complete ? this.#usage : undefined, model: this.#model };
  }

  get certainty(): Certainty {
    const counted = this.#known.inputTokens !== undefined && this.#known.outputTokens !== undefined;
    if (!this.#touched && !this.#complete) return "exact";
    return this.#isFinal && counted && !this.#doubtful ? "exact" : "estimated";
  }

  /** Why a candidate ended. One that calls tools ends for them, even where its backend said `stop`. */
  #ending(candidate: number): Ending {
    const finish = this.#finished.get(candidate);
    const said = finish?.reason ?? (this.overrun ? "length" : "stop");
    const reason = said === "stop" && this.#callers.has(candidate) ? "tool-calls" : said;
    return { candidate, reason, stopSequence: reason === "stop-sequence" ? finish?.stopSequence : undefined };
  }

  #count(event: Exclude<ChatEvent, NativeEvent>): void {
    if ("candidate" in event && event.candidate !== undefined) this.#meet(event.candidate);
    switch (event.type) {
      case "start":
      case "usage":
        if (event.type === "start") this.#model ??= event.model;
        this.#reportsUsage = true;
        return this.#learn(event.usage);
      case "finish":
        // The first reason counts; counts that come later still replace earlier ones.
        if (!FINISH_REASONS.has(event.reason))
          throw new GatewayError("backend_failed", "The model backend ended for no known reason.");
        if (!this.#finished.has(event.candidate ?? 0)) this.#finished.set(event.candidate ?? 0, event);
        if (this.#finished.size >= (this.#options.request.candidateCount ?? 1))
          this.#estimateAtFinish ??= this.#outputEstimate;
        return this.#learn(event.usage);
      case "text-delta":
      case "reasoning-delta":
      case "refusal-delta":
        return this.#estimate(event.text, event.candidate);
      case "tool-call":
        this.#callers.add(event.candidate ?? 0);
        this.#estimate(event.name, event.candidate);
        return this.#estimate(JSON.stringify(event.input), event.candidate);
      case "tool-call-start":
        this.#callers.add(event.candidate ?? 0);
        return this.#estimate(event.name, event.candidate);
      case "tool-call-delta":
        return this.#estimate(event.json, event.candidate);
      case "redacted-reasoning":
        this.#touched = true;
        this.#outputEstimate += encryptedTokens(event.data);
        return;
      case "code":
        return this.#estimate(event.code, event.candidate);
      case "media":
        this.#touched = true;
        this.#media++;
        return;
      // What code printed was not generated; a backend that reads it again counts it among its input.
      case "code-result":
      case "provider":
      case "annotation":
      case "prompt-feedback":
      case "reasoning-signature":
      case "tool-call-end":
        this.#touched = true;
        return;
      default:
        // A native piece in what a native piece means, too: `assertChatEvent` lets it pass.
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
    this.#touched = true;
    const wrong = wrongCount(usage);
    if (wrong === undefined) this.#known = { ...this.#known, ...usage };
    else this.#doubt(`The model backend reported a usage that is no count: ${wrong}.`);
  }

  /** A count far below what was delivered is none: the estimate stands in its place. One of which a part is more is none either. */
  #assertPlausible(): void {
    const consistent = withParts(this.#known);
    if (consistent !== this.#known) {
      const told = JSON.stringify(this.#known);
      this.#known = consistent;
      this.#doubt(`The model backend reported counts of which a part is more than the whole: ${told}.`);
    }
    const { outputTokens, ...others } = this.#known;
    if (outputTokens === undefined || !this.#isFinal) return;
    const { times, tokens } = UNDERCOUNT;
    const limit = this.#options.request.maxOutputTokens * this.#candidates;
    // A count of nothing for words that came is never true; any other small count may be, by the slack.
    const isNothing = outputTokens === 0 && this.#outputEstimate >= 1;
    const isTooLow = isNothing || outputTokens * times + tokens < this.#outputEstimate;
    // What a model thought may be in no event, but it counts toward the limit.
    const isTooHigh = outputTokens > Math.max(limit, this.#outputEstimate) * times + tokens;
    if (!isTooLow && !isTooHigh) return;
    this.#known = others;
    this.#doubt(`The model backend reported ${outputTokens} output tokens for about ${this.#outputEstimate}.`);
  }

  /** Nonsense is charged by estimate, told once, and never makes an answer free. */
  #doubt(why: string): void {
    if (!this.#doubtful) this.#options.doubt(why);
    this.#doubtful = true;
  }

  #estimate(text: string, candidate = 0): void {
    this.#touched = true;
    const counter = (this.#counters[candidate] ??= tokenCounter(this.#options.countTokens));
    const before = counter.tokens;
    counter.add(text);
    this.#outputEstimate += counter.tokens - before;
  }
}

type Content = ContentEvent | Extract<ChatEvent, { type: "prompt-feedback" }>;

/** Whether an event is part of the answer, rather than of its frame or its count. */
const isContent = (event: Exclude<ChatEvent, NativeEvent>): event is Content =>
  event.type !== "start" && event.type !== "usage" && event.type !== "finish";

/** A field of a usage that is a single count. */
type Count = Exclude<keyof Usage, "cacheWritesByTtl" | "serverToolUses" | "serviceTier" | "details">;

const COUNTS = Object.keys({
  inputTokens: true,
  outputTokens: true,
  cacheReadTokens: true,
  cacheWriteTokens: true,
  reasoningTokens: true,
  toolUseTokens: true,
} satisfies Record<Count, true>) as readonly Count[];

/** The name of the first count that is no integer from 0 up, or more than any model can count; undefined where all are counts. */
function wrongCount(usage: Partial<Usage>): string | undefined {
  const { details, cacheWritesByTtl, serverToolUses } = usage;
  for (const name of COUNTS) if (usage[name] !== undefined && !isCount(usage[name])) return name;
  for (const counts of [cacheWritesByTtl, serverToolUses])
    for (const name in counts) if (counts[name] !== undefined && !isCount(counts[name])) return name;
  const kinds = details ? Object.values(details).flat() : [];
  return kinds.every(({ tokens }) => isCount(tokens)) ? undefined : "details";
}

const isCount = (count: unknown): boolean =>
  Number.isInteger(count) && Number(count) >= 0 && Number(count) <= MOST_TOKENS;
