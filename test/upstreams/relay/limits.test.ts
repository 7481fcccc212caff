/** The limits of an upstream in its 429, before official SDKs over real sockets: which headers reach whom. */

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";

async function listen(resources: AsyncDisposableStack, handle: RequestListener): Promise<string> {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  resources.defer(() => {
    server.close().closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Makes clients of a gateway before an upstream that answers every request with 429. */
async function clients(
  resources: AsyncDisposableStack,
  format: "messages" | "responses",
  headers: Readonly<Record<string, string>>,
  options: Partial<RelayOptions> = {},
): Promise<{ readonly anthropic: Anthropic; readonly openai: OpenAI }> {
  const url = await listen(resources, (req, res) => {
    const answer = {
      type: "error",
      error: { type: "rate_limit_error", message: "This would exceed your account's limit." },
    };
    const all = { "content-type": "application/json", "retry-after": "7", ...headers };
    req.resume().on("end", () => res.writeHead(429, all).end(JSON.stringify(answer)));
  });
  const gateway = createGateway({
    backend: relay({ format, baseUrl: `${url}/v1`, apiKey: "sk-up", ...options }),
    quotas: memoryQuotaStore([{ apiKey: "sk-1", id: "one", granted: 1_000_000 }]),
    onFailure: () => {},
  });
  resources.defer(() => gateway.close({ deadlineMs: 0 }));
  const baseURL = await listen(resources, toNodeHandler(gateway));
  return {
    anthropic: new Anthropic({ apiKey: "sk-1", baseURL, maxRetries: 0 }),
    openai: new OpenAI({ apiKey: "sk-1", baseURL: `${baseURL}/v1`, maxRetries: 0 }),
  };
}

/** Returns the headers of a 429 that are about the upstream's limits. */
async function limitsIn(call: Promise<unknown>): Promise<Record<string, string>> {
  const { status, headers } = (await call.catch((error: unknown) => error)) as { status: number; headers: Headers };
  expect([status, headers.get("retry-after")]).toEqual([429, "7"]);
  return Object.fromEntries([...headers].filter(([name]) => /^(?:anthropic-|x-codex-|x-ratelimit-)/.test(name)));
}

const ASK = { model: "m", max_tokens: 100, messages: [{ role: "user" as const, content: "Hello" }] };

const UNIFIED = {
  "anthropic-ratelimit-unified-status": "rejected",
  "anthropic-ratelimit-unified-reset": "1780000000",
  "anthropic-ratelimit-unified-representative-claim": "seven_day",
};
const OF_ACCOUNT = {
  "anthropic-ratelimit-unified-7d-utilization": "1.02",
  "anthropic-ratelimit-unified-overage-disabled-reason": "org_level_disabled",
  "anthropic-ratelimit-requests-remaining": "3",
  "anthropic-organization-id": "org-of-the-host",
  "x-codex-primary-used-percent": "100",
};

it("passes the limits of a subscription to clients of its format, and nothing else of the host's account", async () => {
  await using resources = new AsyncDisposableStack();
  const { anthropic, openai } = await clients(resources, "messages", { ...UNIFIED, ...OF_ACCOUNT });
  expect(await limitsIn(anthropic.messages.create(ASK))).toEqual(UNIFIED);
  expect(await limitsIn(anthropic.messages.create({ ...ASK, stream: true }))).toEqual(UNIFIED);
  expect(await limitsIn(anthropic.messages.countTokens({ model: ASK.model, messages: ASK.messages }))).toEqual(UNIFIED);
  expect(await limitsIn(openai.chat.completions.create(ASK))).toEqual({});
});

it("passes none where the host shows no messages of its upstream", async () => {
  await using resources = new AsyncDisposableStack();
  const { anthropic } = await clients(resources, "messages", UNIFIED, { showUpstreamMessages: false });
  expect(await limitsIn(anthropic.messages.create(ASK))).toEqual({});
});

it("passes only words, numbers and times", async () => {
  await using resources = new AsyncDisposableStack();
  const { anthropic } = await clients(resources, "messages", {
    "anthropic-ratelimit-unified-status": "x".repeat(65),
    "anthropic-ratelimit-unified-reset": "2026-12-01T00:00:00Z",
    "anthropic-ratelimit-unified-representative-claim": "the team of host@example.com",
  });
  const reset = "2026-12-01T00:00:00Z";
  expect(await limitsIn(anthropic.messages.create(ASK))).toEqual({ "anthropic-ratelimit-unified-reset": reset });
});

it("passes no header that repeats the key of the relay", async () => {
  await using resources = new AsyncDisposableStack();
  const apiKey = "sk-upstream-0123456789";
  const reset = { "anthropic-ratelimit-unified-reset": "2026-12-01T00:00:00Z" };
  for (const echoed of [apiKey, apiKey.slice(3), apiKey.slice(0, 16)]) {
    const headers = { ...reset, "anthropic-ratelimit-unified-status": echoed };
    const { anthropic } = await clients(resources, "messages", headers, { apiKey });
    expect(await limitsIn(anthropic.messages.create(ASK))).toEqual(reset);
  }
});

it("passes the used-up windows of a Codex subscription to clients of Responses", async () => {
  await using resources = new AsyncDisposableStack();
  const used = {
    "x-codex-primary-used-percent": "100.0",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "1780000000",
  };
  const { openai, anthropic } = await clients(resources, "responses", {
    ...used,
    "x-codex-secondary-used-percent": "31",
    "x-codex-secondary-reset-at": "1780090000",
    "x-codex-credits-balance": "12",
    "x-codex-plan-type": "pro",
  });
  expect(await limitsIn(openai.responses.create({ model: "m", input: "Hello" }))).toEqual(used);
  expect(await limitsIn(anthropic.messages.create(ASK))).toEqual({});
});
