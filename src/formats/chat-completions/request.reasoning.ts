/** The reasoning in the history of a request, in both directions. */

import type { Part } from "../../kinds/chat/request.ts";
import type { JsonBudget } from "../../model/json.ts";
import { readSignature, unwrapSeal } from "../shared/seal.ts";
import { detailText, isFirst, readRecord, restored } from "./schema.reasoning.ts";
import { type AssistantContent, type AssistantMessage, FORMAT, type ReasoningDetail } from "./schema.ts";

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
