/** The gateway for tests: its key, its stores, its records, its two ways in, and its end. */

import express from "express";
import OpenAI from "openai";
import { describe, expect, it, vi } from "vitest";
import { toExpressHandler } from "../../adapters/express.ts";
import { type CallRecord, memoryQuotaStore, type Observer } from "../../src/index.ts";
import {
  demoModel,
  manualClock,
  reply,
  scriptedBackend,
  silence,
  type TestGateway,
  testGateway,
  type TestGatewayOptions,
} from "../../src/testing/index.ts";
import { openSocket, textOf } from "../drivers/socket.ts";

const USAGE = { inputTokens: 12, outputTokens: 3 };
const CHAT = { model: "small", messages: [{ role: "user" as const, content: "Hello" }] };

const backendOf = () => scriptedBackend(reply("Hi", { usage: USAGE }));
const clientOf = ({ apiKey, fetch }: Pick<TestGateway, "apiKey" | "fetch">): OpenAI =>
  new OpenAI({ apiKey, fetch, maxRetries: 0 });
const ask = (gateway: Pick<TestGateway, "apiKey" | "fetch">) => clientOf(gateway).chat.completions.create(CHAT);

describe("a gateway for tests", () => {
  it("answers without any option", async () => {
    await using gateway = testGateway();
    expect((await ask(gateway)).choices[0]?.message.content).toBe("Hello.");
    expect(gateway.apiKey).toBe("sk-test");
  });

  it("charges the ledger what it says, for its key of a million units", async () => {
    const quotas = memoryQuotaStore([{ apiKey: "sk-own", id: "own", granted: 1_000 }]);
    await using gateway = testGateway({ backend: backendOf(), quotas, apiKey: "sk-own" });
    await ask(gateway);
    await ask(gateway);
    expect(await gateway.charged()).toBe(30);
    expect(quotas.report("own")).toMatchObject({ used: 30, held: 0, overdraft: 0 });

    await using other = testGateway();
    const headers = { authorization: `Bearer ${other.apiKey}` };
    const usage = await (await other.fetch("/api/usage/token", { headers })).json();
    expect(usage).toMatchObject({ data: { name: "test", total_granted: 1_000_000 } });
  });

  it("takes the rest of the key", async () => {
    await using gateway = testGateway({ apiKey: "sk-a", key: { granted: 1, id: "a", models: ["small"] } });
    await expect(ask(gateway)).rejects.toMatchObject({ status: 429 });
    const other = clientOf(gateway).chat.completions.create({ ...CHAT, model: "large" });
    await expect(other).rejects.toMatchObject({ status: 403 });
    expect(gateway.records.map(({ key, errorCode }) => [key?.id, errorCode])).toEqual([
      ["a", "quota_insufficient"],
      ["a", "model_not_allowed"],
    ]);
  });

  it("takes the budgets of its key, and says how to give a missing one", async () => {
    const budgets = [{ id: "team-a", amount: 1 }];
    await using gateway = testGateway({ budgets, key: { budget: "team-a" } });
    await expect(ask(gateway)).rejects.toMatchObject({ status: 429 });
    await gateway.settled();
    expect(gateway.records[0]?.refusedBy).toMatchObject({ kind: "budget", budget: "team-a", available: 1 });
    expect(() => testGateway({ key: { budget: "team-a" } })).toThrow(
      'testGateway: key.budget: there is no budget "team-a"; write budgets: [{ id: "team-a", amount: 1_000_000 }].',
    );
    const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
    expect(() => testGateway({ quotas, budgets })).toThrow(
      "testGateway: budgets is for the store in memory; give it to quotas instead.",
    );
  });

  it("keeps responses and repeats answers from its stores in memory", async () => {
    const backend = backendOf();
    await using gateway = testGateway({ backend });
    const client = clientOf(gateway);
    const first = await client.responses.create({ model: "small", input: "Hello" });
    await client.responses.create({ model: "small", input: "And now?", previous_response_id: first.id });
    expect(backend.requests[1]?.request).toMatchObject({ messages: [{}, { role: "assistant" }, {}] });
    const headers = { "idempotency-key": "one" };
    await client.chat.completions.create(CHAT, { headers });
    await client.chat.completions.create(CHAT, { headers });
    expect([backend.requests.length, await gateway.charged()]).toEqual([3, 45]);
  });

  it("prints nothing, keeps the failures, and tells the host's own functions too", async () => {
    const seen: unknown[] = [];
    const print = vi.spyOn(console, "error");
    const observer: Observer = {
      watchGateway: () => () => seen.push("closed"),
      begin: ({ format }) => {
        seen.push(format);
        return {
          run: (work) => {
            seen.push("run");
            return work();
          },
          hold: ({ type }) => seen.push(type),
          end: ({ status }) => seen.push(status),
        };
      },
    };
    const gateway = testGateway({
      backend: scriptedBackend(() => {
        throw new Error("boom");
      }),
      observer,
      onFailure: ({ error }) => seen.push(error.code),
      onCall: ({ outcome }: CallRecord) => seen.push(outcome),
    });
    await expect(ask(gateway)).rejects.toMatchObject({ status: 500 });
    await gateway.close();
    expect(gateway.failures).toMatchObject([{ error: { code: "backend_failed", cause: { message: "boom" } } }]);
    expect(new Set(seen)).toEqual(
      new Set(["chat-completions", "reserved", "run", "backend_failed", "settled", 500, "failed", "closed"]),
    );
    expect(print).not.toHaveBeenCalled();
    print.mockRestore();
  });
});

