/** The reports about recorded calls, as functions. */

import { describe, expect, it, vi } from "vitest";
import { inCurrency, nextSteps, reasonsOf as sentencesAbout } from "../../src/admin/call-admin.ts";
import { callsCsv, callsText } from "../../src/admin/call-list.ts";
import { tableOf } from "../../src/admin/columns.ts";
import { callAdmin, usageCsv, type UsageRow } from "../../src/admin/index.ts";
import { usageText } from "../../src/admin/usage-table.ts";
import { GATEWAY_ERROR_CODES, type GatewayErrorCode, toGatewayError } from "../../src/errors.ts";
import { createGateway, type Gateway, GatewayError, type ModelBackend } from "../../src/index.ts";
import { given } from "../../src/model/json.ts";
import { priceTable } from "../../src/prices/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { relay, type RelayOptions } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { watched } from "../telemetry/stage.ts";

const SUMS = {
  calls: 1,
  refused: 0,
  failed: 0,
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  images: 0,
  units: 12,
  estimated: 0,
};

it("a report takes the currency that a user names, with the amounts of its rows and their sum", () => {
  const report = { by: ["model"] as const, rows: [{ ...SUMS, model: "m" }], total: { ...SUMS, units: 12_500_000 } };
  expect(inCurrency(report, undefined)).toBe(report);
  expect(inCurrency(report, "eur")).toMatchObject({
    currency: "EUR",
    rows: [{ units: 12, money: "0.000012" }],
    total: { units: 12_500_000, money: "12.500000" },
  });
});

it("a report in one of several currencies, or in none of them, names the others", () => {
  const total = { ...SUMS, units: 5 };
  const report = { by: [], rows: [total], total, currency: "USD", otherCurrencies: ["", "EUR"] };
  expect(inCurrency(report, "usd")).toBe(report);
  expect(inCurrency(report, "eur")).toMatchObject({ currency: "EUR", otherCurrencies: ["USD", ""] });
  expect(inCurrency(report, "gbp")).toMatchObject({
    currency: "GBP",
    otherCurrencies: ["USD", "", "EUR"],
    total: { money: "0.000005" },
  });
  // Most of the units were recorded without a currency: another part is in the given one.
  const { currency: _, ...ofUnits } = { ...report, otherCurrencies: ["EUR"] };
  expect(inCurrency(ofUnits, "eur")).toMatchObject({ currency: "EUR", otherCurrencies: [""] });
  expect(inCurrency(ofUnits, "usd")).toMatchObject({ currency: "USD", otherCurrencies: ["EUR"] });
  // A report without a charge counts nothing in a wrong currency.
  const free = { by: [], rows: [], total: { ...SUMS, units: 0 }, currency: "USD" };
  expect(inCurrency(free, "eur")).not.toHaveProperty("otherCurrencies");
});

const csvOf = (rows: readonly UsageRow[]): string => usageCsv({ by: ["model"], rows, total: SUMS });

