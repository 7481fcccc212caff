/** What differs for a client of another format whose upstream speaks chat completions. */

import type { Difference } from "./differences.ts";

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
  ["thinking > enabled puts signed thoughts before the answer", "answer.reasoning-signature", '+   "signature": "",'],
  [
    "thinking > adaptive puts signed thoughts before the answer",
    "reasoning.adaptive",
    "to have a length of 2 but got 1",
  ],
  ["thinking > counts toward max_tokens", "reasoning.adaptive", '+     "type": "text",'],
  [
    "thinking > sent back in the next turn > is taken with its signature, and counted as input",
    "messages.reasoning",
    "expected 10 to be greater than 10",
  ],
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
    "functions > calls > carry the signature of the thoughts behind them",
    "answer.signature",
    "expects to receive a string, but got undefined",
  ],
  [
    "functions > responses > come back with the signature of their call, which is counted",
    "answer.signature",
    "expected 70 to be greater than 70",
  ],
  [
    "functions > responses > may hold a picture of their own",
    "messages.tool-result.media",
    'The tool get_weather answered: {"output":"a map"}. I was shown an image (image/png, 4 × 3 pixels).',
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
    "output > one of some values > is another for each candidate",
    "responseFormat.enum",
    "expected [ 'String', 'String', 'String' ]",
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
  ["media > gives the model video/mp4", "messages.media.video", "messages.media.video (The format takes no video.)"],
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
  [
    "thinking > puts thoughts before the answer where they are asked for",
    "reasoning.adaptive",
    "expected { text: 'You said: Think of me' } to match object",
  ],
  ["thinking > streams them, marked as thoughts", "reasoning.adaptive", "expected 0 to be greater than 1"],
  [
    "thinking > counts them where they are not shown: { thinkingBudget: -1 }",
    "reasoning.adaptive",
    "expected undefined to be 12",
  ],
  ["thinking > keeps within its budget", "reasoning.budgetTokens", "I will tell them back what arrived."],
  [
    "thinking > takes thoughts and their signature back in the next turn",
    "reasoning.adaptive",
    "expected false to be true",
  ],
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
