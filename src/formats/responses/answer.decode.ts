/** Decodes an upstream's answer, complete or streamed. */

import { backendFailed } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import { DRAWING, pictureTokens } from "../../kinds/chat/model-prices.ts";
import type { ChatEvent, Citation } from "../../model/chat-event.ts";
import type { WireObject } from "../../model/chat-request.ts";
import { isJsonObject, type JsonLimits, type JsonObject } from "../../model/json.ts";
import { lengthOf, TextPlaces } from "../../model/text-places.ts";
import { sumOfUsages, type Usage, type UsageStep } from "../../model/usage.ts";
import { decodeUpstreamError, errorObject } from "../shared/errors.decode.ts";
import type { VariedFields } from "../shared/frame-shape.ts";
import { decodeLogprobs, decodeSource } from "../shared/openai.ts";
import { lostUsage, NativeDecoder, parseAnswer } from "../shared/upstream.ts";
import { answeredTier, openAIDetails, ToolUses, toolUsesIn } from "../shared/usage.decode.ts";
import { FORMAT } from "./routes.ts";
import { flatName } from "./schema.ts";
import {
  Bill,
  DrawnUsage,
  isKnownPart,
  isRead,
  LooseEvent,
  type LooseItem,
  type LooseLogprobs,
  LooseResponse,
  type LooseUsage,
  ranTool,
  unsupportedInAnswer,
} from "./schema.upstream.ts";

interface BegunItem {
  /** True when deltas of the item came, so that its complete form says nothing new. */
  hasDeltas: boolean;
  done: boolean;
  readonly index: number;
  readonly callId: string | undefined;
}

type ItemIds = Partial<Pick<LooseItem, "id" | "call_id">>;

/** The types of the events that end a response. */
const ENDS: ReadonlySet<string> = new Set(["response.completed", "response.incomplete", "response.done"]);

/** The type of the events that bring unfinished versions of a picture. */
const UNFINISHED_PICTURE = "response.image_generation_call.partial_image";

/** The fields in which the deltas of one part differ. */
const VARIED_FIELDS: VariedFields = { text: ["delta"], ignored: [["sequence_number"], ["obfuscation"]] };

/** True for a frame of an error: of its type, or without a type and with an error or a message in any place that upstreams use. */
function isError(said: unknown): boolean {
  if (!isJsonObject(said) || (said["type"] !== undefined && said["type"] !== "error")) return false;
  return said["type"] === "error" || said["error"] != null || errorObject(said)["message"] !== undefined;
}

export class ResponseDecoder extends NativeDecoder {
  /** The items by their place in the output, and by their ids: some servers name the same place again, or none. */
  readonly #items: Map<number | string, BegunItem> = new Map();
  /** The place of the last item, and the number of items so far. */
  #last = 0;
  #count = 0;
  /** True when the frames of the stream can be passed on. Set by the first frame. */
  #passes: boolean | undefined;
  #started = false;
  #finished = false;
  #hasCalls = false;
  #hasRefusal = false;
  /** The places in the text of all messages. */
  readonly #places = new TextPlaces();
  #tier: string | undefined;
  /** The uses of tools that the upstream runs; undefined before the first use. */
  #uses: ToolUses | undefined;
  /** The model that draws for the tool, if the upstream names it. */
  #drawer: string | undefined;
  /** The pictures so far, and their estimated tokens. */
  #pictures = 0;
  #pictureTokens = 0;
  /** The places of pictures that have sent an unfinished version. */
  readonly #unfinished: Set<number> = new Set();

