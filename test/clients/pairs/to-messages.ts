/** What differs for a client of another format whose upstream speaks the messages format. */

import type { Difference } from "./differences.ts";
import { GENERATE_CONTENT_AS_ANY_OTHER } from "./from-generate-content.ts";

const NO_SOUND = "messages.media.audio (The format has no sound.)";

export const GENERATE_CONTENT_AS_MESSAGES: readonly Difference[] = [
  ...GENERATE_CONTENT_AS_ANY_OTHER,
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
    "functions > calls > carry the signature of the thoughts behind them",
    "answer.signature",
    "expects to receive a string, but got undefined",
  ],
  [
    "functions > responses > come back with the signature of their call, which is counted",
    "reasoning.visible",
    // The relay remembers the signature.
    "expected 70 to be greater than 70",
  ],
  [
    "output > JSON > is any JSON where no schema is given",
    "responseFormat.schema",
    "expected null to deeply equal { answer: 'You said: Hello' }",
  ],
  ["output > JSON > is different for each candidate", "candidateCount", "expected [ '{\"city\":\"Oslo\"}', '' ]"],
  ["output > one of some values > is another for each candidate", "candidateCount", "expected [ 'String', '', '' ]"],
  ["media > gives the model audio/wav", "messages.media.audio", NO_SOUND],
  ["media > gives the model audio/mp3", "messages.media.audio", NO_SOUND],
  ["media > gives the model video/mp4", "messages.media.video", "messages.media.video (The format has no video.)"],
  ["media > answers > are spoken where that is asked for", "speech", "expected undefined to be 'audio/wav'"],
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
  ["quota > is charged for every candidate", "candidateCount", "to be greater than or equal to"],
];

export const CHAT_COMPLETIONS_AS_MESSAGES: readonly Difference[] = [
  ["gives several answers, streamed and complete", "candidateCount", "expected [ 'You said: Hi' ] to deeply equal"],
  ["is shown pictures, and tells log probabilities", "logprobs", "Target cannot be null or undefined."],
];
