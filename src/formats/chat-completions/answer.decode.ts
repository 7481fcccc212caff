/** Decodes an upstream's answer, complete or streamed. Accepts the loose answers of local servers. */

import { type GatewayError, backendFailed } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { Annotation, ChatEvent, ContentEvent, FinishEvent, FinishReason } from "../../model/chat-event.ts";
import type { WireObject } from "../../model/chat-request.ts";
import { isJsonObject, type JsonLimits, type JsonObject } from "../../model/json.ts";
import { TextPlaces } from "../../model/text-places.ts";
import type { Usage } from "../../model/usage.ts";
import { decodeUpstreamError, isError, retryAfterOf } from "../shared/errors.decode.ts";
import type { VariedFields } from "../shared/frame-shape.ts";
import { decodeLogprobs, decodeSource } from "../shared/openai.ts";
import { splitDataUrl } from "../shared/schema.ts";
import { AnsweredArguments, CUT_SHORT } from "../shared/tools.ts";
import { type DecodedEvent, lostUsage, NativeDecoder, parseAnswer } from "../shared/upstream.ts";
import { answeredTier, openAIDetails, toolUsesIn } from "../shared/usage.decode.ts";
import {
  isGemini,
  PLAIN_FIELDS,
  readExtra,
  ReasoningBlock,
  reasoningIn,
  type ReasoningPiece,
  thinkingText,
} from "./reasoning.ts";
import { FORMAT } from "./routes.ts";
import { DONE } from "./schema.ts";
import {
  isOtherPart,
  type LooseChoice,
  LooseCompletion,
  type LooseMessage,
  type LooseToolCall,
  LooseUsage,
  unsupportedInAnswer,
} from "./schema.upstream.ts";

interface DecodedCall {
  /** The index that the server gave the call. */
  readonly index: number | "function_call";
  readonly id: string;
  /** The id as the server wrote it. */
  readonly wireId: string | undefined;
  /** For a call of a type that only the vendor knows, its first piece as it came. */
  readonly kind: "function" | "custom" | LooseToolCall;
  /** Undefined until the server has sent it. */
  name: string | undefined;
  /** The signature, if the server has sent it. */
  signed: ReturnType<typeof readExtra>;
  readonly fragments: string[];
  /** An empty object at the beginning of streamed arguments. Bedrock sends it before the arguments themselves. */
  held: string;
  begun: boolean;
  ended: boolean;
}

interface DecodedChoice {
  readonly index: number;
  finished: boolean;
  /** True once a delta has said something. */
  said: boolean;
  /** True once the model has declined. */
  refused: boolean;
  /** The block of reasoning that has not ended. */
  reasoning: ReasoningBlock | undefined;
  /** The seals of its reasoning so far. */
  readonly seals: Set<string>;
  readonly calls: DecodedCall[];
  /** The calls by the index that the server gave them. */
  readonly byIndex: Map<number | "function_call", DecodedCall>;
  readonly byWireId: Map<string, DecodedCall>;
  /** The call that began last. */
  newest: DecodedCall | undefined;
  /** True once one of its calls has a signature. */
  isSigned: boolean;
  /** The places in its text. */
  readonly places: TextPlaces;
}

/** The fields of a delta that are a text. */
const TEXTS = ["content", "refusal", ...PLAIN_FIELDS] as const;

/** A text that hides the length of a chunk. */
const PADDING = [["obfuscation"]] as const;

/** The memory of a call or of a fragment beside its text, counted as characters. */
const FRAGMENT_CHARS = 64;

export class CompletionDecoder extends NativeDecoder {
  readonly #choices: Map<number, DecodedChoice> = new Map();
  #started = false;
  #id: string | undefined;
  /** True if the model signs tool calls. The signature may come behind all calls, and a call that has ended takes none. */
  #signsCalls: boolean;
  /** The ids of the calls so far: a repeated id gets a suffix. */
  readonly #callIds: Set<string> = new Set();
  #inventedIds = 0;
  /** The last number that made a repeated id unique. */
  #suffix = 0;
  /** The number of events of choices so far. */
  #added = 0;
  /** The tier that the last chunk has named. */
  #tier: string | null | undefined;
  /** True once the answer has named a source on the web, so that the upstream has searched. */
  #hasSources = false;
  #arguments: AnsweredArguments | undefined;

