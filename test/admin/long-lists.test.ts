/** Lists that are long or that do not end: no request holds up the others, or works without a bound. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { asTold } from "../../src/admin/answers.ts";
import { adminHandler, type AdminHandlerOptions, type AuditLog, memoryAuditLog } from "../../src/admin/http/index.ts";
import { callAdmin, keyAdmin } from "../../src/admin/index.ts";
import { everyPage } from "../../src/admin/lists.ts";
import { idsLike } from "../../src/admin/names.ts";
import { periodPagesOf } from "../../src/admin/pages.ts";
import { type OpenedStores, openStores } from "../../src/stores/open/index.ts";

let stores: OpenedStores;
/** The iterations of the event loop since the beginning of a test. */
let turns: number;
let turning: NodeJS.Immediate;
beforeEach(async () => {
  stores = await openStores("sqlite::memory:", { sweepMs: 0 });
  turns = 0;
  const turn = (): void => {
    turns++;
    turning = setImmediate(turn);
  };
  turn();
});
afterEach(async () => {
  clearImmediate(turning);
  await stores.close();
});

type Quotas = OpenedStores["ports"]["quotas"];

/** The store with some methods in place of its own. */
const quotasWith = (methods: Partial<Quotas>): Quotas =>
  new Proxy(stores.ports.quotas, {
    get: (target, name) => Reflect.get(methods, name) ?? Reflect.get(target, name)?.bind?.(target),
  });

const asking = (quotas: Quotas, options: Partial<AdminHandlerOptions> = {}) => {
  const admin = adminHandler(quotas, { authorize: () => ({ name: "ann" }), ...options });
  return (path: string): Promise<Response> => admin.fetch(new Request(`http://host${path}`));
};

const ROWS = 4_000;

describe("a report of many rows", () => {
  it.each(["format=csv", "spreadsheet=excel", `limit=${ROWS + 1}`])(
    "lets other work run while it is written, %s",
    async (form) => {
      const { calls } = stores;
      const { total } = await calls.usage({});
      const rows = Array.from({ length: ROWS }, (_, at) => ({ ...total, model: `m${at}` }));
      let readAt = 0;
      const usage: typeof calls.usage = async () => {
        readAt = turns;
        return { by: ["model"], rows, total: { ...total, calls: ROWS } };
      };
      const reader = { usage, find: calls.find.bind(calls), list: calls.list.bind(calls) };
      const file = await asking(stores.ports.quotas, { calls: callAdmin(reader) })(`/usage?by=model&${form}`);
      expect(turns - readAt).toBeGreaterThanOrEqual(ROWS / 200);
      const text = await file.text();
      expect(text.match(/\bm\d+\b/g)).toEqual(rows.map(({ model }) => model));
    },
  );
});

it.each(["", "&format=csv"])(
  "a report of long rows lets other work run while it is written, and while its client reads it%s",
  async (form) => {
    const { calls } = stores;
    const { total } = await calls.usage({});
    const rows = Array.from({ length: 500 }, (_, at) => ({ ...total, model: `m${at}`.padEnd(16_000) }));
    let readAt = 0;
    const usage: typeof calls.usage = async () => {
      readAt = turns;
      return { by: ["model"], rows, total: { ...total, calls: ROWS } };
    };
    const reader = { usage, find: calls.find.bind(calls), list: calls.list.bind(calls) };
    const answer = await asking(stores.ports.quotas, { calls: callAdmin(reader) })(`/usage?by=model${form}`);
    expect(turns - readAt).toBeGreaterThanOrEqual(20);
    const answeredAt = turns;
    const text = await answer.text();
    expect(text.match(/\bm\d+\b/g)).toEqual(rows.map(({ model }) => model.trim()));
    expect(turns - answeredAt).toBeGreaterThanOrEqual(3);
  },
);

/** Returns the sizes of the pages of a list, and the ids of all of its rows. */
const pagesIn = async (ask: (path: string) => Promise<Response>, path: string, name = "after") => {
  const [bytes, ids]: [number[], string[]] = [[], []];
  for (let next: string | null = ""; next !== null;) {
    const answer = await ask(`${path}${next === "" ? "" : `&${name}=${encodeURIComponent(next)}`}`);
    const text = await answer.text();
    const page = JSON.parse(text) as { data: readonly { id?: string; requestId?: string }[]; next: string | null };
    bytes.push(text.length);
    ids.push(...page.data.map(({ id, requestId = "" }) => id ?? requestId));
    ({ next } = page);
  }
  return { bytes, ids };
};

