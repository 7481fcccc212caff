/** What a caller is told whose key has too little: in each format, and by what the store saw when it refused. */

import { describe, expect, it, vi } from "vitest";
import type { CallRecord, ModelBackend, ModelInfo, Reservation } from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, opened, type Opened, type Setup } from "./bench.ts";

const KEY = { authorization: "Bearer sk-one", "content-type": "application/json" };

/** One request of each format. */
const FORMATS: readonly [name: string, path: string, headers: Record<string, string>, body: object][] = [
  [
    "messages",
    "/v1/messages",
    { ...KEY, "compat-version": "2023-06-01" },
    { model: "any", max_tokens: 50, messages: [{ role: "user", content: "ten tokens" }] },
  ],
  [
    "generate-content",
    "/v1beta/models/any:generateContent?key=sk-one",
    { "content-type": "application/json" },
    { contents: [{ parts: [{ text: "ten tokens" }] }], generationConfig: { maxOutputTokens: 50 } },
  ],
  ["images", "/v1/images/generations", KEY, { prompt: "A fox.", model: "image-model-2" }],
];

const formats = FORMATS.map(([name, path, headers, body]) => {
  const request = (): Request =>
    new Request(`http://host${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return [name, request] as const;
});

const setup = (reservation: Reservation, more: Setup = {}): Opened =>
  opened({
    backend: {
      async *chat() {
        yield "Hello.";
      },
      async *image() {
        yield drawn(0);
      },
    },
    around: () => ({ reserve: async () => reservation }),
    ...more,
  });

const codes = async (response: Response): Promise<unknown> =>
  ((await response.json()) as { error: Record<string, unknown> }).error;

describe.each(formats)("a %s request", (name, request) => {
  const google = name === "generate-content";

  it("whose quota other calls hold may come back", async () => {
    const { gateway, failures, clock } = setup({ refused: true, available: 0, held: 100_000 });
    const response = await gateway.fetch(request());
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(response.headers.get("retry-after-ms")).toBe("1000");
    expect(response.headers.get("x-should-retry")).toBeNull();
    expect(await codes(response)).toMatchObject(google ? { status: "RESOURCE_EXHAUSTED" } : { code: "quota_held" });
    expect([failures, clock.pending]).toEqual([[], 0]);
  });

  it.each([
    ["with nothing left", { available: 0, held: 0 }, google ? 403 : 429, "PERMISSION_DENIED"],
    ["with too little left", { available: 3, held: 2 }, 429, "RESOURCE_EXHAUSTED"],
  ])("%s need not", async (_what, saw, status, named) => {
    const { gateway } = setup({ refused: true, ...saw });
    const response = await gateway.fetch(request());
    expect(response.status).toBe(status);
    expect(response.headers.get("retry-after")).toBeNull();
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(await codes(response)).toMatchObject(google ? { status: named } : { code: "insufficient_quota" });
  });

  it.each([
    [{ available: 0, held: 100_000 }, "The quota that is left of this API key is held by other calls."],
    [{ available: 3, held: 2 }, "The remaining quota of this API key is too small for this request."],
    [{ available: 0, held: 0 }, "The quota of this API key is used up."],
  ])("names no budget where the key's own quota has refused, with and without one: %o", async (saw, message) => {
    const reserve = async () => ({ refused: true as const, ...saw });
    const withBudget: Setup["around"] = (store) => ({
      reserve,
      async find(apiKey) {
        const key = await store.find(apiKey);
        return key && { ...key, budget: "team" };
      },
    });
    for (const around of [() => ({ reserve }), withBudget]) {
      const { gateway } = setup({ refused: true, ...saw }, { around });
      const figures = ` Units needed: ${name === "images" ? 2_000 : 11}, available: ${saw.available}.`;
      // The least cost of the call is no amount that would help where nothing is left.
      const isUsedUp = saw.available + saw.held === 0;
      expect((await codes(await gateway.fetch(request()))) as object).toMatchObject({
        message: isUsedUp ? message : message + figures,
      });
    }
  });

  it("priced in a currency is told amounts in it", async () => {
    const saw = { refused: true as const, available: 2_000, held: 0 };
    for (const [unit, figures] of [
      ["usd", "Needed: 0.02 USD, available: 0.0020 USD."],
      ["unit", "Units needed: 20000, available: 2000."],
    ] as const) {
      const records: CallRecord[] = [];
      const prices = priceTable({
        "*": {
          input: 0,
          output: 20_000,
          per: unit === "usd" ? 1e6 : 1,
          pictures: unit === "usd" ? 0.02 : 20_000,
          unit,
        },
      });
      const { gateway } = setup(saw, { ...prices, onCall: (record) => records.push(record) });
      const message = `The remaining quota of this API key is too small for this request. ${figures}`;
      expect(await codes(await gateway.fetch(request()))).toMatchObject({ message });
      expect(records[0]?.refusedBy).toMatchObject({ needed: 20_000, available: 2_000 });
    }
  });

  it("that is refused before its body is parsed is recorded with its model, and without a cost that nobody knows", async () => {
    const records: CallRecord[] = [];
    const { gateway } = setup(
      { refused: true, available: 0, held: 0 },
      {
        onCall: (record) => records.push(record),
        around: () => ({
          reserve: async () => ({ refused: true, available: 0, held: 0 }),
          balance: async () => ({ granted: 5, used: 5, available: 0, held: 0 }),
        }),
      },
    );
    const model = name === "images" ? "image-model-2" : "any";
    for (const _ of [1, 2]) {
      const asked = request();
      // A body of unknown length is not read for such a key.
      asked.headers.set("content-length", String((await request().text()).length));
      expect((await gateway.fetch(asked)).status).toBe(google ? 403 : 429);
    }
    expect(records.map(({ modelAsked }) => modelAsked)).toEqual([model, model]);
    expect(records.map(({ refusedBy }) => refusedBy?.needed)).toEqual([name === "images" ? 2_000 : 11, undefined]);
  });

  it("is told the budget that refuses it, when it begins anew, and not a parent's name", async () => {
    const endsAt = Date.UTC(2026, 0, 8);
    const anew = "The budget begins anew at 2026-01-08T00:00:00.000Z.";
    for (const [budget, named] of [
      ["team", 'the budget "team" of this API key'],
      ["company", "a budget of this API key"],
    ] as const) {
      const saw = { refused: true as const, available: 0, held: 0, budget, endsAt };
      const records: CallRecord[] = [];
      const { gateway, clock } = setup(saw, {
        onCall: (record) => records.push(record),
        around: (store) => ({
          reserve: async () => saw,
          async find(apiKey) {
            const key = await store.find(apiKey);
            return key && { ...key, budget: "team" };
          },
        }),
      });
      const response = await gateway.fetch(request());
      const needed = name === "images" ? 2_000 : 11;
      const message = `The quota of ${named} is used up. ${anew}`;
      const error = (await codes(response)) as { details?: unknown };
      expect(error).toMatchObject({ message });
      const waitMs = endsAt - clock.now();
      expect(response.headers.get("retry-after")).toBe(String(Math.ceil(waitMs / 1_000)));
      expect(response.headers.get("x-should-retry")).toBe("false");
      const delays = JSON.stringify(error.details ?? []).match(/"retryDelay":"[\d.]+s"/g);
      expect(delays).toEqual(google ? [`"retryDelay":"${waitMs / 1_000}s"`] : null);
      const refusedBy = { kind: "budget", needed, available: 0, held: 0, budget, endsAt };
      expect(records[0]).toMatchObject({ refusedBy, errorCode: "quota_exhausted", key: { budget: "team" } });
    }
  });

  it("that is refused by a used-up key is recorded with the model of the backend's last list", async () => {
    let left = 100_000;
    const records: CallRecord[] = [];
    const model = name === "images" ? "image-model-2" : "any";
    const models = vi.fn<() => readonly ModelInfo[]>(() => [{ id: model, kinds: ["chat", "image"] }]);
    const backend: ModelBackend = {
      models,
      async *chat() {
        yield "Hello.";
      },
      async *image() {
        yield drawn(0);
      },
    };
    const { gateway } = setup(
      { granted: 50_000 },
      {
        backend,
        onCall: (record) => records.push(record),
        around: () => ({ balance: async () => ({ used: 1, available: left, held: 0 }) }),
      },
    );
    const asked = (): Request => {
      const one = request();
      one.headers.set("content-length", "200");
      return one;
    };
    await (await gateway.fetch(request())).text();
    left = 0;
    expect((await gateway.fetch(request())).status).toBe(google ? 403 : 429);
    expect((await gateway.fetch(asked())).status).toBe(google ? 403 : 429);
    expect(records.at(-1)).toMatchObject({ modelAsked: model, modelListed: true });
    // A caller who cannot pay costs the backend no question.
    expect(models).toHaveBeenCalledTimes(1);
  });

  it("whose key is drained after it was found is told what the store saw then", async () => {
    const { gateway, store, clock } = setup(
      { granted: 0 },
      {
        key: { granted: 100_000 },
        around: (store) => ({
          async find(apiKey) {
            const key = await store.find(apiKey);
            // Another instance spends everything between the two steps.
            await store.reserve({ id: "other", keyId: "one", atLeast: 100_000, atMost: 100_000, leaseMs: 1_000 });
            await store.settle("other", { used: 100_000, certainty: "exact" });
            return key;
          },
        }),
      },
    );
    const response = await gateway.fetch(request());
    expect(response.status).toBe(google ? 403 : 429);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(store.report("one")).toMatchObject({ used: 100_000, held: 0 });
    expect(clock.pending).toBe(0);
  });

  it("is served when what was held has come back", async () => {
    const { gateway, store, report } = setup({ granted: 0 }, { key: { granted: 10_000 }, around: () => ({}) });
    await store.reserve({ id: "other", keyId: "one", atLeast: 10_000, atMost: 10_000, leaseMs: 60_000 });
    expect((await gateway.fetch(request())).status).toBe(429);
    await store.settle("other", { used: 0, certainty: "exact" });
    expect((await gateway.fetch(request())).status).toBe(200);
    expect(report()).toMatchObject(AT_REST);
  });
});
