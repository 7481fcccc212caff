/** The stream to a caller: chunks made of neutral events, or the frames of an upstream that speaks the same format. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent, ContentEvent, NativeFrame } from "../../kinds/chat/event.ts";
import { isJsonObject, parseJson } from "../../model/json.ts";
import type { AnswerContext, AnswerStream } from "../format.ts";
import { answerId, frameOf, openAITier } from "../shared/answer.ts";
import { dataUrl } from "../shared/data-url.ts";
import { encodeError } from "../shared/errors.ts";
import type { Signed } from "../shared/seal.ts";
import { AnsweredArguments, customNames, CUT_SHORT, fenced, ToolCalls } from "../shared/tools.ts";
import { DetailsWriter } from "./answer.reasoning.ts";
import { writeExtra } from "./answer.signature.ts";
import { encodeLogprobs, encodeSources, encodeUsage, FINISH_REASON } from "./answer.ts";
import type { Chunk, ChunkChoice, ChunkDelta, ToolCallDelta } from "./schema.answer.ts";
import { FORMAT, type ReasoningDetail } from "./schema.ts";

/** The data of the frame that ends a stream. */
export const DONE = "[DONE]";
const DONE_FRAME = `data: ${DONE}\n\n`;

/** Writes one frame. Escapes U+2028 and U+2029, which `JSON.stringify` leaves alone: some clients end a line there. */
const frameText = (value: object): string =>
  `data: ${JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029")}\n\n`;

export class CompletionStream implements AnswerStream<AnswerEvent> {
  readonly contentType = "text/event-stream; charset=utf-8";
  /** A comment, which clients skip. */
  readonly keepAlive = ": keep-alive\n\n";
  readonly #encoder: ChunkEncoder;
  readonly #showsUsage: boolean;

  /** @param created Unix time in seconds. */
  constructor(answer: AnswerContext, created: number) {
    const options = answer.request.native?.body["stream_options"];
    this.#showsUsage = isJsonObject(options) && options["include_usage"] === true;
    this.#encoder = new ChunkEncoder(answer, created, this.#showsUsage);
  }

  encode(event: AnswerEvent): string {
    if (event.type === "native" && event.format === FORMAT) {
      const { events, frames = [] } = event;
      // Without a meaning, these may be the last frames of an answer that fails behind them.
      return this.#framesText(events.length === 0 ? this.#withoutEnd(frames) : frames);
    }
    const native = event.type === "finish" ? event.native : undefined;
    if (native?.format === FORMAT && native.frames.length > 0)
      return this.#framesText(this.#withoutEnd(native.frames)) + DONE_FRAME;
    const text = this.#encoder.chunks(event).map(frameText).join("");
    return event.type === "finish" ? text + DONE_FRAME : text;
  }

  error(error: GatewayError): string {
    return frameText(encodeError(error));
  }

  /** Leaves out the mark of the end, and token counts that the caller did not ask for. */
  #withoutEnd(frames: readonly NativeFrame[]): readonly NativeFrame[] {
    return frames.filter(({ data }) => data !== DONE && (this.#showsUsage || !isUsageChunk(data)));
  }

  /**
   * Writes the frames as the upstream sent them. Each chunk may have `"usage": null`, because the gateway always asks the upstream for
   * token counts. If the caller did not ask for counts, this field is removed.
   */
  #framesText(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const { data } of frames) text += frameOf({ data: this.#showsUsage ? data : data.replace(NO_USAGE, "$1}") });
    return text;
  }
}

/** Matches `"usage": null` if only simple fields follow it in the chunk. To cut it out of the text keeps all other bytes. */
const NO_USAGE = /,\s*"usage"\s*:\s*null\s*((?:,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*)*)\}\s*$/;

/** Tells whether a frame is the extra chunk with only the token counts. */
function isUsageChunk(data: string): boolean {
  try {
    const chunk = parseJson(data);
    if (!isJsonObject(chunk)) return false;
    const { choices, usage } = chunk;
    return isJsonObject(usage) && Array.isArray(choices) && choices.length === 0;
  } catch {
    return false;
  }
}

/** The lifetime of a sound, for its `expires_at`, in seconds. It is the lifetime that the spec gives to a picture (spec 3). */
const AUDIO_LIFETIME_S = 3_600;

/** The events of reasoning. */
const REASONING: ReadonlySet<string> = new Set([
  "reasoning-delta",
  "reasoning-signature",
  "redacted-reasoning",
  "annotation",
] satisfies ContentEvent["type"][]);

/** The state of a choice that is being written. */
interface WrittenChoice {
  readonly index: number;
  /** Set once the first chunk, which names the role, is written. */
  begun: boolean;
  images: number;
  calls: CallQueue | undefined;
  /** Set once the choice has reasoning. */
  reasoning: DetailsWriter | undefined;
}

type ToolCallEvent = Extract<ContentEvent, { type: `tool-call${string}` }>;

