/**
 * Reasoning on the wire. Providers show it in different fields, and want it back in the same field. A record of that field travels as the
 * signature of the reasoning, through the caller and back.
 */

import type { Part } from "../../kinds/chat/request.ts";
import { isJsonObject, JsonBudget, DEFAULT_JSON_LIMITS, JsonLimitError, parseJson } from "../../model/json.ts";
import { readSignature, type Signed, signatureText, unwrapSeal, wrapSeal } from "../shared/seal.ts";
import { type AssistantContent, type AssistantMessage, FORMAT, type ReasoningDetail } from "./schema.ts";
import type { LooseMessage, LooseThinking } from "./schema.upstream.ts";

/** The fields of a message in which providers show reasoning. `content`: parts of the type `thinking`, among the texts. */
const FIELDS = ["reasoning_content", "reasoning", "thinking", "reasoning_details", "content"] as const;
type ReasoningField = (typeof FIELDS)[number];

/** An item of `reasoning_details`. `chars` stands for its text, which the reasoning itself has. */
type StoredDetail = ReasoningDetail & { readonly chars?: number };

interface ReasoningRecord {
  readonly field: ReasoningField;
  readonly details: readonly StoredDetail[];
}

const SUMMARY = "reasoning.summary";

export const detailText = (detail: ReasoningDetail): string =>
  (detail.type === SUMMARY ? detail.summary : detail.text) ?? "";

/** A piece of reasoning in a message or a delta. */
export interface ReasoningPiece {
  readonly field: ReasoningField;
  readonly text: string;
  readonly details?: readonly ReasoningDetail[];
}

/** Returns the reasoning of a message outside its content; undefined without any. Some servers repeat its text in a second field. */
export function reasoningIn(message: LooseMessage): ReasoningPiece | undefined {
  const details = message.reasoning_details ?? [];
  const field = FIELDS.find((name) => name !== "content" && name !== "reasoning_details" && message[name]);
  const plain = field === undefined ? "" : (message[field as "reasoning"] ?? "");
  if (details.length > 0)
    return { field: "reasoning_details", text: details.map(detailText).join("") || plain, details: details };
  return field === undefined ? undefined : { field, text: plain };
}

/** Returns the text of a part of the type `thinking`. */
export const thinkingText = (thinking: LooseThinking): string =>
  typeof thinking === "string" ? thinking : (thinking ?? []).map(({ text }) => text ?? "").join("");

/** One block of an upstream's reasoning: what its record must hold. */
export class ReasoningBlock {
  readonly #details: StoredDetail[] = [];
  #field: ReasoningField | undefined;
  /** True once the block has shown a text. */
  hasText = false;

  /** Adds a piece. Returns the number of characters that the block must keep. */
  add({ field, text, details = [] }: ReasoningPiece): number {
    // Details hold more than the other fields, so they win.
    if (this.#field === undefined || field === "reasoning_details") this.#field = field;
    if (text !== "") this.hasText = true;
    let kept = 0;
    for (const detail of details) kept += this.#keep(detail);
    return kept;
  }

  #keep(detail: ReasoningDetail): number {
    const { text: _text, summary: _summary, ...stored } = detail;
    const last = this.#details.at(-1);
    const chars = detailText(detail).length;
    // A stream sends a text in pieces of the same type and index. The signature comes with one of them.
    if (last?.chars !== undefined && last.type === detail.type && last.index === detail.index) {
      const { signature } = detail;
      this.#details[this.#details.length - 1] = { ...last, ...(signature && { signature }), chars: last.chars + chars };
      return signature?.length ?? 0;
    }
    this.#details.push(isText(detail) ? { ...stored, chars } : stored);
    return JSON.stringify(stored).length;
  }

  /** Returns the record as a text. */
  get record(): string {
    const details = this.#details.length > 0 ? { details: this.#details } : {};
    return JSON.stringify({ field: this.#field ?? "reasoning_content", ...details });
  }
}

const isText = ({ type }: { readonly type?: unknown }): boolean => type === "reasoning.text" || type === SUMMARY;

/**
 * Decodes the reasoning outside the content. The details hold the whole reasoning with its seals. The text beside them is left out: it
 * repeats theirs, and the official client keeps only the last piece of a stream.
 */
export function decodeReasoning({ reasoning_details, reasoning_content, reasoning }: AssistantMessage): Part[] {
  const parts = (reasoning_details ?? []).flatMap((detail): Part[] => {
    const text = detailText(detail);
    if (detail.data) {
      const seal = sealIn(detail);
      return [{ type: "redacted-reasoning", data: seal?.value ?? detail.data, maker: seal?.maker ?? FORMAT }];
    }
    const signed = readSignature(detail.signature ?? "", FORMAT);
    return text === "" && signed.signature === undefined ? [] : [{ type: "reasoning", text, ...signed }];
  });
  const plain = reasoning_content || reasoning;
  return parts.length === 0 && plain ? [{ type: "reasoning", text: plain }] : parts;
}

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
    const field = FIELDS.find((name) => name === record["field"]);
    if (!field || !Array.isArray(details) || !details.every(isJsonObject)) return undefined;
    return { field, details: details as unknown as StoredDetail[] };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonLimitError) return undefined;
    throw error;
  }
}

/** Puts the text of a block back into its details. If the text is not as long as it was, one detail holds all of it. */
function restored(details: readonly StoredDetail[], text: string): ReasoningDetail[] {
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
    if (record?.field === "reasoning_details") this.#details.push(...restored(record.details, text));
    else if (record) this.addText(text, record.field);
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

/** The seals of one choice's reasoning, as `reasoning_details` for a caller who returns them unchanged. */
export class DetailsWriter {
  #details: ReasoningDetail[] = [];
  readonly #budget: JsonBudget = recordBudget();
  /** The text of the block that has not ended. */
  #text: string[] = [];
  #block: string | undefined;
  #count = 0;
  #isSealed = false;

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
    this.#addAll([{ type: "reasoning.encrypted", data: value, index: this.#count }]);
  }

  /** Returns the details since the last time; none if nothing is sealed, because then the text alone says everything. */
  take(): ReasoningDetail[] {
    if (!this.#isSealed) return [];
    this.#endBlock({});
    const details = this.#details;
    this.#details = [];
    return details;
  }

  #endBlock(signed: Signed): void {
    const text = this.#text.join("");
    this.#text = [];
    const record = signed.maker === FORMAT ? readRecord(signed.signature ?? "", this.#budget) : undefined;
    if (record) return this.#addAll(restored(record.details, text));
    const signature = signed.signature === undefined && signed.maker === undefined ? "" : signatureText(signed, FORMAT);
    if (text === "" && signature === "") return;
    this.#addAll([{ type: "reasoning.text", text, ...(signature !== "" && { signature }), index: this.#count }]);
  }

  #addAll(details: readonly ReasoningDetail[]): void {
    this.#count++;
    for (const detail of details) this.#details.push(detail);
  }
}

/** Returns the seal in an item of `reasoning_details`; undefined if the item has none that is wrapped. */
export const sealIn = ({ signature, data }: ReasoningDetail): ReturnType<typeof unwrapSeal> =>
  unwrapSeal(signature ?? "") ?? unwrapSeal(data ?? "");

/** Puts the seal of this format's own reasoning back into an item. */
export function unsealed(detail: ReasoningDetail, value: string, budget: JsonBudget): ReasoningDetail[] {
  const record = readRecord(value, budget);
  if (record) return restored(record.details, detailText(detail));
  return [{ ...detail, [detail.data == null ? "signature" : "data"]: value }];
}
