/** The first words of the playground: its keys, and a command that can be copied. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { demoKeys } from "../../playground/keys.ts";
import { callOf, type Playground, startPlayground } from "../clients/playground.ts";
import { post } from "../clients/wire.ts";

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

it("names each key, and what it is there for", () => {
  for (const { apiKey } of demoKeys)
    expect(playground.process.output()).toMatch(new RegExp(`${String(apiKey)} \\([^)]+\\)`));
});

it("shows the dollars of a team that has used up its month in its budget and in the spend at once", async () => {
  const report = await (await fetch(`${playground.url}/admin/usage?by=budget&budget=blue`)).json();
  expect(report).toMatchObject({ rows: [{ budget: "blue", calls: 1, units: 2_500_000 }], currency: "USD" });
});

it("has a team with dollars for the month, and a team that has used them up", async () => {
  const [red, blue] = await Promise.all(
    ["sk-team-red", "sk-team-blue"].map((apiKey) => post(playground.url, "Hello", { apiKey })),
  );
  expect([red?.status, blue?.status]).toEqual([200, 429]);
  // The list of refusals blots out the caller's key, but not the budget.
  await expect
    .poll(async () => (await fetch(`${playground.url}/admin/calls?outcome=refused&key=blue`)).json())
    .toMatchObject({ data: [{ errorMessage: expect.stringContaining('the budget "blue"') }] });
  const budgets = await (await fetch(`${playground.url}/admin/budgets`)).json();
  expect(budgets).toMatchObject({
    data: [
      { id: "blue", name: "Team Blue", used: 2_500_000, granted: 2_500_000, available: 0, period: "month" },
      { id: "red", name: "Team Red", granted: 5_000_000, period: "month" },
    ],
  });
});

it("counts no list of models as a call, and reports in dollars", async () => {
  await fetch(`${playground.url}/v1/models`, { headers: { authorization: "Bearer sk-limited" } });
  await post(playground.url, "Hello", { apiKey: "sk-limited" });
  const report = async (): Promise<unknown> => (await fetch(`${playground.url}/admin/usage?by=key&key=limited`)).json();
  await expect.poll(report).toMatchObject({ rows: [{ key: "limited", calls: 1 }], currency: "USD" });
});

it("gives a command for a shell, which is answered", async () => {
  const [command = ""] = /^curl [^]*/m.exec(playground.process.output()) ?? [];
  expect(await (await callOf(command)).json()).toMatchObject({
    content: [{ type: "text", text: "You said: Hello there" }],
  });
});

it("ends after npm is told to end", async () => {
  const { url, process } = await startPlayground({}, ["npm", "start", "--silent"]);
  process.child.kill("SIGTERM");
  // The output ends with the last process that writes to it, and so not before the server.
  await process.ended;
  await expect(fetch(url)).rejects.toThrow("fetch failed");
});
