/** What a format's table of answers must hold, and what of one event it cannot say. */

import type { Annotation } from "../../model/annotation.ts";
import type { AnswerEvent, ContentEvent, FinishReason } from "../../model/event.ts";
import type { FieldFate } from "../../model/fate.ts";
import type { Usage } from "../../model/usage.ts";
import type { FateRule } from "./fates.ts";

/** What an answer may say, by what it says it with: the compiler demands a fate for each. */
export type AnswerField =
  | `answer.${ContentEvent["type"]}`
  | `answer.annotation.${Annotation["type"]}`
  | `answer.finish.${FinishReason}`
  | `answer.usage.${keyof Usage}`
  /** The upstream's own name of the answer. */
  | "answer.id"
  /** Any candidate but the first. */
  | "answer.candidate"
  /** A signature on anything but reasoning. */
  | "answer.signature"
  /** A picture or a sound that was made while reasoning. */
  | "answer.thought"
  | "answer.prompt-feedback"
  /** What only the upstream's format has words for. */
  | "answer.native"
  /** Which of the stop sequences ended it. */
  | "answer.stopSequence";

export type AnswerFateTable = Readonly<Record<AnswerField, FateRule>>;

const NOTHING: readonly FieldFate[] = [];

/** What of an event the format cannot say as it is. A piece in the format's own words loses nothing. */
export function answerLosses(table: AnswerFateTable, dialect: string, event: AnswerEvent): readonly FieldFate[] {
  // The most frequent by far, which every format has words for.
  if (event.type === "text-delta" && event.signature === undefined && !event.candidate) return NOTHING;
  const losses: FieldFate[] = [];
  for (const field of fieldsOf(event, dialect)) {
    const rule = table[field];
    if (rule.fate !== "exact") losses.push({ field, fate: rule.fate, why: rule.why });
  }
  const { "answer.native": rule } = table;
  if (event.type === "native" && event.dialect !== dialect && rule.fate !== "exact")
    for (const path of event.unsaid?.() ?? [])
      losses.push({ field: `answer.native.${path}`, fate: rule.fate, why: rule.why });
  return losses;
}

function* fieldsOf(event: AnswerEvent, dialect: string): Generator<AnswerField> {
  switch (event.type) {
    case "start":
      if (event.id !== undefined && event.native !== undefined && event.native !== dialect) yield "answer.id";
      return;
    case "native":
      if (event.dialect !== dialect) for (const meant of event.means) yield* fieldsOf(meant, dialect);
      return;
    case "prompt-feedback":
      yield "answer.prompt-feedback";
      return;
    case "finish":
      if (event.native?.dialect !== dialect) yield* finishFields(event);
      return;
    default:
      yield* contentFields(event, dialect);
  }
}

function* finishFields({ endings, usage }: Extract<AnswerEvent, { type: "finish" }>): Generator<AnswerField> {
  for (const { reason, stopSequence } of endings) {
    yield `answer.finish.${reason}`;
    if (stopSequence !== undefined) yield "answer.stopSequence";
  }
  // A count of nothing says nothing.
  for (const [field, value] of Object.entries(usage)) if (value) yield `answer.usage.${field as keyof Usage}`;
}

function* contentFields(event: ContentEvent, dialect: string): Generator<AnswerField> {
  if (event.candidate) yield "answer.candidate";
  if ("thought" in event && event.thought) yield "answer.thought";
  if (event.type !== "reasoning-signature" && "signature" in event && event.signature !== undefined)
    yield "answer.signature";
  if (event.type === "annotation") yield `answer.annotation.${event.annotation.type}`;
  else if (event.type !== "provider" || event.dialect !== dialect) yield `answer.${event.type}`;
}
