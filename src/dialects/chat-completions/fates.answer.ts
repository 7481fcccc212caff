/** What becomes of an answer's parts, notes, ends and counts in the chat-completions format. */

import type { AnswerEvent } from "../../model/event.ts";
import type { FieldFate } from "../../model/fate.ts";
import { type AnswerFateTable, answerLosses } from "../shared/answer-fates.ts";
import { approximated, dropped, emulated, EXACT } from "../shared/fates.ts";
import { DIALECT } from "./schema.base.ts";

const STOPPED = approximated("It is told as an answer that has ended.");
const FILTERED = approximated("It is told as an answer that was filtered.");
const NO_NOTES = dropped("The format has no notes of this kind.");
const NO_SEALS = dropped("The format has no signatures.");

export const ANSWER_FATES: AnswerFateTable = {
  "answer.id": emulated("The answer has an id of the gateway's own."),
  "answer.candidate": EXACT,
  "answer.text-delta": EXACT,
  "answer.reasoning-delta": EXACT,
  "answer.reasoning-signature": NO_SEALS,
  "answer.redacted-reasoning": dropped("Another provider's ciphertext means nothing in this format."),
  "answer.refusal-delta": EXACT,
  "answer.tool-call": EXACT,
  "answer.tool-call-start": EXACT,
  "answer.tool-call-delta": EXACT,
  "answer.tool-call-end": EXACT,
  "answer.media": EXACT,
  "answer.code": approximated("Code is told as text."),
  "answer.code-result": approximated("What code printed is told as text."),
  "answer.provider": dropped("Another format's own part means nothing in this one."),
  "answer.signature": NO_SEALS,
  "answer.thought": dropped("The format's reasoning is text alone."),
  "answer.annotation": NO_NOTES,
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": approximated("Of a citation, the address of its source is told."),
  "answer.annotation.grounding": approximated("Of what an answer rests on, the addresses on the web are told."),
  "answer.annotation.attributions": NO_NOTES,
  "answer.annotation.logprobs": approximated("Neither the mean nor the tokens' own ids are told."),
  "answer.annotation.retrieved-urls": NO_NOTES,
  "answer.annotation.url-context": NO_NOTES,
  "answer.annotation.token-count": NO_NOTES,
  "answer.prompt-feedback": dropped("That a prompt was blocked is told by the end of its answer alone."),
  "answer.native": dropped("Only the upstream's own format has words for it."),
  "answer.stopSequence": dropped("The format does not tell which stop sequence ended an answer."),
  "answer.finish.stop": EXACT,
  "answer.finish.stop-sequence": STOPPED,
  "answer.finish.length": EXACT,
  "answer.finish.tool-calls": EXACT,
  "answer.finish.pause": STOPPED,
  "answer.finish.refusal": STOPPED,
  "answer.finish.context-window": approximated("It is told as an answer that has reached its limit."),
  "answer.finish.content-filter": EXACT,
  "answer.finish.recitation": FILTERED,
  "answer.finish.language": FILTERED,
  "answer.finish.blocklist": FILTERED,
  "answer.finish.prohibited-content": FILTERED,
  "answer.finish.personal-data": FILTERED,
  "answer.finish.unsafe-image": FILTERED,
  "answer.finish.malformed-tool-call": STOPPED,
  "answer.finish.other": STOPPED,
  "answer.usage.inputTokens": EXACT,
  "answer.usage.outputTokens": EXACT,
  "answer.usage.cacheReadTokens": EXACT,
  "answer.usage.cacheWriteTokens": EXACT,
  "answer.usage.reasoningTokens": EXACT,
  "answer.usage.toolUseTokens": approximated("They are told as a part of the input."),
  "answer.usage.cacheWritesByTtl": dropped("The format does not tell how long what is written to a cache lives."),
  "answer.usage.serverToolUses": dropped("The format does not count the uses of its own tools."),
  "answer.usage.serviceTier": EXACT,
  "answer.usage.details": approximated("Of the kinds of content, sounds alone are counted."),
};

export const lossesOf = (event: AnswerEvent): readonly FieldFate[] => answerLosses(ANSWER_FATES, DIALECT, event);
