/** Builds the answer of chat completions of neutral events: as a complete body, or as the chunks of a stream. */

import type { ContentEvent, FinishReason } from "../../model/chat-event.ts";
import { TextPlaces } from "../../model/text-places.ts";
import type { ModalityCount, Usage } from "../../model/usage.ts";
import type { AnswerContext } from "../format.ts";
import { AnswerBuilder, type AnswerFinish, answerId, type Emit, type NeutralEvent } from "../shared/answer.ts";
import { encodeLogprobs, openAITier, sourcesIn, type WireSource } from "../shared/openai.ts";
import { dataUrl } from "../shared/schema.ts";
import type { Signed } from "../shared/seal.ts";
import { customNames, CUT_SHORT, fenced, ToolCalls } from "../shared/tools.ts";
import { asksForFunctions, withFunctionCalls } from "./functions.ts";
import { DetailsWriter, writeExtra } from "./reasoning.ts";
import { FORMAT } from "./routes.ts";
import type {
  Chunk,
  ChunkChoice,
  ChunkDelta,
  CompletionUsage,
  TokenLogprob,
  ToolCallDelta,
  UrlCitation,
} from "./schema.answer.ts";
import type { ReasoningDetail } from "./schema.ts";

type WireFinish = NonNullable<ChunkChoice["finish_reason"]>;

/** The wire reason for each finish reason. The format has only four reasons; `stop` stands for each one without a similar reason. */
export const FINISH_REASON: Readonly<Record<FinishReason, WireFinish>> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "tool-calls": "tool_calls",
  pause: "stop",
  refusal: "content_filter",
  "context-window": "length",
  "content-filter": "content_filter",
  recitation: "content_filter",
  language: "content_filter",
  blocklist: "content_filter",
  "prohibited-content": "content_filter",
  "personal-data": "content_filter",
  "unsafe-image": "content_filter",
  "malformed-tool-call": "stop",
  other: "stop",
};

/** The lifetime of a sound, for its `expires_at`, in seconds. It is the lifetime that the spec gives to a picture (spec 3). */
const AUDIO_LIFETIME_S = 3_600;

/** The events of reasoning. */
const REASONING: ReadonlySet<string> = new Set([
  "reasoning-delta",
  "reasoning-signature",
  "redacted-reasoning",
  "annotation",
] satisfies ContentEvent["type"][]);

/** A choice of the answer. */
interface Choice {
  readonly index: number;
  /** Set once the first chunk, which names the role, is written. */
  begun: boolean;
  images: number;
  calls: CallQueue | undefined;
  /** The sources so far. A stream sends them at once, at its end: in the official client, a later list replaces an earlier one. */
  annotations: UrlCitation[] | undefined;
  /** The places in its text. */
  readonly places: TextPlaces;
  /** Set once the choice has reasoning. */
  reasoning: DetailsWriter | undefined;
  /** The content so far; undefined in a stream. */
  readonly collected: Collected | undefined;
}

type ToolCallEvent = Extract<ContentEvent, { type: `tool-call${string}` }>;

/**
 * Builds one answer as the deltas of its choices, in the order that the format demands. A stream emits each delta in a chunk; a complete
 * answer joins them, in the same way as clients that read the stream.
 */
export class CompletionBuilder extends AnswerBuilder {
  #created: number;
  /** Undefined for a complete answer. */
  readonly #emit: Emit<Chunk> | undefined;
  readonly #showsUsage: boolean;
  /** The names of the tools whose input is a text. */
  readonly #custom: ReadonlySet<string>;
  /** True if the caller gets the first call of each choice as a `function_call`, and no other. */
  readonly #hasFunctions: boolean;
  readonly #choices: Map<number, Choice> = new Map();
  #id: string;
  #model: string;
  #tier: string | undefined;
  #usage: CompletionUsage | null = null;
  /** True when the provider has blocked the prompt. */
  #isBlocked = false;

  /**
   * @param created Unix time in seconds.
   * @param showsUsage Adds a last chunk with the token counts, and `usage: null` to each chunk before it.
   */
  constructor({ request, requestId }: AnswerContext, created: number, showsUsage = false, emit?: Emit<Chunk>) {
    super();
    this.#created = created;
    this.#showsUsage = showsUsage;
    this.#hasFunctions = asksForFunctions(request);
    this.#emit = emit && this.#hasFunctions ? (chunk) => emit(withFunctionCalls(chunk)) : emit;
    this.#model = request.model;
    this.#custom = customNames(request.tools);
    // The answer's id contains the request's id, so that support can find one by the other.
    this.#id = requestId.replace(/^req_/, "chatcmpl-");
  }

  /** Goes on behind the chunks of an upstream of this format, which had this time. */
  goOn(created: number): void {
    if (Number.isFinite(created)) this.#created = created;
    this.#choice(0).begun = true;
  }

