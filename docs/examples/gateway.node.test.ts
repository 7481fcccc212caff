// gateway.node.test.ts
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { assertCharged, assertRecorded, scriptedBackend, testGateway, toolCall } from "polygate/testing";

test("a tool is called", async () => {
  const usage = { inputTokens: 20, outputTokens: 9 };
  const backend = scriptedBackend([toolCall("weather", { city: "Bern" }, { usage })]);
  await using gateway = testGateway({ backend });
  const client = new OpenAI({ apiKey: gateway.apiKey, baseURL: `${await gateway.listen()}/v1` });
  const messages = [{ role: "user" as const, content: "Is it warm?" }];
  const tools = [{ type: "function" as const, function: { name: "weather" } }];
  const { choices } = await client.chat.completions.create({ model: "small", messages, tools });
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  await assertCharged(gateway, 29);
  await assertRecorded(gateway, { modelAsked: "small", usage });
});
