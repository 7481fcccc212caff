/** Plain conversations: what an answer holds, and what ends it. */

import { expect, it } from "vitest";
import { recordingFetch, say, type Stage, textOf } from "./sdk.ts";

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
