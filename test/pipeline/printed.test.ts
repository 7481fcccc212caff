/** The failures that a gateway prints when its host does not listen. */

import { inspect } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SettingMistake } from "../../src/errors.ts";
import {
  createGateway,
  type Failure,
  flexibleRateLimiter,
  GatewayError,
  type GatewayOptions,
  type MemoryQuotaStore,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { failure, scriptedBackend } from "../../src/testing/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { opened, speaking } from "./bench.ts";

const printed: string[] = [];
beforeEach(() => {
  printed.length = 0;
  vi.spyOn(console, "error").mockImplementation((...said: unknown[]) => void printed.push(said.map(String).join(" ")));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const cause = new Error("connect ECONNREFUSED\npolygate: req_forged failed (internal)");

/** Fails at its upstream, or by itself. */
const failing = (isUpstream: boolean): ModelBackend => ({
  // oxlint-disable-next-line require-yield -- It fails before its first event.
  async *chat(_request, call) {
    const error = new GatewayError("backend_unavailable", "The upstream is away.", { cause, port: "model-backend" });
    if (!isUpstream) throw error;
    const observed = call.observeUpstream?.({
      name: "first",
      address: "api.example.com",
      port: 443,
      format: "messages",
      model: "large",
      modelListed: true,
      stream: false,
    });
    observed?.end({ status: 503, endMs: 1, error, errorCode: error.code });
    throw error;
  },
});

async function printedBy(
  backend: ModelBackend,
  prices: Pick<GatewayOptions, "price" | "imagePrice"> = {},
): Promise<readonly string[]> {
  const gateway = createGateway({ ...prices, backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]) });
  const response = await gateway.fetch(
    new Request("http://host/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
      body: JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }] }),
    }),
  );
  await response.text();
  await gateway.close();
  return printed;
}

it("are one line for a failed request to an upstream, with its causes and without stacks", async () => {
  const lines = await printedBy(failing(true));
  expect(lines).toEqual([
    expect.stringMatching(
      /^polygate: attempt 1 of req_\w+ failed \(backend_unavailable\): The upstream first at api\.example\.com:443 failed for the model large, with the status 503, GatewayError: The upstream is away, caused by Error: connect ECONNREFUSED, polygate: req_forged failed \(internal\)$/,
    ),
  ]);
});

it("have the number of each attempt of a call", async () => {
  const down = relay({ format: "chat-completions", name: "down", baseUrl: "http://127.0.0.1:1/v1" });
  const backend = route({ routes: { large: down }, retry: { pauseMs: 0 } });
  const attempts = (await printedBy(backend)).map((line) => /^polygate: (attempt \d) of req_/.exec(line)?.[1]);
  expect(attempts).toEqual(["attempt 1", "attempt 2", "attempt 3"]);
});

it("have the stacks when DEBUG names polygate", async () => {
  vi.stubEnv("DEBUG", "http,polygate");
  const [text = ""] = await printedBy(failing(true));
  expect(text).toMatch(/^polygate: attempt 1 of req_\w+ failed \(backend_unavailable\)\n {2}The upstream first at/);
  expect(text).toMatch(/\n\s+at .*printed\.test\.ts/);
});

it("are one line for a model without a price", async () => {
  const lines = await printedBy(speaking("Hello."), priceTable({ small: { input: 1, output: 1 } }));
  expect(lines).toEqual([
    expect.stringMatching(
      /^polygate: req_\w+ failed \(model_not_found\): GatewayError: The model "large" has no price, caused by Error: priceTable has no row for the model "large"\. [^\n]*$/,
    ),
  ]);
});

it.each([
  ["are one line for a wrong setting of a key", "", /^[^\n]*$/],
  ["have the stacks of a wrong setting when DEBUG names polygate", "polygate", /\n\s+at /],
])("%s", async (_name, debug, form) => {
  vi.stubEnv("DEBUG", debug);
  const rateLimiter = flexibleRateLimiter({ tiers: { gold: {} } });
  const key = { granted: 1_000, metadata: { tier: "golld" } };
  await (await opened({ rateLimiter, key, backend: speaking("Hello."), prints: true }).send()).text();
  expect(printed).toHaveLength(1);
  expect(printed[0]).toMatch(form);
  expect(printed[0]).toMatch(
    /^polygate: req_\w+ failed \(misconfigured\):?\s+GatewayError: This service has a wrong setting for this API key[^]*caused by Error: The key [\w-]+ names the rate tier "golld", which the rate limiter does not have \(known: "gold"\)\. Run polygate keys update /,
  );
});

