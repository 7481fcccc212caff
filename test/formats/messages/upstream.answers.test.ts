/** Answers of messages upstreams that leave out fields or frames, or send frames in another order: callers get what the spec requires. */

import { describe, expect, it } from "vitest";
import { isJsonObject, type JsonObject } from "../../../src/model/json.ts";
import {
  CODECS,
  completedText,
  decodedText,
  metered,
  requestOf,
  streamedText,
} from "../../properties/upstream-answers.ts";

const MESSAGE = {
  id: "msg_up",
  type: "message",
  role: "assistant",
  model: "up",
  content: [],
  stop_reason: null,
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 1 },
};
const start = (message: object = MESSAGE) => ({ type: "message_start", message });
const begin = (index = 0, text = "") => ({ type: "content_block_start", index, content_block: { type: "text", text } });
const piece = (text: string, index = 0) => ({
  type: "content_block_delta",
  index,
  delta: { type: "text_delta", text },
});
const stop = (index = 0) => ({ type: "content_block_stop", index });
const delta = (fields: object = { stop_reason: "end_turn", stop_sequence: null }, more: object = {}) => ({
  type: "message_delta",
  delta: fields,
  usage: { output_tokens: 2 },
  ...more,
});
const END = { type: "message_stop" };

/**
 * The events that a caller gets for the frames of an upstream. Each frame has the name of its event's type.
 *
 * @param nameOf Returns the name that the upstream gives a frame.
 */
function passed(frames: readonly JsonObject[], nameOf?: (type: unknown) => string): JsonObject[] {
  const text = frames
    .map((data) => (nameOf ? `event: ${nameOf(data["type"])}\n` : "") + `data: ${JSON.stringify(data)}\n\n`)
    .join("");
  const request = requestOf("messages");
  const written = streamedText("messages", metered(decodedText("messages", text), request), request);
  return written
    .split("\n\n")
    .slice(0, -1)
    .map((frame) => {
      const [name, data] = frame.split("\n");
      const event = JSON.parse(data?.slice("data: ".length) ?? "") as JsonObject;
      expect(name?.slice("event: ".length)).toBe(event["type"]);
      return event;
    });
}