  constructor(limits?: JsonLimits, model = "") {
    super(FORMAT, limits, unsupportedInAnswer);
    this.#signsCalls = isGemini(model);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    const said = data.trim();
    if (said === "") return [];
    // The frames of this format have no names.
    const frame = { data };
    if (said === DONE) {
      this.#finishAll();
      return [{ type: "native", format: FORMAT, frames: [frame], events: this.taken() }];
    }
    const chunk = parseAnswer(data, this.limits);
    this.#decode(chunk, event);
    return [this.framed(frame, chunk as JsonObject)];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.limits, ({ usage }) => usage, LooseUsage, decodeUsage);
  }

  protected isComplete(): boolean {
    let isFinished = this.#choices.size > 0;
    for (const { finished } of this.#choices.values()) isFinished &&= finished;
    return isFinished;
  }

  protected whole(wire: unknown): void {
    this.#decode(wire);
    this.#finishAll();
  }

  protected variedIn(wire: JsonObject): VariedFields | undefined {
    const [choice, ...others] = (wire as unknown as LooseCompletion).choices ?? [];
    const { delta, message } = choice ?? {};
    if (!delta || message || others.length > 0 || delta.reasoning_details) return undefined;
    const [call, ...more] = delta.tool_calls ?? [];
    const field = TEXTS.find((name) => delta[name]);
    if (!call) return field && { text: ["choices", 0, "delta", field], ignored: PADDING };
    // A name may begin the next call, and a call of a type that only its vendor knows is kept as it came.
    const isArguments = (call.type ?? "function") === "function" && !call.function?.name && !call.custom;
    if (field || more.length > 0 || !isArguments) return undefined;
    return { text: ["choices", 0, "delta", "tool_calls", 0, "function", "arguments"], ignored: PADDING };
  }

  #decode(chunk: unknown, event?: string): void {
    const error = errorIn(chunk, event === "error") ?? (isError(chunk) ? chunk : undefined);
    if (error !== undefined) throw decodeUpstreamError(undefined, { error });
    if (!isValid(LooseCompletion, chunk)) throw backendFailed("The model backend's answer has not the shape of one.");
    this.read(chunk as unknown as JsonObject);
  }

  protected read(wire: JsonObject): void {
    const { id, model, choices, usage, service_tier } = wire as unknown as LooseCompletion;
    const tier = service_tier === this.#tier ? undefined : answeredTier(service_tier);
    if (!this.#started) {
      this.#started = true;
      this.#id = id || undefined;
      this.#signsCalls ||= isGemini(model ?? "");
      // Some servers count in each chunk. Callers of messages get the counts of the prompt with the start.
      const counted = { ...(usage && decodeUsage(usage)), ...(tier !== undefined && { serviceTier: tier }) };
      this.add({
        type: "start",
        ...(id && { id }),
        ...(model && { model }),
        ...(Object.keys(counted).length > 0 && { usage: counted }),
      });
    } else if (tier !== undefined) this.add({ type: "usage", usage: { serviceTier: tier } });
    if (tier !== undefined) this.#tier = service_tier;
    const hadSources = this.#hasSources;
    // Moonshot counts the tokens inside a choice.
    let counts = usage;
    let position = 0;
    for (const choice of choices ?? []) {
      this.#decodeChoice(choice, choice.index ?? position);
      counts ??= choice.usage;
      position++;
    }
    // Models of OpenAI that search count nothing, and are charged for one search.
    const searched = this.#hasSources ? { web_search: 1 } : undefined;
    if (counts) {
      const { serverToolUses = searched, ...usage } = decodeUsage(counts);
      this.add({ type: "usage", usage: { ...usage, ...(serverToolUses && { serverToolUses }) } });
    } else if (searched && !hadSources) this.add({ type: "usage", usage: { serverToolUses: searched } });
  }

  #decodeChoice({ delta, message, logprobs, finish_reason }: LooseChoice, index: number): void {
    const choice = this.#choice(index);
    // Some servers end a stream with the whole message. It repeats the deltas, if there were any.
    const isDelta = delta != null && !isEmptyDelta(delta);
    choice.said ||= isDelta;
    const before = this.#added;
    if (isDelta) this.#decodeMessage(delta, choice);
    if (this.#added === before && !isEmptyDelta({ ...delta, content: null })) this.add(BEGUN);
    else if (message && !choice.said) this.#decodeMessage(message, choice);
    const annotation = logprobs?.content?.length ? decodeLogprobs(logprobs.content) : undefined;
    if (annotation) this.#tell({ type: "annotation", annotation }, index);
    if (finish_reason) this.#finish(choice, finish_reason);
  }

  #choice(index: number): DecodedChoice {
    let choice = this.#choices.get(index);
    if (!choice) {
      choice = {
        index,
        finished: false,
        said: false,
        refused: false,
        reasoning: undefined,
        seals: new Set(),
        calls: [],
        byIndex: new Map(),
        byWireId: new Map(),
        newest: undefined,
        isSigned: false,
        places: new TextPlaces(),
      };
      this.#choices.set(index, choice);
    }
    return choice;
  }

  #decodeMessage(message: LooseMessage, choice: DecodedChoice): void {
    const { index } = choice;
    const { content, refusal, audio, images, annotations, tool_calls } = message;
    // Some servers send every field of the schema, and an empty text where they have no value.
    const function_call =
      message.function_call?.name || message.function_call?.arguments ? message.function_call : undefined;
    const thought = reasoningIn(message, choice.seals);
    if (thought) this.#reason(choice, thought);
    let text = "";
    for (const part of typeof content === "string" ? [{ text: content }] : (content ?? [])) {
      if (isOtherPart(part)) {
        this.#tell({ type: "provider", format: FORMAT, value: part }, index);
        continue;
      }
      const thinking = "thinking" in part ? thinkingText(part.thinking) : "";
      if (thinking !== "") this.#reason(choice, { field: "content", text: thinking });
      else text += part.text ?? "";
    }
    const signed = readExtra(message.extra_content);
    if (text || refusal || tool_calls?.length || function_call || audio || images?.length) this.#endReasoning(choice);
    choice.places.add(text);
    if (text !== "" || signed.signature) this.#tell({ type: "text-delta", text, ...signed }, index);
    if (refusal) {
      choice.refused = true;
      this.#tell({ type: "refusal-delta", text: refusal }, index);
    }
    choice.places.add(audio?.transcript ?? "");
    if (audio?.transcript) this.#tell({ type: "text-delta", text: audio.transcript }, index);
    // Citations come behind their text, and before other content: some formats have them only there.
    const sources = annotations ? decodeSources(annotations, choice.places) : undefined;
    if (sources) {
      this.#hasSources = true;
      this.#tell({ type: "annotation", annotation: sources }, index);
    }
    if (audio?.data) this.#tell({ type: "media", mediaType: soundType(audio.data), data: audio.data }, index);
    for (const { image_url } of images ?? []) {
      const inline = splitDataUrl(image_url?.url ?? "");
      if (inline) this.#tell({ type: "media", ...inline }, index);
    }
    for (const call of tool_calls ?? []) this.#decodeCall(choice, this.#findCall(choice, call), call);
    if (function_call) {
      const call = choice.byIndex.get("function_call") ?? this.#addCall(choice, "function_call", {});
      this.#decodeCall(choice, call, { function: function_call });
    }
  }

  #reason(choice: DecodedChoice, piece: ReasoningPiece): void {
    const block = (choice.reasoning ??= new ReasoningBlock());
    const text = block.add(piece);
    this.hold(block.kept);
    if (text !== "") this.#tell({ type: "reasoning-delta", text }, choice.index);
  }

  /** Ends the open block of reasoning with its record. A block without a text is encrypted reasoning. */
  #endReasoning(choice: DecodedChoice): void {
    const { reasoning: block, index } = choice;
    if (!block) return;
    choice.reasoning = undefined;
    const { record, hasText } = block;
    const maker = FORMAT;
    if (hasText) this.#tell({ type: "reasoning-signature", signature: record, maker }, index);
    else this.#tell({ type: "redacted-reasoning", data: record, maker }, index);
  }

  /** Finishes the choices that the server has not finished itself. */
  #finishAll(): void {
    if (this.#choices.size === 0) throw backendFailed("The model backend's answer holds no choice.");
    for (const choice of this.#choices.values()) this.#finish(choice, "stop");
  }

  #finish(choice: DecodedChoice, finishReason: string): void {
    if (choice.finished) return;
    if (FAILED_FINISH.has(finishReason)) throw backendFailed("The model backend gave its answer up.");
    choice.finished = true;
    this.#endReasoning(choice);
    const named = REASON_OF.get(finishReason) ?? "other";
    // The official service ends a refusal as an ordinary answer, and this gateway as a filtered one.
    const reason = choice.refused && (named === "stop" || named === "content-filter") ? "refusal" : named;
    const cutShort = CUT_SHORT.has(reason);
    for (const call of choice.calls) if (!call.ended) this.#endCall(choice, call, cutShort);
    const hasCalls = reason === "stop" && choice.calls.length > 0;
    this.#tell({ type: "finish", reason: hasCalls ? "tool-calls" : reason }, choice.index);
  }

  /** Ends a call when its choice ends. If the answer was cut short, a call with incomplete arguments gets no end event. */
  #endCall(choice: DecodedChoice, call: DecodedCall, cutShort: boolean): void {
    this.#release(choice, call);
    const { index } = choice;
    const { id, name = "", fragments } = call;
    if (call.kind === "custom") {
      this.#tell({ type: "tool-call", id, name, input: { input: fragments.join("") } }, index);
    } else if (call.kind !== "function") {
      this.#tell({ type: "provider", format: FORMAT, value: call.kind }, index);
    } else if (!call.begun) {
      throw backendFailed("The model backend called a tool without a name.");
    } else if (!cutShort || this.#isWhole(call)) {
      this.#tell({ type: "tool-call-end", id, ...call.signed }, index);
    }
    call.ended = true;
  }

  #decodeCall(choice: DecodedChoice, call: DecodedCall, piece: LooseToolCall): void {
    const { index } = choice;
    const { function: named, custom } = piece;
    const signed = readExtra(piece.extra_content);
    if (signed.signature && !call.ended) {
      call.signed = signed;
      choice.isSigned = true;
    }
    call.name ??= (named ?? custom)?.name || undefined;
    const said = named ? named.arguments : custom?.input;
    let fragment = typeof said === "object" && said !== null ? JSON.stringify(said) : (said ?? "");
    if (call.ended) {
      if (fragment.trim() === "") return;
      throw backendFailed("The model backend went on with a tool call that had ended.");
    }
    if (choice.said && call.fragments.length === 0 && call.held === "" && fragment.trim() === "{}") {
      call.held = fragment;
      fragment = "";
    } else if (fragment.trim() !== "") call.held = "";
    if (fragment !== "") call.fragments.push(fragment);
    if (call.kind !== "function" || call.name === undefined) return this.hold(FRAGMENT_CHARS + fragment.length);
    if (call.begun) {
      if (fragment !== "") this.#tell({ type: "tool-call-delta", id: call.id, json: fragment }, index);
      return;
    }
    // End the previous call now if its arguments are complete. Otherwise the events of this call would have to wait for that end.
    const { newest } = choice;
    if (newest && !newest.ended) this.#release(choice, newest);
    const mayBeSigned = this.#signsCalls && !choice.isSigned;
    if (newest && !newest.ended && !mayBeSigned && newest.fragments.length > 0 && this.#isWhole(newest)) {
      newest.ended = true;
      this.#tell({ type: "tool-call-end", id: newest.id, ...newest.signed }, index);
    }
    choice.newest = call;
    call.begun = true;
    this.#tell({ type: "tool-call-start", id: call.id, name: call.name, ...call.signed }, index);
    call.signed = {};
    for (const json of call.fragments) this.#tell({ type: "tool-call-delta", id: call.id, json }, index);
  }

  /** Adds the empty object that was held back: no other arguments have come. */
  #release({ index }: DecodedChoice, call: DecodedCall): void {
    const { id, held: json } = call;
    if (json === "") return;
    call.held = "";
    call.fragments.push(json);
    if (call.begun) this.#tell({ type: "tool-call-delta", id, json }, index);
  }

  /** Tells whether the arguments of a call so far are a complete JSON object. */
  #isWhole({ fragments }: DecodedCall): boolean {
    this.#arguments ??= new AnsweredArguments(this.limits);
    return this.#arguments.find(fragments.join("")) !== undefined;
  }

  #findCall(choice: DecodedChoice, call: LooseToolCall): DecodedCall {
    const { index, id } = call;
    const last = choice.calls.at(-1);
    const byId = id ? choice.byWireId.get(id) : undefined;
    const known = index == null ? (id ? byId : last) : choice.byIndex.get(index);
    if (!known) return this.#addCall(choice, index ?? choice.calls.length, call);
    // Some servers give every call the same index.
    if (byId && byId.index === known.index) return byId;
    return isNextCall(known, call) ? this.#addCall(choice, index ?? choice.calls.length, call) : known;
  }

  #addCall(choice: DecodedChoice, index: number | "function_call", piece: LooseToolCall): DecodedCall {
    const { id } = piece;
    this.hold(FRAGMENT_CHARS + (id?.length ?? 0));
    const call: DecodedCall = {
      index,
      id: this.#uniqueId(id),
      wireId: id || undefined,
      kind: kindOf(piece),
      name: undefined,
      signed: {},
      fragments: [],
      held: "",
      begun: false,
      ended: false,
    };
    choice.calls.push(call);
    choice.byIndex.set(index, call);
    if (call.wireId !== undefined) choice.byWireId.set(call.wireId, call);
    return call;
  }

  /**
   * Returns the server's id for a call or invents an id, and makes it unique. An invented id contains the id of the answer, so that two
   * answers of a conversation never share the id of a call.
   */
  #uniqueId(wireId: string | null | undefined): string {
    const ids = this.#callIds;
    const id = wireId || ["call", ...(this.#id === undefined ? [] : [this.#id]), ++this.#inventedIds].join("_");
    let unique = id;
    if (ids.has(id)) {
      // Continue after the last suffix: otherwise a hostile server could make every new call try all suffixes again.
      let count = Math.max(this.#suffix, ids.size);
      do unique = `${id}_${++count}`;
      while (ids.has(unique));
      this.#suffix = count;
    }
    ids.add(unique);
    return unique;
  }

  #tell(event: ContentEvent | FinishEvent, candidate: number): void {
    this.#added++;
    this.add(candidate === 0 ? event : { ...event, candidate });
  }
}