const refused = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:5432"), { code: "ECONNREFUSED" });

it("are one line for a store that is away, and say that the settlement is tried again and when the store is back", async () => {
  let isAway = true;
  const around = (store: MemoryQuotaStore): Partial<QuotaStore> => ({
    settle: (id, outcome, call) => (isAway ? Promise.reject(refused) : store.settle(id, outcome, call)),
  });
  const { clock, gateway, send } = opened({ around, backend: speaking("Hello."), prints: true });
  for (const _ of [1, 2]) await (await send()).text();
  isAway = false;
  await clock.advance(60_000);
  const settlement =
    /^polygate: the charge of req_\w+ waits \(store_unavailable\): GatewayError: A store of this service is not available, caused by Error: The charge of \d+ units is tried again, or told as given up, caused by Error: connect ECONNREFUSED 127\.0\.0\.1:5432$/;
  expect(printed).toEqual([
    expect.stringMatching(settlement),
    expect.stringMatching(settlement),
    "polygate: the quota store is back and has taken 2 settlements that waited.",
  ]);
  await gateway.close();
});

it("name a health check as such", async () => {
  const { gateway } = opened({ around: () => ({ balance: () => Promise.reject(refused) }), prints: true });
  await gateway.health();
  expect(printed).toEqual([
    "polygate: health check failed (store_unavailable): GatewayError: A store of this service is not available, caused by Error: connect ECONNREFUSED 127.0.0.1:5432",
  ]);
});

it("are whole for a store that has a fault in its code", async () => {
  const around = { find: () => Promise.reject(new TypeError("rows is undefined")) };
  await (await opened({ around: () => around, prints: true }).send()).text();
  expect(printed.join()).toMatch(/TypeError: rows is undefined\n\s+stack of [^]*\n\s+at .*printed\.test\.ts/);
});

it("are whole for every other failure", async () => {
  const [text = ""] = await printedBy(failing(false));
  expect(text).toMatch(/\n\s+at .*printed\.test\.ts/);
});

