/** What differs for a client of generate-content, whichever of the other formats its upstream speaks. */

import type { Difference } from "./differences.ts";

export const GENERATE_CONTENT_AS_ANY_OTHER: readonly Difference[] = [
  ["text > answers a question", "answer.annotation.token-count", '-     "tokenCount": 4,'],
  [
    "streaming > ends with everything that ends it in one chunk",
    "answer.annotation.token-count",
    '-     "tokenCount": 4,',
  ],
  [
    "chat > sendMessage > forgets a turn that was blocked",
    "answer.prompt-feedback",
    "expected undefined to be 'SAFETY'",
  ],
  [
    "chat > sendMessageStream > forgets a turn that was blocked",
    "answer.prompt-feedback",
    "expected undefined to be 'SAFETY'",
  ],
  [
    "output > one of some values > is the first where it speaks of none",
    "responseFormat.enum",
    "expected 'String' to be 'Percussion'",
  ],
  [
    "output > one of some values > is none that only stands inside of a word",
    "responseFormat.enum",
    "expected 'String' to be 'Percussion'",
  ],
  [
    "output > one of some values > is cut at its limit and at a stop sequence",
    "responseFormat.enum",
    "expected '{\"value\"' to be 'Percussi'",
  ],
  [
    "media > shows the model an image",
    "answer.usage.details",
    "expected undefined to deeply equal [ { modality: 'IMAGE'",
  ],
  [
    "media > gives the model application/pdf",
    "answer.usage.details",
    "expected undefined to deeply equal [ { modality: 'DOCUMENT'",
  ],
  ["media > counts an image by MEDIA_RESOLUTION_LOW", "mediaResolution", "expected 256 to be 64"],
  ["media > answers > hold a picture where that is asked for", "modalities", "expected undefined to be 'image/png'"],
  ["media > answers > hold text and a picture", "modalities", "expected [ 'You', ' said:', ' Draw', ' a' ]"],
  ["media > answers > are different pictures for different prompts", "modalities", "expected undefined not to be"],
  [
    "media > answers > leave a picture out where it does not fit into the limit",
    "modalities",
    "expected 'STOP' to be 'MAX_TOKENS'",
  ],
  ["thinking > keeps within its budget", "reasoning.budgetTokens", "I will tell them back what arrived."],
  [
    "safety > a blocked prompt > has a reason and no candidates",
    "answer.prompt-feedback",
    "expected undefined to deeply equal { blockReason: 'SAFETY'",
  ],
  [
    "safety > a blocked prompt > has the same in a stream",
    "answer.prompt-feedback",
    "expected [] to deeply equal [ { blockReason: 'SAFETY'",
  ],
  [
    "safety > rates an answer for what is set, in the order of the settings",
    "safety",
    "expected undefined to deeply equal [",
  ],
  [
    "errors > says that a cached content is not there",
    "cachedContent",
    "cachedContent (Only the provider that holds this part of the prompt",
  ],
  ["code > comes with its result, between texts", "tools.code-execution", "expected [ Array(1) ] to match object"],
  [
    "code > is counted as what a tool brought into the prompt",
    "tools.code-execution",
    "expected 0 to be greater than 0",
  ],
  [
    "code > that fails is told to have failed, also beside functions",
    "tools.code-execution",
    "expected [ Array(1) ] to match object",
  ],
  ["code > goes back up with the next turn", "tools.code-execution", "expected 14 to be greater than 14"],
];
