/** HEAD requests are answered like GET, without a body, on every mount; and every complete answer says its length on Node. */

import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { type Caller, MOUNTS, type Sent } from "./mounts.ts";

const USAGE: Sent = { method: "GET", path: "/ai/api/usage/token", headers: { authorization: "Bearer sk-one" } };

const gatewayOf = (): Gateway<Caller> =>
  createGateway<Caller>({
    quotas: memoryQuotaStore([{ apiKey: "sk-one", name: "Ünïcode", granted: 5 }]),
    backend: {
      async *chat() {
        yield "Grüße 𝄞";
      },
    },
  });

describe.each(MOUNTS)("on $name", ({ ask, address }) => {
  const isNode = address === "127.0.0.1";

  it.each([
    ["an answer", USAGE, 200],
    ["a refusal", { ...USAGE, headers: {} }, 401],
    ["another method", { method: "HEAD", path: "/ai/v1/messages" }, 405],
  ] as const)("HEAD of %s has its status and headers, and no body", async (_what, sent, status) => {
    const get = await ask(gatewayOf(), undefined, { ...sent, method: sent.method === "HEAD" ? "GET" : sent.method });
    const head = await ask(gatewayOf(), undefined, { ...sent, method: "HEAD" });
    expect([get.status, head.status, head.body]).toEqual([status, status, ""]);
    expect(head.headers["content-type"]).toBe("application/json");
    expect(head.headers["transfer-encoding"]).toBeUndefined();
    expect(head.headers["request-id"]).toMatch(/^req_[0-9a-f]{32}$/);
    // Of another method the message names it.
    const length = Buffer.byteLength(get.body) + (sent.method === "HEAD" ? "HEAD".length - "GET".length : 0);
    expect(head.headers["content-length"]).toBe(String(length));
  });

  // Elsewhere the runtime counts it.
  if (!isNode) return;
  it("the length of a complete answer is counted in bytes", async () => {
    const sent: Sent = {
      method: "POST",
      path: "/ai/v1/messages",
      headers: { "x-api-key": "sk-one", "compat-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", max_tokens: 2, messages: [{ role: "user", content: "Hi" }] }),
    };
    const got = await ask(gatewayOf(), undefined, sent);
    expect([got.status, got.headers["content-length"]]).toEqual([200, String(Buffer.byteLength(got.body))]);
    expect(got.body).toContain("Grüße 𝄞");
    expect(got.headers["transfer-encoding"]).toBeUndefined();
  });
});