describe("usageCsv", () => {
  it("writes the headings of its columns also without rows", () => {
    expect(usageCsv({ by: ["key", "day"], rows: [], total: SUMS }, { currency: "usd" })).toMatch(
      /^key,keyName,day,since,until,timeZone,spent,currency,calls,.*,estimated,asOf\r\n$/,
    );
  });

  it("writes the names of keys and budgets, and amounts with as many digits as a unit needs", () => {
    const row = { ...SUMS, key: "anna", keyName: "=Anna", budget: "team", budgetName: "Team A", units: 12_500_000 };
    const report = { by: ["key", "budget"] as const, rows: [row], total: SUMS, currency: "USD" };
    expect(usageCsv(report).split("\r\n")[1]).toMatch(/^anna,'=Anna,team,Team A,,,,12\.500000,USD,1,/);
    expect(usageCsv(report, { currency: "usd" })).toBe(usageCsv(report));
    const wrong = "The currency must be USD, in which calls are recorded, not EUR.";
    expect(() => usageCsv(report, { currency: "eur" })).toThrow(wrong);
  });

  it("says below the sum of a spreadsheet that the sum counts charges in other currencies, and keeps the rows of programs", () => {
    const total = { ...SUMS, units: 5 };
    const one = { by: ["model"] as const, rows: [{ ...total, model: "m" }], total, currency: "USD" };
    const mixed = { ...one, otherCurrencies: ["EUR", ""] };
    const note =
      "Charges that were recorded in EUR and without a currency are counted as USD, unit for unit: nothing is converted.";
    const lines = usageCsv(mixed, { spreadsheet: "excel" }).split("\r\n");
    expect(lines.at(-3)).toMatch(/^Total,/);
    expect(lines.at(-2)).toMatch(new RegExp(`^"${note}",+$`));
    expect(usageCsv(mixed, { spreadsheet: "excel-europe" }).split("\r\n").at(-2)).toMatch(new RegExp(`^"${note}";+$`));
    expect(usageCsv(mixed)).toBe(usageCsv(one));
  });

  it("writes for a spreadsheet that people open by hand, and otherwise for programs", () => {
    const row = { ...SUMS, model: "Größe, 2;=1", units: 12_500_000 };
    const days = { since: "2026-10-01", until: "2026-10-31" };
    const report = { by: ["model"] as const, rows: [row], total: SUMS, currency: "USD", ...days };
    const plain = usageCsv(report);
    const [first = "", second = ""] = plain.split("\r\n");
    expect(usageCsv(report, { spreadsheet: "excel" }).split("\r\n").slice(1)).toEqual([
      second.replace("2026-10-31,,", "2026-10-31,of each budget or of the gateway (UTC by default),"),
      "",
    ]);
    // Headings for people, for which programs have the names of the fields.
    expect(first).toMatch(
      /^model,since,until,timeZone,spent,currency,calls,refused,failed,inputTokens,.*,units,estimated,asOf$/,
    );
    const named = { by: ["key", "budget", "month"] as const, rows: [], total: SUMS, currency: "USD" };
    expect(usageCsv(named, { spreadsheet: "excel" })).toBe(
      "\uFEFFKey,Key name,Budget,Budget name,Month,From,Until,Time zone,Spent,Currency,Calls,Refused calls,Failed calls," +
        "Input tokens,Output tokens,Tokens read from the cache,Tokens written to the cache,Reasoning tokens,Images,Units (millionths),Estimated units (millionths),As of (UTC)\r\n",
    );
    const [headings, line] = usageCsv(report, { spreadsheet: "excel-europe" }).split("\r\n");
    expect(headings).toMatch(/^\uFEFFModel;From;Until;Time zone;Spent;Currency;Calls;/);
    expect(line).toMatch(
      /^"Größe, 2;'=1";2026-10-01;2026-10-31;of each budget or of the gateway \(UTC by default\);12,500000;USD;1;0;/,
    );
    // A cell that would run after a semicolon is a text in any case.
    expect(plain.split("\r\n")[1]).toMatch(/^"Größe, 2;'=1",2026-10-01,2026-10-31,,12\.500000,USD,/);
    // As is one that would run after a comma or a tab.
    const split = ["x,=HYPERLINK(A1),y", "x;+1", "x\t=1", 'x,"@SUM(1)', "x, -1"].map((model) => ({ ...SUMS, model }));
    for (const spreadsheet of [undefined, "excel", "excel-europe"] as const)
      expect(usageCsv({ ...report, rows: split }, given({ spreadsheet })).replaceAll(/"(?=")/g, "")).not.toMatch(
        /[,;\t][\s"]*[=+@-]/,
      );
    expect(() => usageCsv(report, { spreadsheet: "lotus" as never })).toThrow("spreadsheet must be");
  });

  it("makes one format for all times of a time zone", () => {
    const formats = vi.spyOn(Intl, "DateTimeFormat");
    const rows = Array.from({ length: 50 }, (_, at) => ({ ...SUMS, model: `m${at}` }));
    usageCsv({ by: ["model"], rows, total: SUMS, asOf: Date.UTC(2026, 10, 1, 8) }, { spreadsheet: "excel" });
    expect(formats.mock.calls.length).toBeLessThan(2);
    formats.mockRestore();
  });

  it("says in each row which days it sums, and in which time zone the days of a budget begin", () => {
    const days = { since: "2026-09-15", until: "2026-11-02" };
    const daysOf = (by: "budget" | "day" | "month", ...names: readonly string[]): unknown => {
      const zoneOf = (name: string) => by === "budget" && { timeZone: name === "" ? "" : "Asia/Tokyo" };
      const rows = names.map((name) => ({ ...SUMS, [by]: name, ...zoneOf(name) }));
      const total = { ...SUMS, calls: names.length, units: names.length * SUMS.units };
      const lines = usageCsv({ by: [by], rows, total, ...days }, { spreadsheet: "excel" })
        .trimEnd()
        .split("\r\n");
      const first = by === "budget" ? 2 : 1;
      return lines.slice(1).map((line) =>
        line
          .split(",")
          .slice(first, first + 3)
          .join(" "),
      );
    };
    const [whole, unknown] = ["2026-09-15 2026-11-02", "of each budget or of the gateway (UTC by default)"];
    expect(daysOf("budget", "", "team")).toEqual([
      `${whole} of the gateway (UTC by default)`,
      `${whole} Asia/Tokyo`,
      `${whole} ${unknown}`,
    ]);
    expect(daysOf("day", "2026-10-03")).toEqual([`2026-10-03 2026-10-03 ${unknown}`, `${whole} ${unknown}`]);
    expect(daysOf("month", "2026-09", "2026-10", "2026-11")).toEqual([
      `2026-09-15 2026-09-30 ${unknown}`,
      `2026-10-01 2026-10-31 ${unknown}`,
      `2026-11-01 2026-11-02 ${unknown}`,
      `${whole} ${unknown}`,
    ]);
  });

  it("ends with the sum of all rows in a spreadsheet, unless the rows are a page of a longer report", () => {
    const row = { ...SUMS, model: "small" };
    const total = { ...SUMS, calls: 2 * SUMS.calls, units: 2 * SUMS.units };
    const endOf = (rows: readonly UsageRow[], sums: typeof total): string =>
      usageCsv({ by: ["model"], rows, total: sums, asOf: Date.UTC(2026, 10, 1, 8) }, { spreadsheet: "excel" })
        .trimEnd()
        .split("\r\n")
        .at(-1) ?? "";
    const two = [row, { ...row, model: "large" }];
    expect(endOf(two, total)).toMatch(
      /^Total,,,of each budget or of the gateway \(UTC by default\),2,.*,24,0,2026-11-01 08:00:00$/,
    );
    expect(endOf([row], total)).toMatch(/^small,,,of each budget or of the gateway \(UTC by default\),1,/);
    // The calls beside those of the rows cost nothing.
    expect(endOf([row], { ...total, units: SUMS.units })).toMatch(
      /^Total,,,of each budget or of the gateway \(UTC by default\),2,.*,12,0,2026-11-01 08:00:00$/,
    );
  });

  it.each([
    ["=1+1", "'=1+1"],
    ["  +1", "'  +1"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["\uFF1Dcmd|calc", "'\uFF1Dcmd|calc"],
    ["\uFEFF\u200B-1", "'\uFEFF\u200B-1"],
    ["a,b", `"a,b"`],
    // With semicolons between the cells, the quote in the middle of the line is a part of the text.
    ["a;=1", `"a;'=1"`],
    [`a;"=1`, `"a;'""=1"`],
    ["a; +1;b;@c", `"a;' +1;b;'@c"`],
    ["a;b-c", `"a;b-c"`],
    [`say "hi"`, `"say ""hi"""`],
    ["a\r\n=1", "a\\u000d\\u000a=1"],
    ["\t=1", "\\u0009=1"],
    ["\u001B[31mred\u0007", "\\u001b[31mred\\u0007"],
    ["\u202Etxt", "\\u202etxt"],
    ["München 🌧", "München 🌧"],
  ])("writes %j as a text on one line that no spreadsheet runs", (model, cell) => {
    expect(csvOf([{ model, ...SUMS }]).split("\r\n")[1]).toBe(`${cell},,,,1,0,0,0,0,0,0,0,0,12,0,`);
  });
});

const linesOf = (rows: readonly UsageRow[], total: object): string[] =>
  usageText({ by: ["key"], rows, total: { ...SUMS, ...total }, currency: "USD" }, undefined, 120).text.split("\n");

describe("a table of usage", () => {
  it.each([
    ["USD", [300_000_000, 100_000_000], ["300.00", "100.00", "400.00"]],
    ["USD", [300_000_000, 12_500], ["300.0000", "  0.0125", "300.0125"]],
    ["USD", [20_000_000, 2_000, 0], ["20.0000", " 0.0020", " 0.0000", "20.0020"]],
    ["USD", [0, 1], ["0.000000", "0.000001", "0.000001"]],
    ["JPY", [300_000_000, 500_000], ["300.0", "  0.5", "300.5"]],
    ["KWD", [1_500_000, 250], ["1.50000", "0.00025", "1.50025"]],
  ])(
    "in %s, writes %j with one number of decimals: the usual one, or as many as one amount needs",
    (currency, amounts, cells) => {
      const row = { ...SUMS, keyName: "" };
      const rows = amounts.map((units, at) => ({ ...row, key: `key-${at}`, units }));
      const total = { ...SUMS, calls: rows.length, units: amounts.reduce((sum, units) => sum + units, 0) };
      const { text } = usageText({ by: ["key"], rows, total, currency }, undefined, 120);
      const [headings = "", ...lines] = text.split("\n");
      const end = headings.indexOf(currency) + currency.length;
      expect(lines.map((line) => line.slice("key-0  ".length, end).slice(-(cells[0]?.length ?? 0)))).toEqual(cells);
    },
  );

  it("has a dash for a name that is the id, and counts refusals also where all calls are refused", () => {
    const [one, two] = [
      { ...SUMS, key: "lim", keyName: "lim", refused: 1 },
      { ...SUMS, key: "key-2", keyName: "Anna", refused: 1 },
    ];
    expect(linesOf([one, two], { calls: 2, refused: 2, units: 24 }).map((line) => line.split(/ {2,}/).join())).toEqual([
      "KEY,KEY NAME,SPENT USD,CALLS,REFUSED",
      "lim,-,0.000012,1,1",
      "key-2,Anna,0.000012,1,1",
      "Total,-,0.000024,2,2",
    ]);
    expect(linesOf([one], { refused: 1 })[0]).toBe("KEY    SPENT USD  CALLS  REFUSED");
  });
});

it("a table for people stands in columns, also with names of wide letters and with marks", () => {
  const rows = ["東京チーム", "Zu\u0308rich", "🌧", "plain", "한국어 이름이 깁니다"].map((NAME) => ({
    NAME,
    SPENT: "1.50",
  }));
  expect(tableOf(rows, 18).split("\n")).toEqual([
    "NAME         SPENT",
    "東京チーム    1.50",
    "Zu\u0308rich        1.50",
    "🌧            1.50",
    "plain         1.50",
    "한국어 이…    1.50",
  ]);
});

const nothing = (): void => {};

const ASKED = { format: "own", kind: "chat", stream: false, modelListed: false } as const;

/** A backend that says that it was asked, speaks one word, and goes on until it is cut. */
const endless = (onAsked: () => void): ModelBackend => ({
  async *chat(_request, { observeUpstream, signal }) {
    const attempt = observeUpstream?.({ ...ASKED, name: "slow", model: "large-2" });
    yield "Hello.";
    onAsked();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    attempt?.end({ errorCode: signal.reason.code, endMs: 7 });
    throw signal.reason;
  },
});

/** A backend whose upstream fails. */
const failing = (error: unknown): ModelBackend => ({
  async *chat(_request, { observeUpstream }) {
    yield* [];
    const attempt = observeUpstream?.({ ...ASKED, name: "main", model: "large-2" });
    attempt?.end({ status: 599, errorCode: toGatewayError(error, "model-backend").code, endMs: 7 });
    throw error;
  },
});

const speaking: ModelBackend = {
  async *chat() {
    yield "Hello.";
  },
};

/** Returns the reasons of the end of one call. */
async function reasonsOf(
  backend: ModelBackend,
  body: object,
  work?: (gateway: Gateway) => void,
  granted = 100_000,
  signal: AbortSignal | null = null,
  prices: Partial<ReturnType<typeof priceTable>> = {},
) {
  const stores = await openStores("sqlite::memory:");
  const onCall = stores.recorder();
  const gateway = createGateway({ backend, ...prices, ...stores.ports, onCall, onFailure: nothing });
  await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna", granted });
  const asked = gateway.fetch(
    new Request("http://host/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-anna", "content-type": "application/json" },
      body: JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }], ...body }),
      signal,
    }),
  );
  work?.(gateway);
  await (await asked).text();
  await gateway.close();
  await onCall.flush();
  const [call] = await stores.calls.list();
  const reason = await callAdmin(stores.calls).why(call?.requestId ?? "");
  await stores.close();
  return reason;
}

