// gateway.bun.test.ts
import { expect, test } from "bun:test";
import { scriptedBackend, testGateway, type PolygateMatchers, polygateMatchers } from "polygate/testing";

expect.extend({ ...polygateMatchers });

declare module "bun:test" {
  interface Matchers<T> extends PolygateMatchers {}
}

test("the gateway answers", async () => {
  await using gateway = testGateway({ backend: scriptedBackend("Hi") });
  const headers = { authorization: `Bearer ${gateway.apiKey}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hello" }] });
  const answer = await gateway.fetch("/v1/chat/completions", { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ choices: [{ message: { content: "Hi" } }] });
  await expect(gateway).toHaveRecorded({ status: 200, certainty: "estimated" });
});
