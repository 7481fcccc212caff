/** What differs for a client of another format whose upstream speaks the generate-content format. */

import type { Difference } from "./differences.ts";

/** A result in words is told as an object that holds them. */
const SUNNY = 'The tool get_weather answered: {"output":"sunny"}.';
const SUNNY_IN_OSLO = 'The tool get_weather answered: {"output":"sunny in Oslo"}.';

export const MESSAGES_AS_GENERATE_CONTENT: readonly Difference[] = [
  [
    "messages > stops at a stop sequence and names it",
    "answer.stopSequence",
    "expected 'end_turn' to be 'stop_sequence'",
  ],
  [
    "tools > choice > auto holds to one call where parallel calls are disabled",
    "toolChoice.parallel",
    "expected [ 'get_weather', 'book_flight' ] to deeply equal [ 'get_weather' ]",
  ],
  [
    "tools > choice > any holds to one call where parallel calls are disabled",
    "toolChoice.parallel",
    "expected [ 'get_weather', 'book_flight' ] to deeply equal [ 'get_weather' ]",
  ],
  [
    "tools > streams an input as JSON in pieces, which add up to the same",
    "answer.tool-call-delta",
    "expected 1 to be greater than 1",
  ],
  ["tools > takes the built-in tools of the spec's date", "tools.provider", "expected [ 'text' ] to deeply equal"],
  ["tool results > takes a string", "messages.tool-result.text", SUNNY],
  ["tool results > takes blocks", "messages.tool-result.text", SUNNY],
  [
    "tool results > takes text and an image",
    "messages.tool-result.text",
    'The tool get_weather answered: {"output":"a map"}, an image (image/png, 4 × 3 pixels).',
  ],
  [
    "tool results > takes an error",
    "messages.tool-result.isError",
    'The tool get_weather answered: {"error":"no such city"}.',
  ],
  ["tool results > takes nothing", "messages.tool-result.text", 'The tool get_weather answered: {"output":""}.'],
  [
    "tool results > takes an empty string",
    "messages.tool-result.text",
    'The tool get_weather answered: {"output":""}.',
  ],
  [
    "tool results > takes the results of parallel calls in one turn, with text after them",
    "messages.tool-result.text",
    '{"output":"of get_weather"}. The tool get_tides answered: {"output":"of get_tides"}. You said: Well?',
  ],
  ["tool runner > runs to the final answer (stream: false)", "messages.tool-result.text", SUNNY_IN_OSLO],
  ["tool runner > runs to the final answer (stream: true)", "messages.tool-result.text", SUNNY_IN_OSLO],
  [
    "tool runner > runs where the whole conversation is sent every turn (stream: false)",
    "messages.tool-result.text",
    SUNNY_IN_OSLO,
  ],
  [
    "tool runner > runs where the whole conversation is sent every turn (stream: true)",
    "messages.tool-result.text",
    SUNNY_IN_OSLO,
  ],
  ["tool runner > tells the model of a tool that fails", "messages.tool-result.isError", "Error: the station is down"],
  [
    "thinking > sent back in the next turn > is taken before a tool call and its result",
    "messages.tool-result.text",
    SUNNY,
  ],
  // Of a turn that is dropped as a whole, the turns around it become one.
  [
    "thinking > sent back in the next turn > is taken where it was redacted",
    "messages.redacted-reasoning",
    "expected 'You said: Think\\nGo on' to be 'You said: Go on'",
  ],
  [
    "media > shows the model several images in their order",
    "messages.media",
    "I was shown an image (image/png, 2 × 3 pixels).",
  ],
  [
    "media > gives the model a document: a PDF with all its fields",
    "messages.document.title",
    "I was given a document (application/pdf, 81 bytes).",
  ],
  ["media > gives the model a document: plain text", "messages.document.text", "You said: Hello world"],
  [
    "media > gives the model a document: content blocks",
    "messages.document.text",
    "I was shown an image (image/png, 1 × 1 pixels). You said: one",
  ],
];

export const CHAT_COMPLETIONS_AS_GENERATE_CONTENT: readonly Difference[] = [
  [
    "tools > are called in parallel, streamed and complete, and their results are read",
    "messages.tool-result.text",
    'The tool get_weather answered: {"output":"result 0"}. The tool get_time answered: {"output":"result 1"}.',
  ],
  [
    "tools > are called one at a time where that is asked for",
    "toolChoice.parallel",
    "to have a length of 1 but got 2",
  ],
  ["tools > are run by the client's own runner", "messages.tool-result.text", SUNNY],
  ["ai > goes on with what its tools answer", "messages.tool-result.text", SUNNY],
];