function kindOf(call: LooseToolCall): DecodedCall["kind"] {
  const { type } = call;
  if (call.custom != null && type !== "function") return "custom";
  return typeof type !== "string" || type === "" || type === "function" || call.function != null ? "function" : call;
}

/**
 * Tells whether a piece under the index of a known call begins another call. A piece without a name never does: some servers change the
 * id within a call.
 */
function isNextCall(known: DecodedCall, { id, function: named, custom }: LooseToolCall): boolean {
  const name = (named ?? custom)?.name;
  if (!name || known.name === undefined) return Boolean(name && id && known.wireId && id !== known.wireId);
  if (id && known.wireId) return id !== known.wireId;
  if (name !== known.name) return true;
  // The same name without an id repeats the head of the call, unless the arguments so far have ended and others begin.
  const next = named?.arguments;
  const begins = typeof next === "object" || (next ?? "").trimStart().startsWith("{");
  return (known.held || known.fragments.at(-1))?.trimEnd().endsWith("}") === true && begins;
}

/** Tells the meter that content has come which the gateway does not read: the caller gets it, so the call is not free. */
const BEGUN: DecodedEvent = { type: "usage", usage: {} };

/** Tells whether a delta says nothing: it has at most a role, and empty texts and lists. */
function isEmptyDelta(delta: LooseMessage): boolean {
  for (const [key, value] of Object.entries(delta))
    if (key !== "role" && value && !(Array.isArray(value) && value.length === 0)) return false;
  return true;
}

