/** Builds one answer from its events: the output items, the final response, and the events of the stream on the way. */

import { backendFailed } from "../../errors.ts";
import type { Annotation, ContentEvent, FinishReason } from "../../model/chat-event.ts";
import type { WireObject } from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";
import { TextPlaces } from "../../model/text-places.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerContext } from "../format.ts";
import { AnswerBuilder, type AnswerFinish, answerId, type NeutralEvent, showsThoughts } from "../shared/answer.ts";
import type { OpenAIErrorBody } from "../shared/errors.ts";
import { encodeLogprobs, openAITier, sourcesIn, type WireSource } from "../shared/openai.ts";
import { type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import { CUT_SHORT, ToolCalls, customNames } from "../shared/tools.ts";
import { keptFields, responseIdOf } from "./kept.ts";
import { type WireName, wireNames } from "./request.ts";
import { FORMAT } from "./routes.ts";
import type {
  ContentPart,
  ItemOf,
  ItemStatus,
  OutputItem,
  ResponseBody,
  ResponseUsage,
  UrlCitation,
} from "./schema.answer.ts";

/** Returns the fields of the event `error`: as the official types have them, and as clients of other endpoints read them. */
export const errorEvent = ({ error }: OpenAIErrorBody): object => {
  const { code, message, param } = error;
  return { code, message, param, error };
};

/** The code of a failed response: the official types know few codes. */
const FAILURES: ReadonlyMap<string, string> = new Map([["invalid_value", "invalid_prompt"]]);

/** Returns the error of a failed response. */
export const failureOf = ({ error }: OpenAIErrorBody): { readonly code: string; readonly message: string } => {
  const { type, code, message } = error;
  return { code: type === "server_error" ? type : (FAILURES.get(code) ?? code), message };
};

/** Takes an event of the stream: its type, and its fields beside the type and the sequence number. */
type EmitEvent = (type: string, fields: Readonly<Record<string, unknown>>) => void;

/** The reasons of incomplete answers. Any other reason completes an answer. */
const INCOMPLETE: ReadonlyMap<FinishReason, "max_output_tokens" | "content_filter"> = new Map<
  FinishReason,
  "max_output_tokens" | "content_filter"
>([
  ["length", "max_output_tokens"],
  ["context-window", "max_output_tokens"],
  ["content-filter", "content_filter"],
  ["recitation", "content_filter"],
  ["language", "content_filter"],
  ["blocklist", "content_filter"],
  ["prohibited-content", "content_filter"],
  ["personal-data", "content_filter"],
  ["unsafe-image", "content_filter"],
]);

/** An item that is being written, with its place in the output. */
interface Open<Item> {
  readonly item: Item;
  readonly output_index: number;
  /** The pieces of the text that is being written. */
  pieces: string[];
}

interface OpenCall extends Open<ItemOf<"function_call" | "custom_tool_call">> {
  ended: boolean;
}

interface OpenReasoning extends Open<ItemOf<"reasoning">> {
  block: string | undefined;
}

const urlCitation = (source: WireSource): UrlCitation => ({ type: "url_citation", ...source });

type CallEvent = Extract<ContentEvent, { type: `tool-call${string}` }>;

/** An answer that an upstream of this format has begun. */
export interface BegunResponse {
  /** The response as its latest frame has it. */
  readonly response: JsonObject;
  /** The output so far, by index, and the indices of the items that have not ended. */
  readonly items: ReadonlyMap<number, JsonObject>;
  readonly open: ReadonlySet<number>;
  /** True while a text of the last message may grow. */
  readonly isPartOpen: boolean;
}

export class ResponseBuilder extends AnswerBuilder<ResponseBody> {
  readonly #context: AnswerContext;
  /** The fields of a response that is kept. */
  readonly #fields: JsonObject | undefined;
  /** Undefined for a complete answer, whose events are then not even made. */
  readonly #emit: EmitEvent | undefined;
  readonly #base: string;
  #createdAt: number;
  readonly #now: () => number;
  readonly #showsThoughts: boolean;
  /** The names of the tools whose input is a text. */
  readonly #custom: ReadonlySet<string>;
  /** The names of the tools in namespaces. */
  readonly #names: ReadonlyMap<string, WireName>;
  readonly #output: OutputItem[] = [];
  /** Undefined before the first tool call. */
  #calls: ToolCalls<OpenCall> | undefined;
  readonly #openCalls: Set<OpenCall> = new Set();
  #id: string;
  #model: string;
  /** The fields of the request that each state of the response repeats. */
  #repeated: Record<string, unknown> | undefined;
  #tier: string | undefined;
  #message: Open<ItemOf<"message">> | undefined;
  /** The places in the text of all messages. */
  readonly #places = new TextPlaces();
  /** The position of the first character of the last part. */
  #partStart = 0;
  #reasoning: OpenReasoning | undefined;
  /** The reasoning so far that the caller does not see. */
  #hidden: { readonly pieces: string[]; readonly block: string | undefined } | undefined;
  #code: Open<ItemOf<"code_interpreter_call">> | undefined;
  /** The seal of the newest text. Its item would end the message, whose annotations may still follow, so it waits for other content. */
  #textSeal: string | undefined;
  #hasRefusal = false;
  #final: ResponseBody | undefined;
  /** True when the response is kept, and its caller can ask for it again. */
  isKept: boolean;

  /**
   * @param now Returns the Unix time in seconds.
   * @param emit Takes the events of the stream. A complete answer needs none.
   */
  constructor(context: AnswerContext, now: () => number, emit?: EmitEvent) {
    super();
    const { request, requestId } = context;
    this.#context = context;
    this.#fields = keptFields(context);
    this.isKept = this.#fields?.["store"] === true;
    this.#emit = emit;
    this.#now = now;
    this.#createdAt = now();
    // The ids contain the request's id, so that support can find one by the other.
    this.#base = requestId.replace(/^req_/, "");
    this.#id = responseIdOf(requestId);
    this.#model = request.model;
    this.#showsThoughts = showsThoughts(request);
    this.#custom = customNames(request.tools);
    this.#names = request.native?.format === FORMAT ? wireNames(request.native.body) : new Map();
  }

  /** Goes on behind the frames of an upstream of this format. Ends the open items that do not go on. */
  goOn({ response, items, open, isPartOpen }: BegunResponse): void {
    const { id, created_at, model } = response;
    if (typeof id === "string") this.#id = id;
    if (typeof created_at === "number") this.#createdAt = created_at;
    if (typeof model === "string") this.#model = model;
    for (const [output_index, shown] of [...items].toSorted(([a], [b]) => a - b)) {
      // The cast is safe enough: the items are only written again, and a message is read with care.
      const item = shown as unknown as OutputItem;
      this.#output[output_index] = item;
      for (const shownPart of item.type === "message" ? item.content : []) {
        this.#partStart = this.#places.chars;
        if (shownPart.type === "output_text") this.#places.add(shownPart.text);
      }
      if (!open.has(output_index)) continue;
      const part = item.type === "message" && isPartOpen ? item.content.at(-1) : undefined;
      if (item.type === "message" && part?.type === "output_text") {
        this.#message = { item, output_index, pieces: [part.text] };
        part.annotations ??= [];
        part.logprobs ??= [];
      } else this.#end({ item, output_index, pieces: [] }, "completed");
    }
  }

  /** Writes the last event of the stream, after the finish was added. */
  conclude(): void {
    const { body } = this;
    this.#emit?.(`response.${body.status}`, { response: body });
  }

  /** Ends the answer with an error. Returns the failed response, with everything that was said before. */
  fail(body: OpenAIErrorBody): ResponseBody {
    this.#emit?.("error", errorEvent(body) as Readonly<Record<string, unknown>>);
    for (const item of this.#settle()) item.status = "incomplete";
    const response = this.#response("failed", { error: failureOf(body) });
    this.#emit?.("response.failed", { response });
    return response;
  }

  /** Returns the response as it is now. */
  snapshot(status: ResponseBody["status"]): ResponseBody {
    this.#settle();
    return this.#response(status);
  }

  /** Writes the texts so far into the open items, and returns these items. */
  #settle(): OutputItem[] {
    const [message, reasoning, code] = [this.#message, this.#reasoning, this.#code];
    const part = message?.item.content.at(-1);
    const said = message?.pieces.join("") ?? "";
    if (part?.type === "refusal") part.refusal = said;
    else if (part) part.text = said;
    const summary = reasoning?.item.summary.at(-1);
    if (reasoning && summary) summary.text = reasoning.pieces.join("");
    for (const { item, pieces } of this.#openCalls) if (item.type === "function_call") item.arguments = pieces.join("");
    return [message, reasoning, code, ...this.#openCalls].flatMap((open) => open?.item ?? []);
  }

  protected write(event: NeutralEvent): void {
    switch (event.type) {
      case "start": {
        // The id of a kept response must be another one for each response, which only the gateway's own is for sure.
        if (!this.#fields) this.#id = answerId(event, FORMAT, this.#id);
        this.#model = event.model;
        this.#tier = openAITier(event.usage.serviceTier);
        if (!this.#emit) return;
        const response = this.#response("in_progress");
        this.#emit("response.created", { response });
        this.#emit("response.in_progress", { response });
        return;
      }
      case "finish":
        return this.#finish(event);
      // Skip the feedback: the end of the answer shows that the prompt was blocked.
      case "prompt-feedback":
        return;
      default:
        // The format has only one answer.
        if (!event.candidate) this.#content(event);
    }
  }

  protected complete(): ResponseBody {
    if (!this.#final) throw backendFailed("The model backend gave no answer.");
    return this.#final["store"] === this.isKept ? this.#final : { ...this.#final, store: this.isKept };
  }

  #content(event: ContentEvent): void {
    if (event.type !== "annotation") this.#sealText();
    switch (event.type) {
      case "text-delta":
        if (event.text !== "") this.#text("output_text", event.text);
        // A signature without a maker is left out: no upstream could be told whose it is.
        if (event.signature !== undefined && event.maker !== undefined)
          this.#textSeal = wrapSeal({ maker: event.maker, kind: "text", value: event.signature });
        return;
      case "refusal-delta":
        this.#hasRefusal = true;
        if (event.text !== "") this.#text("refusal", event.text);
        return;
      case "reasoning-delta":
        if (event.text === "") return;
        if (this.#showsThoughts) this.#summarize(event.text, event.block);
        else this.#hide(event.text, event.block);
        return;
      case "reasoning-signature":
        return this.#seal(this.#signature(event), this.#reasoning);
      case "redacted-reasoning": {
        const { data, maker } = event;
        const isOwn = maker === undefined || maker === FORMAT;
        return this.#seal(isOwn ? data : wrapSeal({ maker, kind: "redacted", value: data }));
      }
      case "tool-call":
      case "tool-call-start":
      case "tool-call-delta":
      case "tool-call-end":
        return this.#toolCall(event);
      case "code": {
        const { code } = event;
        const state = { code: "", container_id: `cntr_${this.#base}`, outputs: null };
        this.#code = this.#begin({ type: "code_interpreter_call", ...this.#head("ci"), ...state });
        const at = this.#at(this.#code);
        this.#emit?.("response.code_interpreter_call.in_progress", at);
        this.#code.item.code = code;
        this.#emit?.("response.code_interpreter_call_code.delta", { ...at, delta: code });
        this.#emit?.("response.code_interpreter_call_code.done", { ...at, code });
        this.#emit?.("response.code_interpreter_call.interpreting", at);
        return;
      }
      case "code-result":
        if (this.#code) this.#code.item.outputs = [{ type: "logs", logs: event.output ?? "" }];
        return this.#endCode();
      case "media": {
        const { mediaType, data, thought } = event;
        if (thought || !mediaType.startsWith("image/")) return;
        const output_format = mediaType.slice("image/".length);
        const item: ItemOf<"image_generation_call"> = {
          type: "image_generation_call",
          ...this.#head("ig"),
          result: null,
          output_format,
        };
        const open = this.#begin(item);
        for (const step of ["in_progress", "generating", "completed"])
          this.#emit?.(`response.image_generation_call.${step}`, this.#at(open));
        open.item.result = data;
        return this.#end(open, "completed");
      }
      case "annotation":
        return this.#annotate(event.annotation);
      case "provider":
        // Items of the format itself come here when the frames of their upstream cannot be passed on.
        if (event.format === FORMAT) {
          const { status, ...item } = event.value;
          const open = this.#begin({ ...item, ...(status !== undefined && { status: "in_progress" }) } as never);
          this.#end(open, status as ItemStatus | undefined);
        }
        return;
      default:
        event satisfies never;
    }
  }

  /** Adds text to the open part of the open message. Opens both where they are missing, or of another kind. */
  #text(type: ContentPart["type"], delta: string): void {
    if (!this.#message) {
      this.#close();
      const content: ContentPart[] = [];
      this.#message = this.#begin({ type: "message", ...this.#head("msg"), role: "assistant", content });
    }
    const message = this.#message;
    const { content } = message.item;
    if (content.at(-1)?.type !== type) {
      this.#endPart(message);
      const part: ContentPart =
        type === "refusal" ? { type, refusal: "" } : { type, text: "", annotations: [], logprobs: [] };
      this.#emit?.("response.content_part.added", {
        ...this.#at(message),
        content_index: content.length,
        part: { ...part },
      });
      content.push(part);
      this.#partStart = this.#places.chars;
    }
    if (type === "output_text") this.#places.add(delta);
    message.pieces.push(delta);
    if (!this.#emit) return;
    const place = { ...this.#at(message), content_index: content.length - 1, delta };
    if (type === "refusal") this.#emit("response.refusal.delta", place);
    else this.#emit("response.output_text.delta", { ...place, logprobs: [] });
  }

  /** Ends the last part of a message. */
  #endPart(message: Open<ItemOf<"message">>): void {
    const part = message.item.content.at(-1);
    if (!part) return;
    const text = message.pieces.join("");
    message.pieces = [];
    const place = { ...this.#at(message), content_index: message.item.content.length - 1 };
    if (part.type === "refusal") {
      part.refusal = text;
      this.#emit?.("response.refusal.done", { ...place, refusal: text });
    } else {
      part.text = text;
      this.#emit?.("response.output_text.done", { ...place, text, logprobs: part.logprobs });
    }
    this.#emit?.("response.content_part.done", { ...place, part });
  }

  #annotate(annotation: Annotation): void {
    const part = this.#message?.item.content.at(-1);
    if (!this.#message || part?.type !== "output_text") return;
    const place = { ...this.#at(this.#message), content_index: this.#message.item.content.length - 1 };
    if (annotation.type === "logprobs") {
      const logprobs = encodeLogprobs(annotation);
      for (const step of logprobs) part.logprobs.push(step);
      // They come behind their text. Some clients read them only in deltas.
      if (logprobs.length > 0) this.#emit?.("response.output_text.delta", { ...place, delta: "", logprobs });
      return;
    }
    const native = "native" in annotation && annotation.native?.format === FORMAT ? annotation.native : undefined;
    const sources = native
      ? // The cast is needed because the annotations are those of an upstream.
        (native.values as unknown as readonly UrlCitation[])
      : sourcesIn(annotation, this.#places, this.#partStart).map(urlCitation);
    for (const source of sources) {
      const annotation_index = part.annotations.push(source) - 1;
      this.#emit?.("response.output_text.annotation.added", { ...place, annotation_index, annotation: source });
    }
  }

  /** Adds text to the summary of the open reasoning. A new block begins a new part of the summary. */
  #summarize(delta: string, block: string | undefined): void {
    if (!this.#reasoning) {
      this.#close();
      this.#reasoning = { ...this.#begin({ type: "reasoning", ...this.#head("rs"), summary: [] }), block };
    }
    const reasoning = this.#reasoning;
    const { summary } = reasoning.item;
    if (summary.length === 0 || (block !== undefined && block !== reasoning.block)) {
      this.#endSummary(reasoning);
      reasoning.block = block;
      const part = { type: "summary_text", text: "" } as const;
      this.#emit?.("response.reasoning_summary_part.added", {
        ...this.#at(reasoning),
        summary_index: summary.length,
        part,
      });
      summary.push({ ...part });
    }
    reasoning.pieces.push(delta);
    const summary_index = summary.length - 1;
    this.#emit?.("response.reasoning_summary_text.delta", { ...this.#at(reasoning), summary_index, delta });
  }

  #endSummary(reasoning: OpenReasoning): void {
    const part = reasoning.item.summary.at(-1);
    if (!part) return;
    part.text = reasoning.pieces.join("");
    reasoning.pieces = [];
    const place = { ...this.#at(reasoning), summary_index: reasoning.item.summary.length - 1 };
    this.#emit?.("response.reasoning_summary_text.done", { ...place, text: part.text });
    this.#emit?.("response.reasoning_summary_part.done", { ...place, part });
  }

  /** Keeps text that the caller does not see, for the seal that follows. */
  #hide(text: string, block: string | undefined): void {
    const isNewBlock = block !== undefined && this.#hidden && block !== this.#hidden.block;
    const pieces = this.#hidden?.pieces ?? [];
    if (isNewBlock) pieces.push("\n\n");
    pieces.push(text);
    this.#hidden = { pieces, block };
  }

  /** Returns the text of a signature. Its maker checks it against its text, so text that the caller does not see is in it. */
  #signature({ signature, maker }: Extract<ContentEvent, { type: "reasoning-signature" }>): string {
    const text = this.#hidden?.pieces.join("");
    this.#hidden = undefined;
    // Encrypted reasoning of this format has its text in it. An empty signature only names the maker, who takes its reasoning back.
    const needsText = maker !== undefined && (maker !== FORMAT || signature === "");
    if (needsText && text) return wrapSeal({ maker, kind: "hidden", value: signature, text });
    if (maker === FORMAT && signature === "") return wrapSeal({ maker, kind: "part", value: "" });
    return signatureText({ signature, maker }, FORMAT);
  }

  /** Writes a seal into the open reasoning, or into an item of its own. Clients send such items back unchanged. */
  #seal(encrypted_content: string, reasoning?: OpenReasoning): void {
    if (!reasoning) {
      this.#close();
      this.#reasoning = { ...this.#begin({ type: "reasoning", ...this.#head("rs"), summary: [] }), block: undefined };
    }
    if (this.#reasoning && encrypted_content !== "") this.#reasoning.item.encrypted_content = encrypted_content;
    this.#close();
  }

  #sealText(): void {
    if (this.#textSeal !== undefined) this.#seal(this.#textSeal);
    this.#textSeal = undefined;
  }

  get #toolCalls(): ToolCalls<OpenCall> {
    return (this.#calls ??= new ToolCalls());
  }

  #toolCall(event: CallEvent): void {
    if (event.type === "tool-call-delta") return this.#addArguments(this.#toolCalls.open(event.id), event.json);
    if (event.type === "tool-call-end") {
      this.#endCall(this.#toolCalls.get(event.id), false);
      return this.#sealCall(event);
    }
    this.#close();
    this.#sealCall(event);
    const { id: call_id, name } = event;
    const names = this.#names.get(name) ?? { name };
    const item: ItemOf<"function_call" | "custom_tool_call"> = this.#custom.has(name)
      ? { type: "custom_tool_call", ...this.#head("ctc"), call_id, ...names, input: "" }
      : { type: "function_call", ...this.#head("fc"), call_id, ...names, arguments: "" };
    const call = this.#toolCalls.begin(call_id, { ...this.#begin(item), ended: false });
    this.#openCalls.add(call);
    if (event.type !== "tool-call") return;
    this.#addArguments(call, JSON.stringify(event.input));
    this.#endCall(call, false);
  }

  #sealCall({ id, ...signed }: { readonly id: string } & Signed): void {
    const { signature, maker } = signed;
    if (signature !== undefined && maker !== undefined)
      this.#seal(wrapSeal({ maker, kind: "call", callId: id, value: signature }));
  }

  #addArguments(call: OpenCall, delta: string): void {
    if (delta === "") return;
    call.pieces.push(delta);
    // The input of a custom tool is known only when its arguments are complete.
    if (call.item.type === "function_call")
      this.#emit?.("response.function_call_arguments.delta", { ...this.#at(call), delta });
  }

  /** Ends a call. Its arguments may be incomplete if the answer was cut short. */
  #endCall(call: OpenCall, cutShort: boolean): void {
    if (call.ended) return;
    call.ended = true;
    this.#openCalls.delete(call);
    const { item, pieces } = call;
    const json = pieces.join("");
    const input = cutShort ? this.#toolCalls.find(json) : this.#toolCalls.parse(json);
    const at = this.#at(call);
    if (item.type === "custom_tool_call") {
      const text = input?.["input"];
      item.input = typeof text === "string" ? text : json;
      this.#emit?.("response.custom_tool_call_input.delta", { ...at, delta: item.input });
      this.#emit?.("response.custom_tool_call_input.done", { ...at, input: item.input });
    } else {
      // Clients parse the arguments as JSON, and an empty text is not JSON.
      if (json.trim() === "" && !cutShort) this.#addArguments(call, "{}");
      item.arguments = call.pieces.join("");
      this.#emit?.("response.function_call_arguments.done", { ...at, name: item.name, arguments: item.arguments });
    }
    this.#end(call, input ? "completed" : "incomplete");
  }

  #endCode(): void {
    if (!this.#code) return;
    const code = this.#code;
    this.#code = undefined;
    this.#emit?.("response.code_interpreter_call.completed", this.#at(code));
    this.#end(code, "completed");
  }

  /** Ends the open message, reasoning or code. Tool calls stay open, because several calls may overlap. */
  #close(status: ItemStatus = "completed"): void {
    const [message, reasoning] = [this.#message, this.#reasoning];
    this.#message = this.#reasoning = undefined;
    if (message) {
      this.#endPart(message);
      this.#end(message, status);
    }
    if (reasoning) {
      this.#endSummary(reasoning);
      this.#end(reasoning, status);
    }
    this.#endCode();
  }

  #finish({ endings: [{ reason }], usage }: AnswerFinish): void {
    this.#sealText();
    this.#tier = openAITier(usage.serviceTier) ?? this.#tier;
    const incomplete =
      INCOMPLETE.get(reason) ?? (reason === "refusal" && !this.#hasRefusal ? "content_filter" : undefined);
    this.#close(incomplete ? "incomplete" : "completed");
    for (const call of this.#openCalls) this.#endCall(call, CUT_SHORT.has(reason));
    const status = incomplete ? "incomplete" : "completed";
    this.#final = this.#response(status, {
      usage: encodeUsage(usage),
      ...(incomplete ? { incomplete_details: { reason: incomplete } } : { completed_at: this.#now() }),
    });
  }

  #head(prefix: string): { id: string; status: ItemStatus } {
    return { id: `${prefix}_${this.#base}_${this.#output.length}`, status: "in_progress" };
  }

  #begin<Item extends OutputItem>(item: Item): Open<Item> {
    if (item.type !== "message" && item.type !== "reasoning") this.#close();
    const output_index = this.#output.push(item) - 1;
    this.#emit?.("response.output_item.added", { output_index, item: { ...item } });
    return { item, output_index, pieces: [] };
  }

  #end({ item, output_index }: Open<OutputItem>, status: ItemStatus | undefined): void {
    if (status !== undefined) item.status = status;
    this.#emit?.("response.output_item.done", { output_index, item });
  }

  #at({ item, output_index }: Open<OutputItem>): { item_id: string; output_index: number } {
    return { item_id: item.id, output_index };
  }

  #response(status: ResponseBody["status"], fields: Partial<ResponseBody> = {}): ResponseBody {
    return {
      id: this.#id,
      object: "response",
      created_at: this.#createdAt,
      status,
      background: this.#context.request.native?.body["background"] === true,
      error: null,
      incomplete_details: null,
      completed_at: null,
      access_programs: null,
      ...(this.#repeated ??= repeated(this.#context.request.native?.body ?? {})),
      ...this.#fields,
      model: this.#model,
      output: this.#output.slice(),
      usage: null,
      store: this.isKept,
      ...(this.#tier !== undefined && { service_tier: this.#tier }),
      ...fields,
    };
  }
}

