/** Keys that share a budget, as their callers see it: an answer, a refusal, and the tightest in the token usage. */

import { expect, it } from "vitest";
import { type BudgetEvent, createGateway, memoryQuotaStore } from "../../src/index.ts";

it("a call of one key is paid from the budget of all, and the others see it", async () => {
  const events: BudgetEvent[] = [];
  const quotas = memoryQuotaStore(
    [
      { apiKey: "sk-anna", id: "anna", budget: "team", granted: 10_000 },
      { apiKey: "sk-bob", id: "bob", budget: "team" },
      { apiKey: "sk-free", id: "free" },
    ],
    {
      budgets: [
        { id: "company", amount: 1_000 },
        { id: "team", amount: 400, parent: "company" },
      ],
      onBudget: (event) => void events.push(event),
    },
  );
  const backend = {
    async *chat() {
      yield "Hello";
      yield { type: "finish" as const, reason: "stop" as const, usage: { inputTokens: 5, outputTokens: 395 } };
    },
  };
  const gateway = createGateway({ backend, quotas, onFailure: () => {} });
  const ask = (apiKey: string, path: string, body?: object) =>
    gateway.fetch(
      new Request(`http://host${path}`, {
        ...(body && { method: "POST", body: JSON.stringify(body) }),
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      }),
    );
  const chat = (apiKey: string, maxTokens: number) =>
    ask(apiKey, "/v1/chat/completions", {
      model: "any",
      max_completion_tokens: maxTokens,
      messages: [{ role: "user", content: "Hello" }],
    });
  const usage = async (apiKey: string) =>
    ((await (await ask(apiKey, "/api/usage/token")).json()) as { data: object }).data;

  const [before, answer] = [await usage("sk-bob"), await chat("sk-anna", 395)];
  expect(before).toMatchObject({ total_granted: 400, total_used: 0, total_available: 400, unlimited_quota: false });
  expect(answer.status).toBe(200);
  await answer.text();
  for (const apiKey of ["sk-anna", "sk-bob"])
    expect(await usage(apiKey)).toMatchObject({ total_granted: 400, total_used: 400, total_available: 0 });
  expect(await usage("sk-free")).toMatchObject({ unlimited_quota: true });
  const refused = await chat("sk-bob", 100);
  expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining("insufficient_quota")]);
  expect(quotas.budgetReport("company")).toMatchObject({ used: 400, held: 0 });
  expect(events.map(({ id, percent }) => `${id} ${percent}`)).toEqual(["team 100"]);

  quotas.topUpBudget("team", 1_000);
  const next = await chat("sk-bob", 100);
  expect(next.status).toBe(200);
  await next.text();
});
