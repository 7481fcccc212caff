/** The headers of a messages request: the version, the betas, and the credential (spec 4, note 3; 5; 9). */

import { describe, expect, it } from "vitest";
import type { ChatRequest } from "../../../src/index.ts";
import { KEY, type Mount, post, sharedStage } from "../../hosts/stage.ts";
import { MINIMAL } from "./bodies.ts";
import { invalidField, refusalOf, requestIdOf } from "./refusal.ts";

type Changes = Readonly<Record<string, string | undefined>>;

const BARE = KEY.slice("sk-".length);
const EXPIRED = "sk-stage-expired";

const ADMITTED: readonly (readonly [name: string, headers: Changes])[] = [
  ["x-api-key", { "x-api-key": KEY }],
  ["x-api-key without sk-", { "x-api-key": BARE }],
  ["Bearer alone", { "x-api-key": undefined, authorization: `Bearer ${KEY}` }],
  ["Bearer without sk-", { "x-api-key": undefined, authorization: `Bearer ${BARE}` }],
  ["bearer in small letters", { "x-api-key": undefined, authorization: `bearer ${KEY}` }],
  ["Bearer beside an empty x-api-key", { "x-api-key": "", authorization: `Bearer ${KEY}` }],
  ["x-api-key before a Bearer that is unknown", { authorization: "Bearer sk-nobody" }],
  ["x-api-key before another scheme", { authorization: "Basic c2stc3RhZ2U6" }],
];

const REFUSED: readonly (readonly [name: string, headers: Changes, code: string])[] = [
  ["no key", { "x-api-key": undefined }, "missing_api_key"],
  ["an unknown key", { "x-api-key": "sk-nobody" }, "invalid_api_key"],
  ["an unknown Bearer", { "x-api-key": undefined, authorization: "Bearer sk-nobody" }, "invalid_api_key"],
  [
    "an unknown x-api-key before a good Bearer",
    { "x-api-key": "sk-nobody", authorization: `Bearer ${KEY}` },
    "invalid_api_key",
  ],
  ["a key in other letters", { "x-api-key": KEY.toUpperCase() }, "invalid_api_key"],
  ["sk- twice", { "x-api-key": `sk-${KEY}` }, "invalid_api_key"],
  ["sk- alone", { "x-api-key": "sk-" }, "invalid_api_key"],
  ["an expired key", { "x-api-key": EXPIRED }, "expired_api_key"],
  ["another scheme", { "x-api-key": undefined, authorization: `Basic ${KEY}` }, "invalid_api_key"],
  ["a key without a scheme", { "x-api-key": undefined, authorization: KEY }, "invalid_api_key"],
  ["Bearer without a key", { "x-api-key": undefined, authorization: "Bearer" }, "invalid_api_key"],
];

const BETAS: readonly (readonly [name: string, headers: readonly [string, string][], betas: readonly string[]])[] = [
  ["none", [], []],
  ["one", [["compat-beta", "b1"]], ["b1"]],
  ["with commas", [["compat-beta", "b1,b2, b3"]], ["b1", "b2", "b3"]],
  [
    "repeated",
    [
      ["compat-beta", "b1"],
      ["compat-beta", "b2"],
    ],
    ["b1", "b2"],
  ],
  ["under the official name", [["anthropic-beta", "b1,b2"]], ["b1", "b2"]],
  [
    "under both names",
    [
      ["compat-beta", "b1"],
      ["anthropic-beta", "b2"],
    ],
    ["b1", "b2"],
  ],
  ["named twice", [["compat-beta", "b1,b2,b1"]], ["b1", "b2"]],
  ["with empty places", [["compat-beta", ",b1,,"]], ["b1"]],
];

/** Valid headers with some replaced and some added: a name may come twice. */
const headers = (changes: Changes, ...more: readonly (readonly [string, string])[]): Headers => {
  const all = new Headers(post(MINIMAL, changes).headers);
  for (const [name, value] of more) all.append(name, value);
  return all;
};

export function headersSuite(mount: Mount): void {
  const stage = sharedStage(mount, { keys: [{ apiKey: EXPIRED, expiresAt: 1 }] });

  async function native(headers: Headers): Promise<ChatRequest["native"]> {
    const { backend, send } = stage();
    const response = await send(MINIMAL, { headers });
    expect(response.status).toBe(200);
    await response.text();
    return backend.asked.native;
  }

  describe("version", () => {
    it("is required", async () => {
      const response = await stage().send(MINIMAL, { headers: headers({ "compat-version": undefined }) });
      expect(await refusalOf(response)).toEqual(invalidField("anthropic-version"));
    });

    it("may come under its official name", async () => {
      const official = headers({ "compat-version": undefined, "anthropic-version": "2023-06-01" });
      expect(await native(official)).toMatchObject({ version: "2023-06-01" });
    });

    it("under the spec's name goes first", async () => {
      const both = headers({ "compat-version": "2026-10-21", "anthropic-version": "2023-06-01" });
      expect(await native(both)).toMatchObject({ version: "2026-10-21" });
    });

    it("may be one that nobody knows", async () => {
      expect(await native(headers({ "compat-version": "tomorrow" }))).toMatchObject({ version: "tomorrow" });
    });
  });

  describe("betas", () => {
    it.each(BETAS)("%s", async (_name, more, betas) => {
      expect((await native(headers({}, ...more)))?.betas).toEqual(betas);
    });

    it.each(["compat-beta", "anthropic-beta"])(
      "allow a budget above the limit for interleaved thinking: %s",
      async (name) => {
        const { backend, send } = stage();
        const body = { ...MINIMAL, max_tokens: 2_048, thinking: { type: "enabled", budget_tokens: 16_000 } };
        const response = await send(body, { headers: headers({}, [name, "b1,interleaved-thinking-2025-05-14"]) });
        expect(response.status).toBe(200);
        await response.text();
        expect(backend.asked).toMatchObject({ maxOutputTokens: 2_048, reasoning: { budgetTokens: 16_000 } });
        expect(backend.asked.native?.body).toEqual(body);
      },
    );

    it("do not mind the query that beta clients add", async () => {
      const response = await stage().request("/v1/messages?beta=true", post(MINIMAL));
      requestIdOf(response);
      expect(await response.json()).toMatchObject({ type: "message" });
    });
  });

  describe("credential", () => {
    it.each(ADMITTED)("admits %s", async (_name, changes) => {
      const response = await stage().send(MINIMAL, { headers: headers(changes) });
      requestIdOf(response);
      expect(await response.json()).toMatchObject({ type: "message" });
      expect(response.status).toBe(200);
    });

    it.each(REFUSED)("refuses %s", async (_name, changes, code) => {
      const { backend, send } = stage();
      const before = backend.received.length;
      const refusal = await refusalOf(await send(MINIMAL, { headers: headers(changes) }));
      expect(refusal).toEqual({ status: 401, type: "authentication_error", code, message: expect.any(String) });
      expect(refusal.message).not.toContain(BARE);
      expect(backend.received).toHaveLength(before);
    });

    it("goes before the body: a stranger learns nothing of the rules", async () => {
      const response = await stage().send(
        {},
        { headers: headers({ "x-api-key": undefined, "compat-version": undefined }) },
      );
      expect(await refusalOf(response)).toMatchObject({ status: 401, code: "missing_api_key" });
    });

    it("is not shown to the backend", async () => {
      const { backend, send } = stage();
      await (await send(MINIMAL)).text();
      expect(JSON.stringify(backend.asked)).not.toContain(BARE);
    });
  });
}
