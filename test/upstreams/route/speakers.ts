/** Upstreams of each chat format that write a scripted answer frame by frame, and count one token for each character. */

import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { head, STREAM_HEAD } from "../relay/raw-upstream.ts";
import type { ChatFormatName } from "./callers.ts";

/** A part of an answer, in the pieces of its frames. */
export type Said =
  | { readonly type: "text"; readonly pieces: readonly string[] }
  | { readonly type: "reasoning"; readonly pieces: readonly string[]; readonly signature?: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly pieces: readonly string[] };

export interface Script {
  /** The id of the answer. */
  readonly id: string;
  readonly inputTokens: number;
  readonly parts: readonly Said[];
}

/** A frame of a stream. */
export interface Frame {
  readonly bytes: string;
  /** The characters of the answer up to this frame. */
  readonly chars: number;
}

const charsOf = ({ pieces }: Said): number => pieces.join("").length;

/** The count of an answer's output. */
export const outputOf = ({ parts }: Script): number => parts.reduce((sum, part) => sum + charsOf(part), 0);

const event = (data: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const data = (chunk: object): string => `data: ${JSON.stringify(chunk)}\n\n`;

/** Collects frames, and the characters that each of them brings. */
class Frames {
  readonly all: Frame[] = [];
  #chars = 0;

  add(bytes: string, piece = ""): void {
    this.#chars += piece.length;
    this.all.push({ bytes, chars: this.#chars });
  }
}

function messages(script: Script): Frames {
  const { id, inputTokens, parts } = script;
  const frames = new Frames();
  const message = { id: `msg_${id}`, type: "message", role: "assistant", model: "model-a", content: [] };
  const usage = { input_tokens: inputTokens, output_tokens: 1 };
  frames.add(event({ type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null, usage } }));
  for (const [index, part] of parts.entries()) {
    const block =
      part.type === "text"
        ? { type: "text", text: "" }
        : part.type === "reasoning"
          ? { type: "thinking", thinking: "", signature: "" }
          : { type: "tool_use", id: part.id, name: part.name, input: {} };
    frames.add(event({ type: "content_block_start", index, content_block: block }));
    for (const piece of part.pieces) {
      const delta =
        part.type === "text"
          ? { type: "text_delta", text: piece }
          : part.type === "reasoning"
            ? { type: "thinking_delta", thinking: piece }
            : { type: "input_json_delta", partial_json: piece };
      frames.add(event({ type: "content_block_delta", index, delta }), piece);
    }
    if (part.type === "reasoning")
      frames.add(
        event({ type: "content_block_delta", index, delta: { type: "signature_delta", signature: part.signature } }),
      );
    frames.add(event({ type: "content_block_stop", index }));
  }
  const stop_reason = parts.some(({ type }) => type === "call") ? "tool_use" : "end_turn";
  const counts = { output_tokens: outputOf(script) };
  frames.add(event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: counts }));
  frames.add(event({ type: "message_stop" }));
  return frames;
}

function chatCompletions(script: Script): Frames {
  const { id, inputTokens, parts } = script;
  const frames = new Frames();
  const chunk = (delta: object, piece = "", finish_reason: string | null = null): void =>
    frames.add(
      data({
        id: `chatcmpl-${id}`,
        object: "chat.completion.chunk",
        created: 7,
        model: "model-a",
        choices: [{ index: 0, delta, finish_reason }],
      }),
      piece,
    );
  chunk({ role: "assistant", content: "" });
  let index = 0;
  for (const part of parts) {
    if (part.type === "call")
      chunk({
        tool_calls: [{ index, id: part.id, type: "function", function: { name: part.name, arguments: "" } }],
      });
    for (const piece of part.pieces) {
      if (part.type === "text") chunk({ content: piece }, piece);
      else if (part.type === "reasoning") chunk({ reasoning_content: piece }, piece);
      else chunk({ tool_calls: [{ index, function: { arguments: piece } }] }, piece);
    }
    if (part.type === "call") index++;
  }
  chunk({}, "", index > 0 ? "tool_calls" : "stop");
  const completion_tokens = outputOf(script);
  const usage = { prompt_tokens: inputTokens, completion_tokens, total_tokens: inputTokens + completion_tokens };
  frames.add(
    data({ id: `chatcmpl-${id}`, object: "chat.completion.chunk", created: 7, model: "model-a", choices: [], usage }),
  );
  frames.add("data: [DONE]\n\n");
  return frames;
}

function generateContent(script: Script): Frames {
  const { id, inputTokens, parts } = script;
  const frames = new Frames();
  const chunk = (part: object, piece: string, more: object = {}): void =>
    frames.add(
      data({
        candidates: [{ content: { role: "model", parts: [part] }, index: 0, ...more }],
        modelVersion: "model-a",
        responseId: id,
        ...("finishReason" in more && {
          usageMetadata: {
            promptTokenCount: inputTokens,
            candidatesTokenCount: outputOf(script),
            totalTokenCount: inputTokens + outputOf(script),
          },
        }),
      }),
      piece,
    );
  for (const part of parts) {
    const { pieces } = part;
    if (part.type === "call") {
      const args: unknown = JSON.parse(pieces.join(""));
      chunk({ functionCall: { name: part.name, args, id: part.id } }, pieces.join(""));
    } else
      for (const piece of pieces) chunk({ text: piece, ...(part.type === "reasoning" && { thought: true }) }, piece);
  }
  chunk({ text: "" }, "", { finishReason: "STOP" });
  return frames;
}

