/**
 * Reasoning and signatures of chat completions, in requests and in answers. Providers show reasoning in different fields, and want it back in
 * the same field. The record of that field travels as the signature of the reasoning, through the caller and back.
 */

import type { Part } from "../../model/chat-request.ts";
import { DEFAULT_JSON_LIMITS, isJsonObject, JsonBudget, JsonLimitError, parseJson } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { bareName } from "../shared/openai.ts";
import { readSignature, type Signed, signatureText, unwrapSeal, wrapSeal } from "../shared/seal.ts";
import { FORMAT } from "./routes.ts";
import type { AssistantContent, AssistantMessage, ExtraContent, ReasoningDetail } from "./schema.ts";
import type { LooseMessage, LooseThinking } from "./schema.upstream.ts";

export const isGemini = (model: string): boolean => bareName(model).includes("gemini");

/** Tells whether a Gemini model refuses a tool call without a signature. The models before Gemini 3 do not. */
export const demandsSignatures = (model: string): boolean => isGemini(model) && !/gemini-[12]\b/.test(bareName(model));

/** Tells whether a model is known to come from another maker than Google. Such a provider may refuse the field for signatures. */
export const isOfOthers = (model: string): boolean =>
  /^(?:gpt|o\d|chatgpt|claude|deepseek|qwen|qwq|glm|kimi|moonshot|minimax|grok|llama|command|(?:mi|ma|mini|code|dev)stral)/.test(
    bareName(model),
  );

/** The treatment of earlier reasoning by a provider: it takes the fields of its own answers, demands them, or refuses them. */
interface History {
  /** True where each turn with tool calls must have `reasoning_content`, at least as an empty text. */
  readonly demands: boolean;
  /** True where a message may have no field for reasoning. */
  readonly refusesFields: boolean;
  /** True where a message may have no part for reasoning in its content. */
  readonly refusesParts: boolean;
}

/** Returns the treatment by the option of the host, or by the models that are known: OpenAI's, Mistral's, DeepSeek's and Kimi's. */
export function historyOf(model: string, { reasoningHistory = "auto" }: CodecOptions): History {
  if (reasoningHistory !== "auto") {
    const refuses = reasoningHistory === "never";
    return { demands: !refuses, refusesFields: refuses, refusesParts: refuses };
  }
  const name = bareName(model);
  const isOpenAI = /^(?:gpt-\d|chatgpt|o[1-9](?:-|$))/.test(name);
  return {
    demands: /deepseek|kimi/.test(name),
    refusesFields: isOpenAI || /(?:mi|ma|mini|code|dev)stral/.test(name),
    refusesParts: isOpenAI,
  };
}

/** The maker of the signatures of tool calls and texts. Only Gemini makes such signatures, and this is the format of Google's own interface. */
const MAKER = "generate-content";

/** The text that Google documents for a tool call whose signature is missing, because another model made the call. */
export const NO_SIGNATURE = "skip_thought_signature_validator";

/** Reads the signature in an extension; an empty object without one, or with an empty one, which a caller may have forged. */
export function readExtra(extra: ExtraContent): { signature?: string; maker?: string } {
  const signed = readSignature(extra?.google?.thought_signature ?? "", MAKER);
  return signed.signature ? signed : {};
}

interface WrittenExtra {
  extra_content?: { google: { thought_signature: string } };
}

/** Writes a signature as the field for it; an empty object without one. A signature of another maker is wrapped. */
export function writeExtra(signed: Signed): WrittenExtra {
  const text = signed.signature ? signatureText(signed, MAKER) : "";
  return text === "" ? {} : { extra_content: { google: { thought_signature: text } } };
}

/** Tells whether a signature may go to a Gemini model: Gemini wrote it, or it names no maker. */
export const isGoogles = ({ signature, maker = MAKER }: Signed): boolean => Boolean(signature) && maker === MAKER;

/** The fields of a message in which providers show reasoning as a text. */
export const PLAIN_FIELDS = ["reasoning_content", "reasoning", "thinking"] as const;
type PlainField = (typeof PLAIN_FIELDS)[number];

/** An item of `reasoning_details`. `chars` stands for its text, which the reasoning itself has. */
type StoredDetail = ReasoningDetail & { readonly chars?: number };