  /** Notes the text of chunks that pass by: a source behind them has its place in the whole text. */
  passed(events: readonly NeutralEvent[]): void {
    for (const event of events)
      if (event.type === "text-delta" && !event.candidate) this.#choice(0).places.add(event.text);
  }

  protected write(event: NeutralEvent): void {
    switch (event.type) {
      case "start":
        this.#id = answerId(event, FORMAT, this.#id);
        this.#model = event.model;
        this.#tier = openAITier(event.usage.serviceTier);
        return;
      case "finish":
        return this.#finish(event);
      // The finish reason shows that the prompt was blocked. The other feedback has no field.
      case "prompt-feedback":
        this.#isBlocked ||= event.blockReason !== undefined;
        return;
      default:
        return this.#content(this.#choice(event.candidate ?? 0), event);
    }
  }

  protected complete(): object {
    const choices = [...this.#choices.values()].toSorted((a, b) => a.index - b.index);
    const answer = {
      id: this.#id,
      object: "chat.completion",
      created: this.#created,
      model: this.#model,
      choices: choices.map(({ index, collected }) => collected && choiceOf(index, collected)),
      usage: this.#usage,
      ...(this.#tier !== undefined && { service_tier: this.#tier }),
    };
    return this.#hasFunctions ? withFunctionCalls(answer) : answer;
  }

  #finish({ endings, usage }: AnswerFinish): void {
    this.#tier = openAITier(usage.serviceTier) ?? this.#tier;
    this.#usage = encodeUsage(usage);
    for (const { candidate, reason } of endings) {
      const choice = this.#choice(candidate);
      choice.calls?.endAll(CUT_SHORT.has(reason));
      if (choice.calls) this.#addCalls(choice, choice.calls);
      this.#addDetails(choice, choice.reasoning?.takeLast());
      if (choice.annotations) this.#add(choice, { annotations: choice.annotations });
      this.#add(choice, {}, null, this.#isBlocked ? "content_filter" : FINISH_REASON[reason]);
    }
    if (this.#showsUsage) this.#emit?.({ ...this.#chunk([]), usage: this.#usage });
  }

  #content(choice: Choice, event: ContentEvent): void {
    // The seals follow their reasoning, before anything else, where clients expect the end of the reasoning.
    if (!REASONING.has(event.type)) this.#addDetails(choice, choice.reasoning?.take());
    switch (event.type) {
      case "text-delta":
        choice.places.add(event.text);
        if (event.text !== "" || event.signature)
          this.#add(choice, { ...(event.text !== "" && { content: event.text }), ...writeExtra(event) });
        return;
      case "reasoning-delta":
        (choice.reasoning ??= new DetailsWriter()).addText(event.text, event.block);
        if (event.text !== "") this.#add(choice, { reasoning_content: event.text });
        return;
      case "refusal-delta":
        if (event.text !== "") this.#add(choice, { refusal: event.text });
        return;
      case "code":
      case "code-result":
        return this.#addCode(choice, fenced(event));
      case "tool-call":
      case "tool-call-start":
      case "tool-call-delta":
      case "tool-call-end":
        return this.#toolCall(choice, event);
      // Parts that only other formats have are left out.
      case "provider":
        return;
      case "media":
        return this.#media(choice, event);
      case "annotation": {
        if (event.annotation.type === "logprobs") {
          const content = encodeLogprobs(event.annotation);
          if (content.length > 0) this.#add(choice, {}, { content, refusal: null });
          return;
        }
        const native = "native" in event.annotation ? event.annotation.native : undefined;
        // The cast is needed because the annotations are those of an upstream.
        const annotations =
          native?.format === FORMAT
            ? (native.values as unknown as UrlCitation[])
            : sourcesIn(event.annotation, choice.places).map(urlCitation);
        for (const annotation of annotations) (choice.annotations ??= []).push(annotation);
        return;
      }
      case "reasoning-signature":
        return (choice.reasoning ??= new DetailsWriter()).sign(event);
      case "redacted-reasoning":
        return (choice.reasoning ??= new DetailsWriter()).redact(event.data, event.maker);
      default:
        event satisfies never;
    }
  }

  #addCode(choice: Choice, content: string): void {
    choice.places.skip(content);
    this.#add(choice, { content });
  }

