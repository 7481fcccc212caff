/** The conversions of embedding requests between formats, and the JSON of vectors. */

import type { EmbeddingRequest, EmbeddingVector } from "../../kinds/embedding/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import type { ConversionRule } from "./conversions.ts";

/** The fields of a request that some format cannot express exactly. */
export type EmbeddingField =
  | Exclude<keyof EmbeddingRequest, "model" | "inputs" | "native">
  /** Inputs that are lists of tokens. */
  | "inputs.tokens"
  /** Inputs that hold files. */
  | "inputs.media";

/** A rule for each field, and for the fields that only the caller's own format has. */
export type EmbeddingConversions = Readonly<Record<EmbeddingField | "native", ConversionRule>>;

const IS_USED: Readonly<Record<EmbeddingField, (request: EmbeddingRequest) => boolean>> = {
  "inputs.tokens": ({ inputs }) => inputs.some((input) => typeof input === "object" && !("parts" in input)),
  "inputs.media": ({ inputs }) => inputs.some((input) => typeof input === "object" && "parts" in input),
  dimensions: ({ dimensions }) => dimensions !== undefined,
  inputDimensions: ({ inputDimensions }) => inputDimensions !== undefined,
  taskType: ({ taskType }) => taskType !== undefined,
  taskTypes: ({ taskTypes }) => taskTypes !== undefined,
  titles: ({ titles = [] }) => titles.some((title) => title !== undefined),
  endUser: ({ endUser }) => endUser !== undefined,
};

/** Lists the conversions of a request that are not exact. */
export function embeddingConversions(table: EmbeddingConversions, request: EmbeddingRequest): Conversion[] {
  const conversions: Conversion[] = [];
  for (const field of Object.keys(IS_USED) as EmbeddingField[]) {
    const rule = table[field];
    if (rule.conversion !== "exact" && IS_USED[field](request)) conversions.push({ field, ...rule });
  }
  const { native: rule } = table;
  if (rule.conversion !== "exact")
    for (const path of request.native?.unsupported?.() ?? []) conversions.push({ field: `native.${path}`, ...rule });
  return conversions;
}

/** Writes a vector as a JSON array of numbers. */
export const vectorJson = (vector: EmbeddingVector): string =>
  JSON.stringify(Array.isArray(vector) ? vector : Array.from(vector));
