/** Answers of a form that was asked for: JSON of a schema, or one of some values. */

import type { ResponseFormat } from "../../src/index.ts";
import { satisfy } from "./satisfy.ts";

/** What sets the answers of several candidates apart, where their schema leaves room for it. */
const ORDINALS = ["", " Second", " Third", " Fourth", " Fifth", " Sixth", " Seventh", " Eighth"];

/** The answer to a message in a form; `reply` is what it would be without one. */
export function formatted(format: ResponseFormat, text: string, reply: string, candidate: number): string {
  if (format.type === "enum") return oneOf(format.values, text, candidate);
  if (!format.schema) return JSON.stringify({ answer: reply });
  return JSON.stringify(satisfy(format.schema, `${text}${ORDINALS[candidate] ?? ""}`, "the response schema"));
}

/** The value that the message speaks of, else the first; other candidates get the others in turn. */
function oneOf(values: readonly string[], text: string, candidate: number): string {
  const asked = asWords(text);
  const spokenOf = values.findIndex((value) => asked.includes(asWords(value)));
  return values[(Math.max(0, spokenOf) + candidate) % values.length] ?? "";
}

/** A text as its words alone, between spaces. */
const asWords = (text: string): string => {
  const words = text.toLowerCase().split(/[^\p{L}\p{N}]+/u);
  return ` ${words.filter((word) => word !== "").join(" ")} `;
};
