/** Counting tokens: the input alone, without an answer. */

import type { MessageCountTokensParams } from "@anthropic-ai/sdk/resources/messages";
import { expect, it } from "vitest";
import type { Stage } from "./sdk.ts";

const params: MessageCountTokensParams = {
  model: "demo-chat",
  messages: [{ role: "user", content: "Think of me" }],
};

export function countTokensSuite({ connect }: Stage): void {
  it("counts the input and says nothing else", async () => {
    const counted = await connect().messages.countTokens(params);
    expect(counted).toEqual({ input_tokens: expect.any(Number) as unknown });
    expect(Number.isSafeInteger(counted.input_tokens)).toBe(true);
    expect(counted.input_tokens).toBeGreaterThan(0);
  });

  it.each<[string, Partial<MessageCountTokensParams>]>([
    ["a system prompt", { system: "Be as brief as you can" }],
    ["a longer message", { messages: [{ role: "user", content: "Think of me ".repeat(10) }] }],
    ["a longer conversation", { messages: [...params.messages, { role: "assistant", content: "I do think of you" }] }],
    ["tools", { tools: [{ name: "look_up", input_schema: { type: "object", properties: {} } }] }],
  ])("counts %s", async (_what, more) => {
    const client = connect();
    const plain = await client.messages.countTokens(params);
    const fuller = await client.messages.countTokens({ ...params, ...more });
    expect(fuller.input_tokens).toBeGreaterThan(plain.input_tokens);
  });

  it("counts for the beta client too", async () => {
    const client = connect();
    const { input_tokens } = await client.messages.countTokens(params);
    expect(await client.beta.messages.countTokens(params)).toEqual({ input_tokens });
  });
}
