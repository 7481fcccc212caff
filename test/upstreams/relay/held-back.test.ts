/** Decoders bound the text that they hold back until a piece of a stream is whole. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import { messagesCodec } from "../../../src/formats/messages/upstream.ts";

const MB = "a".repeat(1024 ** 2);
const FRAMES = 40;

const messages = (...frames: readonly object[]) => {
  const decoder = messagesCodec().answerDecoder();
  const message = { id: "msg_1", model: "m", content: [], usage: {} };
  decoder.frame(undefined, JSON.stringify({ type: "message_start", message }));
  for (const frame of frames) decoder.frame(undefined, JSON.stringify(frame));
  return decoder;
};
const begun = (content_block: object, index = 0): object => ({ type: "content_block_start", index, content_block });
const delta = (of: object): string => JSON.stringify({ type: "content_block_delta", index: 0, delta: of });

const SERVER_TOOL = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} };
const ARGUMENTS = delta({ type: "input_json_delta", partial_json: MB });

describe("an upstream that does not end", () => {
  it.each<[string, feed: () => (index: number) => unknown]>([
    [
      "the arguments of its own tool",
      () => {
        const decoder = messages(begun(SERVER_TOOL));
        return () => decoder.frame(undefined, ARGUMENTS);
      },
    ],
    [
      "the citations of a text",
      () => {
        const decoder = messages(begun({ type: "text", text: "" }));
        const citation = delta({ type: "citations_delta", citation: { type: "web", cited_text: MB } });
        return () => decoder.frame(undefined, citation);
      },
    ],
    [
      "block after block",
      () => {
        const decoder = messages();
        return (index) => decoder.frame(undefined, JSON.stringify(begun({ type: "moon", rock: MB }, index)));
      },
    ],
    [
      "the input of a custom tool",
      () => {
        const decoder = chatCompletionsCodec().answerDecoder();
        const call = { index: 0, id: "c", type: "custom", custom: { name: "f", input: MB } };
        return () => decoder.frame(undefined, JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] }));
      },
    ],
    [
      "the arguments of a tool that it does not name",
      () => {
        const decoder = chatCompletionsCodec().answerDecoder();
        const call = { index: 0, function: { arguments: MB } };
        return () => decoder.frame(undefined, JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] }));
      },
    ],
    [
      "the ids of call after call",
      () => {
        const decoder = chatCompletionsCodec().answerDecoder();
        return (index) => {
          const call = { index, id: `${index}${MB}`, function: { name: "f", arguments: "{}" } };
          return decoder.frame(undefined, JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] }));
        };
      },
    ],
  ])("%s has failed", (_name, feed) => {
    const next = feed();
    const all = (): void => {
      for (let index = 0; index < FRAMES; index++) next(index);
    };
    expect(all).toThrow(expect.objectContaining({ code: "backend_failed" }));
  });

  it("what it does end may be as long as the output limit allows", () => {
    const decoder = messages(begun({ type: "tool_use", id: "t", name: "f", input: {} }));
    for (let count = 0; count < FRAMES; count++) decoder.frame(undefined, ARGUMENTS);
    const ended = messages();
    for (let count = 0; count < FRAMES; count++) {
      ended.frame(undefined, JSON.stringify(begun({ type: "moon", rock: MB })));
      ended.frame(undefined, JSON.stringify({ type: "content_block_stop", index: 0 }));
    }
    expect(ended.frame(undefined, JSON.stringify({ type: "message_stop" }))).toHaveLength(1);
  });
});