it("show each stack once, without the key, when a host prints the failure itself", async () => {
  const failures: Failure[] = [];
  const backend: ModelBackend = {
    chat: () => {
      throw new Error("sk-one is refused");
    },
  };
  const quotas = memoryQuotaStore([{ apiKey: "sk-one" }]);
  const gateway = createGateway({ backend, quotas, onFailure: (failure) => void failures.push(failure) });
  const ask = { model: "large", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
  const url = "http://host/v1/chat/completions";
  const response = await gateway.fetch(new Request(url, { method: "POST", headers, body: JSON.stringify(ask) }));
  await response.text();
  await gateway.close();
  const [failure] = failures;
  const shown = inspect(failure);
  expect(shown).toMatch(/^polygate: req_\w+ failed \(backend_failed\)\n {2}GatewayError: The model backend failed\.\n/);
  expect(shown.match(/caused by Error: \[redacted\] is refused/g)).toHaveLength(1);
  expect(shown).not.toContain("sk-one");
  expect(Object.keys(JSON.parse(JSON.stringify(failure)))).toEqual(["error", "requestId", "port", "text"]);
});

it.each([
  ["among the errors of an error", () => new AggregateError([new Error("sk-one is refused"), "sk-one"], "All failed.")],
  [
    "in a cause that the text leaves out",
    () => Array.from({ length: 12 }).reduce<Error>((cause) => new Error("Failed.", { cause }), new Error("sk-one")),
  ],
])("show no key of the caller %s, also when a host prints only the error", async (_where, thrown) => {
  const chat = (): never => {
    throw thrown();
  };
  const { failures, send } = opened({ backend: { chat } });
  await (await send()).text();
  const [failed] = failures;
  for (const shown of [inspect(failed), inspect(failed?.error, { depth: 99, showHidden: true })]) {
    expect(shown).toContain("The model backend failed.");
    expect(shown).not.toContain("sk-one");
  }
});

it("are one line with each address of a store that no connection reached", async () => {
  const refusals = ["::1", "127.0.0.1"].map((host) => new Error(`connect ECONNREFUSED ${host}:5432`));
  const around = { find: () => Promise.reject(Object.assign(new AggregateError(refusals), { code: "ECONNREFUSED" })) };
  await (await opened({ around: () => around, prints: true }).send()).text();
  expect(printed.join()).toMatch(
    /caused by AggregateError[^\n]*, caused by Error: connect ECONNREFUSED ::1:5432, caused by Error: connect ECONNREFUSED 127\.0\.0\.1:5432$/,
  );
});

const unpaid = async (): Promise<Response> =>
  Response.json({ error: { message: "Insufficient credits" } }, { status: 402 });

it("are one line that begins with the account for an upstream without credit, also where the relay has no key", async () => {
  const [line] = await printedBy(relay({ format: "chat-completions", baseUrl: "http://up.test/v1", fetch: unpaid }));
  expect(line).toMatch(
    /caused by SettingMistake: The upstream refuses the relay's account\. Check its credit\. The relay has no apiKey: the upstream may want one, caused by Error: The upstream answered 402, [^\n]*Insufficient credits[^\n]*$/,
  );
});

const unkeyed = async (): Promise<Response> => Response.json({ error: { message: "No key." } }, { status: 401 });

it.each([
  [
    "name the missing key of a relay",
    {},
    /caused by SettingMistake: The upstream wants a credential, but the relay has no apiKey, caused by/,
  ],
  [
    "name the wrong key of a relay",
    { apiKey: "wrong" },
    /caused by SettingMistake: The upstream refuses the relay's credential\. Check its apiKey and headers\.?, caused by Error: The upstream answered 401/,
  ],
])("%s", async (_name, key, words) => {
  const [line] = await printedBy(
    relay({ format: "chat-completions", baseUrl: "http://up.test/v1", fetch: unkeyed, ...key }),
  );
  expect(line).toMatch(words);
});

/** Returns a function that sends calls, and returns the new lines of failures. */
function stage(options: Partial<GatewayOptions> = {}) {
  const manual = manualClock();
  const clock = { ...manual, backMs: 0, now: () => manual.now() - clock.backMs };
  const heard: string[] = [];
  const gateway = createGateway({
    backend: relay({
      format: "chat-completions",
      name: "east",
      baseUrl: "http://up.test/v1",
      apiKey: "sk-wrong",
      fetch: async () => Response.json({ error: { message: crypto.randomUUID() } }, { status: 401 }),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    onCall: ({ requestId }) => void heard.push(requestId),
    ...options,
    clock,
  });
  const send = async (times: number, model = "large"): Promise<readonly string[]> => {
    printed.length = 0;
    for (let call = 0; call < times; call++) {
      const answer = await gateway.fetch(
        new Request("http://host/v1/chat/completions", {
          method: "POST",
          headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
          body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
        }),
      );
      await answer.text();
    }
    return [...printed];
  };
  return { clock, manual, heard, send };
}

describe("of the same kind", () => {
  const LINE =
    /^polygate: attempt 1 of req_\w+ failed \(backend_refused\): The upstream east at .* with the status 401, /;

  it("are printed three times, and then once a minute with the number of the others", async () => {
    const { manual, heard, send } = stage();
    expect(await send(50)).toEqual([LINE, LINE, LINE].map((line) => expect.stringMatching(line)));
    expect(heard).toHaveLength(50);
    await manual.advance(59_999);
    expect(await send(1)).toEqual([]);
    await manual.advance(1);
    const [summary = "", ...others] = await send(5);
    expect(summary).toMatch(
      /^polygate: attempt 1 of req_\w+ failed \(backend_refused\), like 48 before it that are not printed: The upstream east /,
    );
    expect(others).toEqual([]);
    await manual.advance(60_000);
    expect((await send(1)).join()).toContain("like 4 before it");
    expect(manual.pending).toBe(0);
  });

  it("are counted for each model, and together where callers name many", async () => {
    expect(await stage({ backend: failing(true) }).send(4)).toHaveLength(3);
    const { manual, send } = stage();
    for (let model = 0; model < 100; model++) expect(await send(4, `m${model}`)).toHaveLength(3);
    const ofMore = async (from: number): Promise<readonly string[]> => {
      const lines: string[] = [];
      for (let model = from; model < from + 300; model++) lines.push(...(await send(1, `m${model}`)));
      return lines;
    };
    expect(await ofMore(100)).toHaveLength(3);
    expect(await send(1, "m0")).toEqual([]);
    await manual.advance(60_000);
    expect((await send(1, "m0")).join()).toContain("like 2 before it");
    // The kinds of the last minute have made room.
    expect((await ofMore(1_000)).length).toBe(99 + 3);
  });

  it("are all printed when DEBUG names polygate, and all heard by a host", async () => {
    vi.stubEnv("DEBUG", "polygate");
    expect(await stage().send(9)).toHaveLength(9);
    vi.unstubAllEnvs();
    const failures: Failure[] = [];
    expect(await stage({ onFailure: (failure) => void failures.push(failure) }).send(9)).toEqual([]);
    expect(failures).toHaveLength(9);
  });

  it("are printed at once again when the clock steps back", async () => {
    const { clock, send } = stage();
    await send(5);
    clock.backMs = 1_000_000;
    expect((await send(1)).join()).toContain("like 2 before it");
  });
});

describe("of calls whose upstreams all rest", () => {
  const WRONG =
    "The upstream at http://up.test does not serve POST /v2/chat/completions. Check the baseUrl and the format of the relay.";
  const wrong = relay({
    format: "chat-completions",
    name: "east",
    baseUrl: "http://up.test/v2",
    fetch: async () => new Response("404 page not found", { status: 404 }),
  });

  /** Sends three calls in each of two rests, with the breaker of each upstream open from its first failure on. */
  async function sendToResting(): Promise<readonly string[]> {
    const clock = manualClock();
    const overloaded = new GatewayError("backend_overloaded", "The model backend is overloaded.", {
      retryAfterMs: 60_000,
    });
    const west = { backend: scriptedBackend(failure(overloaded)), name: "west", weight: 0 };
    const upstreams = [wrong, west];
    const backend = route({ routes: { large: { upstreams } }, breaker: { failures: 1, openMs: 60_000 }, clock });
    const quotas = memoryQuotaStore([{ apiKey: "sk-one" }]);
    const gateway = createGateway({ backend, quotas, clock });
    const send = async (): Promise<void> => {
      const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
      const body = JSON.stringify({ model: "large", messages: [{ role: "user", content: "Hello" }] });
      const answer = await gateway.fetch(
        new Request("http://host/v1/chat/completions", { method: "POST", headers, body }),
      );
      await answer.text();
    };
    for (const _ of [1, 2, 3]) await send();
    await clock.advance(60_000);
    for (const _ of [1, 2, 3]) await send();
    await gateway.close();
    return printed.filter((line) => !line.includes(": attempt "));
  }

  it("are one line for each rest, with the upstreams, the times and the known mistake", async () => {
    const lines = await sendToResting();
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
    const line = new RegExp(
      String.raw`^polygate: req_\w+ failed \(backend_unavailable\): GatewayError: The model backend is not available, caused by UpstreamsRest: No upstream may be asked: east rests until (${time}) after backend_failed, west rests until ${time} after backend_overloaded\. (.*)$`,
    );
    expect(lines).toEqual([expect.stringMatching(line), expect.stringMatching(line)]);
    const [first, second] = lines.map((one) => line.exec(one) ?? []);
    expect([first?.[2], second?.[2]]).toEqual([WRONG, WRONG]);
    expect(Date.parse(second?.[1] ?? "") - Date.parse(first?.[1] ?? "")).toBe(60_000);
  });

  it("are all printed with their stacks when DEBUG names polygate", async () => {
    vi.stubEnv("DEBUG", "polygate");
    const lines = await sendToResting();
    expect(lines).toHaveLength(4);
    for (const line of lines)
      expect(line).toMatch(/caused by UpstreamsRest: No upstream may be asked: east rests until [^]*\n\s+at /);
  });
});

it("are one line for a wrong address that no attempt tells of", async () => {
  const cause = new SettingMistake("The provider does not serve POST /v2.");
  const backend: ModelBackend = {
    // oxlint-disable-next-line require-yield -- It fails before its first event.
    async *chat() {
      throw new GatewayError("backend_failed", "The model backend failed.", { cause, port: "model-backend" });
    },
  };
  expect(await printedBy(backend)).toEqual([
    expect.stringMatching(
      /^polygate: req_\w+ failed \(backend_failed\): [^\n]*SettingMistake: The provider does not [^\n]*$/,
    ),
  ]);
});
