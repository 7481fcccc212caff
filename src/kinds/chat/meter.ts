/**
 * The meter of chat: checks a backend's events, and counts tokens. Uses the backend's counts, or estimates where the backend reports none.
 */

import { BACKEND_ERRORS, backendFailed } from "../../errors.ts";
import type {
  AnswerEvent,
  ChatEvent,
  ContentEvent,
  Ending,
  FinishEvent,
  NativeEvent,
  NativeFrame,
  StartEvent,
} from "../../model/chat-event.ts";
import { CHAT, type ChatRequest } from "../../model/chat-request.ts";
import {
  besideSteps,
  type Certainty,
  type ModalityCount,
  sumOfUsages,
  type Usage,
  type UsageStep,
  withParts,
} from "../../model/usage.ts";
import { quoted, unknownName } from "../../options.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { countOfNothing, countPiece, encryptedTokens, type TextCount } from "../count-tokens.ts";
import type { KindCall } from "../kind.ts";
import {
  wrongBackend,
  isTooHigh,
  isTooLow,
  type Meter,
  type MeterReport,
  nameOf,
  noCount,
  tooMany,
  TRUST,
} from "../meter.ts";
import { assertChatEvent, FINISH_REASONS, wrongUsage } from "./check-event.ts";
import { soundTokens } from "./input-tokens.ts";
import { priceOfSteps, type RanModels } from "./model-prices.ts";
import { charge, type Price, tokenPrice } from "./price.ts";

/** The estimated tokens of a picture in an answer. */
const PICTURE_TOKENS = 1_290;

/**
 * An answer is cut when its estimated tokens exceed its output limit × `times` + `tokens`. Estimates are rough, most of all for short
 * answers.
 */
const TOLERANCE = { times: 2, tokens: 64 };

/** The input tokens that an upstream may add to those of any request: instructions of its own, and searches of models that search unasked. */
export const HIDDEN_INPUT_TOKENS = 65_536;

/**
 * The input tokens that an upstream may add to those of a request with its own tools, or with contents that it keeps: four times the largest
 * context window, because each run of a tool reads the whole input again.
 */
const UNSEEN_INPUT_TOKENS = 4 * 1_048_576;

/** The output tokens that such an upstream may add: summaries of the context, and the answers of other models. */
const UNSEEN_OUTPUT_TOKENS = 65_536;

/** The most characters of native frames that wait for the finish. `relay` accepts complete answers of the same size. */
const MAX_WAITING_CHARS = 64 * 1024 ** 2;

/**
 * Tells whether a count of input cannot be true.
 *
 * @param estimate The estimated input tokens of the request.
 */
export const isTooMuchInput = (tokens: number, estimate: number, request: ChatRequest): boolean =>
  isTooHigh(tokens, estimate, HIDDEN_INPUT_TOKENS) && isTooHigh(tokens, estimate, unseenTokens(request));

/** Returns the input tokens that an upstream may have added. */
const unseenTokens = (request: ChatRequest): number => (mayAdd(request) ? UNSEEN_INPUT_TOKENS : HIDDEN_INPUT_TOKENS);

/** Tells whether an upstream may do more than is seen. A field that the neutral request cannot express may name kept contents. */
const mayAdd = ({ tools, cachedContent, native }: ChatRequest): boolean =>
  cachedContent !== undefined ||
  tools.some(({ type }) => type !== "function") ||
  (native?.unsupported?.().length ?? 0) > 0;

/** The parts of a call that its meter needs. */
export type MeteredCall = Pick<
  KindCall,
  "countTokens" | "jsonLimits" | "prices" | "answeringUpstream" | "leavesOut" | "noteConversion" | "doubt"
>;

/** The requested tiers that leave the price to the provider: an answer that does not name its tier is charged the usual prices. */
const FREE_TIERS: ReadonlySet<string> = new Set(["auto", "default"]);

/** The most runs of the provider's own tools that are expected in one answer. */
const MAX_TOOL_USES = 64;

const sumOf = (counts: Readonly<Record<string, number>> | undefined): number =>
  Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);

const tokensOf = (steps: readonly UsageStep[], name: "inputTokens" | "outputTokens"): number =>
  steps.reduce((sum, step) => sum + (step[name] ?? 0), 0);

/** An event with so many tokens takes milliseconds to count, and as long to write. */
const HEAVY_TOKENS = 20_000;