  #toolCall(choice: Choice, event: ToolCallEvent): void {
    const calls = (choice.calls ??= new CallQueue());
    switch (event.type) {
      case "tool-call":
        calls.begin(event.id, callHead(event, this.#custom));
        calls.add(event.id, JSON.stringify(event.input));
        calls.end(event.id, {});
        break;
      case "tool-call-start":
        calls.begin(event.id, callHead(event, this.#custom));
        break;
      case "tool-call-delta":
        calls.add(event.id, event.json);
        break;
      case "tool-call-end":
        calls.end(event.id, event);
    }
    this.#addCalls(choice, calls);
  }

  #media(choice: Choice, { mediaType, data, thought }: Extract<ContentEvent, { type: "media" }>): void {
    if (thought) return;
    if (mediaType.startsWith("audio/")) {
      const id = this.#id.replace(/^chatcmpl-/, "audio_");
      const expires_at = this.#created + AUDIO_LIFETIME_S;
      this.#add(choice, { audio: { id, data, transcript: "", expires_at } });
    } else {
      const image_url = { url: dataUrl(mediaType, data) };
      this.#add(choice, { images: [{ type: "image_url", index: choice.images++, image_url }] });
    }
  }

  #choice(index: number): Choice {
    let choice = this.#choices.get(index);
    if (!choice) {
      const collected = this.#emit ? undefined : newCollected();
      const places = new TextPlaces();
      const empty = { calls: undefined, annotations: undefined, reasoning: undefined };
      choice = { index, begun: false, images: 0, ...empty, places, collected };
      this.#choices.set(index, choice);
    }
    return choice;
  }

  #addCalls(choice: Choice, calls: CallQueue): void {
    for (const call of calls.take())
      if (call.index === 0 || !this.#hasFunctions) this.#add(choice, { tool_calls: [call] });
  }

  #addDetails(choice: Choice, reasoning_details: ReasoningDetail[] = []): void {
    if (reasoning_details.length > 0) this.#add(choice, { reasoning_details });
  }

  /**
   * Adds a delta. A stream begins a choice with a chunk that names the role. The content of that chunk is an empty text, or null if a tool
   * call comes first.
   */
  #add(
    choice: Choice,
    delta: ChunkDelta,
    logprobs: ChunkChoice["logprobs"] = null,
    finish_reason: ChunkChoice["finish_reason"] = null,
  ): void {
    const { index, collected } = choice;
    if (collected) {
      collect(collected, delta);
      for (const step of logprobs?.content ?? []) collected.logprobs.push(step);
      collected.finish = finish_reason;
      return;
    }
    if (!choice.begun) {
      choice.begun = true;
      const first: ChunkDelta = { role: "assistant", content: "tool_calls" in delta ? null : "", refusal: null };
      this.#emit?.(this.#chunk([{ index, delta: first, logprobs: null, finish_reason: null }]));
    }
    this.#emit?.(this.#chunk([{ index, delta, logprobs, finish_reason }]));
  }

  #chunk(choices: ChunkChoice[]): Chunk {
    return {
      id: this.#id,
      object: "chat.completion.chunk",
      created: this.#created,
      model: this.#model,
      ...(this.#tier !== undefined && { service_tier: this.#tier }),
      choices,
      ...(this.#showsUsage && { usage: null }),
    };
  }
}

type CallHead = Omit<ToolCallDelta, "index">;

const callHead = (
  { id, name, ...signed }: Signed & { readonly id: string; readonly name: string },
  custom: ReadonlySet<string>,
): CallHead => ({
  id,
  ...(custom.has(name)
    ? { type: "custom", custom: { name, input: "" } }
    : { type: "function", function: { name, arguments: "" } }),
  ...writeExtra(signed),
});

interface QueuedCall {
  readonly index: number;
  /** The input of a custom tool is known only when its arguments are complete. */
  readonly isCustom: boolean;
  readonly json: string[];
  /** The pieces of the call that are not written yet. */
  pending: ToolCallDelta[];
  ended: boolean;
}

/**
 * The tool calls of one choice, in order. Clients treat a call as complete when the next call begins. Therefore only the first open call
 * is written, and later calls wait for its end.
 */
class CallQueue {
  readonly #queue: QueuedCall[] = [];
  readonly #calls: ToolCalls<QueuedCall> = new ToolCalls();
  #count = 0;

  begin(id: string, head: CallHead): void {
    const index = this.#count++;
    const isCustom = head.type === "custom";
    this.#queue.push(this.#calls.begin(id, { index, isCustom, json: [], pending: [{ index, ...head }], ended: false }));
  }

  add(id: string, json: string): void {
    this.#add(this.#calls.open(id), json);
  }

  /** @param signed The signature of the call, if the backend sent it only now. */
  end(id: string, signed: Signed): void {
    const call = this.#calls.get(id);
    const extra = writeExtra(signed);
    if (extra.extra_content && !call.ended)
      call.pending.push({ index: call.index, ...(!call.isCustom && { function: { arguments: "" } }), ...extra });
    this.#end(call, false);
  }