/** The first characters in the base64 of each audio type. Any other data is raw PCM with 24,000 samples a second. */
const SOUND_HEADS = [
  ["UklGR", "audio/wav"],
  ["SUQz", "audio/mpeg"],
  ["//", "audio/mpeg"],
  ["T2dn", "audio/ogg"],
  ["ZkxhQ", "audio/flac"],
] as const;

const soundType = (data: string): string =>
  SOUND_HEADS.find(([head]) => data.startsWith(head))?.[1] ?? "audio/pcm;rate=24000";

/** The finish reasons of the format, and those of single providers: Mistral, GLM, Together, and gateways before Anthropic and Gemini. */
const REASON_OF: ReadonlyMap<string, FinishReason> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["tool_calls", "tool-calls"],
  ["function_call", "tool-calls"],
  ["content_filter", "content-filter"],
  ["sensitive", "content-filter"],
  ["refusal", "refusal"],
  ["eos", "stop"],
  ["end_turn", "stop"],
  ["tool_use", "tool-calls"],
  ["max_tokens", "length"],
  ["model_length", "context-window"],
  ["model_context_window_exceeded", "context-window"],
]);

/** The finish reasons of an answer that its server gave up: the answer is a failure, however much of it there is. */
const FAILED_FINISH: ReadonlySet<string> = new Set(["error", "network_error", "insufficient_system_resource"]);