interface Candidate {
  /** The count of this candidate's text. Each candidate has its own count, because pieces of two candidates do not form a word together. */
  readonly text: TextCount;
  callsTools: boolean;
  finish: FinishEvent | undefined;
}

const newCandidate = (): Candidate => ({ text: countOfNothing(), callsTools: false, finish: undefined });

export class ChatMeter implements Meter<ChatEvent | string, AnswerEvent> {
  overrun = false;
  isHeavy = false;
  readonly #call: MeteredCall;
  #request: ChatRequest;
  #inputTokens: number;
  readonly #price: Price;
  #candidates: [Candidate, ...Candidate[]] = [newCandidate()];
  /** The usage and the charge of the requests before. The other counts are those of the last request. */
  #before: { readonly usage: Usage; readonly units: number; readonly certainty: Certainty } | undefined;
  /** The answering model, as its callers may read it. */
  #model: string | undefined;
  readonly #ran: RanModels = { answered: undefined, fallback: undefined, unpriced: undefined };
  /** True once the backend has sent content or usage, or has completed its answer. Until then, the call is free. */
  #hasBegun = false;
  /** The estimated tokens of text, tool calls and code. */
  #outputEstimate = 0;
  /** The estimated tokens of pictures, and of sounds: each may have its own price. */
  #media = NO_MEDIA;
  /** The backend's latest counts. */
  #known: Partial<Usage> = {};
  /**
   * True once the backend has sent a start or usage. Such a backend must end its answer with a finish, and is trusted to enforce its output
   * limit.
   */
  #reportsUsage = false;
  /** True once the backend has reported a count that cannot be true. From then on, its counts are not called exact. */
  #isDoubtful = false;
  #finished = 0;
  /** The estimate when the last candidate finished. The backend's counts do not include text after that. */
  #estimateAtFinish: number | undefined;
  /** True when the gateway stopped the backend before its last counts: at a stop sequence, or because a hook has ended the answer. */
  #isCut = false;
  /** True once the answer is complete, so that the backend's counts are its last. */
  #isFinal = false;
  #finalUsage: Usage | undefined;
  /** The end of the answer in its provider's own format, which the finish passes on. */
  #native: { format: string; frames: NativeFrame[]; body: string | undefined } | undefined;
  #waitingChars = 0;

