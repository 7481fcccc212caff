/** A whole test without a runner, for the runtimes: over a socket and without one, with a break, a cut and a charge. */

import {
  assertCharged,
  assertRecorded,
  reply,
  scriptedBackend,
  silence,
  testGateway,
} from "../../src/testing/index.ts";

const usage = { inputTokens: 12, outputTokens: 3 };
const backend = scriptedBackend([reply("Hi", { usage }), reply(["one"], { breakAfter: 1 }), silence()]);
const gateway = testGateway({ backend });
const url = await gateway.listen();

function send(fetch: typeof gateway.fetch, base: string): Promise<Response> {
  const headers = { authorization: `Bearer ${gateway.apiKey}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "small", stream: true, messages: [{ role: "user", content: "Hello" }] });
  return fetch(`${base}/v1/chat/completions`, { method: "POST", headers, body });
}

const answered = await (await send(fetch, url)).text();
await assertCharged(gateway, 15);
const broken = await (await send(gateway.fetch, "")).text();
const silent = send(fetch, url).then(
  (answer) => answer.text(),
  (error: unknown) => String(error),
);
await backend.asked(3);
await gateway.close();
await silent;
await assertRecorded(gateway, { outcome: "shutdown" });
const outcomes = gateway.records.map(({ outcome }) => outcome);
console.log(JSON.stringify({ answered: answered.includes('"Hi"'), broken: broken.includes('"error"'), outcomes }));