const COUNTS = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
const LAST = {
  type: "message_delta",
  delta: { stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
  usage: { input_tokens: 3, output_tokens: 2, ...COUNTS },
};
const FIRST = { ...start(), message: { ...MESSAGE, usage: { ...MESSAGE.usage, ...COUNTS } } };
const BLOCK = [begin(), piece("a"), stop()];

describe("the stream of an upstream", () => {
  it.each<[string, JsonObject[]]>([
    ["that is whole", [start(), ...BLOCK, delta(), END]],
    ["whose stop reason is null", [start(), ...BLOCK, delta({ stop_reason: null }), END]],
    ["that tells counts before the end", [start(), ...BLOCK, delta({ stop_reason: null }), delta(), END]],
    ["that tells the end twice", [start(), ...BLOCK, delta(), delta({}), END]],
    ["without an end of the block", [start(), begin(), piece("a"), delta(), END]],
    ["with the end in front of the block", [start(), delta(), ...BLOCK, END]],
    ["with another first index", [start(), begin(4), piece("a", 4), stop(4), delta(), END]],
    ["with a stop reason at its start", [start({ ...MESSAGE, stop_reason: "end_turn" }), ...BLOCK, delta(), END]],
    ["with an empty text in front", [start(), begin(), stop(), begin(1), piece("a", 1), stop(1), delta(), END]],
    [
      "with an empty piece in front",
      [start(), begin(), piece(""), stop(), begin(1), piece("a", 1), stop(1), delta(), END],
    ],
    ["with an empty text behind", [start(), ...BLOCK, begin(1), stop(1), delta(), END]],
  ])("%s gives one whole message in order", (_name, frames) => {
    expect(passed(frames)).toEqual([FIRST, ...BLOCK, LAST, END]);
  });

  it("gets the fields that its start lacks", () => {
    const [first, ...rest] = passed([start({}), ...BLOCK, delta(), END]);
    const message = { ...MESSAGE, id: "msg_1", model: "m", usage: expect.objectContaining(COUNTS) as unknown };
    expect(first).toEqual({ type: "message_start", message });
    expect(rest.map(({ type }) => type)).toEqual(BLOCK.map(({ type }) => type).concat("message_delta", "message_stop"));
  });

  it.each(["message", "data"])("whose events all have the name %s has the name of each type", (name) => {
    expect(passed([start(), ...BLOCK, delta(), END], () => name)).toEqual([FIRST, ...BLOCK, LAST, END]);
  });

  it("may have no more fields than the specification shows", () => {
    const frames = [
      { type: "message_start", message: { id: "msg_up", type: "message", role: "assistant", model: "up" } },
      { type: "content_block_start", index: 0, content_block: { type: "text" } },
      { type: "content_block_delta", index: 0, delta: { text: "a" } },
      stop(),
      { type: "message_delta", delta: { stop_reason: "end_turn", usage: { input_tokens: 3, output_tokens: 2 } } },
      END,
    ];
    expect(passed(frames).slice(1)).toEqual([...BLOCK, LAST, END]);
  });

  it("keeps what an earlier message_delta tells besides", () => {
    const earlier = delta(
      { stop_reason: "refusal", container: { id: "c" }, stop_details: { type: "refusal", category: "cyber" } },
      { usage: { output_tokens: 1, server_tool_use: { web_search_requests: 1 } }, context_management: { at: [1] } },
    );
    expect(passed([start(), ...BLOCK, earlier, delta({}), END]).at(-2)).toEqual({
      type: "message_delta",
      delta: { ...earlier.delta, stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
      usage: { input_tokens: 3, output_tokens: 2, ...COUNTS, server_tool_use: { web_search_requests: 1 } },
      context_management: { at: [1] },
    });
  });

  it("has no empty text that ends behind the next block's start", () => {
    const frames = [start(), begin(), begin(1), piece("a", 1), stop(), stop(1), delta(), END];
    expect(passed(frames)).toEqual([FIRST, ...BLOCK, LAST, END]);
  });

  it("gets an index for each block, also for one that begins at the index of an open one", () => {
    const tool = {
      type: "content_block_start",
      index: 0,
      content_block: { type: "tool_use", id: "t", name: "f", input: {} },
    };
    const json = { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: "{}" } };
    const frames = [start(), begin(), piece("a"), tool, json, stop(), delta({ stop_reason: "tool_use" }), END];
    expect(passed(frames).slice(1, -2)).toEqual([
      ...BLOCK,
      { ...tool, index: 1 },
      { ...json, index: 1 },
      { ...stop(), index: 1 },
    ]);
  });
});

const starting = (block: JsonObject) => ({ type: "content_block_start", index: 0, content_block: block });
const going = (fields: JsonObject) => ({ type: "content_block_delta", index: 0, delta: fields });

describe("a block of an upstream", () => {
  const CALL = { type: "tool_use", id: "t", name: "f" };
  const ARGUMENTS = going({ type: "input_json_delta", partial_json: '{"at":1.0}' });
  const THOUGHT = going({ type: "thinking_delta", thinking: "Hm" });

  it.each<[string, JsonObject[], JsonObject[]]>([
    [
      "text in its start",
      [starting({ type: "text", text: "a" }), piece("b")],
      [starting({ type: "text", text: "" }), piece("a"), piece("b")],
    ],
    [
      "a thought in its start",
      [starting({ type: "thinking", thinking: "Hm", signature: "s" })],
      [
        starting({ type: "thinking", thinking: "", signature: "" }),
        THOUGHT,
        going({ type: "signature_delta", signature: "s" }),
      ],
    ],
    [
      "no signature",
      [starting({ type: "thinking", thinking: "" }), THOUGHT],
      [starting({ type: "thinking", thinking: "", signature: "" }), THOUGHT],
    ],
    ["no input", [starting(CALL), ARGUMENTS], [starting({ ...CALL, input: {} }), ARGUMENTS]],
    [
      "its arguments in its start, and again",
      [starting({ ...CALL, input: { at: 1 } }), going({ type: "input_json_delta", partial_json: "" }), ARGUMENTS],
      [starting({ ...CALL, input: {} }), ARGUMENTS],
    ],
    [
      "an empty text as its input",
      [starting({ ...CALL, input: "" }), ARGUMENTS],
      [starting({ ...CALL, input: {} }), ARGUMENTS],
    ],
  ])("with %s has its content in deltas", (_name, frames, expected) => {
    expect(passed([start(), ...frames, stop(), delta(), END]).slice(1, -2)).toEqual([...expected, stop()]);
  });

  it("has its arguments once, whatever stands between its start and its end", () => {
    const other = { ...starting({ ...CALL, id: "u", input: { at: 2 } }), index: 1 };
    const begun = [starting({ ...CALL, input: { at: 1 } }), other];
    const again = going({ type: "input_json_delta", partial_json: '{"at":1}' });
    const first = { ...starting({ ...CALL, input: {} }) };
    const second = { ...starting({ ...CALL, id: "u", input: {} }), index: 1 };
    const rest = { ...going({ type: "input_json_delta", partial_json: '{"at":2}' }), index: 1 };
    const end = [delta({ stop_reason: "tool_use" }), END];
    const expected = [first, second, again, stop(), rest, stop(1)];
    expect(passed([start(), ...begun, again, stop(), stop(1), ...end]).slice(1, -2)).toEqual(expected);
    expect(passed([start(), ...begun, again, ...end]).slice(1, -2)).toEqual([
      first,
      second,
      again,
      stop(),
      rest,
      stop(1),
    ]);
  });

  it("with its arguments in its start alone has them in a delta, to the letter", () => {
    const frames = [start(), starting({ ...CALL, input: {} }), stop(), delta({ stop_reason: "tool_use" }), END];
    const text = frames.map((data) => `data: ${JSON.stringify(data)}\n\n`).join("");
    const events = decodedText("messages", text.replace('"input":{}', '"input":{"at":1.0}'));
    const request = requestOf("messages");
    const written = streamedText("messages", metered(events, request), request).split("\n\n");
    expect(written[1]).toContain('"input":{}');
    expect(written[2]?.split("data: ")[1]).toBe(JSON.stringify(ARGUMENTS));
  });
});

/** The body that a caller gets for the body of an upstream. */
function completed(body: JsonObject): JsonObject {
  const answer: unknown = JSON.parse(completedJson(JSON.stringify(body)));
  return isJsonObject(answer) ? answer : {};
}

function completedJson(body: string): string {
  const request = requestOf("messages", { stream: false });
  return completedText("messages", metered(CODECS.messages.answerDecoder().answer(body), request), request);
}

describe("the complete answer of an upstream", () => {
  const BODY: JsonObject = {
    ...MESSAGE,
    content: [{ type: "text", text: "Hi" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 3, output_tokens: 2, ...COUNTS },
  };
  it.each(["id", "type", "role", "model", "stop_reason", "stop_sequence"])(
    "gets the field %s that it lacks",
    (field) => {
      const expected = { ...BODY, ...(field === "id" && { id: "msg_1" }), ...(field === "model" && { model: "m" }) };
      const { [field]: _left, ...rest } = BODY;
      expect(completed(rest)).toEqual(expected);
      expect(completed({ ...BODY, [field]: null })).toEqual(expected);
    },
  );

  it("has the fields of blocks that clients need and the upstream leaves out", () => {
    const call = { type: "tool_use", id: "t", name: "f" };
    const content = [{ type: "thinking", thinking: "Hm" }, { type: "thinking", thinking: "Hm", signature: null }, call];
    const thought = { type: "thinking", thinking: "Hm", signature: "" };
    expect(completed({ ...BODY, content })["content"]).toEqual([thought, thought, { ...call, input: {} }]);
  });

  it("keeps the blocks beside a changed one to the letter", () => {
    const call = '{"type":"tool_use","id":"t","name":"f","input":{"id":12345678901234567890, "at":1.0}}';
    const body = (content: string) => JSON.stringify({ ...BODY, content: [] }).replace("[]", content);
    const thought = '{"type":"thinking","thinking":"Hm"}';
    expect(completedJson(body(`[ {"type":"text","text":""} , ${thought},${call} ]`))).toBe(
      body(`[${thought.replace("}", ',"signature":""}')},${call}]`),
    );
    expect(completed({ ...BODY, content: [{ type: "tool_use", id: "t", name: "f", input: "" }] })["content"]).toEqual([
      { type: "tool_use", id: "t", name: "f", input: {} },
    ]);
  });

  it("has no empty text, which a caller could not send back", () => {
    const tool = { type: "tool_use", id: "t", name: "f", input: { text: "" } };
    const body = { ...BODY, content: [{ type: "text", text: "" }, tool], stop_reason: "tool_use" };
    expect(completed(body)["content"]).toEqual([tool]);
  });

  it("has a text of more than 5,000,000 characters in several blocks", () => {
    const text = `x${"\u{1F600}".repeat(2_500_001)}`;
    const { content } = completed({
      ...BODY,
      content: [{ type: "text", text }],
      usage: { input_tokens: 3, output_tokens: 1_000_000 },
    });
    const texts = (content as { text: string }[]).map((block) => block.text);
    expect(texts.map(({ length }) => length)).toEqual([4_999_999, 4]);
    expect(texts.join("") === text).toBe(true);
  });
});