describe("a list of long rows", () => {
  const LONG = "x".repeat(60_000);

  it.each(["", "&state=active"])("of keys ends its pages early, and reads few keys beyond them%s", async (filter) => {
    const { quotas } = stores.ports;
    const ids = Array.from({ length: 45 }, (_, at) => `k${at + 10}`);
    for (const id of ids) await quotas.add({ id, models: [LONG, id] });
    const listed: number[] = [];
    const list: Quotas["list"] = (page = {}) => {
      listed.push(page.limit ?? 0);
      return quotas.list(page);
    };
    const ask = asking(quotasWith({ list }));
    const pages = await pagesIn(ask, `/keys?limit=1000${filter}`);
    expect(pages.ids).toEqual(ids);
    expect(pages.bytes).toHaveLength(3);
    expect(Math.max(...pages.bytes)).toBeLessThan(1.2 * 1024 * 1024);
    await ask("/keys/k9");
    expect(Math.max(...listed)).toBe(100);
  });

  it("of changes ends its pages early", async () => {
    const audit = memoryAuditLog();
    const ids = Array.from({ length: 40 }, (_, at) => `${at}`);
    for (const id of ids)
      await audit.begin({ id, at: Number(id), user: "ann", action: "keys.update", changes: { name: LONG } });
    const pages = await pagesIn(asking(stores.ports.quotas, { audit }), "/audit?limit=1000", "before");
    expect(pages.ids).toEqual(ids.toReversed());
    expect(pages.bytes).toHaveLength(3);
  });

  it("of calls and of budgets ends its pages early", async () => {
    const { calls } = stores;
    const { quotas } = stores.ports;
    const ids = Array.from({ length: 40 }, (_, at) => `r${at + 10}`);
    const listOf = <Row>(row: (id: string) => Row) => {
      return async ({ after = "", limit = 100 } = {}) =>
        ids.slice(ids.indexOf(after) + 1, ids.indexOf(after) + 1 + limit).map(row);
    };
    const call = { at: 0, day: "", budgets: [], attempts: [], format: "", route: "", stream: false, status: 200 };
    const list = listOf((requestId) => ({ ...call, requestId, outcome: "completed", units: 0, errorMessage: LONG }));
    const reader = { usage: calls.usage.bind(calls), find: calls.find.bind(calls), list };
    await quotas.addBudget({ id: "one", amount: 5 });
    const [budget] = await quotas.listBudgets();
    const listBudgets = listOf((id) => Object.assign({}, budget, { id, name: LONG }));
    // The cast is safe: the rows have the fields that the list reads.
    const ask = asking(quotasWith({ listBudgets }), { calls: callAdmin(reader as unknown as typeof calls) });
    for (const path of ["/calls?limit=1000", "/budgets?limit=1000"]) {
      const pages = await pagesIn(ask, path);
      expect([path, pages.ids, pages.bytes.length]).toEqual([path, ids, 3]);
    }
  });

  it("of running calls ends early, and tells how many there are", async () => {
    const live = Array.from({ length: 40 }, (_, at) => ({ requestId: `r${at}`, modelAsked: LONG }));
    const gateway = {
      health: async () => ({ ready: true, upstreams: [] }),
      liveCalls: () => live,
      liveCallCount: () => 40,
      stopCall: () => false,
    };
    // The cast is safe: the rows have the fields that the list reads.
    const answer = await asking(stores.ports.quotas, { gateway: gateway as never })("/live?limit=1000");
    const { total, data } = (await answer.json()) as { total: number; data: object[] };
    expect([total, data.length]).toEqual([40, 18]);
  });
});

it("the end of many calls of a key lets other work run meanwhile", async () => {
  const live = Array.from({ length: 400 }, (_, at) => ({
    requestId: `r${at}`,
    key: { id: at % 4 ? "team" : "other" },
  }));
  const stopped: string[] = [];
  const gateway = {
    health: async () => ({ ready: true, upstreams: [] }),
    liveCalls: () => live,
    liveCallCount: () => 400,
    stopCall: (id: string) => id !== "r1" && stopped.push(id) > 0,
  };
  // The cast is safe: the calls have the fields that the operation reads.
  const options = { authorize: () => ({ name: "ann" }), gateway: gateway as never };
  const headers = { "content-type": "application/json" };
  const request = new Request("http://host/keys/team/stop-calls", { method: "POST", headers });
  turns = 0;
  const answer = await adminHandler(stores.ports.quotas, options).fetch(request);
  expect(await answer.json()).toEqual({ key: "team", stopped: 299 });
  expect([stopped.length, stopped[0]]).toEqual([299, "r2"]);
  expect(turns).toBeGreaterThanOrEqual(10);
});