/** Returns the fields of a request that the answer repeats, with the defaults of fields that are missing. */
function repeated(body: WireObject): Record<string, unknown> {
  const orNull = (field: string): unknown => body[field] ?? null;
  const tools = (body["tools"] ?? []) as readonly WireObject[];
  return {
    instructions: orNull("instructions"),
    max_output_tokens: orNull("max_output_tokens"),
    max_tool_calls: orNull("max_tool_calls"),
    frequency_penalty: body["frequency_penalty"] ?? 0,
    metadata: body["metadata"] ?? {},
    parallel_tool_calls: body["parallel_tool_calls"] ?? true,
    presence_penalty: body["presence_penalty"] ?? 0,
    previous_response_id: orNull("previous_response_id"),
    prompt_cache_key: orNull("prompt_cache_key"),
    reasoning: { effort: null, summary: null, ...(body["reasoning"] as object | null) },
    safety_identifier: orNull("safety_identifier"),
    service_tier: body["service_tier"] ?? "default",
    temperature: body["temperature"] ?? 1,
    text: { format: { type: "text" }, ...(body["text"] as object | null) },
    tool_choice: body["tool_choice"] ?? "auto",
    tools: tools.map((tool) => (tool["type"] === "function" ? { ...UNKNOWN_IN_TOOL, ...tool } : tool)),
    top_logprobs: body["top_logprobs"] ?? 0,
    top_p: body["top_p"] ?? 1,
    truncation: body["truncation"] ?? "disabled",
    ...(body["user"] != null && { user: body["user"] }),
  };
}

/** The fields that a function always has in an answer. */
const UNKNOWN_IN_TOOL = { description: null, parameters: null, strict: null };

export const encodeUsage = (usage: Usage): ResponseUsage => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens, cache_write_tokens: usage.cacheWriteTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: usage.inputTokens + usage.outputTokens,
});