/** Returns the reasons of the end of a call whose client the backend makes leave. */
async function reasonsOfLeaving(backend: (client: AbortController) => ModelBackend) {
  const client = new AbortController();
  return reasonsOf(backend(client), {}, undefined, undefined, client.signal);
}

const sentencesOf = (reason: Awaited<ReturnType<typeof reasonsOf>>): string[] =>
  (reason?.next ?? []).map(({ sentence }) => sentence.replaceAll(reason?.call.requestId ?? "", "ID"));

const inLog = (what: string): string => `look for ID in the log of the gateway, which has ${what}.`;

const image = (source: object) => ({ messages: [{ role: "user", content: [{ type: "image", source }] }] });

describe("why", () => {
  it("tells that the output limit was lowered to what the quota pays for", async () => {
    const reason = await reasonsOf(speaking, { max_tokens: 1_000 }, undefined, 500);
    const { affordedOutputTokens = 0, inputTokens = 0 } = reason?.call ?? {};
    expect(affordedOutputTokens).toBeGreaterThan(400);
    expect(affordedOutputTokens + inputTokens).toBeLessThanOrEqual(500);
    expect(reason?.reasons).toContain(
      `The output limit was lowered to ${affordedOutputTokens} tokens: the rest of the quota or of a budget pays for no more.`,
    );
    const one = await reasonsOf(speaking, { max_tokens: 1_000 }, undefined, inputTokens + 1);
    expect(one?.reasons.join()).toContain("The output limit was lowered to 1 token: the rest");
    const covered = await reasonsOf(speaking, { max_tokens: 100 }, undefined, 500);
    expect(covered?.call).not.toHaveProperty("affordedOutputTokens");
    expect(covered?.reasons.join()).not.toContain("lowered");
  });

  it("names the wrong field, and the option for a value that Anthropic accepts", async () => {
    const stores = await openStores("sqlite::memory:");
    const onCall = stores.recorder();
    const gateway = createGateway({ backend: speaking, ...stores.ports, onCall });
    await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna", granted: 100_000 });
    const [ranges, sources] = ["ranges", "imageSources"].map(
      (option) =>
        `Anthropic accepts more values here. To accept them, too, set createGateway({ messages: { ${option}: "vendor" } }).`,
    );
    const source = "messages.0.content.0.source.type";
    for (const [field, body, ...option] of [
      ["max_tokens", { max_tokens: 1 }, ranges],
      ["top_p", { top_p: 1 }, ranges],
      ["top_p", { top_p: 0 }, ranges],
      ["top_k", { top_k: -1 }, ranges],
      ["tools.0.name", { tools: [{ name: "x".repeat(65), input_schema: {} }] }, ranges],
      ["thinking.budget_tokens", { max_tokens: 2_000, thinking: { type: "enabled", budget_tokens: 2_000 } }, ranges],
      [source, image({ type: "url", url: "https://example.com/a.png" }), sources],
      [source, image({ type: "file", file_id: "f" }), sources],
      ["temperature", { temperature: 2 }],
      ["max_tokens", { max_tokens: "many" }],
    ] as const) {
      const answer = await gateway.fetch(
        new Request("http://host/v1/messages", {
          method: "POST",
          headers: { "x-api-key": "sk-anna", "anthropic-version": "2023-06-01", "content-type": "application/json" },
          body: JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }], ...body }),
        }),
      );
      expect(answer.status).toBe(400);
      await onCall.flush();
      const reason = await callAdmin(stores.calls).why(answer.headers.get("request-id") ?? "");
      expect(sentencesOf(reason)).toEqual([`The caller must correct the field ${field}.`, ...option]);
    }
    await gateway.close();
    await stores.close();
  });

  it("names the same command whether the cost of the refused call was known or not", async () => {
    const call = (await reasonsOf(speaking, { max_tokens: 1_000 }, undefined, 1))?.call;
    if (!call) throw new Error("The call is not recorded.");
    expect(call.refusedBy).toMatchObject({ kind: "quota", wanted: 1_000 + (call.refusedBy?.needed ?? 0) - 1 });
    const refusedWith = (numbers: object) =>
      ({ ...call, errorCode: "quota_exhausted", refusedBy: { kind: "quota", ...numbers } }) as const;
    const first = refusedWith({ needed: 8, wanted: 4_103, available: 3 });
    const step = { verb: "keys grant", key: "anna" };
    const command = "polygate keys grant anna AMOUNT lets calls pass again.";
    const lack = (verb: string, amount: string) => `${command} ${verb} ${amount} for its whole output limit.`;
    expect(nextSteps(first)).toEqual([
      { ...step, units: 4_100, sentence: lack("This call alone lacked", "4100 units") },
    ]);
    expect(nextSteps(first, undefined, { limits: [{ available: 0, granted: 50 }] })).toEqual([
      { ...step, units: 4_103, sentence: lack("So far it was given 50 units. This call alone lacks", "4103 units") },
    ]);
    const later = refusedWith({ available: 0 });
    expect(nextSteps(later)).toEqual([{ ...step, sentence: command }]);
    expect(nextSteps(later, undefined, { limits: [{ available: 5 }] })).toEqual([
      { sentence: "There is quota left now: the caller may try again." },
    ]);
    expect(nextSteps({ ...call, errorCode: "backend_failed", status: 500 })).toEqual([
      { sentence: "The caller may try again." },
      { sentence: `For the cause, look for ${call.requestId} in the log of the gateway, which has the whole error.` },
    ]);
  });

  it("says that a quota or a budget was given nothing, maybe on purpose", async () => {
    const stores = await openStores("sqlite::memory:");
    const [onCall, { quotas }] = [stores.recorder(), stores.ports];
    const gateway = createGateway({ backend: speaking, ...stores.ports, onCall });
    await quotas.addBudget({ id: "stopped", amount: 0 });
    await quotas.add({ id: "anna", apiKey: "sk-anna", budget: "stopped" });
    await quotas.add({ id: "ben", apiKey: "sk-ben", granted: 0 });
    for (const id of ["anna", "ben"]) {
      const headers = { authorization: `Bearer sk-${id}`, "content-type": "application/json" };
      const body = JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }] });
      await gateway.fetch(new Request("http://host/v1/chat/completions", { method: "POST", headers, body }));
    }
    await gateway.close();
    await onCall.flush();
    const sentences: string[] = [];
    for (const { requestId } of (await stores.calls.list()).toReversed()) {
      const reason = await callAdmin(stores.calls, { quotas }).why(requestId);
      sentences.push(...(reason?.next ?? []).map(({ sentence }) => sentence.replace(/(purpose\.).*/, "$1")));
    }
    const given = "lets calls pass again. So far it was given nothing, maybe on purpose.";
    expect(sentences).toEqual([
      `polygate budgets top-up stopped AMOUNT ${given}`,
      `polygate keys grant ben AMOUNT ${given}`,
    ]);
    await stores.close();
  });

  it("says what a call lacks now when it has the store of the keys", async () => {
    const stores = await openStores("sqlite::memory:");
    const [onCall, { quotas }] = [stores.recorder(), stores.ports];
    const gateway = createGateway({ backend: speaking, ...stores.ports, onCall });
    await quotas.addBudget({ id: "team", amount: 1 });
    await quotas.add({ id: "anna", apiKey: "sk-anna", budget: "team" });
    const body = JSON.stringify({ model: "large", max_tokens: 50, messages: [{ role: "user", content: "Hello" }] });
    const headers = { authorization: "Bearer sk-anna", "content-type": "application/json" };
    await gateway.fetch(new Request("http://host/v1/chat/completions", { method: "POST", headers, body }));
    await gateway.close();
    await onCall.flush();
    const [call] = await stores.calls.list();
    const [requestId, wanted] = [call?.requestId ?? "", call?.refusedBy?.wanted ?? 0];
    const next = async (options?: Parameters<typeof callAdmin>[1]) =>
      (await callAdmin(stores.calls, options).why(requestId))?.next[0];
    expect(await next()).toMatchObject({ verb: "budgets top-up", budget: "team", units: wanted - 1 });
    await quotas.topUpBudget("team", 10);
    expect(await next()).toMatchObject({ units: wanted - 1 });
    expect(await next({ quotas })).toMatchObject({ verb: "budgets top-up", budget: "team", units: wanted - 11 });
    await quotas.topUpBudget("team", wanted);
    expect(await next({ quotas })).toEqual({
      sentence: "There is enough for the call now: the caller may try again.",
    });
    await stores.close();
    expect(() => callAdmin(stores.calls, { quotas: {} as never })).toThrow("quotas must be a quota store");
  });

  it("gives no step for a limit that pays for a shorter answer where another limit has refused the call", async () => {
    const stores = await openStores("sqlite::memory:");
    const [onCall, { quotas }] = [stores.recorder(), stores.ports];
    const gateway = createGateway({ backend: speaking, ...stores.ports, onCall });
    await quotas.addBudget({ id: "company", amount: 10_000 });
    await quotas.addBudget({ id: "sales", amount: 1, parent: "company" });
    await quotas.add({ id: "tim", apiKey: "sk-tim", granted: 10_000, budget: "sales" });
    const body = JSON.stringify({
      model: "large",
      max_tokens: 100_000,
      messages: [{ role: "user", content: "Hello" }],
    });
    const headers = { authorization: "Bearer sk-tim", "content-type": "application/json" };
    await gateway.fetch(new Request("http://host/v1/chat/completions", { method: "POST", headers, body }));
    await gateway.close();
    await onCall.flush();
    const [call] = await stores.calls.list();
    const requestId = call?.requestId ?? "";
    const { needed = 0, wanted = 0 } = call?.refusedBy ?? {};
    const why = () => callAdmin(stores.calls, { quotas }).why(requestId);
    const reason = await why();
    expect(reason?.reasons).toContain("The rest of the budget is too small for the request.");
    const also = (of: string) =>
      `The whole output limit needs ${wanted - 10_000} units more of ${of}, too; a shorter answer needs no more of it.`;
    const others = [{ sentence: also("the budget company") }, { sentence: also("the key's own quota") }];
    const shorter = { sentence: "A shorter prompt or a lower output limit needs less." };
    expect(reason?.next).toEqual([
      expect.objectContaining({ verb: "budgets top-up", budget: "sales", units: wanted - 1 }),
      ...others,
      shorter,
    ]);
    // Once the key has too little for any answer, its quota blocks the call, too.
    await quotas.lower("tim", 10_000 - needed + 1);
    expect((await why())?.next[2]).toMatchObject({ verb: "keys grant", key: "tim" });
    await quotas.grant("tim", 10_000 - needed + 1);
    await quotas.topUpBudget("sales", wanted);
    expect((await why())?.next).toEqual([
      { sentence: "There is enough for the call now: the caller may try again." },
      ...others,
    ]);
    await stores.close();
  });

  it("has a next step that fits each error code", async () => {
    const call = (await reasonsOf(speaking, {}))?.call;
    if (!call) throw new Error("The call is not recorded.");
    const again = "The caller may try again.";
    const change = "The caller must change the request.";
    const header = "The caller must send its API key as the message says.";
    const cause = `For the cause, ${inLog("the whole error")}`;
    const away = `To see what was away, ${inLog("the whole error")}`;
    const more = "polygate keys grant anna AMOUNT lets calls pass again.";
    const steps = {
      invalid_request: [400, change],
      malformed_body: [400, change],
      unsupported_media_type: [415, change],
      body_too_large: [
        413,
        "The caller must send less.",
        "Higher limits.maxJsonBytes and limits.maxUploadBytes let larger bodies pass.",
      ],
      context_length_exceeded: [400, "The caller must send a shorter prompt, or choose a model that takes more."],
      content_refused: [400, "The caller must change the prompt."],
      failed_precondition: [400, change],
      not_found: [404, change],
      method_not_allowed: [405, change],
      upgrade_required: [
        426,
        "The caller must use HTTP, or you add toUpgradeHandler(gateway) to the server for WebSockets.",
      ],
      missing_api_key: [401, header],
      malformed_credential: [401, header],
      invalid_api_key: [
        401,
        "Ask for the name of the key: polygate keys usage NAME says whether it is revoked.",
        "polygate keys create makes a key in place of a revoked one. To any other key, polygate keys add-secret KEY gives one more secret.",
      ],
      paused_api_key: [401, "polygate keys resume anna lets the key work again."],
      expired_api_key: [401, "polygate keys update anna --expires DATE makes the key valid again."],
      model_not_found: [404, "The caller asked for large: look for its name in the list of models, or add it."],
      model_not_allowed: [403, "polygate keys update anna --models MODELS replaces the models that the key may use."],
      quota_exhausted: [429, more],
      quota_insufficient: [429, more, "A shorter prompt or a lower output limit needs less."],
      quota_held: [429, more],
      rate_limited: [429, "The caller may try again soon."],
      idempotency_key_reused: [409, "The caller must send the request with a new idempotency key."],
      idempotency_key_in_use: [409, again],
      busy: [503, again],
      client_closed: [499],
      call_stopped: [
        403,
        "The request needs no change. Before it is sent again, ask who has stopped the call.",
        "The log of changes names the user of the admin who did: polygate audit --target=ID, or --target=anna where all calls of the key were stopped",
      ],
      deadline_exceeded: [504, again],
      backend_unavailable: [
        503,
        again,
        `If it lasts, check that the upstream runs, and its address in the settings: ${inLog("the whole error")}`,
      ],
      backend_overloaded: [503, again, away],
      backend_refused: [500, `Check the credential and the account of the upstream: ${inLog("its answer")}`],
      backend_failed: [500, again, cause],
      store_unavailable: [503, again, away],
      misconfigured: [500, `Correct the setting: ${inLog("the whole error")}`],
      internal: [500, again, cause],
    } satisfies Record<GatewayErrorCode, readonly [status: number, ...string[]]>;
    for (const errorCode of GATEWAY_ERROR_CODES) {
      const [status, ...next] = steps[errorCode];
      const outcome = errorCode === "call_stopped" ? "stopped" : status < 500 ? "refused" : "failed";
      const ended = { ...call, errorCode, status, outcome, attempts: [] } as const;
      const told = nextSteps(ended).map(({ sentence }) => sentence.replaceAll(call.requestId, "ID"));
      expect([errorCode, ...told]).toEqual([errorCode, ...next]);
    }
  });

  it("writes what a call lacks as money, never with exactly three decimals", async () => {
    const call = (await reasonsOf(speaking, { max_tokens: 1_000 }, undefined, 1))?.call;
    if (!call) throw new Error("The call is not recorded.");
    const refusedBy = { kind: "quota", needed: 8, wanted: 1_212_000, available: 0 } as const;
    const [step] = nextSteps({ ...call, errorCode: "quota_exhausted", refusedBy }, "USD");
    expect(step).toMatchObject({
      units: 1_212_000,
      sentence:
        "polygate keys grant anna AMOUNT --currency usd lets calls pass again. This call alone lacked 1.2120 USD for its whole output limit.",
    });
  });

  it.each<[outcome: string, error: unknown, reasons: readonly string[], next: readonly string[]]>([
    [
      "500",
      new Error("CUDA out of memory"),
      ["The upstream failed.", 'The caller was told: "The model backend failed."'],
      ["The caller may try again.", "For the cause, look for ID in the log of the gateway, which has the whole error."],
    ],
    [
      "429",
      new GatewayError("rate_limited", "The model backend is busy."),
      ["A rate limit of the upstream was reached.", 'The caller was told: "The model backend is busy."'],
      ["The caller may try again soon. A second upstream in the route takes the calls that this one refuses."],
    ],
    [
      "400",
      new GatewayError("invalid_request", "a secret prompt"),
      [
        "A field of the request has a wrong value.",
        "The message that the caller was told is not recorded, because it may quote the prompt.",
      ],
      [
        "The caller must change the request.",
        "For the words of the upstream, look for ID in the log of the gateway, which has its answer.",
      ],
    ],
    [
      "400",
      new GatewayError("content_refused", "The model backend refuses this content by its policy."),
      [
        "The content policy of the upstream refuses the prompt or the answer.",
        'The caller was told: "The model backend refuses this content by its policy."',
      ],
      [
        "The caller must change the prompt.",
        "For the words of the upstream, look for ID in the log of the gateway, which has its answer.",
      ],
    ],
    [
      "404",
      new GatewayError("model_not_found", "a secret prompt"),
      [
        "A setting of this service names a model that its upstream does not have.",
        "The message that the caller was told is not recorded, because it may quote the prompt.",
      ],
      [
        "The upstream main does not have the model large-2. Correct this name in the route or in the models of the relay.",
        "For the words of the upstream, look for ID in the log of the gateway, which has its answer.",
      ],
    ],
    [
      "504",
      new GatewayError("deadline_exceeded", "The model backend took too long."),
      ["The call or its upstream took too long.", 'The caller was told: "The model backend took too long."'],
      ["The caller may try again. Higher timeouts of the relay give the upstream more time."],
    ],
  ])("tells what the caller of a failed upstream was told, and where to look, with the status %s", async (...row) => {
    const [status, error, reasons, next] = row;
    const reason = await reasonsOf(failing(error), {});
    const id = reason?.call.requestId ?? "";
    const [first = "", ...others] = reason?.reasons ?? [];
    const outcome = status === "400" ? "was refused by its upstream" : "failed";
    expect(first).toContain(`The call ${outcome}, with the status ${status} (`);
    expect(others.slice(0, -1)).toEqual(reasons);
    expect(others.at(-1)).toMatch(
      /^The upstream main failed \(\w+\) for the model large-2 with the status 599 after 7 ms\.$/,
    );
    expect(reason?.next.map(({ sentence }) => sentence.replaceAll(id, "ID"))).toEqual(next);
    expect(JSON.stringify(reason)).not.toMatch(/CUDA|secret/);
  });

  describe("of a call to an upstream that lacks the model which only the host names", () => {
    const lacking = failing(new GatewayError("model_not_found", 'There is no model "large-2".'));
    const second = { backend: lacking, name: "second", model: "large-2", weight: 0 };
    const overloaded = new GatewayError("backend_overloaded", "The model backend is overloaded.", {
      retryAfterMs: 60_000,
    });
    const SECOND =
      "The upstream second does not have the model large-2. Correct this name in the route or in the models of the relay.";
    const IN_LOG = "For the words of the upstream, look for ID in the log of the gateway, which has its answer.";

    it("names the upstream and its model, not the caller's", async () => {
      const reason = await reasonsOf(route({ routes: { large: { upstreams: [second] } } }), {});
      expect(reason?.reasons.slice(0, 3)).toEqual([
        "The call failed, with the status 500 (backend_refused).",
        "A setting of this service names a model that its upstream does not have.",
        'The caller was told: "The model backend refused this service."',
      ]);
      expect(sentencesOf(reason)).toEqual([SECOND, IN_LOG]);
      if (!reason) throw new Error("The call is not recorded.");
      expect(callsText([reason.call], undefined, 120).text).toContain("  wrong model of upstream  ");
    });

    it("tells where to read the state of an upstream that was resting", async () => {
      const first = failing(overloaded);
      const backend = route({ routes: { large: { upstreams: [{ backend: first, name: "first" }, second] } } });
      // From the first call on, the first upstream rests.
      await reasonsOf(backend, {});
      const reason = await reasonsOf(backend, {});
      expect(reason?.call).toMatchObject({ status: 503, errorCode: "backend_unavailable" });
      expect(sentencesOf(reason)).toEqual([
        SECOND,
        "The upstream first was not asked, because it was resting: gateway.health() has its state.",
        "The caller may try again.",
        "If it lasts, check that the upstream runs, and its address in the settings: look for ID in the log of the gateway, which has the whole error.",
      ]);
    });

    it("sends nobody to the log of a call whose upstreams all rest: the log tells of a rest once", async () => {
      const backend = route({ routes: { large: { upstreams: [{ backend: failing(overloaded), name: "first" }] } } });
      await reasonsOf(backend, {});
      expect(sentencesOf(await reasonsOf(backend, {}))).toEqual([
        "The caller may try again.",
        "If it lasts, check that the upstream runs, and its address in the settings: gateway.health() has its state.",
      ]);
    });

    it("names the model also where a relay has renamed it, and keeps what else has refused the service", async () => {
      const reason = await reasonsOf(lacking, {});
      expect(reason?.call).toMatchObject({ status: 404, errorCode: "model_not_found" });
      expect(sentencesOf(reason)).toEqual([SECOND.replace("second", "main"), IN_LOG]);
      const refused = failing(new GatewayError("backend_refused", "The model backend refused this service."));
      const both = route({ routes: { large: { upstreams: [second, { backend: refused, name: "third" }] } } });
      expect(sentencesOf(await reasonsOf(both, {}))).toEqual([
        SECOND,
        "Check the credential and the account of the upstream: look for ID in the log of the gateway, which has its answer.",
      ]);
    });
  });

  describe("of a call to an upstream at a wrong address", () => {
    const MISTAKE =
      "The upstream at http://up.test does not serve POST /oops/v1/chat/completions. Check the baseUrl and the format of the relay.";
    const misdirected = relay({
      format: "chat-completions",
      baseUrl: "http://up.test/oops/v1",
      fetch: () => Promise.resolve(new Response("404 page not found", { status: 404 })),
    });
    const routed = (...others: readonly ModelBackend[]) =>
      route({ routes: { large: { upstreams: [misdirected, ...others] } }, retry: { pauseMs: 0 } });

    it("tells the address, and that trying again does not help", async () => {
      const reason = await reasonsOf(routed(), {});
      expect(reason?.reasons).toEqual([
        "The call failed, with the status 500 (backend_failed).",
        "A setting of this service has a mistake: its upstream cannot answer any such call.",
        'The caller was told: "The model backend failed."',
        expect.stringMatching(
          /^The upstream up\.test failed \(backend_failed\) .* with the status 404 after \d+ ms\.$/,
        ),
      ]);
      expect(sentencesOf(reason)).toEqual([MISTAKE, "Until then, trying again does not help."]);
      if (!reason) throw new Error("The call is not recorded.");
      expect(callsText([reason.call], undefined, 120).text).toContain("  wrong address of upstream  ");
      expect(callsCsv([reason.call], {})).toContain(`,${MISTAKE},`);
    });

    it("tells it also while the upstream rests, and after another upstream was away for a while", async () => {
      const backend = routed();
      for (let calls = 0; calls < 20; calls++) await reasonsOf(backend, {});
      const resting = await reasonsOf(backend, {});
      expect(resting?.call).toMatchObject({ errorCode: "backend_unavailable", attempts: [{ movedOn: "resting" }] });
      expect(sentencesOf(resting)).toEqual([MISTAKE, "Until then, trying again does not help."]);
      const away = failing(new GatewayError("backend_unavailable", "The model backend is not available."));
      const reason = await reasonsOf(routed(away), {});
      expect(sentencesOf(reason).slice(0, 2)).toEqual([MISTAKE, "The caller may try again."]);
    });
  });

  it("tells attempts that failed in the same way as one", async () => {
    const away = failing(new GatewayError("backend_unavailable", "The model backend is not available."));
    const upstreams = [{ backend: away, name: "one" }];
    const reason = await reasonsOf(route({ routes: { large: { upstreams } }, retry: { pauseMs: 0 } }), {});
    expect(reason?.call.attempts).toHaveLength(3);
    expect(reason?.reasons.filter((sentence) => sentence.startsWith("The upstream one "))).toEqual([
      "The upstream one failed 3 times (backend_unavailable) for the model large-2 with the status 599 after 7 ms.",
    ]);
  });

  it("names the models that the key may use now", async () => {
    const stores = await openStores("sqlite::memory:");
    const [onCall, { quotas }] = [stores.recorder(), stores.ports];
    const gateway = createGateway({ backend: speaking, ...stores.ports, onCall });
    await quotas.add({ id: "anna", apiKey: "sk-anna", models: ["small"] });
    const body = JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }] });
    const headers = { authorization: "Bearer sk-anna", "content-type": "application/json" };
    await gateway.fetch(new Request("http://host/v1/chat/completions", { method: "POST", headers, body }));
    await gateway.close();
    await onCall.flush();
    const [call] = await stores.calls.list();
    const next = async (options?: Parameters<typeof callAdmin>[1]) =>
      (await callAdmin(stores.calls, options).why(call?.requestId ?? ""))?.next.map(({ sentence }) => sentence);
    const step = "polygate keys update anna --models MODELS replaces the models that the key may use.";
    expect(await next()).toEqual([step]);
    expect(await next({ quotas })).toEqual([`${step} Now it may use small.`]);
    await quotas.update("anna", { models: Array.from({ length: 12 }, (_, at) => `m${at}`) });
    expect((await next({ quotas }))?.[0]).toMatch(/ Now it may use m0, .*, m9 and 2 more\.$/);
    await quotas.update("anna", { models: ["large"] });
    expect(await next({ quotas })).toEqual(["The key may use the model now: the caller may try again."]);
    await stores.close();
  });

  it("is short in the list of calls: the call whose answer was repeated, or the end of the gateway", async () => {
    const call = (await reasonsOf(speaking, {}))?.call;
    if (!call) throw new Error("The call is not recorded.");
    const replayOf = "req_3e2ac2d520f46a591a5c8db1c2638c1c";
    expect(callsText([{ ...call, replayOf }], undefined, 120).text).toContain("  repeats req_3e2ac2d5  ");
    const cut = { ...call, outcome: "shutdown", errorCode: "busy" } as const;
    expect(callsText([cut], undefined, 120).text).toContain("  shutdown  gateway closed  ");
  });

  it("says what a call was waiting for when its client left", async () => {
    const call = (await reasonsOf(failing(new GatewayError("rate_limited", "Busy.")), {}))?.call;
    if (!call) throw new Error("The call is not recorded.");
    const gone = { ...call, outcome: "client-closed", errorCode: "client_closed", status: 499 } as const;
    expect(nextSteps(gone).map(({ sentence }) => sentence)).toEqual([
      "The call was waiting for a further try, because the upstream main had failed (rate_limited).",
      "A second upstream in the route takes the calls that this one refuses.",
    ]);
    expect(nextSteps({ ...gone, attempts: [] })).toEqual([]);
  });

  it("leaves the setting to the log where a limiter of the host names no remedy", async () => {
    const call = (await reasonsOf(speaking, {}))?.call;
    if (!call) throw new Error("The call is not recorded.");
    // A message that fills its place in the record was longer.
    const long = { ...call, status: 400, errorCode: "invalid_request", errorMessage: "x".repeat(500) } as const;
    expect(sentencesAbout(long)).toContain("The record ends after 500 characters of it.");
    expect(sentencesAbout({ ...long, errorMessage: "Short." }).join(" ")).not.toContain("The record ends");
    const wrong = { ...call, status: 500, errorCode: "misconfigured", errorMessage: "No plan." } as const;
    const sentence = `Correct the setting: look for ${call.requestId} in the log of the gateway, which has the whole error.`;
    expect(nextSteps(wrong)).toEqual([{ sentence }]);
  });

  it("tells an operator and a caller what to do about a model that its upstream does not have", async () => {
    const call = (await reasonsOf(failing(new GatewayError("model_not_found", "No.")), {}))?.call;
    if (!call) throw new Error("The call is not recorded.");
    const attempts = call.attempts.map((attempt) => ({ ...attempt, model: "large-2" }));
    const stepOf = (outcome: "failed" | "refused"): unknown =>
      nextSteps({ ...call, modelAsked: "large-2", attempts, outcome })[0]?.sentence;
    expect(stepOf("failed")).toBe(
      "The upstream main does not have the model large-2. Correct this name in the route or in the models of the relay.",
    );
    expect(stepOf("refused")).toBe("The caller must choose another model.");
  });

  it("tells a model that the gateway does not have from a model without a price", async () => {
    const unknown = await reasonsOf({ ...speaking, models: () => [] }, { model: "large-2" });
    expect(unknown?.reasons).toContain("The gateway does not have the model.");
    expect(unknown?.next[0]?.sentence).toMatch(/^The caller asked for large-2: look for its name/);
    const told = async (prices: Parameters<typeof priceTable>[0]): Promise<readonly string[]> => {
      const reason = await reasonsOf(speaking, { model: "large-2" }, nothing, 1, null, priceTable(prices));
      return [reason?.reasons[1] ?? "", reason?.next[0]?.sentence ?? ""];
    };
    expect(await told({ other: { input: 1, output: 1 } })).toEqual([
      "large-2 has no price.",
      "Add a row for large-2 to the prices.",
    ]);
    expect(await told({ "large-2": { pictures: 1 } })).toEqual([
      "Tokens of large-2 have no price.",
      "Add a price of tokens to the row for large-2.",
    ]);
  });

  it("names the field that has a wrong value, and nothing that the caller has written", async () => {
    const reason = await reasonsOf(speaking, { temperature: "hot secret" });
    expect(reason?.reasons).toContain('The caller was told: "temperature: must be a number, not …"');
    const nested = await reasonsOf(speaking, { messages: [{ role: "user", content: "a" }, { role: "nobody" }] });
    expect(nested?.reasons.join()).toMatch(/The caller was told: "messages\.1\.role: must be .*, not …/);
    expect(JSON.stringify([reason, nested])).not.toMatch(/hot secret|nobody/);
  });

  it("tells that an operator stopped a call, and not that its upstream failed", async () => {
    let stop = nothing;
    const reason = await reasonsOf(
      endless(() => stop()),
      {},
      (gateway) => (stop = () => void gateway.stopCall(gateway.liveCalls()[0]?.requestId ?? "")),
    );
    expect(reason?.call).toMatchObject({ outcome: "stopped", attempts: [{ errorCode: "call_stopped", cut: true }] });
    expect(reason?.reasons.join("\n")).toMatch(
      /^The request to the upstream slow for the model large-2 was cut after \d+ ms, because an operator has stopped the call\.$/m,
    );
    expect(reason?.reasons.join()).not.toContain("failed");
    expect(reason?.reasons).toContain('The caller was told: "An operator has stopped the call."');
    if (!reason) throw new Error("The call is not recorded.");
    const gone = { ...reason.call, outcome: "client-closed", errorCode: "client_closed" } as const;
    expect(sentencesAbout(gone).join()).not.toContain("caller was told");
  });

  describe("of a client that has disconnected", () => {
    const USAGE = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
    const message = { role: "assistant", content: "Hello." };
    const answer = {
      object: "chat.completion",
      model: "large",
      choices: [{ index: 0, message, finish_reason: "stop" }],
    };

    /** A relay whose upstream answers once the client is gone, unless the relay stops to wait. */
    const leaving = (client: AbortController, options: Partial<RelayOptions> = {}): ModelBackend =>
      relay({
        name: "slow",
        format: "chat-completions",
        baseUrl: "http://up.test/v1",
        fetch: (_url, init) => {
          client.abort();
          const { signal } = init ?? {};
          if (signal?.aborted) return Promise.reject(signal.reason as Error);
          return Promise.resolve(Response.json({ id: "one", ...answer, usage: USAGE }));
        },
        ...options,
      });

    it("tells that nothing was charged for an answer that had not come, and how to charge for such calls", async () => {
      const reason = await reasonsOfLeaving((client) => leaving(client));
      expect(reason?.call).toMatchObject({ outcome: "client-closed", units: 0, attempts: [{ cut: true }] });
      expect(reason?.reasons).toContain(
        "The call was charged nothing, because nothing of its answer had come. The upstream may bill it all the same.",
      );
      expect(sentencesOf(reason)).toEqual([expect.stringContaining("hangUp: { drainMs: 60_000 }")]);
    });

    it("tells the charge of an answer that has come to its end without the client", async () => {
      const reason = await reasonsOfLeaving((client) => leaving(client, { hangUp: { drainMs: 5_000 } }));
      expect(reason?.call).toMatchObject({ units: 12, estimated: 0 });
      expect(reason?.reasons.at(-1)).toBe("The call was charged 12 units.");
      expect(sentencesOf(reason)).toEqual([]);
    });

    it("tells that what had come of an answer was charged", async () => {
      const reason = await reasonsOfLeaving((client) => endless(() => client.abort()));
      expect(reason?.call).toMatchObject({ outcome: "client-closed", attempts: [{ cut: true }] });
      expect(reason?.reasons.at(-1)).toMatch(
        /^The call was charged \d+ units, for what had come of its answer\. The upstream may bill more\.$/,
      );
    });
  });

  it("tells alike of a call that was cut by the end of the gateway", async () => {
    let close = nothing;
    const reason = await reasonsOf(
      endless(() => close()),
      {},
      (gateway) => (close = () => void gateway.close({ deadlineMs: 0 })),
    );
    expect(reason?.call).toMatchObject({ outcome: "shutdown", attempts: [{ cut: true }] });
    expect(reason?.reasons.join("\n")).toMatch(/slow .* was cut after \d+ ms, because the gateway was closed\.$/m);
  });
});

it("counts no failed attempt of an upstream whose call was stopped", async () => {
  let stop = nothing;
  const { gateway, send, metrics } = watched({ backend: endless(() => stop()) });
  stop = () => void gateway.stopCall(gateway.liveCalls()[0]?.requestId ?? "");
  await (await send()).text();
  expect((await metrics())["polygate.upstream.attempts"]).toEqual([
    { attributes: { "polygate.upstream": "slow" }, value: 1 },
  ]);
});
