/** Lists that are long or that do not end: no request holds up the others, or works without a bound. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { adminHandler, type AdminHandlerOptions } from "../../src/admin/http/index.ts";
import { callAdmin } from "../../src/admin/index.ts";
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

describe.each(["format=csv", "spreadsheet=excel"])("a CSV file of many rows, %s", (form) => {
  const ROWS = 4_000;

  it("lets other work run while a report is written", async () => {
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
    expect((await file.text()).split("\r\n").length).toBeGreaterThan(ROWS);
  });

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
