/** Streams: raw events in their order, the helper's events, and that a stream says what a complete answer says. */

import { describe, expect, it } from "vitest";
import { bookFlight, weather } from "./schemas.ts";
import { type Message, type Params, say, type Stage, type StreamEvent, textOf } from "./sdk.ts";

const ORDER =
  /^message_start( content_block_start( content_block_delta)* content_block_stop)* message_delta message_stop$/;

/** The deltas that each kind of block may have. */
const DELTAS: Readonly<Record<string, readonly string[]>> = {
  text: ["text_delta"],
  tool_use: ["input_json_delta"],
  thinking: ["thinking_delta", "signature_delta"],
};

/** What of a stream is not as spec 6.1 and the clients want it: its order, its indexes, and the fields that are read. */
function* breachesOf(events: readonly StreamEvent[]): Generator<string> {
  const order = events.map(({ type }) => type).join(" ");
  if (!ORDER.test(order)) yield order;
  let index = -1;
  let deltas: readonly string[] = [];
  for (const event of events) {
    const breach = JSON.stringify(event);
    if (event.type === "message_start" && !isFresh(event.message)) yield breach;
    if (event.type === "message_delta" && !isComplete(event)) yield breach;
    if (event.type === "content_block_start") {
      index++;
      deltas = DELTAS[event.content_block.type] ?? [];
      if (!isEmpty(event.content_block)) yield breach;
    }
    if ("index" in event && event.index !== index) yield breach;
    if (event.type === "content_block_delta" && !deltas.includes(event.delta.type)) yield breach;
  }
}

type Of<Type extends StreamEvent["type"]> = Extract<StreamEvent, { type: Type }>;

const isFresh = ({ id, type, role, model, content, stop_reason, stop_sequence, usage }: Message): boolean =>
  id.startsWith("msg_") &&
  `${type} ${role} ${model}` === "message assistant demo-chat" &&
  content.length === 0 &&
  stop_reason === null &&
  stop_sequence === null &&
  usage.input_tokens > 0 &&
  // One client adds the start's count and the end's.
  usage.output_tokens === 0;

/** The spec has the usage inside of delta, the SDK's types have it beside. */
function isComplete({ delta, usage: { input_tokens, output_tokens } }: Of<"message_delta">): boolean {
  const inside = "usage" in delta ? JSON.stringify(delta.usage) : "";
  return delta.stop_reason !== null && output_tokens > 0 && inside === JSON.stringify({ input_tokens, output_tokens });
}

/** A block begins without what its deltas bring: clients add those up. */
function isEmpty(block: Of<"content_block_start">["content_block"]): boolean {
  if (block.type === "text") return block.text === "";
  if (block.type === "thinking") return block.thinking === "" && block.signature === "";
  if (block.type === "redacted_thinking") return block.data !== "";
  return block.type === "tool_use" && block.id !== "" && block.name !== "" && JSON.stringify(block.input) === "{}";
}

const CASES: readonly (readonly [string, Params])[] = [
  ["text", say("Tell me something")],
  ["no text at all", say("/repeat 0")],
  ["an answer cut at max_tokens", say("/repeat 9", { max_tokens: 4 })],
  ["an answer cut at a stop sequence", say("one two three", { stop_sequences: ["two"] })],
  ["thinking and text", say("Think", { max_tokens: 2_000, thinking: { type: "enabled", budget_tokens: 1_024 } })],
  ["tools in parallel", say("Use every tool for Oslo", { tools: [weather, bookFlight] })],
  ["thinking and a tool", say("The weather?", { thinking: { type: "adaptive" }, tools: [weather] })],
];

export function streamingSuite({ connect }: Stage): void {
  describe.each(CASES)("%s", (_what, params) => {
    it("comes as well-formed events", async () => {
      const stream = await connect().messages.create({ ...params, stream: true });
      const events: StreamEvent[] = [];
      for await (const event of stream) events.push(event);
      expect([...breachesOf(events)]).toEqual([]);
    });

    it("says the same as the complete answer", async () => {
      const client = connect();
      const complete = await client.messages.create(params);
      const streamed = await client.messages.stream(params).finalMessage();
      const { content, stop_reason, stop_sequence, model, role, type, usage } = complete;
      expect(streamed).toMatchObject({ content, stop_reason, stop_sequence, model, role, type, usage });
    });
  });

  it("is an event stream that names its request", async () => {
    const call = connect().messages.create({ ...say("Hello"), stream: true });
    const { data, response, request_id } = await call.withResponse();
    expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    expect(response.headers.get("cache-control")).toContain("no-cache");
    expect(request_id).toMatch(/^req_\w+$/);
    expect(request_id).toBe(response.headers.get("request-id"));
    data.controller.abort();
  });

  it("drives the helper's events from connect to end", async () => {
    const seen: string[] = [];
    const deltas: string[] = [];
    const stream = connect().messages.stream(say("Hello there"));
    stream
      .on("connect", () => seen.push("connect"))
      .on("text", (delta, snapshot) => {
        deltas.push(delta);
        expect(snapshot).toBe(deltas.join(""));
      })
      .on("contentBlock", (block) => seen.push(`contentBlock ${block.type}`))
      .on("message", () => seen.push("message"))
      .on("finalMessage", () => seen.push("finalMessage"))
      .on("end", () => seen.push("end"));
    const message = await stream.finalMessage();
    await stream.done();
    expect(seen).toEqual(["connect", "contentBlock text", "message", "finalMessage", "end"]);
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas.join("")).toBe("You said: Hello there");
    expect(textOf(message)).toBe("You said: Hello there");
    expect(stream.request_id).toMatch(/^req_\w+$/);
    expect(stream.request_id).toBe(stream.response?.headers.get("request-id"));
  });

  it("is read by the helper's finalText", async () => {
    expect(await connect().messages.stream(say("/repeat 3")).finalText()).toBe("word word word");
  });

  it("streams to the beta client as well", async () => {
    const message = await connect().beta.messages.stream(say("Hello")).finalMessage();
    expect(textOf(message)).toBe("You said: Hello");
  });

  it("carries any text unharmed", async () => {
    const text = 'naïve 😀 \u2028 line\u2029 "quoted" \\ event: x\ndata: y\n\nend';
    expect(await connect().messages.stream(say(text)).finalText()).toBe(`You said: ${text}`);
  });
}
