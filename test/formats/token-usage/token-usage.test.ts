/** The token usage endpoint (spec 2.5, 5, 7.1): its answer for every kind of key, and its refusals word for word. */

import { expect, it } from "vitest";
import {
  type ApiKey,
  type ApiKeyOptions,
  createGateway,
  memoryQuotaStore,
  type QuotaStore,
} from "../../../src/index.ts";
import { openStage, sharedStage, type Stage } from "../../hosts/stage.ts";
import { UNASKED } from "../../pipeline/bench.ts";
import { inProcess } from "../in-process.ts";

const PATH = "/api/usage/token";
const NEXT_CENTURY = 4_102_444_800;

const KEYS: readonly ApiKeyOptions[] = [
  { apiKey: "sk-metered", name: "metered", granted: 1000, used: 250 },
  { apiKey: "sk-unlimited", name: "unlimited" },
  { apiKey: "sk-limited", name: "limited", granted: 10, models: ["model-a", "model-b"] },
  { apiKey: "sk-never", name: "never", granted: 10, expiresAt: -1 },
  { apiKey: "sk-someday", name: "someday", granted: 10, expiresAt: NEXT_CENTURY },
  { apiKey: "sk-expired", name: "expired", granted: 10, used: 4, expiresAt: 1_700_000_000 },
  { apiKey: "sk-empty", name: "empty", granted: 10, used: 10 },
  { apiKey: "bare", name: "bare", granted: 10 },
];

const data = (fields: object): object => ({
  object: "token_usage",
  total_granted: 10,
  total_used: 0,
  total_available: 10,
  unlimited_quota: false,
  model_limits: {},
  model_limits_enabled: false,
  expires_at: 0,
  ...fields,
});

const METERED = data({ name: "metered", total_granted: 1000, total_used: 250, total_available: 750 });
const UNLIMITED = { total_granted: 0, total_used: 0, total_available: 0, unlimited_quota: true };

const ANSWERED: readonly (readonly [name: string, authorization: string, expected: object])[] = [
  ["a metered key", "Bearer sk-metered", METERED],
  ["a key without sk-", "Bearer metered", METERED],
  ["bearer in small letters", "bearer sk-metered", METERED],
  ["a key that was made without sk-", "Bearer bare", data({ name: "bare" })],
  ["a key that was made without sk-, asked with it", "Bearer sk-bare", data({ name: "bare" })],
  ["an unlimited key", "Bearer sk-unlimited", data({ name: "unlimited", ...UNLIMITED })],
  [
    "a key with model limits",
    "Bearer sk-limited",
    data({ name: "limited", model_limits: { "model-a": true, "model-b": true }, model_limits_enabled: true }),
  ],
  ["a key that expires at -1, which is never", "Bearer sk-never", data({ name: "never", expires_at: 0 })],
  ["a key that expires one day", "Bearer sk-someday", data({ name: "someday", expires_at: NEXT_CENTURY })],
  [
    "a key that has expired",
    "Bearer sk-expired",
    data({ name: "expired", total_used: 4, total_available: 6, expires_at: 1_700_000_000 }),
  ],
  ["a key that is used up", "Bearer sk-empty", data({ name: "empty", total_used: 10, total_available: 0 })],
];

const REFUSED: readonly (readonly [name: string, headers: Record<string, string>, message: string])[] = [
  ["no Authorization header", {}, "No Authorization header"],
  ["a key where another endpoint has it", { "x-api-key": "sk-metered" }, "No Authorization header"],
  ["the api-key of Azure's clients", { "api-key": "sk-metered" }, "No Authorization header"],
  ["an empty Authorization header", { authorization: "" }, "No Authorization header"],
  ["another scheme", { authorization: "Basic c2stbWV0ZXJlZDo=" }, "Invalid Bearer token"],
  ["a key without a scheme", { authorization: "sk-metered" }, "Invalid Bearer token"],
  ["Bearer without a token", { authorization: "Bearer" }, "Invalid Bearer token"],
  ["a scheme that begins like Bearer", { authorization: "Bearers sk-metered" }, "Invalid Bearer token"],
  ["an unknown key", { authorization: "Bearer sk-nobody" }, "token not found"],
  ["sk- alone", { authorization: "Bearer sk-" }, "token not found"],
  ["a key in other letters", { authorization: "Bearer SK-METERED" }, "token not found"],
];

/** A store with its required methods alone. */
const portOf = (store: QuotaStore): QuotaStore => ({
  find: (apiKey) => store.find(apiKey),
  balance: (keyId) => store.balance(keyId),
  reserve: (hold) => store.reserve(hold),
  renew: (id, renewal) => store.renew(id, renewal),
  settle: (id, settlement) => store.settle(id, settlement),
});

const ask = ({ request }: Stage, authorization: string): Promise<Response> =>
  request(PATH, { headers: { authorization } });

/** Checks the rules of every answer. */
function expectIds(response: Response): void {
  expect(response.headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  expect(response.headers.get("x-request-id")).toBe(response.headers.get("request-id"));
  expect(response.headers.get("content-type")).toBe("application/json");
}

const stage = sharedStage(inProcess, { keys: KEYS });

it.each(ANSWERED)("tells %s its quota", async (_name, authorization, expected) => {
  const response = await ask(stage(), authorization);
  expect(response.status).toBe(200);
  expectIds(response);
  expect(await response.json()).toEqual({ code: true, message: "ok", data: expected });
});

it.each(REFUSED)("refuses %s", async (_name, headers, message) => {
  const response = await stage().request(PATH, { headers });
  expect(response.status).toBe(401);
  expectIds(response);
  expect(await response.json()).toEqual({ success: false, message });
});

it("knows no key that was deleted since it was found", async () => {
  const quotas = memoryQuotaStore(KEYS);
  const found = await quotas.find("metered");
  quotas.remove("key-1");
  const gateway = createGateway({ quotas: { ...portOf(quotas), find: async () => found }, backend: UNASKED });
  const response = await gateway.fetch(
    new Request(`http://gateway.test${PATH}`, { headers: { authorization: "Bearer sk-metered" } }),
  );
  expect([response.status, await response.json()]).toEqual([401, { success: false, message: "token not found" }]);
});

it.each([
  [1_700_000_000.5, 1_700_000_001],
  [Number.NaN, 0],
  [Number.POSITIVE_INFINITY, 0],
])("tells an end of %d, which a host's store may keep, as %d", async (expiresAt, told) => {
  const quotas = memoryQuotaStore(KEYS);
  const found = await quotas.find("metered");
  if (!found) throw new Error("The key was expected.");
  const find = async (): Promise<ApiKey> => ({ ...found, expiresAt });
  const gateway = createGateway({ quotas: { ...portOf(quotas), find }, backend: UNASKED });
  const response = await gateway.fetch(
    new Request(`http://gateway.test${PATH}`, { headers: { authorization: "Bearer sk-metered" } }),
  );
  expect(await response.json()).toMatchObject({ data: { expires_at: told } });
});

it("forgets a key that was deleted", async () => {
  await using own = await openStage(inProcess, { keys: KEYS });
  own.quotas.remove("sk-metered");
  const response = await ask(own, "Bearer sk-metered");
  expect(response.status).toBe(401);
  expect(await response.json()).toEqual({ success: false, message: "token not found" });
});
