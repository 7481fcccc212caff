/** Decodes an answer in the AI SDK's provider interface: the parts of a stream, or the content of a complete answer. Trusts no value. */

import { backendFailed } from "../../errors.ts";
import {
  answeredTier,
  googleDetails,
  googleTier,
  GroundingUses,
  openAIDetails,
  ToolUses,
  toolUsesIn,
} from "../../formats/shared/usage.decode.ts";
import { toBase64 } from "../../media/base64.ts";
import type { ChatEvent, Citation, FinishReason } from "../../model/chat-event.ts";
import { given, isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import { TextPlaces } from "../../model/text-places.ts";
import { type Usage, type UsageDetails, withParts } from "../../model/usage.ts";
import type { MessageRules } from "../messages.ts";
import type { Traits } from "./conversions.ts";
import { decodeError } from "./model-call.ts";
import type { ProviderOptions } from "./options.ts";
import { mergedMetadata, metadataOf, redactedOf, type Signer, signatureOf } from "./seals.ts";

/** A part as the provider sent it. */
type WirePart = Readonly<Record<string, unknown>>;

/** A text, a reasoning or a tool call that has begun and not ended. */
interface Block {
  readonly kind: "text" | "reasoning" | "call";
  metadata: ProviderOptions;
  /** True once the provider has sent content of the block. */
  hasContent: boolean;
  /** True when a call has a signature since its start. */
  readonly isSigned: boolean;
  /** The position of a text in the whole text of the answer, in characters. */
  readonly textStart: number;
}

/** A run of a tool that the provider runs itself. */
interface ToolRun {
  readonly name: string;
  /** The container in which OpenAI runs code: it is charged once. */
  readonly container: string | undefined;
  isDone: boolean;
}

/** The most runs of tools in one answer that are counted. The meter believes fewer. */
const MAX_RUNS = 2_000;

export class ModelAnswerDecoder {
  isFinished = false;
  readonly #traits: Pick<Traits, "signer" | "takesUnsigned">;
  readonly #model: string | undefined;
  readonly #rules: MessageRules;
  readonly #blocks: Map<string, Block> = new Map();
  /** The ids of tool calls that are sent in one piece, because their arguments are not JSON or the provider runs the tool itself. */
  readonly #whole: Set<string> = new Set();
  readonly #called: Set<string> = new Set();
  readonly #sources: Source[] = [];
  /** The addresses that a text cites. Providers name them as sources, too. */
  readonly #cited: Set<string> = new Set();
  readonly #places: TextPlaces = new TextPlaces();
  readonly #uses: ToolUses = new ToolUses();
  /** The runs by the ids of their calls. */
  readonly #runs: Map<string, ToolRun> = new Map();
  readonly #tier: string | undefined;
  #started = false;

  /**
   * @param model The callers' name of the model; undefined shows the provider's name.
   * @param rules The rules for the provider's error messages.
   * @param tier The service tier that the host asks for. Most providers tell the tier only at the end of an answer, or never.
   */
  constructor(
    traits: Pick<Traits, "signer" | "takesUnsigned">,
    model: string | undefined,
    rules: MessageRules,
    tier?: string,
  ) {
    this.#traits = traits;
    this.#model = model;
    this.#rules = rules;
    this.#tier = tier;
  }

  /** Decodes one part of a stream. Throws the error that the part reports, or `backend_failed` for a wrong part. */
  part(part: WirePart): ChatEvent[] {
    if (part["type"] === "response-metadata") return this.#start(part["modelId"]);
    const events = this.#content(part);
    return this.#started || events.length === 0 ? events : [...this.#start(undefined), ...events];
  }

  answer(answer: WirePart): ChatEvent[] {
    const { content, response } = answer;
    if (!Array.isArray(content)) throw backendFailed("The model backend's answer has no content.");
    const events = this.#start(isJsonObject(response) ? response["modelId"] : undefined);
    for (const [index, item] of content.entries()) {
      if (!isJsonObject(item)) throw backendFailed("The model backend's answer has content of no kind.");
      const { type, providerMetadata } = item;
      if (type === "text" || type === "reasoning") {
        const id = String(index);
        events.push(...this.part({ type: `${type}-delta`, id, delta: item["text"] }));
        events.push(...this.part({ type: `${type}-end`, id, providerMetadata, citations: item["citations"] }));
      } else events.push(...this.part(item));
    }
    events.push(...this.#finish(answer));
    return events;
  }

  /** Makes the start event, without the provider's id of the answer: no caller's format has a use for this id. */
  #start(modelId: unknown): ChatEvent[] {
    if (this.#started) return [];
    this.#started = true;
    const model = this.#model ?? modelId;
    const { maker } = this.#traits.signer;
    const tier = this.#tier === undefined ? {} : { usage: { serviceTier: this.#tier } };
    return [{ type: "start", maker, ...(typeof model === "string" && { model }), ...tier }];
  }

  #content(part: WirePart): ChatEvent[] {
    switch (part["type"]) {
      case "text-start":
      case "reasoning-start":
        this.#begin(keyOf(part), part["type"] === "text-start" ? "text" : "reasoning", part);
        return [];
      case "text-delta":
      case "reasoning-delta":
        return this.#delta(part, part["type"]);
      case "text-end":
      case "reasoning-end":
        return this.#end(keyOf(part), metadataOf(part["providerMetadata"]), part["citations"]);
      case "tool-input-start":
        return this.#beginCall(part);
      case "tool-input-delta":
        return this.#callDelta(part);
      case "tool-call":
        return this.#call(part);
      case "file":
      case "reasoning-file":
        return [mediaOf(part, this.#traits.signer)];
      case "source":
        this.#sources.push(...sourceOf(part));
        return [];
      case "tool-result":
        return [providerBlock(part), ...this.#ran(part)];
      case "tool-approval-request":
      case "custom":
        return [providerBlock(part)];
      case "finish":
        return this.#finish(part);
      case "error":
        throw decodeError(part["error"], this.#rules);
      // Other parts, such as pings, raw chunks and the end of a call's input, add nothing.
      default:
        return [];
    }
  }

  #begin(key: string, kind: Block["kind"], part: WirePart, isSigned = false): Block {
    const metadata = metadataOf(part["providerMetadata"]);
    const block = { kind, metadata, hasContent: false, isSigned, textStart: this.#places.chars };
    this.#blocks.set(key, block);
    return block;
  }

  #delta(part: WirePart, type: "text-delta" | "reasoning-delta"): ChatEvent[] {
    const [delta, key] = [text(part, "delta"), keyOf(part)];
    const block = this.#blocks.get(key) ?? this.#begin(key, type === "text-delta" ? "text" : "reasoning", part);
    block.metadata = mergedMetadata(block.metadata, metadataOf(part["providerMetadata"]));
    if (delta === "") return [];
    block.hasContent = true;
    if (type === "text-delta") this.#places.add(delta);
    return [{ type, text: delta, block: key }];
  }

  /** Ends a text or a reasoning. The provider's metadata become the block's signature. */
  #end(key: string, last: ProviderOptions, citations?: unknown): ChatEvent[] {
    const block = this.#blocks.get(key);
    if (!block) return [];
    this.#blocks.delete(key);
    const cited =
      Array.isArray(citations) && block.kind === "text" ? this.#citationsIn(citations, block.textStart) : [];
    const ended = this.#endBlock(key, block, last);
    return cited.length === 0
      ? ended
      : [...ended, { type: "annotation", annotation: { type: "citations", citations: cited } }];
  }

  /** Decodes the citations of a text. A citation without a place is of the whole text. */
  #citationsIn(citations: readonly unknown[], textStart: number): Citation[] {
    return citations.flatMap((citation): Citation[] => {
      if (!isJsonObject(citation) || !isJsonObject(citation["source"])) return [];
      const { source, startIndex, endIndex, citedText: quote } = citation;
      const [start, end] =
        typeof startIndex === "number" && typeof endIndex === "number"
          ? [textStart + startIndex, textStart + endIndex]
          : [textStart, this.#places.chars];
      return sourceOf(source).map((named) => {
        this.#cited.add(named.uri);
        return { ...named, ...this.#places.bytesOf({ start, end }), ...(typeof quote === "string" && { quote }) };
      });
    });
  }

  #endBlock(key: string, block: Block, last: ProviderOptions): ChatEvent[] {
    const metadata = mergedMetadata(block.metadata, last);
    const { signer, takesUnsigned } = this.#traits;
    const signed = signatureOf(metadata, signer);
    if (block.kind === "text") return signed ? [{ type: "text-delta", text: "", block: key, ...signed }] : [];
    const redacted = block.hasContent ? undefined : redactedOf(metadata, signer);
    if (redacted) return [{ type: "redacted-reasoning", ...redacted }];
    if (signed) return [{ type: "reasoning-signature", ...signed }];
    // Name the maker of reasoning that is not signed, so that only this maker gets it back.
    const isNamed = block.hasContent && takesUnsigned && signer.field === undefined;
    return isNamed ? [{ type: "reasoning-signature", signature: "", maker: signer.maker }] : [];
  }

  #beginCall(part: WirePart): ChatEvent[] {
    const [id, name] = [text(part, "id"), text(part, "toolName")];
    if (part["providerExecuted"] === true || part["inputEncoding"] === "text") {
      this.#whole.add(id);
      return [];
    }
    const signed = signatureOf(metadataOf(part["providerMetadata"]), this.#traits.signer);
    this.#begin(callKey(id), "call", part, signed !== undefined);
    this.#called.add(id);
    return [{ type: "tool-call-start", id, name, ...signed }];
  }

  #callDelta(part: WirePart): ChatEvent[] {
    const [id, json] = [text(part, "id"), text(part, "delta")];
    if (this.#whole.has(id)) return [];
    const block = this.#blocks.get(callKey(id));
    if (!block) throw backendFailed("The model backend went on with a tool call that was not open.");
    if (json === "") return [];
    block.hasContent = true;
    return [{ type: "tool-call-delta", id, json }];
  }

  #call(part: WirePart): ChatEvent[] {
    const [id, name, json] = [text(part, "toolCallId"), text(part, "toolName"), text(part, "input")];
    if (part["providerExecuted"] === true) {
      if (!this.#runs.has(id) && this.#runs.size < MAX_RUNS)
        this.#runs.set(id, {
          name,
          container: name === "code_interpreter" ? containerIn(json) : undefined,
          isDone: false,
        });
      return [providerBlock(part)];
    }
    const block = this.#blocks.get(callKey(id));
    const events: ChatEvent[] = block?.hasContent || json === "" ? [] : [{ type: "tool-call-delta", id, json }];
    const metadata = mergedMetadata(block?.metadata ?? {}, metadataOf(part["providerMetadata"]));
    const signed = signatureOf(metadata, this.#traits.signer);
    if (block) {
      this.#blocks.delete(callKey(id));
      return [...events, { type: "tool-call-end", id, ...(!block.isSigned && signed) }];
    }
    if (this.#called.has(id)) throw backendFailed("The model backend told the same tool call twice.");
    this.#called.add(id);
    return [{ type: "tool-call-start", id, name, ...signed }, ...events, { type: "tool-call-end", id }];
  }

  /** Ends the run of a tool that has its result. A run is counted as soon as it has ended, unless it has failed. */
  #ran({ toolCallId, result, isError, preliminary }: WirePart): ChatEvent[] {
    const run = typeof toolCallId === "string" && preliminary !== true ? this.#runs.get(toolCallId) : undefined;
    if (!run || run.isDone) return [];
    if (isError === true || opensPage(result)) run.isDone = true;
    else this.#count(run);
    const usage = this.#uses.report();
    return usage ? [{ type: "usage", usage }] : [];
  }

  #count(run: ToolRun): void {
    const { name, container } = run;
    run.isDone = true;
    // The searches of Google's models stand in the metadata of the answer.
    if (!name.startsWith("server:")) this.#uses.add(TOOL_NAMES.get(name) ?? name, container);
  }

  #finish({ finishReason, usage, providerMetadata }: WirePart): ChatEvent[] {
    if (this.isFinished) return [];
    this.isFinished = true;
    const reason = decodeFinish(finishReason);
    if (reason === undefined) throw backendFailed("The model backend's answer ended by an error.");
    const events: ChatEvent[] = [];
    for (const [key, { kind }] of this.#blocks) if (kind !== "call") events.push(...this.#end(key, {}));
    const others = this.#sources.filter(({ uri }) => !this.#cited.has(uri));
    // The sources of an answer replace each other, and citations add up.
    if (others.length > 0 && this.#cited.size > 0)
      events.push({ type: "annotation", annotation: { type: "citations", citations: others } });
    else if (others.length > 0) events.push({ type: "annotation", annotation: { type: "grounding", chunks: others } });
    const stopSequence = stopSequenceIn(providerMetadata);
    const counts = decodeUsage(usage, providerMetadata);
    // Not every run has a result in the same answer.
    for (const run of this.#runs.values()) if (!run.isDone) this.#count(run);
    this.#learn(counts.serverToolUses, usage, providerMetadata);
    events.push({
      type: "finish",
      reason: reason === "stop-sequence" && stopSequence === undefined ? "stop" : reason,
      usage: { ...counts, ...this.#uses.report() },
      ...(stopSequence !== undefined && { stopSequence }),
    });
    return events;
  }

  /** Takes the provider's own counts of its tools, and the searches in the metadata of Google's models. */
  #learn(counts: Usage["serverToolUses"], usage: unknown, metadata: unknown): void {
    const searches = new GroundingUses(this.#uses);
    searches.learn(rawIn(usage, metadata)["billedToolCalls"]);
    for (const own of Object.values(metadataOf(metadata))) {
      const { groundingMetadata, groundingMetadataPerRequest: others } = own;
      for (const grounding of [groundingMetadata, ...(Array.isArray(others) ? others : [])])
        if (isJsonObject(grounding)) searches.add(grounding);
    }
    if (counts) this.#uses.learn(counts);
  }
}

/** The names of tools among those of all vendors. */
const TOOL_NAMES: ReadonlyMap<string, string> = new Map([["web_search_preview", "web_search"]]);

/** Returns the container in the input of a tool that runs code. */
function containerIn(json: string): string | undefined {
  let input: unknown;
  try {
    input = parseJson(json);
  } catch {
    return undefined;
  }
  const container = isJsonObject(input) ? input["containerId"] : undefined;
  return typeof container === "string" ? container : undefined;
}

/** Tells whether a search on the web has only opened a page, or looked for a text in one: OpenAI does not charge that. */
function opensPage(result: unknown): boolean {
  const action = isJsonObject(result) ? result["action"] : undefined;
  return isJsonObject(action) && (action["type"] === "openPage" || action["type"] === "findInPage");
}

type Source = Citation & { readonly uri: string };

/** Decodes a source on the web; an empty list for any other source. */
const sourceOf = ({ sourceType, url, title }: WirePart): Source[] =>
  sourceType === "url" && typeof url === "string" ? [{ uri: url, ...(typeof title === "string" && { title }) }] : [];

/** Texts, reasoning and calls have separate ids, which may be equal. The prefix makes each key unique. */
const keyOf = (part: WirePart): string => `${String(part["type"]).startsWith("text") ? "t" : "r"}:${text(part, "id")}`;
const callKey = (id: string): string => `c:${id}`;

/** Returns a text of a part. Throws `backend_failed` for any other value. */
function text(part: WirePart, field: string): string {
  const value = part[field];
  if (typeof value === "string") return value;
  const cause = new TypeError(`${String(part["type"])}.${field}`);
  throw backendFailed("The model backend's answer has a part that is none.", cause);
}

/** Decodes a file that the model made. Does not fetch a file that is given by its address. */
function mediaOf(part: WirePart, signer: Signer): ChatEvent {
  const { data: value, type } = part;
  const data = isJsonObject(value) && "data" in value ? (value as WirePart)["data"] : value;
  const base64 = data instanceof Uint8Array ? toBase64(data) : data;
  if (typeof base64 !== "string") return providerBlock({ type, mediaType: part["mediaType"] });
  return {
    type: "media",
    mediaType: text(part, "mediaType"),
    data: base64,
    ...(type === "reasoning-file" && { thought: true }),
    ...signatureOf(metadataOf(part["providerMetadata"]), signer),
  };
}

/** Makes an event of a part that no wire format can express. */
const providerBlock = (value: WirePart): ChatEvent => ({ type: "provider", format: "ai-sdk", value });

/** The finish reasons of the providers' own APIs that are more exact than the reasons of the interface. */
const RAW: Readonly<Record<string, FinishReason>> = {
  pause_turn: "pause",
  refusal: "refusal",
  model_context_window_exceeded: "context-window",
  stop_sequence: "stop-sequence",
  RECITATION: "recitation",
  LANGUAGE: "language",
  BLOCKLIST: "blocklist",
  PROHIBITED_CONTENT: "prohibited-content",
  SPII: "personal-data",
  IMAGE_SAFETY: "unsafe-image",
  MALFORMED_FUNCTION_CALL: "malformed-tool-call",
};

const UNIFIED: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content-filter",
  "tool-calls": "tool-calls",
  other: "other",
  unknown: "other",
};

/** Returns the reason for the end of an answer; undefined for an error or an unknown reason. */
function decodeFinish(finishReason: unknown): FinishReason | undefined {
  const { unified, raw } = isJsonObject(finishReason) ? finishReason : { unified: finishReason, raw: undefined };
  if (typeof raw === "string" && Object.hasOwn(RAW, raw)) return RAW[raw];
  return typeof unified === "string" && Object.hasOwn(UNIFIED, unified) ? UNIFIED[unified] : undefined;
}

function stopSequenceIn(metadata: unknown): string | undefined {
  for (const own of isJsonObject(metadata) ? Object.values(metadata) : [])
    if (isJsonObject(own) && typeof own["stopSequence"] === "string") return own["stopSequence"];
  return undefined;
}

/**
 * Decodes the token counts of versions 2 to 4. The meter checks whether the counts are plausible.
 *
 * @param metadata The provider's metadata of the answer. In version 2, the counts in the provider's own format stand there.
 */
export function decodeUsage(usage: unknown, metadata?: unknown): Partial<Usage> {
  const notes = Object.values(metadataOf(metadata));
  const tier = googleTier(...notes.map(({ serviceTier }) => serviceTier));
  const named = tier === undefined ? {} : { serviceTier: tier };
  if (!isJsonObject(usage)) return named;
  const { inputTokens: input, outputTokens: output } = usage;
  const known = countsOf({
    inputTokens: isJsonObject(input) ? input["total"] : input,
    outputTokens: isJsonObject(output) ? output["total"] : output,
    cacheReadTokens: isJsonObject(input) ? input["cacheRead"] : usage["cachedInputTokens"],
    cacheWriteTokens: isJsonObject(input) ? input["cacheWrite"] : undefined,
    reasoningTokens: isJsonObject(output) ? output["reasoning"] : usage["reasoningTokens"],
  });
  // In version 2, each provider decides whether a total includes its parts.
  return { ...(isJsonObject(input) ? known : withParts(known)), ...named, ...rawUsage(rawIn(usage, metadata)) };
}

/** Returns the usage in the provider's own format; an empty object without it. */
function rawIn(usage: unknown, metadata: unknown): JsonObject {
  const own = Object.values(metadataOf(metadata)).flatMap((notes) => [notes["usage"], notes["usageMetadata"]]);
  return [isJsonObject(usage) ? usage["raw"] : undefined, ...own].find(isJsonObject) ?? {};
}

/** Decodes the counts that only some providers report, from fields in the provider's own format. */
function rawUsage(raw: JsonObject): Partial<Usage> {
  const byTtl = countsOf(raw["cache_creation"], /^ephemeral_(.+)_input_tokens$/);
  const byTool = toolUsesIn(raw);
  const { service_tier: tier, serviceTier, trafficType } = raw;
  return given({
    cacheWritesByTtl: Object.keys(byTtl).length > 0 ? byTtl : undefined,
    serverToolUses: Object.keys(byTool).length > 0 ? byTool : undefined,
    serviceTier: typeof tier === "string" ? answeredTier(tier) : googleTier(serviceTier, trafficType),
    details: rawDetails(raw),
  });
}

/** Returns the counts by kind of content, as Google's and OpenAI's formats have them; undefined without any. */
function rawDetails(raw: JsonObject): UsageDetails | undefined {
  const { promptTokensDetails, candidatesTokensDetails, cacheTokensDetails, toolUsePromptTokensDetails } = raw;
  const details = given({
    input: googleDetails(promptTokensDetails),
    output: googleDetails(candidatesTokensDetails),
    cacheRead: googleDetails(cacheTokensDetails),
    toolUse: googleDetails(toolUsePromptTokensDetails),
  });
  if (Object.keys(details).length > 0) return details;
  const [input, output] = ["prompt", "completion"].map((part) => raw[`${part}_tokens_details`]);
  return openAIDetails(isJsonObject(input) ? input : undefined, isJsonObject(output) ? output : undefined).details;
}

/**
 * Returns the counts of an object, named by the first group of `name`. A value that is not a number becomes NaN, which the meter
 * rejects.
 */
function countsOf(counts: unknown, name: RegExp = /(.+)/): Record<string, number> {
  const known: Record<string, number> = {};
  for (const [key, count] of typeof counts === "object" && counts ? Object.entries(counts) : []) {
    const short = name.exec(key)?.[1];
    if (short !== undefined && count != null) known[short] = typeof count === "number" ? count : Number.NaN;
  }
  return known;
}
