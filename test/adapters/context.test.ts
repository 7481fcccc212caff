/** What a host knows of a request reaches its backend and its stores, typed, on every mount. */

import { describe, expect, it } from "vitest";
import {
  type CallInfo,
  createGateway,
  type Gateway,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { type Caller, isFailed, isOwn, MOUNTS, type Sent } from "./mounts.ts";

const MESSAGES: Sent = {
  method: "POST",
  path: "/ai/v1/messages",
  headers: {
    "x-api-key": "sk-one",
    "compat-version": "2023-06-01",
    "content-type": "application/json",
    "x-user": "ada",
  },
  body: JSON.stringify({ model: "m", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] }),
};

/** Who was told what. */
type Told = Record<
  string,
  { context: Caller | undefined; user: string | null; address: string | undefined; id: string }
>;

function opened(): { gateway: Gateway<Caller>; told: Told } {
  const store = memoryQuotaStore([{ apiKey: "sk-one", granted: 100_000 }]);
  const told: Told = {};
  const note = (who: string, call: CallInfo<Caller> | undefined): void => {
    if (!call) throw new Error(`${who} was told nothing.`);
    const { context, headers, clientAddress: address, requestId: id } = call;
    told[who] = { context, user: headers.get("x-user"), address, id };
  };
  const quotas: QuotaStore<Caller> = {
    find: (apiKey, call) => (note("find", call), store.find(apiKey)),
    balance: (keyId, call) => (note("balance", call), store.balance(keyId)),
    reserve: (hold, call) => (note("reserve", call), store.reserve(hold)),
    renew: (id, renewal) => store.renew(id, renewal),
    settle: (id, outcome, call) => (note("settle", call), store.settle(id, outcome)),
  };
  const backend: ModelBackend<Caller> = {
    async *chat(_request, call) {
      note("chat", call);
      yield `Hello, ${call.context?.name ?? "stranger"}.`;
    },
  };
  return { gateway: createGateway<Caller>({ backend, quotas, limits: { largeBodyBytes: 1 } }), told };
}

const nameOf = (name: string | null): Caller => ({ name });

describe.each(MOUNTS)("on $name", ({ ask, address }) => {
  it("the host's context, the headers and the address reach backend and store", async () => {
    const { gateway, told } = opened();
    const got = await ask(gateway, nameOf, MESSAGES);
    expect([got.status, got.body]).toEqual([200, expect.stringContaining("Hello, ada.")]);
    const expected = { context: { name: "ada" }, user: "ada", address, id: got.headers["request-id"] };
    expect(told).toEqual({
      find: expected,
      balance: expected,
      reserve: expected,
      chat: expected,
      settle: expected,
    });
  });

  it("there is no context where the host makes none", async () => {
    const { gateway, told } = opened();
    expect((await ask(gateway, undefined, MESSAGES)).body).toContain("Hello, stranger.");
    expect(told["find"]).toMatchObject({ context: undefined, user: "ada" });
  });

  it("the context is made once a call", async () => {
    let made = 0;
    await ask(opened().gateway, (name) => (made++, { name }), MESSAGES);
    expect(made).toBe(1);
  });

  it("no context is made for the host's own routes", async () => {
    let made = 0;
    for (const path of ["/", "/ai", "/ai/v1/nothing", "/aiv1/messages"]) {
      const got = await ask(opened().gateway, () => (made++, { name: "" }), { method: "GET", path });
      expect([path, isOwn(got)]).toEqual([path, true]);
    }
    expect(made).toBe(0);
  });

  it("a context that throws ends in the host's error handling, and no store is asked", async () => {
    const { gateway, told } = opened();
    const got = await ask(
      gateway,
      () => {
        throw new Error("no such user");
      },
      MESSAGES,
    );
    expect([isFailed(got), told]).toEqual([true, {}]);
    await gateway.close();
  });
});
