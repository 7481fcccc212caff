// fallback.test.ts
import OpenAI from "openai";
import { route } from "polygate/backends/route";
import { failure, reply, scriptedBackend, testGateway } from "polygate/testing";
import { expect, test } from "vitest";

test("the second upstream answers when the first fails, and is charged", async () => {
  const first = scriptedBackend([failure("backend_overloaded")]);
  const second = scriptedBackend([reply("Hi", { usage: { inputTokens: 12, outputTokens: 3 } })]);
  const upstreams = [
    { name: "first", backend: first },
    { name: "second", backend: second, weight: 0, model: "large-2" },
  ];
  await using gateway = testGateway({ backend: route({ routes: { fast: { upstreams } } }) });
  const client = new OpenAI({ apiKey: gateway.apiKey, fetch: gateway.fetch, maxRetries: 0 });

  const messages = [{ role: "user" as const, content: "Hello" }];
  const { choices } = await client.chat.completions.create({ model: "fast", messages });

  expect(choices[0]?.message.content).toBe("Hi");
  expect([first.requests[0]?.model, second.requests[0]?.model]).toEqual(["fast", "large-2"]);
  expect(await gateway.charged()).toBe(15);
  expect(gateway.records[0]?.attempts).toMatchObject([{ upstream: "first" }, { upstream: "second" }]);
});
