// my-app.test.ts
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { reply, scriptedBackend, testGateway } from "polygate/testing";
import { expect, test } from "vitest";
import { myApp, policy } from "./my-app.ts";

test("customers pay five times more for the answer, and do not get the secret model", async () => {
  const backend = scriptedBackend(reply("Hi", { usage: { inputTokens: 12, outputTokens: 3 } }));
  await using gateway = testGateway({ ...policy, backend, key: { granted: 30 } });
  await using server = myApp(gateway).listen(0, "127.0.0.1");
  await once(server, "listening");
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ai`;
  const client = new Anthropic({ apiKey: gateway.apiKey, baseURL, maxRetries: 0 });
  const ask = { max_tokens: 2, messages: [{ role: "user" as const, content: "Hello" }] };

  await client.messages.create({ ...ask, model: "small" });
  expect(await gateway.charged()).toBe(12 + 5 * 3);
  await expect(client.messages.create({ ...ask, model: "secret" })).rejects.toThrow("not for customers");
  await expect(client.messages.create({ ...ask, model: "small" })).rejects.toMatchObject({ status: 429 });
  expect(backend.requests).toHaveLength(1);
});
