/** Builds the messages answer (spec 2.7, 6.1) of neutral events: content blocks, stop reason and token counts, as a body or as frames. */

import { backendFailed } from "../../errors.ts";
import { type Annotation, citationsIn, type ContentEvent, type FinishReason } from "../../model/chat-event.ts";
import type { WireObject } from "../../model/chat-request.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerContext } from "../format.ts";
import {
  AnswerBuilder,
  type AnswerFinish,
  answerId,
  type Emit,
  type NeutralEvent,
  showsThoughts,
} from "../shared/answer.ts";
import { type Seal, type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import { AnsweredArguments, CUT_SHORT, fenced, ToolCalls } from "../shared/tools.ts";
import { isOwn } from "./request.messages.ts";
import { FORMAT } from "./routes.ts";
import type {
  ContentBlock,
  ContentDelta,
  MessagesAnswer,
  MessagesStreamEvent,
  MessagesUsage,
  StartedAnswer,
  StopReason,
} from "./schema.answer.ts";
import { FOREIGN_CITATION } from "./schema.ts";

/** A content block of an answer, complete or still growing. */
interface AnswerBlock {
  /** A `whole` block is complete when it begins, and gets no pieces. */
  readonly kind: "text" | "thinking" | "tool_use" | "whole";
  /** The block as a stream sends it at its start: without its text, thoughts or arguments. */
  readonly begun: ContentBlock;
  /** The backend's name for the block. A piece with another name begins a new block. */
  readonly name: string | undefined;
  /** The pieces of its text, thoughts or arguments. A stream removes the pieces that it has written. */
  readonly pieces: string[];
  /** The citations of its text, in this format. A stream removes those that it has written. */
  readonly citations: WireObject[];
  /** The length of the text in the block so far, in UTF-16 units. */
  length: number;
  /** The JSON of a tool call's arguments so far. */
  json: string;
  signature: string;
  /** Set once a stream has written the start of the block. */
  isWritten: boolean;
  ended: boolean;
}

const isSealed = (signed: Signed): signed is Signed & { readonly signature: string; readonly maker: string } =>
  Boolean(signed.signature) && signed.maker !== undefined;

/** The fields of a message that the official service always sends, and that are not known. */
const UNKNOWN = { container: null, stop_details: null } as const;

/** The model itself called the tool. In the official service, code may call tools, too. */
const DIRECT = { type: "direct" } as const;

/** The longest text block (spec 8), in UTF-16 units. A longer text continues in the next block. */
export const MAX_TEXT_LENGTH = 5_000_000;

/** Returns the beginning of a text, of at most this length. Keeps both halves of a surrogate pair in one piece. */
export function pieceOf(text: string, maxLength: number): string {
  const isCut = maxLength < text.length && /[\uD800-\uDBFF]/.test(text.charAt(maxLength - 1));
  return text.slice(0, isCut ? maxLength - 1 : maxLength);
}

/** The fields of an answer that are known only at its end. */
export type AnswerEnd = Pick<MessagesAnswer, "stop_reason" | "stop_sequence" | "usage">;

/**
 * Builds one answer as content blocks. Several tool calls may be open at once; any other block ends when the next block begins. A complete
 * answer consists of these blocks, and a stream writes the same blocks while they grow.
 */
export class MessagesBuilder extends AnswerBuilder {
  /** The answer as it begins. Undefined before the start event. */
  started: StartedAnswer | undefined;
  /** True once the stream has its first frame, which an upstream of this format sends itself. */
  hasBegun = false;
  readonly #context: AnswerContext;
  /** Undefined for a complete answer, which keeps its blocks. */
  readonly #emit: Emit<MessagesStreamEvent> | undefined;
  /** The blocks in order. A stream removes the blocks that it has written completely. */
  readonly #blocks: AnswerBlock[] = [];
  /** Undefined before the first tool call. */
  #calls: ToolCalls<AnswerBlock> | undefined;
  /** The index of the block that a stream writes. */
  #index = 0;
  /** Set if the answer comes from an upstream of this format. */
  #isNative = false;
  /** The answer's maker, for a caller who has thinking on, until a block with a seal shows that another provider wrote the answer. */
  #unmarked: string | undefined;
  #ended: AnswerEnd | undefined;
  /** The signature of the newest text. Its block would end the text, whose citations may still follow, so it waits for other content. */
  #textSeal: Signed | undefined;
  /** Set if the prompt was blocked. Such an answer ends as a refusal, for any reason that its upstream gives. */
  #isBlocked = false;

  constructor(context: AnswerContext, emit?: Emit<MessagesStreamEvent>) {
    super();
    this.#context = context;
    this.#emit = emit;
  }

  /** Emits the first frame. */
  begin(): void {
    if (!this.started) return;
    this.hasBegun = true;
    this.#emit?.({ type: "message_start", message: this.started });
  }

  /**
   * Goes on behind the blocks of an upstream of this format.
   *
   * @param index The index of the next block, or of the text that goes on.
   */
  goOn(index: number, isText: boolean): void {
    this.#index = index;
    if (isText) this.#open("text").isWritten = true;
  }

  /** Throws `backend_failed` if the events of a tool call are out of order, or its arguments are no JSON object. */
  protected write(event: NeutralEvent): void {
    if (event.type === "start") return this.#start(event);
    if (!this.hasBegun) this.begin();
    // The format has only one candidate.
    if ("candidate" in event && event.candidate) return;
    if (event.type === "finish") this.#ended = this.#finish(event);
    else this.#content(event);
    if (this.#emit) this.#emitBlocks(this.#emit);
  }

  /** Throws `backend_failed` if the arguments of tool calls are too large. */
  protected complete(): MessagesAnswer {
    if (!this.started || !this.#ended) throw backendFailed("The model backend gave no answer.");
    const content: ContentBlock[] = [];
    let args: AnsweredArguments | undefined;
    for (const { kind, begun, pieces, citations, json, signature } of this.#blocks)
      if (kind === "text") content.push({ type: "text", text: pieces.join(""), citations });
      else if (kind === "thinking") content.push({ type: "thinking", thinking: pieces.join(""), signature });
      // If the answer was cut short, a call with incomplete JSON gets empty arguments.
      else if (kind === "tool_use" && begun.type === kind)
        content.push({ ...begun, input: (args ??= new AnsweredArguments()).find(json) ?? {} });
      else content.push(begun);
    return { ...this.started, content, ...this.#ended };
  }

  #start(event: Extract<NeutralEvent, { type: "start" }>): void {
    this.#isNative = event.native === FORMAT;
    const { reasoning } = this.#context.request;
    if (event.maker !== FORMAT && reasoning && reasoning.type !== "disabled") this.#unmarked = event.maker;
    this.started = {
      // The answer's id contains the request's id, so that support can find one by the other.
      id: answerId(event, FORMAT, this.#context.requestId.replace(/^req_/, "msg_")),
      type: "message",
      role: "assistant",
      model: event.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      ...UNKNOWN,
      diagnostics: null,
      usage: encodeUsage(event.usage),
    };
    // The first frame of an upstream of this format follows.
    if (!this.#isNative) this.begin();
  }

  /**
   * Ends every block, and returns the end of the answer. Throws `backend_failed` for a call whose arguments are no JSON object, unless the
   * answer was cut short.
   */
  #finish(event: AnswerFinish): AnswerEnd {
    this.#sealText();
    const isCutShort = CUT_SHORT.has(event.endings[0].reason);
    for (const block of this.#blocks) {
      if (block.kind === "tool_use" && !isCutShort) this.#endCall(block);
      block.ended = true;
    }
    const end = endOf(event, this.#isNative || event.native?.format === FORMAT);
    return this.#isBlocked ? { ...end, stop_reason: "refusal" } : end;
  }

  #content(event: ContentEvent | Extract<NeutralEvent, { type: "prompt-feedback" }>): void {
    if (event.type !== "annotation") this.#sealText();
    switch (event.type) {
      case "text-delta":
        this.#text(event.text, event.block);
        if (event.signature) this.#textSeal = event;
        return;
      case "refusal-delta":
        return this.#text(event.text);
      case "code":
      case "code-result":
        return this.#text(fenced(event));
      case "reasoning-delta":
        if (event.text !== "" && showsThoughts(this.#context.request))
          this.#open("thinking", event.block).pieces.push(event.text);
        return;
      case "reasoning-signature": {
        this.#unmarked = undefined;
        // A client that does not see the thoughts gets the signature too, because it must send the signature back.
        const block = this.#open("thinking");
        block.signature = signatureText(event, FORMAT);
        block.ended = true;
        return;
      }
      case "redacted-reasoning":
        return this.#redacted(
          isOwn(event) ? event.data : wrapSeal({ maker: event.maker ?? "", value: event.data, kind: "redacted" }),
        );
      case "tool-call":
        this.#beginCall(event);
        this.#input(event.id, JSON.stringify(event.input));
        return this.#endCall(this.#toolCalls.get(event.id));
      case "tool-call-start":
        return this.#beginCall(event);
      case "tool-call-delta":
        return this.#input(event.id, event.json);
      case "tool-call-end":
        this.#endCall(this.#toolCalls.get(event.id));
        return this.#seal(event, { kind: "call", callId: event.id });
      case "provider":
        // The cast is needed because the block has a type that is not in the schema.
        if (event.format === FORMAT) this.#begin("whole", event.value as unknown as ContentBlock);
        return;
      case "annotation":
        return this.#cite(event.annotation);
      // The format has no media and no feedback.
      case "media":
        return;
      case "prompt-feedback":
        this.#isBlocked ||= event.blockReason !== undefined;
        return;
      default:
        event satisfies never;
    }
  }

  #text(text: string, name?: string): void {
    for (let rest = text; rest !== "";) {
      const block = this.#open("text", name);
      const piece = pieceOf(rest, MAX_TEXT_LENGTH - block.length);
      if (piece !== "") block.pieces.push(piece);
      block.length += piece.length;
      rest = rest.slice(piece.length);
      if (rest !== "") block.ended = true;
    }
  }

  /** Adds citations to the newest text. A citation of this format covers its whole block. */
  #cite(annotation: Annotation): void {
    const newest = this.#blocks.at(-1);
    if (newest?.kind !== "text") return;
    const native = "native" in annotation ? annotation.native : undefined;
    const isNative = native?.format === FORMAT;
    for (const citation of isNative ? native.values : encodeCitations(annotation)) newest.citations.push(citation);
  }

  get #toolCalls(): ToolCalls<AnswerBlock> {
    return (this.#calls ??= new ToolCalls());
  }

  #beginCall(call: Extract<ContentEvent, { type: "tool-call" | "tool-call-start" }>): void {
    const { id, name } = call;
    // An upstream of this format refuses a turn of tool calls without thinking, so it must know the turn for another provider's.
    if (this.#unmarked !== undefined && !isSealed(call))
      this.#redacted(wrapSeal({ maker: this.#unmarked, kind: "redacted", value: "" }));
    this.#seal(call, { kind: "call", callId: id });
    this.#toolCalls.begin(id, this.#begin("tool_use", { type: "tool_use", id, name, input: {}, caller: DIRECT }));
  }

  /**
   * Writes the signature of a part for which the format has no field as a block of its own. Clients return such blocks unchanged. A
   * signature without a maker is left out: no upstream could be told whose it is.
   */
  #seal(signed: Signed, seal: Pick<Seal, "kind" | "callId">): void {
    if (isSealed(signed)) this.#redacted(wrapSeal({ ...seal, maker: signed.maker, value: signed.signature }));
  }

  #sealText(): void {
    if (this.#textSeal) this.#seal(this.#textSeal, { kind: "part" });
    this.#textSeal = undefined;
  }

  #redacted(data: string): void {
    this.#unmarked = undefined;
    this.#begin("whole", { type: "redacted_thinking", data });
  }

  #input(id: string, json: string): void {
    const block = this.#toolCalls.open(id);
    block.json += json;
    if (json !== "") block.pieces.push(json);
  }

  #endCall(block: AnswerBlock): void {
    if (!block.ended) this.#toolCalls.parse(block.json);
    block.ended = true;
  }

  /** Returns the newest block if it has this kind, is open and has no other name. Otherwise begins a new block. */
  #open(kind: "text" | "thinking", name?: string): AnswerBlock {
    const newest = this.#blocks.at(-1);
    const isSame = name === undefined || newest?.name === undefined || newest.name === name;
    if (newest?.kind === kind && !newest.ended && isSame) return newest;
    if (kind === "text") return this.#begin(kind, { type: kind, text: "", citations: [] }, name);
    return this.#begin(kind, { type: kind, thinking: "", signature: "" }, name);
  }

  #begin(kind: AnswerBlock["kind"], begun: ContentBlock, name?: string): AnswerBlock {
    const newest = this.#blocks.at(-1);
    if (newest && newest.kind !== "tool_use") newest.ended = true;
    const state = { length: 0, json: "", signature: "", isWritten: false, ended: kind === "whole" };
    const block: AnswerBlock = { kind, begun, name, pieces: [], citations: [], ...state };
    this.#blocks.push(block);
    return block;
  }

  /**
   * Emits the blocks as far as they are known, and behind them the end. Clients expect that a block ends before the next one begins. Therefore a block waits until
   * all earlier blocks have ended, and parallel tool calls are written one after the other.
   */
  #emitBlocks(emit: Emit<MessagesStreamEvent>): void {
    const blocks = this.#blocks;
    let ended = 0;
    for (let block = blocks[0]; block; block = blocks[ended]) {
      const index = this.#index;
      if (!block.isWritten) emit({ type: "content_block_start", index, content_block: block.begun });
      block.isWritten = true;
      for (const piece of block.pieces) emit({ type: "content_block_delta", index, delta: deltaOf(block.kind, piece) });
      for (const citation of block.citations)
        emit({ type: "content_block_delta", index, delta: { type: "citations_delta", citation } });
      block.pieces.length = block.citations.length = 0;
      if (!block.ended) break;
      // Write this frame even for an empty signature: some clients read the signature only here.
      if (block.kind === "thinking") {
        const delta = { type: "signature_delta", signature: block.signature } as const;
        emit({ type: "content_block_delta", index, delta });
      }
      emit({ type: "content_block_stop", index });
      this.#index++;
      ended++;
    }
    // Remove the ended blocks together: each removal from the front moves all others.
    blocks.splice(0, ended);
    if (!this.#ended || blocks.length > 0) return;
    emit(endDelta(this.#ended));
    emit({ type: "message_stop" });
  }
}

/** Encodes the citations of sources with an address, each once. Without a quote, the cited text is empty. */
function* encodeCitations(annotation: Annotation): Generator<WireObject> {
  const told = new Set<string>();
  for (const { uri: url, title = url, quote: cited_text = "" } of citationsIn(annotation)) {
    const key = `${url} ${cited_text}`;
    if (url === undefined || title === undefined || told.has(key)) continue;
    told.add(key);
    yield { ...FOREIGN_CITATION, url, title, cited_text };
  }
}

function deltaOf(kind: AnswerBlock["kind"], piece: string): ContentDelta {
  if (kind === "text") return { type: "text_delta", text: piece };
  if (kind === "thinking") return { type: "thinking_delta", thinking: piece };
  return { type: "input_json_delta", partial_json: piece };
}

/** Returns the frame with the end of an answer. */
export function endDelta({ stop_reason, stop_sequence, usage }: AnswerEnd): MessagesStreamEvent {
  const { input_tokens, output_tokens } = usage;
  const delta = { stop_reason, stop_sequence, ...UNKNOWN, usage: { input_tokens, output_tokens } };
  return { type: "message_delta", delta, usage };
}

/**
 * Returns the end of an answer.
 *
 * @param isNative Also allows the stop reasons that an upstream of this format has and the spec does not.
 */
export const endOf = ({ endings: [{ reason, stopSequence }], usage }: AnswerFinish, isNative: boolean): AnswerEnd => ({
  stop_reason: (isNative ? LATER_STOP_REASON[reason] : undefined) ?? STOP_REASON[reason],
  stop_sequence: stopSequence ?? null,
  // Report at least one token (spec 2.7), even if the backend counts none for an empty answer.
  usage: encodeUsage({ ...usage, outputTokens: Math.max(1, usage.outputTokens) }),
});

/**
 * The stop reason for each finish reason. The spec (2.7) has four reasons and none for a refusal. `end_turn` would call a refused or
 * blocked answer complete, so the answer ends with the official service's `refusal`, which clients know.
 */
const STOP_REASON: Readonly<Record<FinishReason, StopReason>> = {
  stop: "end_turn",
  length: "max_tokens",
  "stop-sequence": "stop_sequence",
  "tool-calls": "tool_use",
  pause: "end_turn",
  refusal: "refusal",
  "context-window": "max_tokens",
  "content-filter": "refusal",
  recitation: "refusal",
  language: "end_turn",
  blocklist: "refusal",
  "prohibited-content": "refusal",
  "personal-data": "refusal",
  "unsafe-image": "refusal",
  "malformed-tool-call": "end_turn",
  other: "end_turn",
};

/** Stop reasons that the official service has and the spec does not. Its clients need them: they send a paused answer back. */
const LATER_STOP_REASON: Readonly<Partial<Record<FinishReason, StopReason>>> = {
  pause: "pause_turn",
  "context-window": "model_context_window_exceeded",
};

/** Encodes the token counts. In this format, the input does not include the tokens that were read from a cache or written to it. */
function encodeUsage(usage: Usage): MessagesUsage {
  const { cacheReadTokens, cacheWriteTokens, reasoningTokens, cacheWritesByTtl, serverToolUses, serviceTier } = usage;
  return {
    input_tokens: Math.max(0, usage.inputTokens - cacheReadTokens - cacheWriteTokens),
    output_tokens: usage.outputTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cacheReadTokens,
    // The official clients expect the counts for both times to live of the official service.
    cache_creation: cacheWritesByTtl
      ? { ...NO_CACHE_WRITES, ...renamed(cacheWritesByTtl, (ttl) => `ephemeral_${ttl}_input_tokens`) }
      : null,
    output_tokens_details: reasoningTokens > 0 ? { thinking_tokens: reasoningTokens } : null,
    server_tool_use: serverToolUses
      ? { ...NO_TOOL_USES, ...renamed(serverToolUses, (tool) => `${tool}_requests`) }
      : null,
    service_tier: serviceTier === undefined ? null : (SERVICE_TIER.get(serviceTier) ?? null),
    inference_geo: usage.inferenceGeo ?? null,
    speed: usage.speed ?? null,
  };
}

/** The tiers that the format can name. OpenAI's name of the standard tier is `default`. */
export const SERVICE_TIER: ReadonlyMap<string, MessagesUsage["service_tier"]> = new Map([
  ["standard", "standard"],
  ["default", "standard"],
  ["priority", "priority"],
  ["batch", "batch"],
] as const);

const NO_CACHE_WRITES = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 };
const NO_TOOL_USES = { web_search_requests: 0, web_fetch_requests: 0 };

const renamed = (counts: Readonly<Record<string, number>>, rename: (name: string) => string): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).map(([name, count]) => [rename(name), count]));
