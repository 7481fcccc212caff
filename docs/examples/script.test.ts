// script.test.ts
import Anthropic from "@anthropic-ai/sdk";
import { delay, failure, manualClock, reply, scriptedBackend, testGateway, toolCall } from "polygate/testing";
import { expect, test } from "vitest";
import "./vitest-setup.ts"; // Or in `setupFiles`: adds the matchers.

const ask = {
  model: "small",
  max_tokens: 100,
  messages: [{ role: "user" as const, content: "Is it warm?" }],
  tools: [{ name: "weather", input_schema: { type: "object" as const } }],
};

test("a tool is called, and its caller is served again after a failure", async () => {
  const script = [toolCall("weather", { city: "Bern" }), failure("backend_overloaded"), "Yes."];
  await using gateway = testGateway({ backend: scriptedBackend(script) });
  // Without `maxRetries: 0`, an SDK waits and repeats a request that fails with 429 or 5xx.
  const client = new Anthropic({ apiKey: gateway.apiKey, fetch: gateway.fetch, maxRetries: 0 });

  expect((await client.messages.create(ask)).content).toMatchObject([{ type: "tool_use", input: { city: "Bern" } }]);
  await expect(client.messages.create(ask)).rejects.toMatchObject({ status: 529 });
  expect((await client.messages.create(ask)).content).toMatchObject([{ type: "text", text: "Yes." }]);
});

test("a stream that breaks off is charged as far as it came", async () => {
  await using gateway = testGateway({ backend: scriptedBackend([reply(["Yes, ", "it is."], { breakAfter: 1 })]) });
  const client = new Anthropic({ apiKey: gateway.apiKey, fetch: gateway.fetch, maxRetries: 0 });

  await expect(client.messages.stream(ask).finalMessage()).rejects.toThrow();
  await gateway.settled();
  expect(gateway.records).toMatchObject([{ status: 200, outcome: "failed", certainty: "estimated" }]);
});

test("a key whose budget is too small is refused", async () => {
  await using gateway = testGateway({ budgets: [{ id: "team-a", amount: 1 }], key: { budget: "team-a" } });
  const client = new Anthropic({ apiKey: gateway.apiKey, fetch: gateway.fetch, maxRetries: 0 });

  await expect(client.messages.create(ask)).rejects.toMatchObject({ status: 429 });
  await expect(gateway).toHaveRecorded({ refusedBy: { kind: "budget", budget: "team-a", available: 1 } });
  await expect(gateway).toHaveCharged(0);
});

test("a model that is too slow is cut at the deadline", async () => {
  const clock = manualClock();
  const backend = scriptedBackend([reply([delay(60_000), "late"])], { clock });
  await using gateway = testGateway({ backend, clock, limits: { deadlineMs: 5_000 } });
  const client = new Anthropic({ apiKey: gateway.apiKey, fetch: gateway.fetch, maxRetries: 0 });

  const answer = client.messages.create(ask).catch((error: { status: number }) => error.status);
  const { call } = await backend.asked(); // The model has the request.
  await clock.advance(5_000); // Five seconds pass at once.
  expect(await answer).toBe(504);
  expect(call.signal.aborted).toBe(true);
});
