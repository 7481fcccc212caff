/** What differs for a client of another format whose upstream speaks the messages format. */

import type { Difference } from "./differences.ts";

const NO_SOUND = "messages.media.audio (The format has no sound.)";

export const GENERATE_CONTENT_AS_MESSAGES: readonly Difference[] = [
  ["text > answers a question", "answer.annotation.token-count", '-     "tokenCount": 4,'],
  [
    "text > gives several candidates, each its own answer and its own end",
    "candidateCount",
    "expected [ [ +0, 'STOP' ] ]",
  ],
  ["text > limits each of several candidates", "candidateCount", "expected [ 'word word word', '' ]"],
  [
    "text > gives log probabilities of each token, and of as many others as were asked for",
    "logprobs",
    "expected '' to be 'You said: Hello'",
  ],
  ["streaming > several candidates > comes in well-formed chunks", "candidateCount", "'1 of 3 candidates ended'"],
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
  // The call has no seal, and a thought that is not shown stands before it with its own.
  [
    "functions > calls > carry the signature of the thoughts behind them",
    "answer.signature",
    "expects to receive a string, but got undefined",
  ],
  [
    "functions > responses > come back with the signature of their call, which is counted",
    "reasoning.visible",
    "functionResponse.name: must not be empty",
  ],
  [
    "output > JSON > is any JSON where no schema is given",
    "responseFormat.schema",
    "expected null to deeply equal { answer: 'You said: Hello' }",
  ],
  ["output > JSON > is different for each candidate", "candidateCount", "expected [ '{\"city\":\"Oslo\"}', '' ]"],
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
  ["output > one of some values > is another for each candidate", "candidateCount", "expected [ 'String', '', '' ]"],
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
  ["media > gives the model audio/wav", "messages.media.audio", NO_SOUND],
  ["media > gives the model audio/mp3", "messages.media.audio", NO_SOUND],
  ["media > gives the model video/mp4", "messages.media.video", "messages.media.video (The format has no film.)"],
  [
    "media > gives the model application/pdf",
    "answer.usage.details",
    "expected undefined to deeply equal [ { modality: 'DOCUMENT'",
  ],
  ["media > counts an image by MEDIA_RESOLUTION_LOW", "mediaResolution", "expected 256 to be 64"],
  ["media > answers > hold a picture where that is asked for", "modalities", "expected undefined to be 'image/png'"],
  ["media > answers > hold text and a picture", "modalities", "expected [ 'You', ' said:', ' Draw', ' a' ]"],
  ["media > answers > are different pictures for different prompts", "modalities", "expected undefined not to be"],
  ["media > answers > are spoken where that is asked for", "speech", "expected undefined to be 'audio/wav'"],
  [
    "media > answers > leave a picture out where it does not fit into the limit",
    "modalities",
    "expected 'STOP' to be 'MAX_TOKENS'",
  ],
  // A thought without words is there to carry its seal.
  [
    "thinking > counts them where they are not shown: { thinkingBudget: 500 }",
    "reasoning.visible",
    '+     "text": "",\n+     "thought": true,\n+     "thoughtSignature"',
  ],
  [
    "thinking > counts them where they are not shown: { thinkingBudget: -1 }",
    "reasoning.visible",
    '+     "text": "",\n+     "thought": true,\n+     "thoughtSignature"',
  ],
  [
    "thinking > counts them where they are not shown: { includeThoughts: false, …(1) }",
    "reasoning.visible",
    '+     "text": "",\n+     "thought": true,\n+     "thoughtSignature"',
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
  ["errors > says that a cached content is not there", "cachedContent", "cachedContent (It is a part of the prompt"],
  ["quota > is charged for every candidate", "candidateCount", "to be greater than or equal to"],
  [
    "a run of code > comes with its result, between texts",
    "tools.code-execution",
    "expected [ Array(1) ] to match object",
  ],
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

export const CHAT_COMPLETIONS_AS_MESSAGES: readonly Difference[] = [
  ["gives several answers, streamed and complete", "candidateCount", "expected [ 'You said: Hi' ] to deeply equal"],
  ["is shown pictures, and tells log probabilities", "logprobs", "Target cannot be null or undefined."],
];
