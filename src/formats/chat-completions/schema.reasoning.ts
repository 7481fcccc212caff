/**
 * The record of an upstream's reasoning. Providers show reasoning in different fields, and want it back in the same field. The record of
 * that field travels as the signature of the reasoning, through the caller and back.
 */

import { isJsonObject, JsonBudget, DEFAULT_JSON_LIMITS, JsonLimitError, parseJson } from "../../model/json.ts";
import type { ReasoningDetail } from "./schema.ts";
import type { LooseThinking } from "./schema.upstream.ts";

/** The fields of a message in which providers show reasoning as a text. */
export const PLAIN_FIELDS = ["reasoning_content", "reasoning", "thinking"] as const;
export type PlainField = (typeof PLAIN_FIELDS)[number];

/** An item of `reasoning_details`. `chars` stands for its text, which the reasoning itself has. */
export type StoredDetail = ReasoningDetail & { readonly chars?: number };

interface ReasoningRecord {
  /** `content`: parts of the type `thinking`, among the texts. */
  readonly field: PlainField | "reasoning_details" | "content";
  /** The field of the text, if it stood beside details without a text. */
  readonly plain: PlainField | undefined;
  readonly details: readonly StoredDetail[];
}

export const SUMMARY = "reasoning.summary";

export const detailText = (detail: ReasoningDetail): string =>
  (detail.type === SUMMARY ? detail.summary : detail.text) ?? "";

/** Bounds of the records in one request. A record comes back from the caller, who may have written it. */
const RECORD_LIMITS = { ...DEFAULT_JSON_LIMITS, maxJsonDepth: 20, maxJsonKeys: 100 };
export const recordBudget = (): JsonBudget => new JsonBudget(RECORD_LIMITS);

/** Reads a record; undefined for any other text. */
export function readRecord(text: string, budget: JsonBudget): ReasoningRecord | undefined {
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
export function isFirst(detail: ReasoningDetail, seals: Set<string>): boolean {
  const seal = detail.signature || detail.data;
  if (!seal) return true;
  const before = seals.size;
  return seals.add(`${seal} ${detailText(detail)}`).size > before;
}

/** Returns the text of a part of the type `thinking`. */
export const thinkingText = (thinking: LooseThinking): string =>
  typeof thinking === "string" ? thinking : (thinking ?? []).map(({ text }) => text ?? "").join("");
