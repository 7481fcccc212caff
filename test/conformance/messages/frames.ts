/** Reads a messages stream frame by frame, and takes nothing but the exact framing: an event line, a data line, a blank one. */

export interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

const FRAME = /^event: ([a-z_]+)\ndata: (\{[^\n\r]*\})$/;

function parseFrame(text: string): Frame {
  const [, event, data] = FRAME.exec(text) ?? [];
  if (event === undefined || data === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  const frame = JSON.parse(data) as Frame;
  if (frame.type !== event) throw new Error(`The event line says ${event}, the data ${frame.type}.`);
  return frame;
}

/** The frames of a whole stream; its last one must be complete. */
export async function framesOf(response: Response): Promise<Frame[]> {
  const reader = new FrameReader(response);
  const frames: Frame[] = [];
  for (let frame = await reader.next(); frame; frame = await reader.next()) frames.push(frame);
  return frames;
}

/** Reads one frame after the other, and no further. */
export class FrameReader {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(response: Response) {
    if (!response.body) throw new Error("The response has no body.");
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next frame, or undefined at the end of the stream. */
  async next(): Promise<Frame | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const text = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return parseFrame(text);
      }
      const { done, value } = await this.#reader.read();
      if (done && this.#text !== "") throw new Error(`The stream ends within a frame: ${JSON.stringify(this.#text)}`);
      if (done) return undefined;
      this.#text += value;
    }
  }

  /** Hangs up. */
  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}

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
    usage: { input_tokens: 7, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
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
  block(index, { type: "text", text: "" }, ...texts.map((text) => ({ type: "text_delta", text })));

export const toolBlock = (index: number, id: string, name: string, ...pieces: readonly string[]): Frame[] =>
  block(
    index,
    { type: "tool_use", id, name, input: {} },
    ...pieces.map((partial_json) => ({ type: "input_json_delta", partial_json })),
  );

export function stop(stop_reason: string, output_tokens: number, stop_sequence: string | null = null): Frame[] {
  const usage = { input_tokens: 7, output_tokens };
  return [
    {
      type: "message_delta",
      delta: { stop_reason, stop_sequence, usage },
      usage: { ...usage, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    },
    { type: "message_stop" },
  ];
}
