/** An error of another version of this library, whose code is unknown here, fails an upstream's call like any other error. */

import { expect, it } from "vitest";
import { type CallRecord, createGateway, type Failure, GatewayError, memoryQuotaStore } from "../../src/index.ts";
import { aiSdk } from "../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { fakeModel } from "./ai-sdk/fake-models.ts";

const KEY = "up-0123456789abcdef";

const unknown = (): GatewayError => Object.assign(new GatewayError("busy", `With ${KEY}.`), { code: "of_later" });

const rejecting = (): Promise<never> => Promise.reject(unknown());

it.each([
  ["relay", KEY, relay({ format: "messages", baseUrl: "https://up.example", apiKey: KEY, fetch: rejecting })],
  ["provider of the AI SDK", "sk-1", aiSdk({ chat: () => fakeModel({ answer: rejecting, stream: rejecting }) })],
])("fails the attempt of a %s, and shows no secret", async (_of, secret, backend) => {
  const failures: Failure[] = [];
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
    onCall: (record) => records.push(record),
    onFailure: (failure) => failures.push(failure),
  });
  const answer = await gateway.fetch("https://gateway.example/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer sk-1" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Go." }] }),
  });
  expect([answer.status, (await answer.text()).includes("The model backend failed.")]).toEqual([500, true]);
  await gateway.close();
  expect(records[0]?.attempts).toMatchObject([{ errorCode: "backend_failed" }]);
  expect(failures).toMatchObject([{ error: { code: "backend_failed" }, upstream: { attempt: 1 } }]);
  expect(failures[0]?.text).not.toContain(secret);
});
