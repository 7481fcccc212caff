/** What becomes of an answer's parts, notes, ends and counts in the messages format. */

import type { AnswerEvent } from "../../model/event.ts";
import type { FieldFate } from "../../model/fate.ts";
import { type AnswerFateTable, answerLosses } from "../shared/answer-fates.ts";
import { approximated, dropped, emulated, EXACT } from "../shared/fates.ts";
import { DIALECT } from "./request.ts";

const ENDED = approximated("It is told as the end of the turn.");
const NO_NOTES = dropped("The format has no notes of this kind.");

export const ANSWER_FATES: AnswerFateTable = {
  "answer.id": emulated("The answer has an id of the gateway's own."),
  "answer.candidate": dropped("The format gives one answer."),
  "answer.text-delta": EXACT,
  "answer.reasoning-delta": EXACT,
  "answer.reasoning-signature": EXACT,
  "answer.redacted-reasoning": EXACT,
  "answer.refusal-delta": approximated("A refusal is told as a text."),
  "answer.tool-call": EXACT,
  "answer.tool-call-start": EXACT,
  "answer.tool-call-delta": EXACT,
  "answer.tool-call-end": EXACT,
  "answer.media": dropped("The format answers in text alone."),
  "answer.code": approximated("Code is told in a text."),
  "answer.code-result": approximated("What code printed is told in a text."),
  "answer.provider": dropped("Another format's own part means nothing in this one."),
  "answer.signature": dropped("The format seals reasoning alone."),
  "answer.thought": dropped("The format's reasoning is text alone."),
  "answer.annotation": NO_NOTES,
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": dropped("The format's citations quote their source, which these do not."),
  "answer.annotation.grounding": NO_NOTES,
  "answer.annotation.attributions": NO_NOTES,
  "answer.annotation.logprobs": NO_NOTES,
  "answer.annotation.retrieved-urls": NO_NOTES,
  "answer.annotation.url-context": NO_NOTES,
  "answer.annotation.token-count": NO_NOTES,
  "answer.prompt-feedback": dropped("The format tells nothing about the prompt."),
  "answer.native": dropped("Only the upstream's own format has words for it."),
  "answer.stopSequence": EXACT,
  "answer.finish.stop": EXACT,
  "answer.finish.stop-sequence": EXACT,
  "answer.finish.length": EXACT,
  "answer.finish.tool-calls": EXACT,
  "answer.finish.pause": ENDED,
  "answer.finish.refusal": ENDED,
  "answer.finish.context-window": approximated("It is told as an answer that has reached its limit."),
  "answer.finish.content-filter": ENDED,
  "answer.finish.recitation": ENDED,
  "answer.finish.language": ENDED,
  "answer.finish.blocklist": ENDED,
  "answer.finish.prohibited-content": ENDED,
  "answer.finish.personal-data": ENDED,
  "answer.finish.unsafe-image": ENDED,
  "answer.finish.malformed-tool-call": ENDED,
  "answer.finish.other": ENDED,
  "answer.usage.inputTokens": EXACT,
  "answer.usage.outputTokens": EXACT,
  "answer.usage.cacheReadTokens": EXACT,
  "answer.usage.cacheWriteTokens": EXACT,
  "answer.usage.reasoningTokens": EXACT,
  "answer.usage.toolUseTokens": approximated("They are told as a part of the input."),
  "answer.usage.cacheWritesByTtl": EXACT,
  "answer.usage.serverToolUses": EXACT,
  "answer.usage.serviceTier": EXACT,
  "answer.usage.details": dropped("The format does not count by kinds of content."),
};

export const lossesOf = (event: AnswerEvent): readonly FieldFate[] => answerLosses(ANSWER_FATES, DIALECT, event);
