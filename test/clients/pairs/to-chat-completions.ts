/** What differs for a client of another format whose upstream speaks chat completions. */

import type { Difference } from "./differences.ts";
import { GENERATE_CONTENT_AS_ANY_OTHER } from "./from-generate-content.ts";

export const MESSAGES_AS_CHAT_COMPLETIONS: readonly Difference[] = [
  [
    "messages > stops at a stop sequence and names it",
    "answer.stopSequence",
    "expected 'end_turn' to be 'stop_sequence'",
  ],
  ["tools > takes the built-in tools of the spec's date", "tools.provider", "expected [ 'text' ] to deeply equal"],
  [
    "tool results > takes text and an image",
    "messages.tool-result.media",
    "The tool get_weather answered: a map. I was shown an image (image/png, 4 × 3 pixels).",
  ],
  [
    "tool results > takes an error",
    "messages.tool-result.isError",
    "The tool get_weather answered: The tool has failed.\n+ no such city.",
  ],
  ["tool runner > tells the model of a tool that fails", "messages.tool-result.isError", "The tool has failed."],
  [
    "thinking > adaptive puts signed thoughts before the answer",
    "reasoning.adaptive",
    "to have a length of 2 but got 1",
  ],
  ["thinking > counts toward max_tokens", "reasoning.adaptive", '+     "type": "text",'],
  [
    "media > gives the model a document: a PDF with all its fields",
    "messages.document.context",
    'I was given the document "Report" (application/pdf, 81 bytes). You said: The year\'s',
  ],
  ["media > gives the model a document: plain text", "messages.document.text", "You said: Hello world"],
  [
    "media > gives the model a document: content blocks",
    "messages.document.text",
    "I was shown an image (image/png, 1 × 1 pixels). You said: one",
  ],
];

export const GENERATE_CONTENT_AS_CHAT_COMPLETIONS: readonly Difference[] = [
  ...GENERATE_CONTENT_AS_ANY_OTHER,
  [
    "functions > responses > come back with the signature of their call, which is counted",
    "reasoning.budgetTokens",
    // The relay remembers the signature.
    "expected 70 to be greater than 70",
  ],
  [
    "functions > responses > may hold a picture of their own",
    "messages.tool-result.media",
    'The tool get_weather answered: {"output":"a map"}. I was shown an image (image/png, 4 × 3 pixels).',
  ],
  [
    "output > one of some values > is another for each candidate",
    "responseFormat.enum",
    "expected [ 'String', 'String', 'String' ]",
  ],
  ["media > gives the model video/mp4", "messages.media.video", "messages.media.video (The format accepts no video.)"],
  [
    "thinking > puts thoughts before the answer where they are asked for",
    "reasoning.adaptive",
    "expected { text: 'You said: Think of me' } to match object",
  ],
  ["thinking > streams them, marked as thoughts", "reasoning.adaptive", "expected 0 to be greater than 1"],
  // A thought without words is there to carry its seal.
  [
    "thinking > counts them where they are not shown: { thinkingBudget: 500 }",
    "reasoning.visible",
    '+     "text": "",\n+     "thought": true,\n+     "thoughtSignature"',
  ],
  [
    "thinking > counts them where they are not shown: { includeThoughts: false, …(1) }",
    "reasoning.visible",
    '+     "text": "",\n+     "thought": true,\n+     "thoughtSignature"',
  ],
  [
    "thinking > counts them where they are not shown: { thinkingBudget: -1 }",
    "reasoning.adaptive",
    "expected undefined to be 12",
  ],
  [
    "thinking > takes thoughts and their signature back in the next turn",
    "reasoning.adaptive",
    "expected false to be true",
  ],
];
