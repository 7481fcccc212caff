/** Tests the gateway as it stands, with no account and no network: a scripted model is its upstream, and its database is in memory. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { reply, scriptedBackend, testGateway } from "polygate/testing";

const model = scriptedBackend(reply("Welcome.", { usage: { inputTokens: 1_000, outputTokens: 100 } }));
const upstream = testGateway({ backend: model });
Object.assign(process.env, {
  POLYGATE_STORE: "sqlite::memory:",
  MODELS: "gpt-5",
  UPSTREAM_FORMAT: "chat-completions",
  UPSTREAM_URL: `${await upstream.listen()}/v1`,
  UPSTREAM_KEY: upstream.apiKey,
  FALLBACK_URL: "",
  METRICS_PORT: "",
  OTEL_EXPORTER_OTLP_ENDPOINT: "",
});
const { gateway } = await import("./gateway.ts");
const { stores } = await import("./stores.ts");
const { quotas } = stores.ports;

after(async () => {
  await gateway.close();
  await stores.close();
  await upstream.close();
});

const ask = (apiKey: string): Promise<Response> =>
  gateway.fetch(
    new Request("http://host/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-5", messages: [{ role: "user", content: "Hello" }] }),
    }),
  );

test("an unknown key is refused, and the model is not asked", async () => {
  assert.equal((await ask("sk-nobody")).status, 401);
  assert.equal(model.requests.length, 0);
});

test("a call is answered, and charged by the prices", async () => {
  await quotas.add({ id: "team-a", apiKey: "sk-team-a", granted: 5_000_000 });
  const response = await ask("sk-team-a");
  const answer = await response.text();
  assert.equal(response.status, 200, answer);
  assert.match(answer, /Welcome\./);
  await gateway.close(); // Settles the call.
  // In millionths of a dollar: 1,000 tokens for 1.25 dollars a million, and 100 for 10 dollars.
  assert.equal((await quotas.balance("team-a"))?.used, 1_250 + 1_000);
});