interface ReasoningRecord {
  /** `content`: parts of the type `thinking`, among the texts. */
  readonly field: PlainField | "reasoning_details" | "content";
  /** The field of the text, if it stood beside details without a text. */
  readonly plain: PlainField | undefined;
  readonly details: readonly StoredDetail[];
}

const SUMMARY = "reasoning.summary";

export const detailText = (detail: ReasoningDetail): string =>
  (detail.type === SUMMARY ? detail.summary : detail.text) ?? "";

/** Bounds of the records in one request. A record comes back from the caller, who may have written it. */
const RECORD_LIMITS = { ...DEFAULT_JSON_LIMITS, maxJsonDepth: 20, maxJsonKeys: 100 };
export const recordBudget = (): JsonBudget => new JsonBudget(RECORD_LIMITS);

/** Reads a record; undefined for any other text. */
function readRecord(text: string, budget: JsonBudget): ReasoningRecord | undefined {
  if (!text.startsWith('{"field":')) return undefined;
  try {
    const record = parseJson(text, budget);
    if (!isJsonObject(record)) return undefined;
    const { details = [] } = record;
    const field = ([...PLAIN_FIELDS, "reasoning_details", "content"] as const).find((name) => name === record["field"]);
    if (!field || !Array.isArray(details) || !details.every(isJsonObject)) return undefined;
    const plain = PLAIN_FIELDS.find((name) => name === record["plain"]);
    return { field, plain, details: details as unknown as StoredDetail[] };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonLimitError) return undefined;
    throw error;
  }
}

/** Puts the text of a block back into its details. If the text is not as long as it was, one detail holds all of it. */
export function restored(details: readonly StoredDetail[], text: string): ReasoningDetail[] {
  const total = details.reduce((sum, { chars }) => sum + (typeof chars === "number" ? chars : 0), 0);
  let at = 0;
  return details.flatMap(({ chars, ...detail }): ReasoningDetail[] => {
    if (typeof chars !== "number") return [detail];
    if (total !== text.length && at > 0) return [];
    const end = total === text.length ? at + chars : text.length;
    const piece = text.slice(at, end);
    at = end;
    return [detail.type === SUMMARY ? { ...detail, summary: piece } : { ...detail, text: piece }];
  });
}

/** Tells whether a sealed item is not a repetition of an earlier one. An item without a seal is never one. */
function isFirst(detail: ReasoningDetail, seals: Set<string>): boolean {
  const seal = detail.signature || detail.data;
  if (!seal) return true;
  const before = seals.size;
  return seals.add(`${seal} ${detailText(detail)}`).size > before;
}

export const thinkingText = (thinking: LooseThinking): string =>
  typeof thinking === "string" ? thinking : (thinking ?? []).map(({ text }) => text ?? "").join("");

/** A piece of reasoning in a message or a delta. */
export interface ReasoningPiece {
  /** The field that holds the text; undefined for a piece that consists of details alone. */
  readonly field?: PlainField | "content" | undefined;
  readonly text: string;
  readonly details?: readonly ReasoningDetail[];
}

/**
 * Returns the reasoning of a message outside its content; undefined without any.
 *
 * @param seals The seals of the details so far. A gateway repeats its details at the end of a stream; the repeated ones are left out.
 */
export function reasoningIn(message: LooseMessage, seals: Set<string>): ReasoningPiece | undefined {
  const details = message.reasoning_details?.filter((detail) => isFirst(detail, seals)) ?? [];
  for (const field of PLAIN_FIELDS) {
    const text = message[field];
    if (text) return { field, text, details };
  }
  return details.length > 0 ? { text: "", details } : undefined;
}

/** A block of an upstream's reasoning: what its record must hold. */
export class ReasoningBlock {
  readonly #details: StoredDetail[] = [];
  #field: ReasoningPiece["field"];
  /** The characters that the block has shown, and those of its details. */
  #shown = 0;
  #detailed = 0;
  /** The characters that the block keeps since the last piece. */
  kept = 0;