  constructor(limits?: JsonLimits) {
    super(FORMAT, limits, unsupportedInAnswer);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    // Some servers end their streams like chat completions.
    if (data.trim() === "" || data === "[DONE]") return [];
    const said = parseAnswer(data, this.limits);
    if (event === "error" || isError(said))
      throw decodeUpstreamError(undefined, { error: isJsonObject(said) ? (said["error"] ?? said) : said });
    if (!isValid(LooseEvent, said)) throw backendFailed("The model backend's answer has not the shape of one.");
    this.read(said as unknown as JsonObject);
    // Callers of this format could not read the frames of a stream without a beginning, or without numbers.
    this.#passes ??= said.type === "response.created" && said["sequence_number"] != null;
    if (!this.#passes) return this.taken();
    const { type, item } = said;
    const unsupported = () => this.unsupportedIn(isRead(type) && item ? { output: [item] } : {});
    return [this.framed(event === undefined ? { data } : { event, data }, said as unknown as JsonObject, unsupported)];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.limits, billIn, Bill, (bill) => this.#countsOf(bill, this.#estimatedStep()));
  }

  protected isComplete(): boolean {
    return this.#finished;
  }

  protected whole(wire: unknown): void {
    if (!isValid(LooseResponse, wire) || wire.output == null) {
      if (isJsonObject(wire) && wire["error"] != null) throw decodeUpstreamError(undefined, { error: wire["error"] });
      throw backendFailed("The model backend's answer holds no output.");
    }
    this.#end(wire);
  }

  protected variedIn({ type }: JsonObject): VariedFields | undefined {
    return typeof type === "string" && isRead(type) && type.endsWith(".delta") ? VARIED_FIELDS : undefined;
  }

  protected read(wire: JsonObject): void {
    const event = wire as unknown as LooseEvent;
    const { type, response, item, item_id } = event;
    if (!isRead(type)) {
      if (typeof event.output_index === "number") this.#last = event.output_index;
      // The caller gets content that the gateway does not read, so the call is not free.
      if (type.endsWith(".delta")) this.add({ type: "usage", usage: {} });
      if (type === UNFINISHED_PICTURE) this.#draw(this.#last, true);
      return;
    }
    const index = event.output_index ?? this.#items.get(item_id || "")?.index ?? this.#last;
    this.#last = index;
    const delta = typeof event.delta === "string" ? event.delta : "";
    if (response) this.#start(response);
    switch (type) {
      case "response.failed":
        throw decodeUpstreamError(undefined, { error: response?.error ?? {} });
      case "response.output_item.added":
        if (item) this.#begin(item, event.output_index ?? this.#count);
        return;
      case "response.output_item.done":
        if (item) this.#complete(item, index);
        return this.#report();
      case "response.output_text.delta":
        this.#touch(index, item_id);
        this.#text(delta);
        return this.#addLogprobs(event.logprobs as LooseLogprobs);
      case "response.refusal.delta":
        this.#touch(index, item_id);
        this.#hasRefusal = true;
        return this.add({ type: "refusal-delta", text: delta });
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        this.#touch(index, item_id);
        return this.add({
          type: "reasoning-delta",
          text: delta,
          block: `${index}.${event.summary_index ?? event.content_index ?? 0}`,
        });
      case "response.function_call_arguments.delta": {
        const call = this.#find({ id: item_id ?? "" }, index);
        if (call?.callId === undefined || delta === "") return;
        call.hasDeltas = true;
        return this.add({ type: "tool-call-delta", id: call.callId, json: delta });
      }
      default:
        if (ENDS.has(type) && response) this.#end(response);
    }
  }

  #start({ id, model, service_tier, tools }: LooseResponse): void {
    this.#drawer ??= drawerIn(tools);
    const tier = answeredTier(service_tier);
    const usage = tier === undefined || tier === this.#tier ? undefined : { serviceTier: tier };
    if (usage) this.#tier = tier;
    if (!this.#started)
      this.add({ type: "start", ...(id && { id }), ...(model && { model }), ...(usage && { usage }) });
    else if (usage) this.add({ type: "usage", usage });
    this.#started = true;
  }

  /** Counts a picture by its first version, which shows most of it. */
  #draw(index: number, isUnfinished: boolean, quality?: unknown): void {
    if (this.#unfinished.has(index)) return;
    if (isUnfinished) {
      this.#unfinished.add(index);
      this.hold(1);
    }
    this.#pictures++;
    this.#pictureTokens += pictureTokens(quality);
    (this.#uses ??= new ToolUses()).add(DRAWING);
    if (isUnfinished) this.#report();
  }

  /** Counts the use of a tool that has run for an item. */
  #countTool(item: LooseItem, index: number): void {
    const ran = ranTool(item);
    if (ran?.name === DRAWING) this.#draw(index, false, item.quality);
    else if (ran && (this.#uses ??= new ToolUses()).add(ran.name, ran.container)) this.hold(ran.container?.length ?? 0);
  }

  /** Reports the uses of tools that have been counted since the last report. */
  #report(): void {
    const usage = this.#uses?.report();
    if (usage) this.add({ type: "usage", usage: { ...usage, ...stepsOf(this.#estimatedStep()) } });
  }

  /** Estimates the tokens of the pictures so far, until the bill comes; undefined where the upstream does not name the model that draws. */
  #estimatedStep(): UsageStep | undefined {
    if (this.#pictures === 0 || this.#drawer === undefined) return undefined;
    return this.#stepOf({ outputTokens: this.#pictureTokens, ...drawnDetails(this.#pictureTokens) });
  }

  #stepOf(counts: UsageStep): UsageStep {
    return {
      ...counts,
      ...(this.#drawer !== undefined && { model: this.#drawer }),
      ...(this.#pictures > 0 && { serverToolUses: { [DRAWING]: this.#pictures } }),
    };
  }

  /**
   * Returns the counts of a bill, with the pictures that it bills beside its usage.
   *
   * @param otherwise The step for pictures that are not billed by their tokens. Default: they are charged by their number.
   */
  #countsOf({ usage, tool_usage, tools }: Bill, otherwise?: UsageStep): Partial<Usage> {
    this.#drawer ??= drawerIn(tools);
    const billed = { ...searchesIn(tool_usage), ...(usage && toolUsesIn(usage)) };
    if (Object.keys(billed).length > 0) (this.#uses ??= new ToolUses()).learn(billed);
    const drawn = drawnIn(tool_usage);
    const step = drawn ? this.#stepOf(drawn) : otherwise;
    const counts = usage ? withStep(decodeUsage(usage), step) : stepsOf(step);
    // Take back what was estimated.
    const none = !step && this.#pictures > 0 && this.#drawer !== undefined ? { steps: [] } : undefined;
    return { ...counts, ...none, ...this.#uses?.report() };
  }

  /** Returns an item that has begun. Its place counts more than its ids, because some servers change these with each event. */
  #find({ id, call_id }: ItemIds, index: number): BegunItem | undefined {
    return this.#items.get(index) ?? this.#items.get(id || "") ?? this.#items.get(call_id || "");
  }

  /** Notes that a delta of an item came. Some servers do not begin their items. */
  #touch(index: number, id: string | null | undefined): void {
    const named = { id: id ?? "" };
    const item = this.#find(named, index) ?? this.#note(named, index, undefined);
    item.hasDeltas = true;
  }

  #note({ id, call_id }: ItemIds, index: number, callId: string | undefined): BegunItem {
    const item = { hasDeltas: false, done: false, callId, index };
    this.#count++;
    for (const name of [index, id, call_id]) if (name != null && name !== "") this.#items.set(name, item);
    this.hold((call_id ?? "").length + (id ?? "").length);
    return item;
  }

  #begin(item: LooseItem, index: number): void {
    const { type, call_id, name, namespace } = item;
    this.#last = index;
    const isCall = type === "function_call" && call_id != null && name != null;
    this.#note(item, index, isCall ? call_id : undefined);
    if (!isCall) return;
    this.#hasCalls = true;
    this.add({ type: "tool-call-start", id: call_id, name: flatName({ name, namespace }) });
  }

  /** Decodes a complete item: the whole of it, or what its deltas have not said. */
  #complete(item: LooseItem, index: number): void {
    const begun = this.#find(item, index);
    if (begun?.done) return;
    (begun ?? this.#note(item, index, undefined)).done = true;
    this.#countTool(item, index);
    const isNew = !begun?.hasDeltas;
    switch (item.type) {
      case "message":
        return this.#message(item, isNew);
      case "reasoning": {
        const block = (at: number): string => `${index}.${at}`;
        if (isNew)
          for (const [at, { text }] of [...(item.summary ?? []), ...(item.content ?? [])].entries())
            if (text) this.add({ type: "reasoning-delta", text, block: block(at) });
        // Local servers encrypt nothing: they show the reasoning itself, and take it back.
        const isTakenBack = item.encrypted_content || (item.content ?? []).some(({ text }) => text);
        if (isTakenBack)
          this.add({ type: "reasoning-signature", signature: item.encrypted_content ?? "", maker: FORMAT });
        return;
      }
      case "function_call": {
        const id = begun?.callId ?? this.#callId(item);
        if (begun?.callId === undefined) this.add({ type: "tool-call-start", id, name: this.#nameOf(item) });
        if (isNew && item.arguments) this.add({ type: "tool-call-delta", id, json: item.arguments });
        return this.add({ type: "tool-call-end", id });
      }
      case "custom_tool_call": {
        const input = { input: typeof item.input === "string" ? item.input : "" };
        return this.add({ type: "tool-call", id: this.#callId(item), name: this.#nameOf(item), input });
      }
      case "code_interpreter_call": {
        const { code, outputs } = item;
        this.add({ type: "code", language: "python", code: code ?? "" });
        const output = (outputs ?? []).map(({ logs }) => logs ?? "").join("");
        return this.add({ type: "code-result", outcome: "ok", output });
      }
      case "image_generation_call": {
        const { result, output_format } = item;
        if (typeof result === "string" && result !== "")
          this.add({ type: "media", mediaType: `image/${output_format ?? "png"}`, data: result });
        return;
      }
      default:
        this.add({ type: "provider", format: FORMAT, value: item });
    }
  }

  #text(text: string): void {
    this.#places.add(text);
    if (text !== "") this.add({ type: "text-delta", text });
  }

  #message({ content }: LooseItem, isNew: boolean): void {
    const texts: { readonly length: number; readonly annotations: readonly WireObject[] }[] = [];
    let values: readonly WireObject[] = [];
    for (const part of content ?? []) {
      const { text, refusal, annotations, logprobs } = part;
      if (!isKnownPart(part)) {
        // Read no field of a part of another type but a text.
        if (isNew && typeof text === "string") this.#text(text);
        else if (typeof text !== "string") this.add({ type: "provider", format: FORMAT, value: part });
        texts.push({ length: lengthOf(typeof text === "string" ? text : ""), annotations: [] });
        continue;
      }
      if (isNew) this.#text(text ?? "");
      if (isNew && refusal) {
        this.#hasRefusal = true;
        this.add({ type: "refusal-delta", text: refusal });
      }
      if (isNew) this.#addLogprobs(logprobs);
      // The text before the annotations is that of the last part.
      values = annotations ?? [];
      texts.push({ length: lengthOf(text ?? ""), annotations: values });
    }
    // The texts of the message are the last ones so far.
    let start = this.#places.chars - texts.reduce((sum, { length }) => sum + length, 0);
    const citations: Citation[] = [];
    for (const { length, annotations } of texts) {
      for (const source of annotations)
        for (const citation of decodeSource(source, this.#places, start)) citations.push(citation);
      start += length;
    }
    if (citations.length > 0)
      this.add({
        type: "annotation",
        annotation: { type: "citations", citations, native: { format: FORMAT, values, hasPlaces: true } },
      });
  }

  #callId({ call_id, id }: LooseItem): string {
    this.#hasCalls = true;
    const callId = call_id ?? id;
    if (callId) return callId;
    throw backendFailed("The model backend called a tool without an id.");
  }

  #nameOf({ name, namespace }: LooseItem): string {
    if (name) return flatName({ name, namespace });
    throw backendFailed("The model backend called a tool without a name.");
  }

  #addLogprobs(logprobs: LooseLogprobs): void {
    if (!Array.isArray(logprobs) || logprobs.length === 0) return;
    this.add({ type: "annotation", annotation: decodeLogprobs(logprobs) });
  }

  /** Ends the answer. Decodes the items of the final response that no event of the stream has completed. */
  #end(response: LooseResponse): void {
    this.#start(response);
    if (this.#finished) return;
    const { status, error, incomplete_details, output } = response;
    if (status === "failed" || status === "cancelled") throw decodeUpstreamError(undefined, { error: error ?? {} });
    this.#finished = true;
    for (const [index, item] of (output ?? []).entries()) this.#complete(item, index);
    const counts = this.#countsOf(response);
    if (Object.keys(counts).length > 0) this.add({ type: "usage", usage: counts });
    const isCut = status === "incomplete" || incomplete_details?.reason != null;
    const cut = incomplete_details?.reason === "content_filter" ? "content-filter" : "length";
    const ended = this.#hasCalls ? "tool-calls" : this.#hasRefusal ? "refusal" : "stop";
    this.add({ type: "finish", reason: isCut ? cut : ended });
  }
}

/** Returns the searches of a bill: `tool_usage`, which OpenAI adds to a response. */
function searchesIn(usage: unknown): { readonly web_search?: number } {
  const searches = isJsonObject(usage) && isJsonObject(usage["web_search"]) ? usage["web_search"]["num_requests"] : 0;
  return typeof searches === "number" && searches !== 0 ? { web_search: searches } : {};
}

/** Returns the tokens of the pictures that OpenAI's tool has drawn; undefined without any. They are billed, but `usage` leaves them out. */
function drawnIn(usage: unknown): UsageStep | undefined {
  const told: unknown = isJsonObject(usage) ? usage["image_gen"] : undefined;
  if (!isValid(DrawnUsage, told)) return undefined;
  const { cached_tokens, cached_tokens_details: cached, input_tokens_details: details, output_tokens } = told;
  const counts = decodeUsage({ ...told, input_tokens_details: { ...details, cached_tokens } });
  if (!counts.inputTokens && !counts.outputTokens) return undefined;
  const tokens = cached?.cached_image_tokens;
  return {
    ...counts,
    details: {
      ...(!told.output_tokens_details && drawnDetails(output_tokens ?? 0).details),
      ...counts.details,
      ...(tokens && { cacheRead: [{ modality: "image", tokens }] }),
    },
  };
}

const drawnDetails = (tokens: number): Required<Pick<UsageStep, "details">> => ({
  details: { output: [{ modality: "image", tokens }] },
});

/** Returns the model of the tool that draws. */
function drawerIn(tools: unknown): string | undefined {
  const tool: unknown = Array.isArray(tools) && tools.find((one) => isJsonObject(one) && one["type"] === DRAWING);
  const model = isJsonObject(tool) ? tool["model"] : undefined;
  return typeof model === "string" ? model : undefined;
}

const stepsOf = (step: UsageStep | undefined): Partial<Usage> => (step ? { steps: [step] } : {});

/** Adds a step that the counts leave out. The uses of its tools are among those of the counts. */
function withStep(counts: Partial<Usage>, step: UsageStep | undefined): Partial<Usage> {
  if (!step) return counts;
  const { model: _, serverToolUses: _uses, ...own } = step;
  return { ...sumOfUsages<Partial<Usage>>(counts, own), steps: [step] };
}

/** Finds the bill in a complete response or an event. */
const billIn = (wire: JsonObject): unknown => (isJsonObject(wire["response"]) ? wire["response"] : wire);

/** Finds the usage in a complete response or an event. */
export const usageIn = ({ response, usage }: JsonObject): unknown =>
  isJsonObject(response) ? response["usage"] : usage;

/** Decodes token counts. A count that the upstream left out is absent. */
export function decodeUsage({ input_tokens, output_tokens, ...usage }: LooseUsage): Partial<Usage> {
  const { cached_tokens: cached, cache_write_tokens: written } = usage.input_tokens_details ?? {};
  const reasoning = usage.output_tokens_details?.reasoning_tokens;
  return {
    ...(input_tokens != null && { inputTokens: input_tokens }),
    ...(output_tokens != null && { outputTokens: output_tokens }),
    ...(cached != null && { cacheReadTokens: cached }),
    ...(written != null && { cacheWriteTokens: written }),
    ...(reasoning != null && { reasoningTokens: reasoning }),
    ...openAIDetails(usage.input_tokens_details, usage.output_tokens_details),
  };
}
