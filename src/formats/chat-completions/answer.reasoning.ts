/** The reasoning of answers: of an upstream's, with its record, and of an answer to a caller, with its seals. */

import type { JsonBudget } from "../../model/json.ts";
import { type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import {
  detailText,
  isFirst,
  PLAIN_FIELDS,
  type PlainField,
  readRecord,
  recordBudget,
  restored,
  type StoredDetail,
  SUMMARY,
} from "./schema.reasoning.ts";
import { FORMAT, type ReasoningDetail } from "./schema.ts";
import type { LooseMessage } from "./schema.upstream.ts";

/** A piece of reasoning in a message or a delta. */
export interface ReasoningPiece {
  /** The field of the text. Details come beside it or alone. */
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
  const details = (message.reasoning_details ?? []).filter((detail) => isFirst(detail, seals));
  const field = PLAIN_FIELDS.find((name) => message[name]);
  if (!field && details.length === 0) return undefined;
  return { field, text: field ? (message[field] ?? "") : "", details };
}

/** One block of an upstream's reasoning: what its record must hold. */
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

  /** Returns the record as a text. */
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
