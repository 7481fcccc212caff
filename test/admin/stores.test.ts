/** The admin over every store: hostile texts through every operation, and editors who race. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminHandler, type AdminHandlerOptions } from "../../src/admin/http/index.ts";
import type { BudgetDirectory, KeyDirectory } from "../../src/admin/index.ts";
import { memoryQuotaStore } from "../../src/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { sharedStores } from "../stores/ledgers.ts";
import { HOSTILE_FOR_STORES, HOSTILE_TEXTS } from "./hostile.ts";

interface Opened {
  /** The same store, as two processes have it. */
  readonly stores: readonly (KeyDirectory & Partial<BudgetDirectory>)[];
  readonly options: Partial<AdminHandlerOptions>;
  remove(): Promise<void>;
}

interface Place {
  readonly name: string;
  readonly available: boolean;
  readonly texts: readonly string[];
  readonly open: () => Promise<Opened>;
}

const MEMORY: Place = {
  name: "the memory of one process",
  available: true,
  texts: HOSTILE_TEXTS,
  async open() {
    const { keys } = memoryQuotaStore();
    return { stores: [keys, keys], options: {}, remove: async () => {} };
  },
};

const SHARED: readonly Place[] = sharedStores.map((store) => ({
  name: store.name,
  available: store.available,
  texts: HOSTILE_FOR_STORES,
  async open() {
    const ledger = await store.open();
    const { address, prefix } = ledger;
    const other = await openStores(address, { prefix, sweepMs: 0 });
    const remove = async (): Promise<void> => {
      await other.close();
      await ledger.remove();
    };
    const isSql = !address.startsWith("redis");
    const options = {
      ...(isSql && { audit: other.auditLog, calls: other.calls }),
      replayStore: other.ports.replayStore,
    };
    return { stores: [ledger.store, other.ports.quotas], options, remove };
  },
}));

interface Answered {
  readonly status: number;
  readonly tag: string;
  readonly body: Readonly<Record<string, unknown>> & { readonly error?: { readonly message: string } };
}

