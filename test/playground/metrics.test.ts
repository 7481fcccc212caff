/** The playground's metrics, read over a socket as Prometheus reads them. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { type Playground, startPlayground, usedUntil } from "../clients/playground.ts";

let playground: Playground;

beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

const ask = (more: object, apiKey = "sk-metered"): Promise<Response> =>
  fetch(`${playground.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "demo-chat",
      max_tokens: 50,
      messages: [{ role: "user", content: "A secret." }],
      ...more,
    }),
  });

/** The samples by their names and labels. */
async function samples(): Promise<Readonly<Record<string, number>>> {
  const lines = (await (await fetch(`${playground.url}/metrics`)).text()).split("\n");
  return Object.fromEntries(
    lines.flatMap((line) => {
      const [, name, value] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, Number(value)]];
    }),
  );
}

/** The sum of all samples of a name that have these labels. */
const total = (all: Readonly<Record<string, number>>, name: string, ...labels: readonly string[]): number =>
  Object.entries(all)
    .filter(([sample]) => sample.startsWith(`${name}{`) && labels.every((label) => sample.includes(label)))
    .reduce((sum, [, value]) => sum + value, 0);

it("says where they are when it starts", () => {
  const [first] = playground.process.output().split("\n");
  expect(first).toBe(`polygate demo, its admin at /admin, its metrics at /metrics: ${playground.url}`);
});

it("counts what its gateway does", async () => {
  await (await ask({})).text();
  await (await ask({ stream: true })).text();
  await ask({}, "sk-empty");
  await ask({ model: "made-up" });
  await usedUntil(playground.url, "sk-metered", (used) => used > 0);
  const read = await samples();
  const count = "gen_ai_server_request_duration_count";
  expect(total(read, count, 'gen_ai_request_model="demo-chat"', 'polygate_outcome="completed"')).toBe(2);
  expect(total(read, count, 'error_type="quota_exhausted"')).toBe(1);
  expect(total(read, count, 'gen_ai_request_model="_OTHER"', 'error_type="model_not_found"')).toBe(1);
  expect(total(read, "gen_ai_server_time_to_first_token_count")).toBe(2);
  expect(total(read, "polygate_hold_settled_total", 'polygate_certainty="exact"')).toBe(2);
  expect(total(read, "polygate_units_charged_total")).toBe(
    await usedUntil(playground.url, "sk-metered", (used) => used > 0),
  );
  expect(total(read, "polygate_hold_active")).toBe(0);
});

it("tells what the budgets of its teams have left", async () => {
  const read = await samples();
  const left = (id: string): number => total(read, "polygate_budget_available", `polygate_budget="${id}"`, '"USD"');
  expect([left("blue"), left("red") > 0]).toEqual([0, true]);
});

it("serves them in the format of Prometheus, to whoever reads", async () => {
  const { status, headers } = await fetch(`${playground.url}/metrics?name=all`);
  expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^text\/plain/) as string]);
  const refused = await fetch(`${playground.url}/metrics`, { method: "POST" });
  expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  expect((await fetch(`${playground.url}/metrics/other`)).status).toBe(404);
});

it("tells neither keys nor words in them", async () => {
  const text = await (await fetch(`${playground.url}/metrics`)).text();
  for (const hidden of ["sk-", "metered", "secret", "made-up"]) expect(text).not.toContain(hidden);
});
