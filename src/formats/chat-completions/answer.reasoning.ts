/** The reasoning of answers: of an upstream's, with its record, and of an answer to a caller, with its seals. */

import type { JsonBudget } from "../../model/json.ts";
import { type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import {
  detailText,
  FIELDS,
  readRecord,
  type ReasoningField,
  recordBudget,
  restored,
  type StoredDetail,
  SUMMARY,
} from "./schema.reasoning.ts";
import { FORMAT, type ReasoningDetail } from "./schema.ts";
import type { LooseMessage } from "./schema.upstream.ts";

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
