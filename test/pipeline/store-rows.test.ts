/** Rows of a host's own quota store that have not the shape of a key or a balance: the call is refused, and the host hears why. */

import { expect, it } from "vitest";
import { type ApiKey, type Balance, createGateway, memoryQuotaStore, type QuotaStore } from "../../src/index.ts";

/** Asks a gateway whose store has rows with these fields for an answer, and for the token usage. */
async function asked(key: object, balance: object) {
  const memory = memoryQuotaStore([{ apiKey: "sk-one", name: "one", granted: 1_000 }]);
  const quotas: QuotaStore = {
    find: async (apiKey) => {
      const found = await memory.find(apiKey);
      // Rows of an object mapper have their fields on the prototype.
      return found && Object.assign(Object.create({ ...found }) as ApiKey, key);
    },
    balance: async (keyId) => ({ ...(await memory.balance(keyId)), ...balance }) as Balance,
    reserve: (hold) => memory.reserve(hold),
    renew: (id, renewal) => memory.renew(id, renewal),
    settle: (id, outcome) => memory.settle(id, outcome),
  };
  const failures: string[] = [];
  const backend = {
    async *chat() {
      yield "Hi";
    },
  };
  const gateway = createGateway({ backend, quotas, onFailure: ({ text }) => void failures.push(text) });
  const headers = { authorization: "Bearer one", "content-type": "application/json", "anthropic-version": "1" };
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  const answer = await gateway.fetch(new Request("http://gateway.test/v1/messages", { method: "POST", headers, body }));
  const usage = await gateway.fetch(new Request("http://gateway.test/api/usage/token", { headers }));
  return { statuses: [answer.status, usage.status], usage: await usage.json(), failures };
}

it.each([
  ["id", undefined, "undefined"],
  ["expiresAt", new Date(0), "an object"],
  ["expiresAt", undefined, "undefined"],
  ["expiresAt", "2020-01-01", "a text"],
  ["modelLimitsEnabled", undefined, "undefined"],
  ["unlimited", "false", "a text"],
  ["name", {}, "an object"],
  ["paused", 2, "2"],
])("a key whose %s is %o may do nothing", async (field, value, shown) => {
  const { statuses, usage, failures } = await asked({ [field]: value }, {});
  expect(statuses).toEqual([503, 503]);
  expect(usage).toEqual({ success: false, message: expect.any(String) as unknown });
  expect(failures.join("\n")).toContain(`The store's key has ${field} ${shown}; ${field} must be of the type`);
});

it("a key whose models are limited, and that has no list of them, may do nothing", async () => {
  const { statuses, failures } = await asked({ modelLimitsEnabled: 1, modelLimits: null }, {});
  expect(statuses).toEqual([503, 503]);
  expect(failures.join("\n")).toContain(
    "The store's key has modelLimits null; modelLimits must be of the type object.",
  );
});

it.each([
  ["used", {}, "an object"],
  ["used", Number.NaN, "NaN"],
  ["available", "many", "a text"],
  ["available", undefined, "undefined"],
])("a balance whose %s is %o is not told", async (field, value, shown) => {
  const { statuses, failures } = await asked({}, { [field]: value });
  expect(statuses).toEqual([503, 503]);
  expect(failures.join("\n")).toContain(`The store's balance has ${field} ${shown}; ${field} must be a number.`);
});

it.each<[string, object, object, object]>([
  [
    "what it has not, as null",
    { paused: null, budget: null, metadata: null, name: null, expiresAt: null },
    {},
    { name: "" },
  ],
  ["no limits of models", { modelLimits: undefined, modelLimitsEnabled: undefined }, {}, {}],
  ["flags as numbers", { paused: 0, modelLimitsEnabled: 0, unlimited: 1 }, {}, { unlimited_quota: true }],
  [
    "numbers as texts",
    { expiresAt: "4000000000" },
    { used: "1", available: "9" },
    { expires_at: 4e9, total_granted: 10 },
  ],
  ["fractions", {}, { used: 1.5, available: 9.5 }, { total_used: 1, total_available: 9, total_granted: 10 }],
  [
    "units without end",
    { unlimited: true },
    { available: Infinity },
    { unlimited_quota: true, total_granted: Number.MAX_SAFE_INTEGER },
  ],
  ["notes that are no object", { metadata: "{}" }, {}, {}],
])("a row with %s works, and the caller gets the types of the specification", async (_name, key, balance, expected) => {
  const { statuses, usage, failures } = await asked(key, balance);
  expect({ statuses, failures }).toEqual({ statuses: [200, 200], failures: [] });
  const told = { name: "one", unlimited_quota: false, model_limits: {}, model_limits_enabled: false, expires_at: 0 };
  expect(usage).toMatchObject({ data: { ...told, ...expected } });
});

it.each([{ paused: 1 }, { expiresAt: "1" }, { modelLimitsEnabled: 1, modelLimits: { other: true } }])(
  "a key with %o is refused as such a key, not as a broken one",
  async (key) => {
    const { statuses, failures } = await asked(key, {});
    expect(statuses[0]).toBeOneOf([400, 401, 403]);
    expect(failures).toEqual([]);
  },
);