/** Decodes the token counts of an upstream. A count that the upstream left out is absent. */
export function decodeUsage(usage: LooseUsage): Partial<Usage> {
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const { prompt_tokens_details: input, completion_tokens_details: output } = usage;
  const cacheRead = input?.cached_tokens ?? usage.prompt_cache_hit_tokens;
  const reasoning = output?.reasoning_tokens ?? 0;
  // Several upstreams leave reasoning out of `completion_tokens`. The neutral count includes it.
  const leftOut =
    completion_tokens != null &&
    (reasoning > completion_tokens || total_tokens === (prompt_tokens ?? 0) + completion_tokens + reasoning);
  const serverToolUses = toolUsesIn(usage);
  return {
    ...(prompt_tokens != null && { inputTokens: prompt_tokens }),
    ...(completion_tokens != null && { outputTokens: completion_tokens + (leftOut ? reasoning : 0) }),
    ...(cacheRead != null && { cacheReadTokens: cacheRead }),
    ...(input?.cache_write_tokens != null && { cacheWriteTokens: input.cache_write_tokens }),
    ...(output?.reasoning_tokens != null && { reasoningTokens: output.reasoning_tokens }),
    ...openAIDetails(input, output),
    ...(Object.keys(serverToolUses).length > 0 && { serverToolUses }),
  };
}