/** A log without an end, each change of which has a mebibyte. */
const endless = () => {
  const limits: number[] = [];
  const name = "x".repeat(1024 * 1024);
  const list: AuditLog["list"] = async ({ limit, before = "0" }) => {
    limits.push(limit);
    const first = Number(before) + 1;
    return Array.from({ length: limit }, (_, at) => {
      return { id: `${first + at}`, at: 0, user: "ann", action: "keys.update", changes: { name } };
    });
  };
  return { limits, audit: { ...memoryAuditLog(), list } };
};

describe("a file of long changes", () => {
  it("is refused beyond 64 MiB, and reads few changes at once", async () => {
    const { limits, audit } = endless();
    const answer = await asking(stores.ports.quotas, { audit })("/audit?format=csv");
    expect([answer.status, await answer.json()]).toEqual([
      400,
      {
        error: {
          code: "invalid_request",
          message:
            "The log has more than 100000 such changes, or more than 64 MiB. Choose fewer days, or another filter.",
        },
      },
    ]);
    expect(limits).toEqual([100]);
  });

  it("has as many changes as its client has named", async () => {
    const { limits, audit } = endless();
    const answer = await asking(stores.ports.quotas, { audit })("/audit?format=csv&limit=3");
    expect((await answer.text()).match(/^\d+,/gm)).toEqual(["1,", "2,", "3,"]);
    expect(limits).toEqual([3]);
  });
});

describe.each(["format=csv", "spreadsheet=excel"])("a CSV file of many rows, %s", (form) => {
  it("lets other work run while periods are written", async () => {
    await stores.ports.quotas.addBudget({ id: "team", amount: 5, period: "day" });
    const [period] = await stores.ports.quotas.budgetPeriods("team");
    if (!period) throw new Error("The budget has no period.");
    let readAt = 0;
    const budgetPeriods: Quotas["budgetPeriods"] = async (_id, { before = 2 * ROWS, limit = 100 } = {}) => {
      readAt = turns;
      const rows = Array.from({ length: limit }, (_, at) => ({ ...period, startsAt: before - at - 1 }));
      return rows.filter(({ startsAt }) => startsAt >= ROWS);
    };
    const file = await asking(quotasWith({ budgetPeriods }))(`/budgets/team/periods?${form}`);
    expect(turns - readAt).toBeGreaterThanOrEqual(ROWS / 200);
    expect((await file.text()).split("\r\n").length).toBeGreaterThan(ROWS);
  });
});

/** Counts the pages that are read, and throws for a reader without an end. */
const paging = <Row>(page: readonly Row[], notes: string[] = []) => ({
  notes,
  list: async () => {
    notes.push("read");
    if (notes.length > 20) throw new Error("The list is read without an end.");
    return page;
  },
});

/** A store of 25,000 keys, every 9,000th of which is paused. Notes the pages that are read. */
const many = async (): Promise<{ quotas: Quotas; reads: unknown[] }> => {
  await stores.ports.quotas.add({ id: "one" });
  const [one] = await stores.ports.quotas.list();
  const keys = Array.from({ length: 25_000 }, (_, at) =>
    Object.assign({}, one, { id: `k${String(at).padStart(5, "0")}`, paused: at % 9_000 === 8_999 }),
  );
  const reads: unknown[] = [];
  const list: Quotas["list"] = async ({ after = "", limit = 100 } = {}) => {
    reads.push(after);
    const from = after === "" ? 0 : Number(after.slice(1)) + 1;
    return keys.slice(from, from + limit);
  };
  return { quotas: quotasWith({ list }), reads };
};

