/** The gateway as an h3 app mounts it, by types that are the package's own. */

import { type CorsOptions as H3CorsOptions, H3 } from "h3";
import { expect, expectTypeOf, it } from "vitest";
import { type CorsOptions, createGateway, memoryQuotaStore } from "../src/index.ts";

const backend = {
  async *chat() {
    yield "Hello from another app.";
  },
};

it("mounts in another h3 app", async () => {
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000 }]) });
  const host = new H3().mount("/ai", gateway.app).get("/", () => "The host's own.");
  const headers = { "x-api-key": "sk-1", "compat-version": "2023-06-01", "content-type": "application/json" };
  const body = JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] });
  const answer = await host.request("/ai/v1/messages", { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ content: [{ text: "Hello from another app." }] });
  expect(await (await host.request("/")).text()).toBe("The host's own.");
});

it("takes the rules for CORS that h3 takes, and no others", () => {
  expectTypeOf<CorsOptions>().toEqualTypeOf<H3CorsOptions>();
});