type Ask = (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Answered>;

describe.each([MEMORY, ...SHARED])("the admin over $name", ({ available, texts, open }) => {
  describe.skipIf(!available)("that answers", () => {
    let opened: Opened;
    let asks: readonly Ask[];
    const failures: unknown[] = [];
    beforeAll(async () => {
      opened = await open();
      asks = opened.stores.map((store) => {
        const admin = adminHandler(store, {
          ...opened.options,
          authorize: (request) => ({ name: request.headers.get("x-user") ?? "ann" }),
          onFailure: (error) => failures.push(error),
        });
        return async (method, path, body = {}, headers = {}) => {
          const response = await admin.fetch(
            new Request(`http://host${path}`, {
              method,
              headers: { "content-type": "application/json", ...headers },
              ...(method !== "GET" && { body: JSON.stringify(body) }),
            }),
          );
          const told = (await response.json()) as Answered["body"];
          return { status: response.status, tag: response.headers.get("etag") ?? "", body: told };
        };
      });
    });
    afterAll(() => opened.remove());

    it("keeps hostile texts as they are, or refuses them", async () => {
      const [ask] = asks as [Ask];
      const wrong: string[] = [];
      const check = (what: unknown, { status }: Answered): boolean => {
        if (status >= 500) wrong.push(`${JSON.stringify(what)}: ${status}, ${String(failures.at(-1))}`.slice(0, 200));
        return status < 300;
      };
      await ask("POST", "/keys", { id: "plain" });
      for (const [at, text] of texts.entries()) {
        const here = encodeURIComponent(text.toWellFormed());
        const requests: readonly (readonly [string, string, object?])[] = [
          ["GET", `/keys/${here}`],
          ["PATCH", `/keys/${here}`, { name: "x" }],
          ["POST", `/keys/${here}/revoke`],
          ["POST", `/keys/${here}/rotate`],
          ["POST", `/keys/${here}/secrets`],
          ["POST", `/keys/${here}/lower`, { units: 1 }],
          ["POST", `/keys/${here}/grant`, { units: 1 }],
          ["GET", `/keys?after=${here}`],
          ["GET", `/keys?metadata=${here}%3D${here}`],
          ["GET", `/keys?budget=${here}`],
          ["POST", "/secrets/remove", { apiKey: text }],
          ["GET", `/audit?before=${here}`],
          ["GET", `/budgets/${here}`],
          ["PATCH", `/budgets/${here}`, { amount: 1 }],
          ["POST", `/budgets/${here}/top-up`, { units: 1 }],
          ["DELETE", `/budgets/${here}`],
          ["GET", `/budgets?after=${here}`],
          ["GET", `/calls/${here}`],
          ["GET", `/calls?key=${here}&after=${here}`],
          ["GET", `/usage?by=key,day&key=${here}&group=${here}&model=${here}`],
          ["GET", `/usage?since=${here}`],
          ["PUT", "/keys/plain/budget", { budget: text }],
          ["POST", "/keys", { id: `of-${at}`, budget: text }],
          ["POST", "/budgets", { id: `of-${at}`, amount: 1, parent: text }],
          ["POST", "/budgets", { id: `in-${at}`, amount: 1, period: "day", timeZone: text }],
        ];
        await Promise.all(requests.map(async (one) => check(one, await ask(...one))));
        // What is told to be kept is kept to the character, and found again by its id.
        const key = { id: text, name: text, models: [text], metadata: { [text]: text } };
        const keep = async (field: keyof typeof key): Promise<void> => {
          const id = field === "id" ? text : `${field}-${at}`;
          const written = { id, [field]: key[field] };
          const made = await ask("POST", "/keys", written);
          if (!check(["POST /keys", written], made)) return;
          const { body } = await ask("GET", `/keys/${encodeURIComponent(id)}`);
          for (const [name, value] of Object.entries(written))
            if (JSON.stringify(body[name]) !== JSON.stringify(value))
              wrong.push(`changed: ${JSON.stringify([written, body])}`.slice(0, 400));
        };
        await Promise.all((Object.keys(key) as (keyof typeof key)[]).map(keep));
      }
      expect(wrong).toEqual([]);
      expect(failures).toEqual([]);
    });

    it("lets one of two editors save, whichever process each of them asks", async () => {
      const [first, second] = asks as [Ask, Ask];
      const { status } = await first("POST", "/budgets", { id: "raced", amount: 1_000 });
      await first("POST", "/keys", { id: "raced" });
      const routes = status === 201 ? ["/keys/raced", "/budgets/raced"] : ["/keys/raced"];
      for (const route of routes)
        for (let round = 0; round < 5; round++) {
          const { tag } = await second("GET", route);
          const changeOf = (editor: number): object =>
            route.startsWith("/keys") ? { name: `${round} ${editor}` } : { amount: 1_000 + 10 * round + editor + 2 };
          const saved = await Promise.all(
            [first, second].map((ask, editor) => ask("PATCH", route, changeOf(editor), { "if-match": tag })),
          );
          expect(saved.map((one) => one.status).toSorted((one, other) => one - other)).toEqual([200, 412]);
          const winner = saved.findIndex((one) => one.status === 200);
          expect((await first("GET", route)).body).toMatchObject(changeOf(winner));
        }
    });

    it("makes the repeated change of an operator once, and that of another operator too", async () => {
      const [first, second] = asks as [Ask, Ask];
      await first("POST", "/keys", { id: "granted", granted: 10 });
      const grant = (ask: Ask, user: string): Promise<Answered> =>
        ask("POST", "/keys/granted/grant", { units: 5 }, { "idempotency-key": "same", "x-user": user });
      await grant(first, "ann");
      await grant(first, "ann");
      expect((await grant(second, "bob")).body).toMatchObject({ granted: 20 });
      expect((await grant(second, "ann,bob")).body).toMatchObject({ granted: 25 });
    });
  });
});