  /** Adds a piece. Returns its new text: servers show a text in a field and in the details, at once or one after the other. */
  add({ field, text, details = [] }: ReasoningPiece): string {
    this.#field ??= field;
    const detailed = details.map(detailText).join("");
    const ahead = Math.max(0, this.#shown - this.#detailed);
    const added = detailed === "" ? text : detailed.slice(ahead);
    this.#shown += added.length;
    this.#detailed += detailed.length;
    this.kept = 0;
    for (const detail of details) this.#keep(detail);
    return added;
  }

  #keep(detail: ReasoningDetail): void {
    const { text: _text, summary: _summary, ...stored } = detail;
    const last = this.#details.at(-1);
    const chars = detailText(detail).length;
    const { signature, index } = detail;
    // A stream sends a text in pieces of the same type and index. The signature comes with the last one.
    if (
      last?.chars !== undefined &&
      !last.signature &&
      last.type === detail.type &&
      index != null &&
      last.index === index
    ) {
      this.#details[this.#details.length - 1] = { ...last, ...(signature && { signature }), chars: last.chars + chars };
      this.kept += signature?.length ?? 0;
    } else {
      this.#details.push(isText(detail) ? { ...stored, chars } : stored);
      this.kept += JSON.stringify(stored).length;
    }
  }

  get hasText(): boolean {
    return this.#shown > 0;
  }

