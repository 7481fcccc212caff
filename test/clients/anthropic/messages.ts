/** Plain conversations: what an answer holds, and what ends it. */

import { expect, it } from "vitest";
import { type Params, recordingFetch, say, type Stage, textOf } from "./sdk.ts";

export function messagesSuite({ sdk, connect }: Stage): void {
  it("answers a message", async () => {
    const message = await connect().messages.create(say("Hello there"));
    expect(message).toMatchObject({
      id: expect.stringMatching(/^msg_\w+$/) as unknown,
      type: "message",
      role: "assistant",
      model: "demo-chat",
      content: [{ type: "text", text: "You said: Hello there" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 2, output_tokens: 4, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    });
  });

  it("gives each answer its own id, and names the request in the headers that the SDK reads", async () => {
    const client = connect();
    const { data, response, request_id } = await client.messages.create(say("Hello")).withResponse();
    expect(response.headers.get("request-id")).toMatch(/^req_\w+$/);
    expect(response.headers.get("x-request-id")).toBe(response.headers.get("request-id"));
    expect(request_id).toBe(response.headers.get("request-id"));
    expect(data).toHaveProperty("_request_id", request_id);
    const other = await client.messages.create(say("Hello")).withResponse();
    expect(other.data.id).not.toBe(data.id);
    expect(other.request_id).not.toBe(request_id);
  });

  it("takes the key in the header that this major uses", async () => {
    const { fetch, sent } = recordingFetch();
    await connect({ fetch }).messages.create(say("Hello"));
    const [request] = sent;
    const credentials = ["authorization", "x-api-key"].filter((name) => request?.headers.has(name));
    expect(credentials).toEqual([sdk.keyHeader]);
  });

  it("takes a string as the shorthand of one text block", async () => {
    const client = connect();
    const short = await client.messages.create(say("Hello there"));
    const long = await client.messages.create(say([{ type: "text", text: "Hello there" }]));
    expect(long.content).toEqual(short.content);
    expect(long.usage).toEqual(short.usage);
  });

  it("takes several text blocks in their order", async () => {
    const message = await connect().messages.create(
      say([
        { type: "text", text: "one" },
        { type: "text", text: "two" },
      ]),
    );
    expect(textOf(message)).toBe("You said: one\ntwo");
  });

  it.each([
    ["a string", "Be very brief"],
    [
      "blocks",
      [
        { type: "text" as const, text: "Be very" },
        { type: "text" as const, text: "brief" },
      ],
    ],
  ])("takes the system prompt as %s", async (_form, system) => {
    const message = await connect().messages.create(say("Hello", { system }));
    expect(textOf(message)).toBe("You said: Hello");
    // One word of the user's and three of the system's: the backend was given both.
    expect(message.usage.input_tokens).toBe(4);
  });

  it("carries a conversation of many turns", async () => {
    const client = connect();
    const messages = [{ role: "user" as const, content: "first question" }];
    const first = await client.messages.create({ ...say(""), messages });
    const second = await client.messages.create({
      ...say(""),
      messages: [...messages, { role: "assistant", content: first.content }, { role: "user", content: "and more" }],
    });
    expect(textOf(second)).toBe("You said: and more");
    expect(second.usage.input_tokens).toBe(2 + 4 + 2);
  });

  it("merges messages of one role that follow one another into one turn", async () => {
    const message = await connect().messages.create({
      ...say(""),
      messages: [
        { role: "user", content: "one" },
        { role: "user", content: [{ type: "text", text: "two" }] },
      ],
    });
    expect(textOf(message)).toBe("You said: one\ntwo");
  });

  it("goes on from a last message of the assistant", async () => {
    const message = await connect().messages.create({
      ...say(""),
      messages: [
        { role: "user", content: "Hello there" },
        { role: "assistant", content: "You said:" },
      ],
    });
    expect(textOf(message)).toBe(" Hello there");
  });

  it("stops at a stop sequence and names it", async () => {
    const message = await connect().messages.create(say("one two three", { stop_sequences: ["never", "two"] }));
    expect(textOf(message)).toBe("You said: one ");
    expect(message.stop_reason).toBe("stop_sequence");
    expect(message.stop_sequence).toBe("two");
  });

  it("stops at max_tokens", async () => {
    const message = await connect().messages.create(say("/repeat 50", { max_tokens: 10 }));
    expect(textOf(message).split(" ")).toHaveLength(10);
    expect(message.stop_reason).toBe("max_tokens");
    expect(message.stop_sequence).toBeNull();
    expect(message.usage.output_tokens).toBe(10);
  });

  it.each<[string, Partial<Params>]>([
    ["the coldest temperature", { temperature: 0 }],
    ["the warmest temperature", { temperature: 1 }],
    ["top_p", { top_p: 0.5 }],
    ["top_k", { top_k: 40 }],
    ["metadata", { metadata: { user_id: "13803d75-b4b5-4c3e-b2a2-6f21399b021b" } }],
    ["no metadata", { metadata: { user_id: null } }],
    ["a service tier", { service_tier: "auto" }],
    ["a cached system prompt", { system: [{ type: "text", text: "a", cache_control: { type: "ephemeral" } }] }],
    ["an empty list of stop sequences", { stop_sequences: [] }],
  ])("takes %s", async (_what, more) => {
    const message = await connect().messages.create(say("Hello", more));
    expect(textOf(message)).toBe("You said: Hello");
  });

  it("takes cache_control, with and without a ttl, on the blocks of a message", async () => {
    const message = await connect().messages.create(
      say([
        { type: "text", text: "one", cache_control: { type: "ephemeral" } },
        { type: "text", text: "two", cache_control: { type: "ephemeral", ttl: "1h" } },
      ]),
    );
    expect(textOf(message)).toBe("You said: one\ntwo");
  });

  it("takes beta calls, whatever the betas", async () => {
    const { fetch, sent } = recordingFetch();
    const message = await connect({ fetch }).beta.messages.create({
      ...say("Hello"),
      betas: ["context-1m-2025-08-07", "some-beta-of-tomorrow"],
    });
    expect(textOf(message)).toBe("You said: Hello");
    const [request] = sent;
    expect(request?.headers.get("anthropic-beta")?.split(",")).toContain("some-beta-of-tomorrow");
    expect(new URL(request?.url ?? "").search).toBe(sdk.betaQuery);
  });

  it("answers with JSON of the schema that was asked for", async () => {
    const asked = say("Tell me about Oslo", { output_config: { format: sdk.cityFormat } });
    const message = await connect().messages.parse(asked);
    expect(message.parsed_output).toEqual({ city: "Oslo" });
  });
}