/** Encodes the events of one answer as chunks. Puts the chunks into the order that the format demands. */
export class ChunkEncoder {
  readonly #created: number;
  readonly #showsUsage: boolean;
  /** The names of the tools whose input is a text. */
  readonly #custom: ReadonlySet<string>;
  readonly #choices: Map<number, WrittenChoice> = new Map();
  /** The chunks of the event that is being encoded. */
  #chunks: Chunk[] = [];
  #id: string;
  #model: string;
  #tier: string | undefined;
  #finished = false;
  /** True when the provider has blocked the prompt. */
  #isBlocked = false;

  /**
   * @param created Unix time in seconds.
   * @param showsUsage Adds a last chunk with the token counts, and `usage: null` to each chunk before it.
   */
  constructor({ request, requestId }: AnswerContext, created: number, showsUsage: boolean) {
    this.#created = created;
    this.#showsUsage = showsUsage;
    this.#model = request.model;
    this.#custom = customNames(request.tools);
    // The answer's id contains the request's id, so that support can find one by the other.
    this.#id = requestId.replace(/^req_/, "chatcmpl-");
  }

  /** Returns the chunks that an event adds. Throws `backend_failed` for an event that is out of order. */
  chunks(event: AnswerEvent): Chunk[] {
    if (this.#finished) throw new GatewayError("backend_failed", "The model backend went on after its answer's end.");
    this.#chunks = [];
    if (event.type !== "native") this.#encode(event);
    else for (const inner of event.events) this.#encode(inner);
    return this.#chunks;
  }

  #encode(event: Exclude<AnswerEvent, { type: "native" }>): void {
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

  #finish({ endings, usage }: Extract<AnswerEvent, { type: "finish" }>): void {
    this.#finished = true;
    this.#tier = openAITier(usage.serviceTier) ?? this.#tier;
    for (const { candidate, reason } of endings) {
      const choice = this.#choice(candidate);
      choice.calls?.endAll(CUT_SHORT.has(reason));
      if (choice.calls) this.#addCalls(choice, choice.calls);
      this.#addDetails(choice, choice.reasoning?.takeLast());
      this.#add(choice, {}, null, this.#isBlocked ? "content_filter" : FINISH_REASON[reason]);
    }
    if (this.#showsUsage) this.#chunks.push({ ...this.#chunk([]), usage: encodeUsage(usage) });
  }

  #content(choice: WrittenChoice, event: ContentEvent): void {
    // The seals follow their reasoning, before anything else, where clients expect the end of the reasoning.
    if (!REASONING.has(event.type)) this.#addDetails(choice, choice.reasoning?.take());
    switch (event.type) {
      case "text-delta":
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
        return this.#add(choice, { content: fenced(event.code, event.language) });
      case "code-result":
        return this.#add(choice, { content: fenced(event.output ?? "", "") });
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
        const annotations = encodeSources(event.annotation);
        if (annotations.length > 0) this.#add(choice, { annotations });
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

  #toolCall(choice: WrittenChoice, event: ToolCallEvent): void {
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

  #media(choice: WrittenChoice, { mediaType, data, thought }: Extract<ContentEvent, { type: "media" }>): void {
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

  #choice(index: number): WrittenChoice {
    let choice = this.#choices.get(index);
    if (!choice) {
      choice = { index, begun: false, images: 0, calls: undefined, reasoning: undefined };
      this.#choices.set(index, choice);
    }
    return choice;
  }

  #addCalls(choice: WrittenChoice, calls: CallQueue): void {
    for (const call of calls.take()) this.#add(choice, { tool_calls: [call] });
  }

  #addDetails(choice: WrittenChoice, reasoning_details: ReasoningDetail[] = []): void {
    if (reasoning_details.length > 0) this.#add(choice, { reasoning_details });
  }

  /**
   * Adds a chunk. Before the first chunk of a choice, adds a chunk that names the role. The content of that chunk is an empty text, or
   * null if a tool call comes first.
   */
  #add(
    choice: WrittenChoice,
    delta: ChunkDelta,
    logprobs: ChunkChoice["logprobs"] = null,
    finish_reason: ChunkChoice["finish_reason"] = null,
  ): void {
    const { index } = choice;
    if (!choice.begun) {
      choice.begun = true;
      const first: ChunkDelta = { role: "assistant", content: "tool_calls" in delta ? null : "", refusal: null };
      this.#chunks.push(this.#chunk([{ index, delta: first, logprobs: null, finish_reason: null }]));
    }
    this.#chunks.push(this.#chunk([{ index, delta, logprobs, finish_reason }]));
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
  readonly #arguments = new AnsweredArguments();
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
    const input = cutShort ? this.#arguments.find(json) : this.#arguments.parse(json);
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
    for (let call = this.#queue[0]; call; call = this.#queue[0]) {
      for (const delta of call.pending) deltas.push(delta);
      call.pending = [];
      if (!call.ended) break;
      this.#queue.shift();
    }
    return deltas;
  }
}