  get record(): string {
    const field = this.#field ?? "reasoning_content";
    if (this.#details.length === 0) return JSON.stringify({ field });
    // Without a text in the details, the text goes back in the field beside them.
    const plain = this.#detailed === 0 && this.#shown > 0 ? { plain: field } : {};
    return JSON.stringify({ field: "reasoning_details", ...plain, details: this.#details });
  }
}

const isText = ({ type }: { readonly type?: unknown }): boolean => type === "reasoning.text" || type === SUMMARY;

/** The seals of one choice's reasoning, as `reasoning_details` for a caller who returns them unchanged. */
export class DetailsWriter {
  readonly #details: ReasoningDetail[] = [];
  readonly #budget: JsonBudget = recordBudget();
  /** The text of the block that has not ended. */
  #text: string[] = [];
  #block: string | undefined;
  #isSealed = false;
  /** The number of details that have been taken, and of the lists in which they were. */
  #taken = 0;
  #lists = 0;

  addText(text: string, block: string | undefined): void {
    if (block !== this.#block) this.#endBlock({});
    this.#block = block;
    this.#text.push(text);
  }

  sign(signed: Signed): void {
    this.#isSealed = true;
    this.#endBlock(signed);
  }

  redact(data: string, maker: string | undefined): void {
    this.#endBlock({});
    this.#isSealed = true;
    const isOwn = maker === undefined || maker === FORMAT;
    const record = isOwn ? readRecord(data, this.#budget) : undefined;
    if (record) return this.#addAll(restored(record.details, ""));
    const value = isOwn ? data : wrapSeal({ maker, value: data, kind: "redacted" });
    this.#addAll([{ type: "reasoning.encrypted", data: value }]);
  }

  /** Returns the details since the last time; none as long as nothing is sealed, because then the text alone says everything. */
  take(): ReasoningDetail[] {
    if (!this.#isSealed) return [];
    this.#endBlock({});
    const details = this.#details.slice(this.#taken);
    this.#taken = this.#details.length;
    if (details.length > 0) this.#lists++;
    return details;
  }

  /** Returns the last list: all details once more if they were in several lists, because the official client keeps only the last list. */
  takeLast(): ReasoningDetail[] {
    const details = this.take();
    return this.#lists > 1 ? this.#details : details;
  }

  #endBlock(signed: Signed): void {
    const text = this.#text.join("");
    this.#text = [];
    const record = signed.maker === FORMAT ? readRecord(signed.signature ?? "", this.#budget) : undefined;
    if (record) return this.#addAll(restored(record.details, text));
    const signature = signed.signature === undefined && signed.maker === undefined ? "" : signatureText(signed, FORMAT);
    if (text === "" && signature === "") return;
    this.#addAll([{ type: "reasoning.text", text, ...(signature !== "" && { signature }) }]);
  }

  /** Adds details. They have no index: clients that join items of one index would join a repeated item with itself. */
  #addAll(details: readonly ReasoningDetail[]): void {
    for (const detail of details) this.#details.push(detail);
  }
}

/**
 * Decodes the reasoning outside the content. The details hold the whole reasoning with its seals. The text beside them is left out: it
 * repeats theirs, and the official client keeps only the last piece of a stream.
 */
export function decodeReasoning({ reasoning_details, reasoning_content, reasoning }: AssistantMessage): Part[] {
  const seals = new Set<string>();
  const parts = (reasoning_details ?? []).flatMap((detail): Part[] => {
    // A client that joins all lists of a stream returns an item twice.
    if (!isFirst(detail, seals)) return [];
    const text = detailText(detail);
    if (detail.data) {
      const { value: data, maker } = sealIn(detail) ?? { value: detail.data, maker: FORMAT };
      return data === "" ? [] : [{ type: "redacted-reasoning", data, maker }];
    }
    const signed = readSignature(detail.signature ?? "", FORMAT);
    return text === "" && !signed.signature ? [] : [{ type: "reasoning", text, maker: FORMAT, ...signed }];
  });
  const plain = reasoning_content || reasoning;
  // A provider of this format may have made a text without a seal, so no other provider gets it as its own.
  return parts.length === 0 && plain ? [{ type: "reasoning", text: plain, maker: FORMAT }] : parts;
}

/** The reasoning of one assistant turn, in the fields in which an upstream gets it back. */
export class ReturnedReasoning {
  readonly #fields: { reasoning_content?: string; reasoning?: string; thinking?: string } = {};
  readonly #details: ReasoningDetail[] = [];

  /**
   * Adds a block of this format's own reasoning. Returns a part for the content, for upstreams that show reasoning there.
   *
   * @param seal The signature of reasoning, or the data of encrypted reasoning.
   */
  add(text: string, seal: string, isRedacted: boolean, budget: JsonBudget): AssistantContent | undefined {
    const record = readRecord(seal, budget);
    if (record?.field === "content") return { type: "thinking", thinking: [{ type: "text", text }] };
    if (record?.field === "reasoning_details") {
      for (const detail of restored(record.details, text)) this.#details.push(detail);
      if (record.plain) this.addText(text, record.plain);
    } else if (record) this.addText(text, record.field);
    else if (isRedacted) this.#details.push({ type: "reasoning.encrypted", data: seal });
    else if (seal !== "") this.#details.push({ type: "reasoning.text", text, signature: seal });
    else this.addText(text);
    return undefined;
  }

  addText(text: string, field: "reasoning_content" | "reasoning" | "thinking" = "reasoning_content"): void {
    this.#fields[field] = (this.#fields[field] ?? "") + text;
  }

  get message(): Partial<Record<"reasoning_content" | "reasoning" | "thinking", string>> & {
    reasoning_details?: ReasoningDetail[];
  } {
    return { ...this.#fields, ...(this.#details.length > 0 && { reasoning_details: this.#details }) };
  }
}

/** Returns the seal in an item of `reasoning_details`; undefined if the item has none that is wrapped. */
export const sealIn = ({ signature, data }: ReasoningDetail): ReturnType<typeof unwrapSeal> =>
  unwrapSeal(signature ?? "") ?? unwrapSeal(data ?? "");

/** Puts the seal of this format's own reasoning back into an item. Leaves out an empty seal, and an item of which nothing is left. */
export function unsealed(detail: ReasoningDetail, value: string, budget: JsonBudget): ReasoningDetail[] {
  if (value === "") return withoutEmptySeal({ ...detail, ...(detail.data == null ? { signature: "" } : { data: "" }) });
  const record = readRecord(value, budget);
  if (record) return restored(record.details, detailText(detail));
  return [{ ...detail, [detail.data == null ? "signature" : "data"]: value }];
}

/** Tells whether an item has an empty signature, or empty encrypted reasoning. */
export const hasEmptySeal = ({ signature, data }: ReasoningDetail): boolean => signature === "" || data === "";

/** Returns an item without its empty seal; none if nothing is left of it. */
export function withoutEmptySeal(detail: ReasoningDetail): ReasoningDetail[] {
  if (!hasEmptySeal(detail)) return [detail];
  const { signature, data, ...others } = detail;
  if (!signature && !data && detailText(detail) === "") return [];
  return [{ ...others, ...(signature && { signature }), ...(data && { data }) }];
}