describe("an observer of the host", () => {
  it("changes nothing when it throws, and runs work once", async () => {
    let runs = 0;
    const faulty: Observer = {
      begin() {
        throw new Error("begin");
      },
    };
    await using first = testGateway({ backend: backendOf(), observer: faulty });
    await ask(first);
    expect(await first.charged()).toBe(15);
    const counting: Observer = {
      begin: () => ({
        run: (work) => {
          runs++;
          return work();
        },
        end() {
          throw new Error("end");
        },
      }),
    };
    const backend = backendOf();
    await using second = testGateway({ backend, observer: counting });
    await ask(second);
    expect([await second.charged(), backend.requests.length, runs > 0]).toEqual([15, 1, true]);
  });
});

describe("its ways in", () => {
  it("rejects like fetch once its signal is aborted", async () => {
    const { fetch } = testGateway();
    const signal = AbortSignal.abort(new Error("too late"));
    await expect(fetch("/v1/models", { signal })).rejects.toThrow("too late");
    await expect(fetch(new Request("http://host/v1/models"), { signal })).rejects.toThrow("too late");
  });

  it("answers fetch for every host, and for an address without one", async () => {
    await using gateway = testGateway();
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const asked = ["/v1/models", "https://api.openai.com/v1/models", new URL("http://other.test/v1/models")];
    const answers = await Promise.all(asked.map((address) => gateway.fetch(address, { headers })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    await expect(gateway.fetch("http://")).rejects.toThrow("Invalid URL");
  });

  it("names the base URLs to a client with a wrong one, in the shape of its vendor", async () => {
    await using gateway = testGateway();
    const { apiKey, fetch } = gateway;
    const url = await gateway.listen();
    for (const way of [{ baseURL: url }, { baseURL: "https://api.openai.com/ai/v1", fetch }]) {
      const client = new OpenAI({ apiKey, maxRetries: 0, ...way });
      const errors = [client.chat.completions.create(CHAT), client.models.list()].map(async (call) =>
        call.catch((error: unknown) => error),
      );
      for (const [at, error] of (await Promise.all(errors)).entries()) {
        expect(error).toBeInstanceOf(OpenAI.NotFoundError);
        expect(error).toMatchObject({ code: "not_found", type: "invalid_request_error" });
        const meant = ["POST /v1/chat/completions", "GET /v1/models"][at];
        expect((error as Error).message).toContain(`Did you mean ${meant}? The base URL is the address of this server`);
      }
    }
    expect(gateway.records).toEqual([]);
    const answer = await gateway.fetch(new Request("http://host/nothing"));
    expect([answer.status, await answer.json()]).toMatchObject([404, { type: "error" }]);
  });

  it("listens no more after its end, when nobody would close the server", async () => {
    for (const isListening of [true, false]) {
      const gateway = testGateway();
      if (isListening) await gateway.listen();
      await gateway.close();
      await expect(gateway.listen()).rejects.toThrow("testGateway: the gateway is closed.");
    }
  });

  it("listens at one address, over HTTP and WebSockets", async () => {
    await using gateway = testGateway({ backend: backendOf() });
    const [url, again] = await Promise.all([gateway.listen(), gateway.listen()]);
    expect(again).toBe(url);
    const client = new OpenAI({ apiKey: gateway.apiKey, baseURL: `${url}/v1` });
    expect((await client.chat.completions.create(CHAT)).choices[0]?.message.content).toBe("Hi");
    await using socket = await openSocket(url, { authorization: `Bearer ${gateway.apiKey}` }, "/v1/responses");
    expect(textOf(await socket.turn({ model: "small", input: "Hello", store: false }))).toBe("Hi");
    expect(await gateway.charged()).toBe(30);
  });

  it("answers at a path of an Express app, and records the calls from there", async () => {
    await using gateway = testGateway({ backend: backendOf() });
    await using server = express().use("/ai", toExpressHandler(gateway)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    const client = new OpenAI({ apiKey: gateway.apiKey, baseURL: `http://127.0.0.1:${port}/ai/v1` });
    await client.chat.completions.create(CHAT);
    expect(await gateway.charged()).toBe(15);
  });
});

describe("its end", () => {
  it("cuts and settles the calls in flight, and lets nobody in", async () => {
    const backend = scriptedBackend(silence());
    const gateway = testGateway({ backend });
    const url = await gateway.listen();
    const local = new OpenAI({ apiKey: gateway.apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
    const ended = Promise.allSettled([ask(gateway), local.chat.completions.create(CHAT)]);
    await backend.asked(2);
    await Promise.all([gateway.close(), gateway.close()]);
    expect((await ended).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(gateway.records.map(({ outcome, units }) => [outcome, units])).toEqual([
      ["shutdown", 0],
      ["shutdown", 0],
    ]);
    await expect(fetch(`${url}/v1/models`)).rejects.toThrow("fetch failed");
    expect((await gateway.fetch("/v1/models")).status).toBe(503);
  });

  it("needs nobody who winds its clock", async () => {
    const clock = manualClock();
    const backend = scriptedBackend(silence(), { clock });
    const gateway = testGateway({ backend, clock });
    const call = ask(gateway).catch((error: { status: number }) => error.status);
    await backend.asked();
    await gateway.close();
    expect([await call, gateway.records[0]?.outcome, clock.pending]).toEqual([503, "shutdown", 0]);
  });

  it("of a call is waited for, and not longer", async () => {
    const gate = Promise.withResolvers<void>();
    const backend = scriptedBackend(reply([gate.promise, "Hi"]));
    await using gateway = testGateway({ backend });
    const answer = ask(gateway);
    await backend.asked();
    let isSettled = false;
    const settled = gateway.settled().then(() => (isSettled = true));
    await new Promise((resolve) => void setTimeout(resolve));
    expect([isSettled, gateway.records]).toEqual([false, []]);
    gate.resolve();
    await Promise.all([answer, settled]);
    expect(gateway.records).toHaveLength(1);
    await gateway.settled();
  });
});

describe("a wrong option", () => {
  it.each<[options: object, message: string]>([
    [{ backnd: {} }, "testGateway: backnd does not exist; did you mean backend?"],
    [{ apikey: "sk-1" }, "testGateway: apikey does not exist; did you mean apiKey?"],
    [{ limits: { deadline: 5 } }, "limits.deadline does not exist; did you mean deadlineMs?"],
    [{ key: { grantd: 5 } }, "grantd does not exist; did you mean granted?"],
    [{ key: {}, quotas: memoryQuotaStore([]) }, "testGateway: key is for the store in memory"],
    [{ backend: "Hi" }, "backend must be a ModelBackend, such as relay({…}), not a text"],
  ])("%o is refused by its name", (options, message) => {
    expect(() => testGateway(options as TestGatewayOptions)).toThrow(message);
  });
});

describe("the demo's model", () => {
  it("takes the names of a host's own chat models", async () => {
    await using gateway = testGateway({ backend: demoModel(["fast", "large"]) });
    for (const [model, status] of [
      ["fast", 200],
      ["large", 200],
      ["demo-chat", 404],
    ] as const) {
      const response = await gateway.fetch("http://test.invalid/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${gateway.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
      });
      expect([model, response.status]).toEqual([model, status]);
      await response.text();
    }
  });

  it("refuses names that are no list of texts", () => {
    expect(() => demoModel("fast" as never)).toThrow("demoModel: the names of its models must be a list of texts");
  });
});
