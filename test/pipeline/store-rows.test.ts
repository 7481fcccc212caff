/** Rows of a host's own quota store that have not the shape of a key or a balance: the call is refused, and the host hears why. */

import { expect, it } from "vitest";
import { type Balance, createGateway, memoryQuotaStore, type QuotaStore } from "../../src/index.ts";

/** Asks a gateway whose store has rows with these fields for an answer, and for the token usage. */
async function asked(key: object, balance: object) {
  const memory = memoryQuotaStore([{ apiKey: "sk-one", name: "one", granted: 1_000 }]);
  const quotas: QuotaStore = {
    find: async (apiKey) => {
      const found = await memory.find(apiKey);
      return found && { ...found, ...key };
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
  ["expiresAt", new Date(0), "an object"],
  ["expiresAt", undefined, "undefined"],
  ["modelLimitsEnabled", undefined, "undefined"],
  ["modelLimits", null, "null"],
  ["unlimited", "false", "a text"],
  ["name", undefined, "undefined"],
  ["paused", 0, "0"],
])("a key whose %s is %o may do nothing", async (field, value, shown) => {
  const { statuses, usage, failures } = await asked({ [field]: value }, {});
  expect(statuses).toEqual([503, 503]);
  expect(usage).toEqual({ success: false, message: expect.any(String) as unknown });
  expect(failures.join("\n")).toContain(`The store's key has ${field} ${shown}; ${field} must be of the type`);
});

it.each([
  ["used", "5", "a text"],
  ["used", 5.5, "5.5"],
  ["available", Number.POSITIVE_INFINITY, "Infinity"],
  ["available", undefined, "undefined"],
])("a balance whose %s is %o is not told", async (field, value, shown) => {
  const { statuses, failures } = await asked({}, { [field]: value });
  expect(statuses).toEqual([503, 503]);
  expect(failures.join("\n")).toContain(`The store's balance has ${field} ${shown}; ${field} must be an integer.`);
});

it("a key may leave out what it has not", async () => {
  const { statuses, failures } = await asked({ paused: undefined, budget: null, metadata: undefined }, {});
  expect({ statuses, failures }).toEqual({ statuses: [200, 200], failures: [] });
});