  /** Ends the open calls. Their arguments may be incomplete if the answer was cut short. */
  endAll(cutShort: boolean): void {
    for (const call of this.#queue) this.#end(call, cutShort);
  }

  #end(call: QueuedCall, cutShort: boolean): void {
    if (call.ended) return;
    const json = call.json.join("");
    const input = cutShort ? this.#calls.find(json) : this.#calls.parse(json);
    if (call.isCustom) {
      const text = input?.["input"];
      call.pending.push({ index: call.index, custom: { input: typeof text === "string" ? text : json } });
      call.ended = true;
      return;
    }
    // Clients parse the arguments as JSON, and an empty text is not JSON.
    if (json.trim() === "") this.#add(call, "{}");
    call.ended = true;
  }

  #add({ index, isCustom, json, pending }: QueuedCall, piece: string): void {
    if (piece === "") return;
    json.push(piece);
    if (!isCustom) pending.push({ index, function: { arguments: piece } });
  }

  /** Takes the pieces that may be written now. */
  take(): ToolCallDelta[] {
    const deltas: ToolCallDelta[] = [];
    let ended = 0;
    for (let call = this.#queue[0]; call; call = this.#queue[ended]) {
      for (const delta of call.pending) deltas.push(delta);
      call.pending = [];
      if (!call.ended) break;
      ended++;
    }
    // At once: to remove the first of many calls moves all others.
    this.#queue.splice(0, ended);
    return deltas;
  }
}

/** The content of a choice that is being collected. */
interface Collected {
  readonly content: string[];
  readonly refusal: string[];
  readonly reasoning: string[];
  /** The last list: it holds all details. */
  details: NonNullable<ChunkDelta["reasoning_details"]>;
  readonly calls: { first: Omit<ToolCallDelta, "index">; readonly json: string[] }[];
  readonly logprobs: TokenLogprob[];
  readonly media: Pick<ChunkDelta, "annotations" | "images" | "audio" | "extra_content">;
  finish: WireFinish | null;
}

const newCollected = (): Collected => ({
  content: [],
  refusal: [],
  reasoning: [],
  details: [],
  calls: [],
  logprobs: [],
  media: {},
  finish: null,
});

function collect(choice: Collected, delta: ChunkDelta): void {
  const { content, refusal, reasoning, calls, media } = choice;
  if (delta.content) content.push(delta.content);
  if (delta.refusal) refusal.push(delta.refusal);
  if (delta.reasoning_content) reasoning.push(delta.reasoning_content);
  if (delta.reasoning_details) choice.details = delta.reasoning_details;
  for (const { index, ...call } of delta.tool_calls ?? []) {
    const json = call.function?.arguments ?? call.custom?.input ?? "";
    const known = calls[index];
    if (!known) calls[index] = { first: call, json: [json] };
    else {
      known.json.push(json);
      if (call.extra_content) known.first = { ...known.first, extra_content: call.extra_content };
    }
  }
  for (const annotation of delta.annotations ?? []) (media.annotations ??= []).push(annotation);
  if (delta.extra_content) media.extra_content = delta.extra_content;
  for (const image of delta.images ?? []) (media.images ??= []).push(image);
  // Join the pieces of a sound in the same way as clients that read the stream.
  if (delta.audio) media.audio = { ...delta.audio, data: (media.audio?.data ?? "") + delta.audio.data };
}

const choiceOf = (index: number, choice: Collected): object => ({
  index,
  message: messageOf(choice),
  logprobs: choice.logprobs.length > 0 ? { content: choice.logprobs, refusal: null } : null,
  finish_reason: choice.finish,
});

function messageOf({ content, refusal, reasoning, details, calls, media }: Collected): object {
  const text = content.join("");
  const hasOther = calls.length > 0 || refusal.length > 0 || media.audio !== undefined || media.images !== undefined;
  return {
    role: "assistant",
    content: text === "" && hasOther ? null : text,
    refusal: refusal.length > 0 ? refusal.join("") : null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ first, json }) => ({
        ...first,
        ...(first.function && { function: { ...first.function, arguments: json.join("") } }),
        ...(first.custom && { custom: { ...first.custom, input: json.join("") } }),
      })),
    }),
    ...media,
  };
}

const encodeUsage = ({ inputTokens, outputTokens, details, ...usage }: Usage): CompletionUsage => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: {
    cached_tokens: usage.cacheReadTokens,
    audio_tokens: audioTokens(details?.input),
    ...(usage.cacheWriteTokens > 0 && { cache_write_tokens: usage.cacheWriteTokens }),
  },
  completion_tokens_details: {
    reasoning_tokens: usage.reasoningTokens,
    audio_tokens: audioTokens(details?.output),
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

const audioTokens = (counts: readonly ModalityCount[] = []): number =>
  counts.reduce((sum, { modality, tokens }) => (modality === "audio" ? sum + tokens : sum), 0);

const urlCitation = (url_citation: WireSource): UrlCitation => ({ type: "url_citation", url_citation });