  /**
   * @param request The request. Its output limit may have been lowered to what the hold covers.
   * @param inputTokens The estimated input tokens.
   */
  constructor(call: MeteredCall, request: ChatRequest, inputTokens: number) {
    this.#call = call;
    this.#request = request;
    this.#inputTokens = inputTokens;
    const { price } = call.prices;
    // The default price is the same for all models, and is recognised as such.
    const isDefault = price === undefined || price === tokenPrice;
    this.#price = isDefault
      ? tokenPrice
      : priceOfSteps(price, request.native, this.#ran, (field) => call.leavesOut(field));
  }

  start(first: ChatEvent | string | undefined): AnswerEvent {
    const { model } = this.#request;
    if (typeof first !== "object")
      return { type: "start", id: undefined, model, usage: { ...this.#usage(), outputTokens: 0 } };
    assertChatEvent(first, this.#call.jsonLimits);
    const native = first.type === "native" ? { native: first.format, maker: first.format } : undefined;
    const event = first.type === "native" ? first.events[0] : first;
    const start = event?.type === "start" ? event : undefined;
    // Count the start event now, because the returned start contains the usage. `observe` counts it again, which changes nothing.
    if (start) this.#count(start);
    const usage = { ...this.#usage(), outputTokens: 0 };
    const maker = start?.maker === undefined ? undefined : { maker: start.maker };
    return { ...native, ...maker, type: "start", id: start?.id, model: start?.model ?? model, usage };
  }

  observe(event: ChatEvent | string): AnswerEvent | undefined {
    const before = this.#outputEstimate;
    let passed: AnswerEvent | undefined;
    if (typeof event === "string") {
      this.#hasBegun = true;
      this.#addText(event, this.#candidates[0]);
      passed = { type: "text-delta", text: event };
    } else {
      assertChatEvent(event, this.#call.jsonLimits);
      passed = event.type === "native" ? this.#observeNative(event) : this.#count(event);
    }
    const limit = this.#request.maxOutputTokens * this.#candidates.length;
    const isCounted = this.#reportsUsage && this.#estimateAtFinish === undefined;
    // No count within the limit would be believed for more text, and the answer may never end.
    const { times, tokens } = isCounted ? TRUST : TOLERANCE;
    this.overrun = this.#outputEstimate - (this.#estimateAtFinish ?? 0) > limit * times + tokens;
    this.isHeavy = this.#outputEstimate - before > HEAVY_TOKENS;
    return passed;
  }

  /** Counts the events of a native piece. Keeps the last frames, or the body of a complete answer, for `finish`. */
  #observeNative({ format, events, frames, body, unsupported }: NativeEvent): AnswerEvent {
    const content: Content[] = [];
    let isEnd = this.#native !== undefined || body !== undefined;
    for (const event of events) {
      assertChatEvent(event, this.#call.jsonLimits);
      const passed = this.#count(event);
      if (passed) content.push(passed);
      if (event.type === "finish") isEnd = true;
    }
    const piece = { type: "native", format, events: content, ...(unsupported && { unsupported }) } as const;
    if (!isEnd) return { ...piece, frames: frames ?? [] };
    const isWhole = body !== undefined && !this.#native;
    this.#native ??= { format, frames: [], body };
    for (const frame of frames ?? []) {
      this.#native.frames.push(frame);
      this.#waitingChars += frame.data.length;
    }
    if (this.#waitingChars > MAX_WAITING_CHARS) throw backendFailed("The model backend's answer does not end.");
    return isWhole ? { ...piece, isWhole } : piece;
  }

  waiting(): AnswerEvent | undefined {
    const { format, frames } = this.#native ?? { frames: [] };
    if (format === undefined || frames.length === 0) return undefined;
    this.#native = undefined;
    return { type: "native", format, events: [], frames };
  }

  /** Counts an event. Returns the event if it is content to pass on. */
  #count(event: Exclude<ChatEvent, NativeEvent>): Content | undefined {
    const candidate = this.#candidateOf("candidate" in event ? event.candidate : 0);
    switch (event.type) {
      case "start":
      case "usage":
        if (event.type === "start") this.#begin(event);
        else if (event.model !== undefined) this.#model = this.#ran.answered = this.#ran.fallback = event.model;
        this.#reportsUsage = true;
        this.#learn(event.usage);
        return undefined;
      case "finish":
        this.#finish(event, candidate);
        return undefined;
      case "text-delta":
      case "reasoning-delta":
      case "refusal-delta":
        this.#addText(event.text, candidate);
        break;
      case "tool-call":
        candidate.callsTools = true;
        this.#addText(event.name, candidate);
        this.#addText(JSON.stringify(event.input), candidate);
        break;
      case "tool-call-start":
        candidate.callsTools = true;
        this.#addText(event.name, candidate);
        break;
      case "tool-call-delta":
        this.#addText(event.json, candidate);
        break;
      case "code":
        this.#addText(event.code, candidate);
        break;
      case "redacted-reasoning":
        this.#outputEstimate += encryptedTokens(event.data);
        break;
      case "media":
        this.#media = withMedia(this.#media, event);
        break;
      // The model does not generate the output of code. If the model reads this output, the backend counts it as input.
      case "code-result":
      case "provider":
      case "annotation":
      case "prompt-feedback":
      case "reasoning-signature":
      case "tool-call-end":
        break;
      default:
        // Reached by a native event inside a native event: `assertChatEvent` accepts it.
        event satisfies never;
        throw backendFailed("The model backend yielded an event of no known type.");
    }
    this.#hasBegun = true;
    return event;
  }

  #begin({ model, upstreamModel = model }: StartEvent): void {
    this.#model ??= model;
    this.#ran.answered ??= upstreamModel;
  }

  #candidateOf(number = 0): Candidate {
    const { candidateCount = 1 } = this.#request;
    if (!(Number.isInteger(number) && number >= 0 && number < candidateCount))
      throw wrongBackend(
        "The model backend answered with a candidate that nobody asked for.",
        `chat: candidate must be an integer from 0 to ${candidateCount - 1}, not ${quoted(number)}.`,
      );
    while (this.#candidates.length <= number) this.#candidates.push(newCandidate());
    return this.#candidates[number] ?? this.#candidates[0];
  }

  #addText(piece: string, { text }: Candidate): void {
    // Set this first: an event whose count fails is charged all the same.
    this.#hasBegun = true;
    const before = text.tokens;
    countPiece(text, piece, this.#call.countTokens);
    this.#outputEstimate += text.tokens - before;
  }

  /** Records the end of a candidate. If it ends several times, the first reason and the last usage count. */
  #finish(event: FinishEvent, candidate: Candidate): void {
    // Learn the counts first: an answer that ends wrongly is charged all the same.
    this.#learn(event.usage);
    if (!FINISH_REASONS.has(event.reason))
      throw wrongBackend(
        "The model backend ended for no known reason.",
        `chat: the reason of the event finish, ${unknownName(nameOf(event.reason), [...FINISH_REASONS])}.`,
      );
    if (!candidate.finish) this.#finished++;
    candidate.finish ??= event;
    if (this.isWhole) this.#estimateAtFinish ??= this.#outputEstimate;
  }

  #learn(usage: Partial<Usage> | undefined): void {
    if (!usage) return;
    // The tier alone is no count: nothing has cost anything yet.
    if (usage.serviceTier === undefined || Object.keys(usage).length > 1) this.#hasBegun = true;
    const known = { ...this.#known, ...usage };
    const wrong = wrongUsage(usage);
    const doubt = wrong === undefined ? this.#tooHigh(known) : noCount(wrong);
    if (doubt === undefined) this.#known = known;
    else this.#doubt(doubt);
  }

  /** Says which count is too high to be true; undefined if there is none. */
  #tooHigh({ details, ...usage }: Partial<Usage>): string | undefined {
    const [input, request] = [this.#inputTokens, this.#request];
    const { inputTokens = 0, outputTokens = 0, cacheReadTokens = 0, cacheWriteTokens = 0 } = withParts(usage);
    const { reasoningTokens = 0, toolUseTokens = 0, cacheWritesByTtl, serverToolUses } = usage;
    const most = this.#outputLimit;
    const read = Math.max(inputTokens, cacheReadTokens + cacheWriteTokens, toolUseTokens, sumOf(cacheWritesByTtl));
    const isTooMuch = (tokens: number): boolean => isTooMuchInput(tokens, input, request);
    if (isTooMuch(read)) return tooMany("input tokens", read, input, unseenTokens(request));
    // Look through the request only for a high count: a stream may have a count in each frame.
    const added = (): number | undefined => (mayAdd(request) ? UNSEEN_OUTPUT_TOKENS : undefined);
    const isTooMuchOutput = (tokens: number): boolean => isTooHigh(tokens, most) && isTooHigh(tokens, most, added());
    const written = Math.max(outputTokens, reasoningTokens);
    if (isTooMuchOutput(written)) return tooMany("output tokens", written, most, added());
    const uses = sumOf(serverToolUses);
    if (isTooHigh(uses, MAX_TOOL_USES)) return tooMany("runs of tools", uses, MAX_TOOL_USES);
    for (const [kind, counts] of Object.entries(details ?? {})) {
      const tokens = counts.reduce((sum: number, each: ModalityCount) => sum + each.tokens, 0);
      const isOutput = kind === "output";
      if (isOutput ? !isTooMuchOutput(tokens) : !isTooMuch(tokens)) continue;
      const name = `${kind} tokens in details`;
      return isOutput ? tooMany(name, tokens, most, added()) : tooMany(name, tokens, input, unseenTokens(request));
    }
    return undefined;
  }

  /** The output limit of all candidates, in tokens. A backend may count reasoning without sending events: it counts toward the limit. */
  get #outputLimit(): number {
    const { maxOutputTokens, candidateCount = 1 } = this.#request;
    // A picture or a sound has more tokens than a very low limit.
    return Math.max(maxOutputTokens * candidateCount, this.#media === NO_MEDIA ? 0 : PICTURE_TOKENS);
  }

  /** Records that the gateway stopped the backend before it had counted all of its text. */
  cut(): void {
    this.#isCut = true;
  }

  get isWhole(): boolean {
    return this.#finished >= (this.#request.candidateCount ?? 1);
  }

  complete(): void {
    if (this.#reportsUsage && this.#finished === 0 && !this.overrun && !this.#isCut)
      throw wrongBackend(
        BACKEND_ERRORS.brokeOff[1],
        'chat: a backend that has yielded "start" or "usage" must yield "finish", with its reason, before it ends.',
      );
    this.#hasBegun = true;
    this.#isFinal = !this.#isCut && !this.overrun && (this.#finished > 0 || !this.#reportsUsage);
    if (this.#isFinal) this.#noteMissingCandidates();
    this.#dropImplausibleCounts();
    const usage = this.#lastUsage();
    this.#finalUsage = usage.steps ? this.#withTrueSteps(usage) : usage;
  }

  /** Notes that the answer has fewer candidates than its caller has asked for. */
  #noteMissingCandidates(): void {
    const { candidateCount = 1 } = this.#request;
    const given = this.#candidates.length;
    if (given >= candidateCount) return;
    const why = `The backend gave ${given} of ${candidateCount} answers.`;
    this.#call.noteConversion({ field: "candidateCount", conversion: "dropped", why });
  }

  /** Drops steps that have more than the whole usage. */
  #withTrueSteps(usage: Usage): Usage {
    if (besideSteps(usage)) return usage;
    const { steps: _, ...whole } = usage;
    this.#doubt("The model backend reported steps that are more than the whole usage.");
    return whole;
  }

  /**
   * Corrects a total that is smaller than its parts. Drops an output count that is far below the estimate, so that the estimate is used
   * instead.
   */
  #dropImplausibleCounts(): void {
    const known = withParts(this.#known);
    if (known !== this.#known)
      this.#doubt(
        `The model backend reported counts of which a part is more than the whole: ${JSON.stringify(this.#known)}.`,
      );
    if (known.inputTokens === 0)
      this.#doubt(`The model backend reported 0 input tokens for about ${this.#inputTokens}.`);
    this.#known = known;
    const { outputTokens, ...others } = known;
    if (outputTokens === undefined || !this.#isFinal) return;
    // A small count may be true, but a text cannot have zero tokens.
    const isNothing = outputTokens === 0 && this.#outputEstimate >= 1;
    if (!isNothing && !isTooLow(outputTokens, this.#outputEstimate)) return;
    this.#known = others;
    this.#doubt(`The model backend reported ${outputTokens} output tokens for about ${this.#outputEstimate}.`);
  }

  /** Marks the charge as estimated, and reports the first count that cannot be true. */
  #doubt(why: string): void {
    if (!this.#isDoubtful) this.#call.doubt(why);
    this.#isDoubtful = true;
  }

  finish(): AnswerEvent {
    const [first, ...others] = this.#candidates;
    const endings: [Ending, ...Ending[]] = [endingOf(first, 0, this.overrun)];
    for (const [index, other] of others.entries()) endings.push(endingOf(other, index + 1, this.overrun));
    return { type: "finish", endings, usage: this.#usage(), ...(this.#native && { native: this.#native }) };
  }

  /** Returns the usage of all requests. */
  #usage(last: Usage = this.#lastUsage()): Usage {
    return this.#before ? sumOfUsages(this.#before.usage, last) : last;
  }

  /** Returns the usage that is charged: an answer that was cut before it has named its tier has that of the request. */
  #chargedUsage(): Usage {
    const usage = this.#lastUsage();
    const { serviceTier } = this.#request;
    if (this.#isFinal || usage.serviceTier !== undefined || serviceTier === undefined) return usage;
    const isFree = FREE_TIERS.has(serviceTier) || this.#call.leavesOut("serviceTier");
    return isFree ? usage : { ...usage, serviceTier };
  }

  get outputLeft(): number {
    return this.#request.maxOutputTokens - this.#lastUsage().outputTokens;
  }

  endTurn(): void {
    this.#isFinal = true;
    this.#dropImplausibleCounts();
  }

  nextUpstream(request: ChatRequest, inputTokens: number): void {
    // An upstream that broke off has not counted its last output: only the counts of a turn that has ended are exact.
    const { certainty } = this;
    if (this.#hasBegun) this.#before = { usage: this.#usage(this.#chargedUsage()), units: this.units, certainty };
    this.#request = request;
    this.#inputTokens = inputTokens;
    this.#candidates = [newCandidate()];
    // The next turn is a request to the same model.
    if (!this.#isFinal) this.#model = this.#ran.answered = this.#ran.fallback = undefined;
    this.#estimateAtFinish = undefined;
    this.#known = {};
    this.#outputEstimate = this.#finished = 0;
    this.#media = NO_MEDIA;
    this.#hasBegun = this.#reportsUsage = this.#isFinal = false;
  }

  /** Returns the usage of the last request. Fills in estimates for missing counts. */
  #lastUsage(): Usage {
    if (this.#finalUsage) return this.#finalUsage;
    const { inputTokens, outputTokens, ...others } = withParts(this.#known);
    // An upstream that ignores the limit may send any amount in one event. Charge no more than where smaller events are cut.
    const most = this.#outputLimit * TRUST.times + TRUST.tokens;
    // The steps of an answer whose totals are unknown stand beside the estimates. Its media are those of the steps.
    const { steps } = others;
    const written = outputTokens === undefined && steps ? tokensOf(steps, "outputTokens") : 0;
    const { image, audio } = written > 0 ? NO_MEDIA : this.#media;
    const estimated = Math.min(Math.ceil(this.#outputEstimate + image + audio), most) + written;
    // Before the end, the backend's latest count may not include the latest text.
    const output = this.#isFinal ? (outputTokens ?? Math.max(1, estimated)) : Math.max(outputTokens ?? 0, estimated);
    const details =
      output > (outputTokens ?? 0) && image + audio > 0 && !others.details?.output
        ? { ...others.details, output: detailsOf({ image, audio }, output) }
        : others.details;
    return {
      // No model answers nothing: some servers count zero where they do not count, or before they have counted.
      inputTokens: inputTokens || this.#inputTokens + (steps ? tokensOf(steps, "inputTokens") : 0),
      outputTokens: output,
      cacheReadTokens: others.cacheReadTokens ?? 0,
      cacheWriteTokens: others.cacheWriteTokens ?? 0,
      reasoningTokens: others.reasoningTokens ?? 0,
      ...(others.toolUseTokens !== undefined && { toolUseTokens: others.toolUseTokens }),
      ...(details && { details }),
      ...(others.cacheWritesByTtl && { cacheWritesByTtl: others.cacheWritesByTtl }),
      ...(others.serverToolUses && { serverToolUses: others.serverToolUses }),
      ...(others.serviceTier !== undefined && { serviceTier: others.serviceTier }),
      ...(typeof others.speed === "string" && { speed: others.speed }),
      ...(typeof others.inferenceGeo === "string" && { inferenceGeo: others.inferenceGeo }),
      ...(steps && { steps }),
    };
  }

  get units(): number {
    const before = this.#before?.units ?? 0;
    if (!this.#hasBegun) return before;
    const units = charge(this.#price, this.#chargedUsage(), this.#request.model, CHAT, this.#call.answeringUpstream());
    const { unpriced } = this.#ran;
    if (unpriced !== undefined) this.#doubt(`The model ${quoted(unpriced)} has answered, and has no price.`);
    return before + units;
  }

  assertPrice(upstream: UpstreamModel): void {
    charge(this.#price, { ...this.#lastUsage(), outputTokens: 1 }, this.#request.model, CHAT, upstream);
  }

  get report(): MeterReport {
    const usage = this.#hasBegun ? this.#usage(this.#chargedUsage()) : this.#before?.usage;
    return { usage, model: this.#model, tokens: usage ? usage.inputTokens + usage.outputTokens : 0 };
  }

  get certainty(): Certainty {
    if (this.#before?.certainty === "estimated") return "estimated";
    if (!this.#hasBegun) return "exact";
    const isCounted = this.#known.inputTokens !== undefined && this.#known.outputTokens !== undefined;
    return this.#isFinal && isCounted && !this.#isDoubtful ? "exact" : "estimated";
  }
}

/** The estimated tokens of media. */
interface MediaTokens {
  readonly image: number;
  readonly audio: number;
}

const NO_MEDIA: MediaTokens = { image: 0, audio: 0 };

const withMedia = ({ image, audio }: MediaTokens, event: Extract<ChatEvent, { type: "media" }>): MediaTokens =>
  /^audio\//i.test(event.mediaType)
    ? { image, audio: audio + soundTokens(event) }
    : { image: image + PICTURE_TOKENS, audio };

/** Returns the counts of media, not more than the whole output. */
function detailsOf({ image, audio }: MediaTokens, most: number): readonly ModalityCount[] {
  const pictures = Math.min(image, most);
  const counts = [
    { modality: "image", tokens: pictures },
    { modality: "audio", tokens: Math.min(Math.ceil(audio), most - pictures) },
  ] as const;
  return counts.filter(({ tokens }) => tokens > 0);
}

type Content = ContentEvent | Extract<ChatEvent, { type: "prompt-feedback" }>;

/** Returns the end of a candidate. A candidate with tool calls ends with `tool-calls`, even when its backend says `stop`. */
function endingOf({ finish, callsTools }: Candidate, candidate: number, isOverrun: boolean): Ending {
  let reason = finish?.reason ?? (isOverrun ? "length" : "stop");
  if (reason === "stop" && callsTools) reason = "tool-calls";
  return { candidate, reason, stopSequence: reason === "stop-sequence" ? finish?.stopSequence : undefined };
}