describe("a store of many keys", () => {
  it("is searched in several requests, and lets other work run meanwhile", async () => {
    const { quotas, reads } = await many();
    const ask = asking(quotas);
    turns = 0;
    const found: string[] = [];
    const pages: (string | null)[] = [];
    for (let after: string | null = ""; after !== null && pages.length < 9;) {
      const page = (await (await ask(`/keys?state=paused&after=${after}`)).json()) as {
        readonly data: readonly { readonly id: string }[];
        readonly next: string | null;
      };
      found.push(...page.data.map(({ id }) => id));
      pages.push((after = page.next));
    }
    expect(found).toEqual(["k08999", "k17999"]);
    expect(pages).toEqual(["k09999", "k19999", null]);
    expect(reads.length).toBeLessThan(300);
    expect(turns).toBeGreaterThanOrEqual(20);
    expect(await keyAdmin(quotas).list({ state: "paused" })).toHaveLength(2);
  });

  it.each([["/keys/nobody"], ["/usage?key=nobody"], ["/calls?key=nobody"]])(
    "is not searched as a whole for an id like an unknown one: %s",
    async (path) => {
      const { quotas, reads } = await many();
      expect((await asking(quotas, { calls: stores.calls })(path)).status).toBeGreaterThanOrEqual(404);
      expect(reads.length).toBeLessThan(40);
    },
  );
});

/** A store whose lists begin anew each time. */
const lying = async (): Promise<Quotas> => {
  const { quotas } = stores.ports;
  for (const id of ["anna", "ben"]) await quotas.add({ id });
  for (const id of ["company", "team"]) await quotas.addBudget({ id, amount: 5, period: "day" });
  return quotasWith({
    list: paging(await quotas.list()).list,
    listBudgets: paging(await quotas.listBudgets()).list,
    budgetPeriods: paging(await quotas.budgetPeriods("team")).list,
  });
};

describe("a store that does not look at where a page begins", () => {
  it.each([
    ["/keys?state=revoked", { data: [], next: null }],
    ["/keys?state=active&limit=2", { data: [{ id: "anna" }, { id: "ben" }], next: "ben" }],
    ["/keys?state=active&limit=2&after=ben", { data: [], next: null }],
    ["/keys?limit=2", { next: "ben" }],
    ["/keys?limit=2&after=ben", { data: [], next: null }],
    ["/budgets?limit=2", { next: "team" }],
    ["/budgets?limit=2&after=team", { next: null }],
    ["/keys/nobody", { error: { message: "There is no API key of the id nobody." } }],
    ["/budgets/nobody", { error: { message: "There is no budget of the id nobody." } }],
  ])("has lists with an end: %s", async (path, body) => {
    expect(await (await asking(await lying())(path)).json()).toMatchObject(body);
  });

  it("has periods with an end", async () => {
    const ask = asking(await lying());
    const { data, next } = (await (await ask("/budgets/team/periods?limit=1")).json()) as {
      data: readonly object[];
      next: number;
    };
    expect(data).toHaveLength(1);
    expect(await (await ask(`/budgets/team/periods?limit=1&before=${next}`)).json()).toEqual({ data: [], next: null });
    expect((await (await ask("/budgets/team/periods?format=csv")).text()).split("\r\n")).toHaveLength(3);
  });

  it("ends the loops of the library and of commands", async () => {
    const quotas = await lying();
    expect(await keyAdmin(quotas).list({ state: "revoked" })).toEqual([]);
    expect(await everyPage((page) => quotas.listBudgets(page))).toHaveLength(2);
    expect(await idsLike("nn", (page) => quotas.list(page))).toEqual(["anna"]);
    const periods = [];
    for await (const page of periodPagesOf(quotas, "team", {})) periods.push(...page);
    expect(periods).toHaveLength(1);
  });

  it("ends also where two pages lead to each other", async () => {
    let isFirst = false;
    const { list, notes } = paging([]);
    const rows = await everyPage(async () => {
      await list();
      isFirst = !isFirst;
      return [{ id: isFirst ? "anna" : "ben" }];
    });
    expect([rows.length, notes.length]).toEqual([2, 3]);
  });

  it("reads no page of budgets twice to tell keys", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "b0", amount: 5 });
    const keys = Array.from({ length: 40 }, (_, at) => ({ budget: `b${at}`, id: `k${at}` }));
    const [report] = await quotas.listBudgets();
    const full = Array.from({ length: 1_000 }, (_, at) => Object.assign({}, report, { id: `b${at}` }));
    const { list, notes } = paging(full);
    await quotas.add({ id: "k" });
    const [key] = await quotas.list();
    const told = keys.map((each) => Object.assign({}, key, each));
    await asTold(told, { listBudgets: list });
    expect(notes).toHaveLength(2);
  });
});
