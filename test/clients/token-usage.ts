/** The token usage query over a real socket (spec 2.5, 7.1): each of the playground's keys, and each way to be refused. */

import { describe, expect, it } from "vitest";
import { type TokenUsage, usageOf, usedUntil } from "./playground.ts";
import type { Client } from "./servers.ts";
import { post } from "./wire.ts";

const PATHS = ["/api/usage/token", "/api/usage/token/"];

const KEYS: readonly Omit<TokenUsage, "object">[] = [
  {
    name: "demo",
    total_granted: 0,
    total_used: 0,
    total_available: 0,
    unlimited_quota: true,
    model_limits: {},
    model_limits_enabled: false,
    expires_at: 0,
  },
  {
    name: "metered",
    total_granted: 1_000_000,
    total_used: 0,
    total_available: 1_000_000,
    unlimited_quota: false,
    model_limits: {},
    model_limits_enabled: false,
    expires_at: 0,
  },
  {
    name: "limited",
    total_granted: 1_000_000,
    total_used: 0,
    total_available: 1_000_000,
    unlimited_quota: false,
    model_limits: { "demo-chat": true },
    model_limits_enabled: true,
    expires_at: 0,
  },
  {
    name: "empty",
    total_granted: 1_000,
    total_used: 1_000,
    total_available: 0,
    unlimited_quota: false,
    model_limits: {},
    model_limits_enabled: false,
    expires_at: 0,
  },
  {
    name: "expired",
    total_granted: 1_000,
    total_used: 0,
    total_available: 1_000,
    unlimited_quota: false,
    model_limits: {},
    model_limits_enabled: false,
    // The first of January 2024, in seconds.
    expires_at: 1_704_067_200,
  },
];

export const tokenUsage: Client = (playground) => {
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Response> =>
    fetch(playground().url + path, { method, headers });

  describe.each(PATHS)("%s", (path) => {
    describe.each(["sk-", ""])("with the prefix %o", (prefix) => {
      it.each(KEYS)("tells the key $name what it has", async (expected) => {
        const response = await ask(path, { authorization: `Bearer ${prefix}${expected.name}` });
        expect(response.status).toBe(200);
        expect(response.headers.get("content-type")).toMatch(/^application\/json/);
        expect(await response.json()).toEqual({
          code: true,
          message: "ok",
          data: { object: "token_usage", ...expected },
        });
      });
    });

    it.each([
      ["no Authorization header", {}, "No Authorization header"],
      ["a key in another format's header", { "x-api-key": "sk-demo" }, "No Authorization header"],
      ["another scheme", { authorization: "Basic c2stZGVtbzo=" }, "Invalid Bearer token"],
      ["no scheme", { authorization: "sk-demo" }, "Invalid Bearer token"],
      ["a scheme that only begins like Bearer", { authorization: "Bearersk-demo" }, "Invalid Bearer token"],
      ["a scheme without a token", { authorization: "Bearer" }, "Invalid Bearer token"],
      ["a token that is not known", { authorization: "Bearer sk-nobody" }, "token not found"],
      ["a token in other letters", { authorization: "Bearer sk-DEMO" }, "token not found"],
      ["a token with the prefix twice", { authorization: "Bearer sk-sk-demo" }, "token not found"],
    ])("refuses %s", async (_what, headers, message) => {
      const response = await ask(path, headers);
      expect(response.status).toBe(401);
      expect(response.headers.get("content-type")).toMatch(/^application\/json/);
      expect(await response.json()).toEqual({ success: false, message });
    });

    it("takes the scheme in any letters", async () => {
      expect((await ask(path, { authorization: "bearer sk-demo" })).status).toBe(200);
    });

    it("refuses a method that changes things, in its own format", async () => {
      const response = await ask(path, { authorization: "Bearer sk-demo" }, "POST");
      expect(response.status).toBe(405);
      expect(response.headers.get("allow")).toContain("GET");
      expect(await response.json()).toEqual({ success: false, message: expect.any(String) as unknown });
    });
  });

  it("takes a query string along", async () => {
    expect((await ask("/api/usage/token?p=0", { authorization: "Bearer sk-demo" })).status).toBe(200);
  });

  it("names each request in its headers", async () => {
    const one = await ask("/api/usage/token", { authorization: "Bearer sk-demo" });
    const other = await ask("/api/usage/token");
    for (const { headers } of [one, other]) {
      expect(headers.get("request-id")).toMatch(/^req_\w+$/);
      expect(headers.get("x-request-id")).toBe(headers.get("request-id"));
    }
    expect(one.headers.get("request-id")).not.toBe(other.headers.get("request-id"));
  });

  const chat = (apiKey: string, content: string, body: object = {}, signal?: AbortSignal): Promise<Response> =>
    post(playground().url, content, { apiKey, body: { max_tokens: 5_000, ...body }, ...(signal && { signal }) });

  // Last, for the keys above are as the playground declares them until a call is made.
  describe("a call", () => {
    it("counts its live hold as used while its stream runs, then what it used", async () => {
      const before = await usageOf(playground().url, "sk-metered");
      const controller = new AbortController();
      // The second word never comes, so the stream runs until it is left.
      const stream = await chat("sk-metered", "/delay 600000 /repeat 2", { stream: true }, controller.signal);
      const during = await usageOf(playground().url, "sk-metered");
      expect(during.total_used).toBeGreaterThanOrEqual(before.total_used + 5_000);
      expect(during.total_used + during.total_available).toBe(during.total_granted);
      expect(during.total_granted).toBe(before.total_granted);

      controller.abort();
      await expect(stream.text()).rejects.toThrow("aborted");
      const used = await usedUntil(playground().url, "sk-metered", (now) => now < before.total_used + 5_000);
      expect(used).toBeGreaterThan(before.total_used);
      const after = await usageOf(playground().url, "sk-metered");
      expect(after).toEqual({ ...before, total_used: used, total_available: before.total_granted - used });
    });

    it.each(["sk-metered", "sk-limited"])("is charged to %s as its answer says", async (apiKey) => {
      const before = await usageOf(playground().url, apiKey);
      const { usage } = (await (await chat(apiKey, "Hello there")).json()) as {
        usage: { input_tokens: number; output_tokens: number };
      };
      const charged = usage.input_tokens + usage.output_tokens;
      expect(charged).toBeGreaterThan(0);
      expect(await usageOf(playground().url, apiKey)).toEqual({
        ...before,
        total_used: before.total_used + charged,
        total_available: before.total_available - charged,
      });
    });

    it("is counted for the unlimited key too", async () => {
      const before = await usageOf(playground().url, "sk-demo");
      await (await chat("sk-demo", "/repeat 100")).json();
      const after = await usageOf(playground().url, "sk-demo");
      expect(after.total_used).toBeGreaterThanOrEqual(before.total_used + 100);
      expect(after.total_granted).toBe(after.total_used + after.total_available);
      expect(after.unlimited_quota).toBe(true);
    });

    it.each([
      ["sk-empty", 429],
      ["sk-expired", 401],
    ])("that %s may not make costs nothing", async (apiKey, status) => {
      const before = await usageOf(playground().url, apiKey);
      expect((await chat(apiKey, "Hello")).status).toBe(status);
      expect(await usageOf(playground().url, apiKey)).toEqual(before);
    });

    it("that asks for a model beyond the key's list costs nothing", async () => {
      const before = await usageOf(playground().url, "sk-limited");
      const response = await chat("sk-limited", "Hello", { model: "image-model-2" });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: "model_not_allowed" } });
      expect(await usageOf(playground().url, "sk-limited")).toEqual(before);
    });
  });
};