function decodeSources(
  annotations: NonNullable<LooseMessage["annotations"]>,
  places: TextPlaces,
): Annotation | undefined {
  const citations = annotations.flatMap(({ url_citation }) => decodeSource(url_citation ?? {}, places));
  // The cast is needed because the annotations are those of an upstream.
  const native = { format: FORMAT, values: annotations as readonly WireObject[], hasPlaces: true } as const;
  return citations.length > 0 ? { type: "citations", citations, native } : undefined;
}

/**
 * Decodes an error response of an upstream. The upstream's own message stays in `cause`.
 *
 * @param body Parsed JSON, or a text.
 */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 without a JSON object comes from another kind of server, so it does not mean an unknown model.
  const isOtherServer = status === 404 && !isJsonObject(body);
  return decodeUpstreamError(isOtherServer ? 500 : status, body, retryAfterOf(headers));
}

/**
 * Finds the error in an answer or a chunk that was sent with the status of a success; undefined if there is none. Servers put the error
 * into a field, into a choice or into a list, or send the error as the whole object.
 *
 * @param isNamed True for an event of the name `error`.
 */
function errorIn(answer: unknown, isNamed: boolean): unknown {
  const chunk: unknown = Array.isArray(answer) ? answer[0] : answer;
  if (!isJsonObject(chunk)) return isNamed ? chunk : undefined;
  const { error, choices, object, type, message, code, errors, base_resp: status } = chunk;
  let found = error;
  if (Array.isArray(choices)) for (const choice of choices) found ??= isJsonObject(choice) ? choice["error"] : null;
  if (found != null) return found;
  if (Array.isArray(errors) && errors.length > 0) return errors[0];
  // MiniMax answers with a status of its own; 0 is success.
  if (isJsonObject(status) && status["status_code"]) return { ...status, message: status["status_msg"] ?? "" };
  const isWhole = object === "error" || type === "error" || (choices === undefined && code != null && message != null);
  return isNamed || isWhole ? chunk : undefined;
}