function responses(script: Script): Frames {
  const { id, inputTokens, parts } = script;
  const frames = new Frames();
  let sequence_number = 0;
  const add = (type: string, fields: object, piece = ""): void =>
    frames.add(event({ type, sequence_number: sequence_number++, ...fields }), piece);
  const response = { id: `resp_${id}`, object: "response", created_at: 7, model: "model-a", error: null };
  add("response.created", { response: { ...response, status: "in_progress", output: [] } });
  const output: object[] = [];
  for (const [output_index, part] of parts.entries()) {
    const item_id = `${part.type}_${id}_${output_index}`;
    const at = { item_id, output_index };
    const whole = part.pieces.join("");
    if (part.type === "text") {
      const item = { id: item_id, type: "message", role: "assistant" };
      const done = { type: "output_text", text: whole, annotations: [], logprobs: [] };
      add("response.output_item.added", { output_index, item: { ...item, status: "in_progress", content: [] } });
      add("response.content_part.added", { ...at, content_index: 0, part: { ...done, text: "" } });
      for (const delta of part.pieces)
        add("response.output_text.delta", { ...at, content_index: 0, delta, logprobs: [] }, delta);
      add("response.output_text.done", { ...at, content_index: 0, text: whole, logprobs: [] });
      add("response.content_part.done", { ...at, content_index: 0, part: done });
      output.push({ ...item, status: "completed", content: [done] });
    } else if (part.type === "reasoning") {
      const item = { id: item_id, type: "reasoning" };
      add("response.output_item.added", { output_index, item: { ...item, summary: [] } });
      add("response.reasoning_summary_part.added", {
        ...at,
        summary_index: 0,
        part: { type: "summary_text", text: "" },
      });
      for (const delta of part.pieces)
        add("response.reasoning_summary_text.delta", { ...at, summary_index: 0, delta }, delta);
      const summary = [{ type: "summary_text", text: whole }];
      output.push({ ...item, summary, encrypted_content: part.signature });
    } else {
      const item = { id: item_id, type: "function_call", call_id: part.id, name: part.name };
      add("response.output_item.added", { output_index, item: { ...item, status: "in_progress", arguments: "" } });
      for (const delta of part.pieces) add("response.function_call_arguments.delta", { ...at, delta }, delta);
      add("response.function_call_arguments.done", { ...at, name: part.name, arguments: whole });
      output.push({ ...item, status: "completed", arguments: whole });
    }
    add("response.output_item.done", { output_index, item: output.at(-1) });
  }
  const output_tokens = outputOf(script);
  const usage = { input_tokens: inputTokens, output_tokens, total_tokens: inputTokens + output_tokens };
  add("response.completed", { response: { ...response, status: "completed", output, usage } });
  return frames;
}

const SPEAKERS: Readonly<Record<ChatFormatName, (script: Script) => Frames>> = {
  messages,
  "chat-completions": chatCompletions,
  "generate-content": generateContent,
  responses,
};

/** Returns the frames of a scripted answer. */
export const framesOf = (format: ChatFormatName, script: Script): readonly Frame[] => SPEAKERS[format](script).all;

/** Writes the first frames, and closes the connection as an upstream does that has died. */
export async function breaksAfter(socket: Socket, frames: readonly Frame[], count: number): Promise<void> {
  const promised = head(200, { "content-type": "text/event-stream", "content-length": 999_999 });
  // Write the frames one by one, so that the gateway reads each before the connection is gone.
  await new Promise((written) => socket.write(promised, written));
  for (const { bytes } of frames.slice(0, count)) {
    await new Promise((written) => socket.write(bytes, written));
    await setImmediate();
  }
  socket.end();
}

export const writesAll = (socket: Socket, frames: readonly Frame[]): void =>
  void socket.end(STREAM_HEAD + frames.map(({ bytes }) => bytes).join(""));

/** The texts of a request's last turns, which say what is asked for. */
export interface AskedTurn {
  /** The text of the assistant's turn at the end, if any, or before the instruction. */
  readonly said: string | undefined;
  /** The instruction behind it. */
  readonly instruction: string | undefined;
}

/** Reads the last turns of a request in any format, from its bytes. */
export function lastTurns(body: string): AskedTurn {
  const request = JSON.parse(Buffer.from(body, "latin1").toString()) as Record<string, unknown>;
  const turns = request["messages"] ?? request["contents"] ?? request["input"];
  const list = (Array.isArray(turns) ? turns : []) as { role?: string; content?: unknown; parts?: unknown }[];
  const textOf = (turn: (typeof list)[number] | undefined): string => {
    const content = turn?.content ?? turn?.parts;
    if (typeof content === "string") return content;
    return ((content ?? []) as { text?: string }[]).map(({ text }) => text ?? "").join("");
  };
  const isOwn = (turn: (typeof list)[number] | undefined): boolean =>
    turn?.role === "assistant" || turn?.role === "model";
  const [before, last] = [list.at(-2), list.at(-1)];
  if (isOwn(last)) return { said: textOf(last), instruction: undefined };
  if (isOwn(before)) return { said: textOf(before), instruction: textOf(last) };
  return { said: undefined, instruction: undefined };
}
