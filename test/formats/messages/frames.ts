/** Reads a messages stream frame by frame. Accepts only the exact framing: an event line, a data line, a blank line. */

import { eventFraming, framesOf as allFramesOf, type Framing } from "../../drivers/frames.ts";

export interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

const FRAME = /^event: ([a-z_]+)\ndata: (\{[^\n\r\u0085\u2028\u2029]*\})$/;

function parseFrame(text: string): Frame {
  const [, event, data] = FRAME.exec(text) ?? [];
  if (event === undefined || data === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  const frame = JSON.parse(data) as Frame;
  if (frame.type !== event) throw new Error(`The event line says ${event}, the data ${frame.type}.`);
  return frame;
}

export const framing: Framing<Frame> = eventFraming(parseFrame);

/** The frames of a whole stream; the last frame must be complete. */
export const framesOf = (response: Response): Promise<Frame[]> => allFramesOf(response, framing);

/** The fields of a message of which the gateway knows nothing. */
export const UNKNOWN = { container: null, stop_details: null };

/** The counts of a backend that names none of them. */
export const UNCOUNTED = {
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: null,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: null,
  inference_geo: null,
  speed: null,
};

/** Frames as tests write them, in the order of the wire. */
export const start = (message: Record<string, unknown> = {}): Frame => ({
  type: "message_start",
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "model-a",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...UNKNOWN,
    diagnostics: null,
    usage: { input_tokens: 7, output_tokens: 0, ...UNCOUNTED },
    ...message,
  },
});

/** A block from its start to its end. */
export const block = (index: number, content_block: object, ...deltas: readonly object[]): Frame[] => [
  { type: "content_block_start", index, content_block },
  ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
  { type: "content_block_stop", index },
];

export const textBlock = (index: number, ...texts: readonly string[]): Frame[] =>
  block(index, { type: "text", text: "", citations: [] }, ...texts.map((text) => ({ type: "text_delta", text })));

export const toolBlock = (index: number, id: string, name: string, ...pieces: readonly string[]): Frame[] =>
  block(
    index,
    { type: "tool_use", id, name, input: {}, caller: { type: "direct" } },
    ...pieces.map((partial_json) => ({ type: "input_json_delta", partial_json })),
  );

export function stop(stop_reason: string, output_tokens: number, stop_sequence: string | null = null): Frame[] {
  const usage = { input_tokens: 7, output_tokens };
  return [
    {
      type: "message_delta",
      delta: { stop_reason, stop_sequence, ...UNKNOWN, usage },
      usage: { ...usage, ...UNCOUNTED },
    },
    { type: "message_stop" },
  ];
}
