/** What a host sees of a gateway beside its answers: errors in the caller's format, two gateways apart, nothing made unasked. */

import { inspect } from "node:util";
import { Headers as OtherHeaders, Request as OtherRequest } from "undici";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  borrowingQuotaStore,
  type CorsOptions,
  createGateway,
  type Failure,
  GatewayError,
  type GatewayErrorDetails,
  memoryQuotaStore,
  systemClock,
} from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, counted, INPUT, opened, speaking, WORD, requestOf, UNASKED } from "./bench.ts";

afterEach(() => void vi.restoreAllMocks());

const SECRET = "sk-0123456789abcdef";

const everything = (failures: Failure[] = []) =>
  createGateway({
    quotas: memoryQuotaStore([{ apiKey: SECRET }]),
    onFailure: (failure) => failures.push(failure),
    backend: {
      ...speaking(WORD),
      async *image() {
        yield drawn(0);
      },
    },
  });

const withCors = (cors: CorsOptions) => createGateway({ quotas: memoryQuotaStore(), backend: UNASKED, cors });

const at = (path: string, init: RequestInit = {}): Request =>
  new Request(`http://host${path}`, { method: "POST", ...init });

describe("errorResponse", () => {
  const bearer = { headers: { authorization: `Bearer ${SECRET}` } };
  const routes = [
    ["messages", at("/v1/messages", { headers: { "x-api-key": SECRET } })],
    ["generate-content", at(`/v1beta/models/m:generateContent?key=${SECRET}`)],
    ["images", at("/v1/images/generations", bearer)],
    ["token-usage", at("/api/usage/token", { method: "GET", ...bearer })],
  ] as const;
  const slow = new GatewayError("rate_limited", "Slow down.", { retryAfterMs: 1_500 });
  const bodies: Record<(typeof routes)[number][0], object> = {
    messages: {
      type: "error",
      error: { type: "rate_limit_error", code: "rate_limit_exceeded", message: "Slow down." },
      request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/) as string,
    },
    "generate-content": { error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "Slow down." } },
    images: { error: { type: "rate_limit_error", code: "rate_limit_exceeded", message: "Slow down.", param: null } },
    "token-usage": { success: false, message: "Slow down." },
  };

  it.each(routes)("tells an error as the %s format does", async (name, request) => {
    const response = everything().errorResponse(request, slow);
    expect(response?.status).toBe(429);
    expect(await response?.json()).toMatchObject(bodies[name]);
    expect(response?.headers.get("retry-after")).toBe("2");
    expect(response?.headers.get("retry-after-ms")).toBe("1500");
    expect(response?.headers.get("content-type")).toBe("application/json");
    expect(response?.headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  });

  it.each(routes)(
    "tells the %s format nothing of what it does not know, and reports it without the key",
    async (_, request) => {
      const failures: Failure[] = [];
      const gateway = everything(failures);
      // As another version of this library may throw it.
      const unknown = Object.assign(new GatewayError("busy", `asked for ${SECRET}`), { code: "weird" });
      for (const error of [new Error(`select * where key = '${SECRET}'`), unknown, "a text", undefined]) {
        const response = gateway.errorResponse(request, error);
        expect(response?.status).toBe(500);
        expect(await response?.text()).toMatch(/internal error/);
        expect(failures.at(-1)).toMatchObject({ port: undefined, error: { code: "internal" } });
        expect(failures.at(-1)?.requestId).toBe(response?.headers.get("request-id"));
      }
      expect(failures).toHaveLength(4);
      // What was thrown is handed on as it is, unless the key stands in it.
      expect(failures.map(({ error: { cause } }) => cause).slice(2)).toEqual(["a text", undefined]);
      expect(inspect(failures, { depth: Number.POSITIVE_INFINITY, showHidden: true })).not.toContain(SECRET.slice(3));
      expect(failures[0]?.text).toContain("[redacted]");
    },
  );

  it("keeps the details of an error whose key it removes", () => {
    const failures: Failure[] = [];
    const details = {
      reason: { code: "slow" },
      refusedBy: { kind: "tokens", limit: 5 },
      port: "model-backend",
    } as const;
    const limits = { format: "messages", headers: { "anthropic-ratelimit-unified-status": "rejected" } };
    const error = new GatewayError("backend_failed", SECRET, { ...details, limits, path: ["a", SECRET], cause: "why" });
    everything(failures).errorResponse(routes[0][1], error);
    expect(failures[0]?.error).not.toBe(error);
    expect(failures[0]?.error).toMatchObject({ ...details, limits, message: "[redacted]", path: ["a", "[redacted]"] });
  });

  const circular: Record<string, unknown> = { key: SECRET };
  circular["self"] = circular;

  it.each<[detail: string, details: GatewayErrorDetails]>([
    ["code", { reason: { code: SECRET } }],
    ["own details", { reason: { details: { error_code: [SECRET] } } }],
    ["own details, which contain themselves", { reason: { details: circular } }],
    ["headers", { limits: { format: "images", headers: { "anthropic-ratelimit-unified-status": SECRET } } }],
    ["model", { refusedBy: { kind: "tokens", model: SECRET } }],
    ["path", { path: ["tools", 0, SECRET] }],
  ])("reports no key in the %s of an error", (_detail, details) => {
    const failures: Failure[] = [];
    const error = new GatewayError("backend_failed", "The backend has failed.", { ...details, port: "model-backend" });
    everything(failures).errorResponse(routes[2][1], error);
    expect(failures[0]?.error).toMatchObject({ code: "backend_failed", message: error.message, port: "model-backend" });
    expect(inspect(failures[0], { depth: 9 })).not.toContain(SECRET);
  });

  it.each<[field: string, fields: object]>([
    ["headers of a request", { config: { headers: { authorization: `Bearer ${SECRET}` } } }],
    ["name of a field", { [SECRET]: true }],
    ["Headers", { response: { headers: new Headers({ "x-api-key": SECRET }) } }],
    ["Request", { request: new Request("http://host/", { headers: { "x-api-key": SECRET } }) }],
    ["address of a request", { request: new Request(`http://host/?key=${SECRET}`) }],
    ["Headers of another library", { headers: new OtherHeaders({ "x-api-key": SECRET }) }],
    ["Request of another library", { request: new OtherRequest("http://host/", { headers: { "x-api-key": SECRET } }) }],
    ["field of a list", { sent: Object.assign([1, 2], { key: SECRET }) }],
    ["URL", { url: new URL(`http://host/?key=${SECRET}`) }],
    ["map", { sent: new Map([["x-api-key", { value: SECRET }]]) }],
    ["set", { sent: new Set([SECRET]) }],
    ["field with a symbol", { [Symbol("sent")]: [SECRET] }],
    ["deep cause", { cause: new Error("why", { cause: Object.assign(new Error("really"), { sent: SECRET }) }) }],
    ["part of an AggregateError", { errors: [Object.assign(new Error("one"), { sent: SECRET })] }],
    [
      "field that cannot be read",
      {
        sent: {
          get key(): never {
            throw new Error(SECRET);
          },
        },
      },
    ],
    ["endless fields", { sent: Array.from({ length: 20_000 }, (_, at) => ({ at, key: at === 19_999 ? SECRET : "" })) }],
  ])("reports no key in the %s of a cause", (_field, fields) => {
    const failures: Failure[] = [];
    const cause = Object.assign(new TypeError("The request has failed."), fields);
    const error = new GatewayError("backend_failed", "The backend has failed.", { cause, port: "model-backend" });
    everything(failures).errorResponse(routes[2][1], error);
    const [failure] = failures;
    expect(failure?.error).toMatchObject({ code: "backend_failed", message: error.message, port: "model-backend" });
    expect(inspect(failure?.error, { depth: 99, showHidden: true })).not.toContain(SECRET.slice(3));
    expect(failure?.error.cause).not.toBe(cause);
    expect(failure?.error.cause).toMatchObject({ message: expect.stringContaining("The request has failed.") });
  });

  it("searches only the beginning of a large cause, and hands on its text", () => {
    let reads = 0;
    const read = (): string => String(reads++);
    class Read extends Map<string, string> {
      override *[Symbol.iterator](): MapIterator<[string, string]> {
        for (let at = 0; at < 20_000; at++) yield [read(), ""];
      }
    }
    const list: unknown[] = new Proxy(
      Array.from({ length: 1_000_000 }, () => 0),
      { get: (...at) => read() && Reflect.get(...at) },
    );
    const sockets = Array.from({ length: 5_000 }, () => Object.defineProperty({}, "header", { get: read }));
    for (const fields of [{ list }, { map: new Read() }, { sockets }, { rows: sockets.map((row) => ({ row })) }]) {
      const failures: Failure[] = [];
      const cause = Object.assign(new Error("The request has failed."), fields);
      everything(failures).errorResponse(routes[2][1], new GatewayError("backend_failed", "Failed.", { cause }));
      expect(failures[0]?.error.cause).toMatchObject({ message: expect.stringContaining("The request has failed.") });
      expect(failures[0]?.error.cause).not.toBe(cause);
    }
    expect(reads).toBeLessThan(5_000);
  });

  it("hands on a cause whose fields have no key, also one that contains itself", () => {
    const failures: Failure[] = [];
    const fields = { status: 500, body: new Uint8Array(9), vector: Array.from({ length: 800 }, () => 0.5) };
    const cause = Object.assign(new TypeError("The request has failed."), fields);
    const error = new GatewayError("backend_failed", "The backend has failed.", {
      cause: Object.assign(cause, { self: cause }),
      port: "model-backend",
    });
    everything(failures).errorResponse(routes[2][1], error);
    expect(failures[0]?.error.cause).toBe(cause);
  });

  it("leaves the host its own routes", () => {
    for (const path of ["/", "/v1/nothing", "/v1/messages/more", "/ai/v1/messages", "//"])
      expect([path, everything().errorResponse(at(path), slow)]).toEqual([path, undefined]);
  });

  it("stands where the gateway is mounted", () => {
    const { errorResponse } = everything().at("/ai");
    expect(errorResponse(at("/ai/v1/messages"), slow)?.status).toBe(429);
    expect(errorResponse(at("/v1/messages"), slow)).toBeUndefined();
  });

  it.each<[how: string, origin: string[] | ((page: string) => boolean)]>([
    ["a list", ["https://page.test"]],
    ["a function", (page) => page === "https://page.test"],
  ])("lets known pages send credentials: %s", (_how, origin) => {
    // Without these lists, h3 warns that a wildcard has no effect beside credentials.
    const cors = {
      origin,
      credentials: true,
      methods: ["POST"],
      allowHeaders: ["x-api-key"],
      exposeHeaders: ["request-id"],
    };
    const gateway = createGateway({ quotas: memoryQuotaStore(), backend: speaking(WORD), cors });
    const headersFor = (page: string): Headers | undefined =>
      gateway.errorResponse(at("/v1/messages", { headers: { origin: page } }), slow)?.headers;
    expect(headersFor("https://page.test")?.get("access-control-allow-origin")).toBe("https://page.test");
    expect(headersFor("https://page.test")?.get("access-control-allow-credentials")).toBe("true");
    expect(headersFor("https://elsewhere.test")?.has("access-control-allow-origin")).toBe(false);
  });

  it("lets a page read it where the gateway lets pages call", () => {
    const cors = { origin: [/^https:\/\/page\.test|evil$/g], exposeHeaders: ["request-id"] };
    const gateway = createGateway({ quotas: memoryQuotaStore(), backend: speaking(WORD), cors });
    const headersFor = (origin: string): Headers | undefined =>
      gateway.errorResponse(at("/v1/messages", { headers: { origin } }), slow)?.headers;
    const headers = headersFor("https://page.test");
    expect(headers?.get("access-control-allow-origin")).toBe("https://page.test");
    expect(headers?.get("access-control-expose-headers")).toBe("request-id");
    expect(headers?.get("vary")).toBe("origin");
    expect(headers?.get("retry-after")).toBe("2");
    for (const origin of ["https://elsewhere.test", "https://page.test.evil", "https://evil"])
      expect(headersFor(origin)?.has("access-control-allow-origin")).toBe(false);
  });

  it("lets a page read it also where the host header makes no URL, as Bun and Deno pass it on", async () => {
    const gateway = withCors({ origin: ["https://page.test"] });
    for (const [method, status] of [
      ["POST", 401],
      ["OPTIONS", 204],
    ] as const) {
      const headers = { origin: "https://page.test", "access-control-request-method": "POST" };
      const request = at("/v1/messages", { method, headers });
      Object.defineProperty(request, "url", { value: "http://h:99999/v1/messages" });
      const response = await gateway.at("").handle(request);
      expect([response?.status, response?.headers.get("access-control-allow-origin")]).toEqual([
        status,
        "https://page.test",
      ]);
    }
  });

  it("lets no page read it where the decision is none, or where an object of a class says less", async () => {
    const page = "https://page.test";
    class Rules {
      readonly origin = [page];
      get methods(): string[] {
        return ["GET"];
      }
    }
    for (const told of [Promise.resolve(false), Promise.reject(new Error("no")), -1, "no", {}]) {
      const { fetch } = withCors({ origin: () => told as boolean });
      await expect(fetch(at("/v1/models", { headers: { origin: page } }))).rejects.toThrow("must return true or false");
    }
    const asked = { origin: page, "access-control-request-method": "DELETE" };
    const { headers } = await withCors(new Rules()).fetch(at("/v1/models", { method: "OPTIONS", headers: asked }));
    expect(headers.get("access-control-allow-methods")).toBe("GET");
  });

  it("reports to a host whose reporter throws, and answers all the same", () => {
    const gateway = createGateway({
      quotas: memoryQuotaStore(),
      backend: speaking(WORD),
      onFailure: () => {
        throw new Error("full");
      },
    });
    expect(gateway.errorResponse(at("/v1/messages"), new Error("no"))?.status).toBe(500);
  });
});

describe("a port that is none", () => {
  const quotas = memoryQuotaStore();
  it.each<[what: string, options: object, told: string]>([
    ["no backend", { quotas }, "createGateway: backend must be a ModelBackend, such as relay({…}), not undefined."],
    [
      "a promise of a backend",
      { backend: Promise.resolve(UNASKED), quotas },
      "createGateway: backend must be a ModelBackend, such as relay({…}), not a Promise: await it first.",
    ],
    [
      "a list of backends",
      { backend: [UNASKED], quotas },
      "createGateway: backend must be a ModelBackend, such as relay({…}), not a list: route() makes one backend of several.",
    ],
    [
      "the factory of a backend",
      { backend: () => UNASKED, quotas },
      "createGateway: backend must be a ModelBackend, such as relay({…}), not a function: its result is probably meant.",
    ],
    [
      "the options of a relay",
      { backend: { format: "messages", baseUrl: "https://example.com", sign: () => ({}) }, quotas },
      "createGateway: backend must be a ModelBackend, such as relay({…}), not the options of one: relay() makes it of them.",
    ],
    [
      "a backend without a verb",
      { backend: { models: () => [] }, quotas },
      "createGateway: backend must be a ModelBackend, such as relay({…}), and has no chat() or image() or embed(). An instance of a class that is spread loses its methods.",
    ],
    [
      "a promise of a store",
      { backend: UNASKED, quotas: Promise.resolve(quotas) },
      "createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not a Promise: await it first.",
    ],
    [
      "keys for a store",
      { backend: UNASKED, quotas: [{ apiKey: "sk-1" }] },
      "createGateway: quotas must be a QuotaStore, not a list: memoryQuotaStore() makes a store of keys.",
    ],
    [
      "a promise of another port",
      { backend: UNASKED, quotas, replayStore: Promise.resolve({}) },
      "createGateway: replayStore must be a ReplayStore, such as memoryReplayStore(), not a Promise: await it first.",
    ],
    [
      "no store",
      { backend: UNASKED },
      "createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not undefined. If stores.ports.quotas is meant, openStores must be awaited.",
    ],
    [
      "a store that was spread",
      { backend: UNASKED, quotas: { ...quotas, find: async () => undefined } },
      "quotas must be a QuotaStore, such as memoryQuotaStore([…]), and has no balance(). An instance of a class that is spread loses its methods.",
    ],
  ])("%s is told at once", (_what, options, told) => {
    expect(() => createGateway(options as Parameters<typeof createGateway>[0])).toThrow(told);
  });
});

describe("an address that nothing can read", () => {
  it.each(["http://[::1", "//", "/", "", "http://", "http://host/%E0%A4%A", "::", "/ai"])("%j is the host's", (url) => {
    // As runtimes make them from a request line and a host header that make no URL together.
    const request = Object.defineProperty(at("/"), "url", { value: url });
    const gateway = everything();
    for (const routes of [gateway, gateway.at("/ai")]) {
      expect(routes.handle(request)).toBeUndefined();
      expect(routes.errorResponse(request, new Error("no"))).toBeUndefined();
    }
  });

  it.each([
    "http://[::1/v1/messages",
    "/v1/messages",
    "http://ho st:99999/v1/messages",
    "http:///v1/messages?x=http://y/z",
  ])("%j is served by its path", async (url) => {
    const request = Object.defineProperty(at("/"), "url", { value: url });
    expect((await everything().handle(request))?.status).toBe(401);
  });

  it.each(["/v1beta/models/%E0%A4%A:generateContent", "/v1beta/models/%:streamGenerateContent?alt=sse&key=%"])(
    "%j is refused, and not with a 500",
    async (path) => {
      const response = await everything().fetch(
        at(path, {
          headers: { "x-goog-api-key": SECRET, "content-type": "application/json" },
          body: '{"contents":[]}',
        }),
      );
      expect([400, 401, 404]).toContain(response.status);
    },
  );
});

describe("a picture that is asked for at an address without an origin", () => {
  it("has a link without one", async () => {
    const request = Object.defineProperty(
      at("/", {
        headers: { authorization: `Bearer ${SECRET}`, "content-type": "application/json" },
        body: JSON.stringify({ prompt: "A fox." }),
      }),
      "url",
      { value: "/v1/images/generations" },
    );
    const response = await everything().handle(request);
    expect([response?.status, await response?.json()]).toMatchObject([
      200,
      { data: [{ url: expect.stringMatching(/^\/v1\/images\//) as string }] },
    ]);
  });
});

describe("two gateways of one process", () => {
  it("share neither ids nor state", async () => {
    const [one, other] = [
      opened({ backend: speaking(WORD, counted(7)) }),
      opened({ backend: speaking(WORD, counted(9)) }),
    ];
    const ids = new Set<string | null>();
    for (let round = 0; round < 50; round++)
      for (const { send } of [one, other]) ids.add((await send({ body: { max_tokens: 2 } })).headers.get("request-id"));
    expect(ids.size).toBe(100);
    expect(one.report()).toMatchObject({ used: 50 * (INPUT + 7), ...AT_REST });
    expect(other.report()).toMatchObject({ ...AT_REST });
    await one.gateway.close();
    expect((await one.send()).status).toBe(503);
    expect((await other.send()).status).not.toBe(503);
  });
});

/** How many AbortControllers a call makes. */
async function made(stream: boolean, reads: boolean): Promise<number> {
  const { gateway, report } = opened({
    backend: {
      async *chat(_request, call) {
        if (reads) expect(call.signal.aborted).toBe(false);
        yield WORD;
        yield counted(7);
      },
    },
  });
  const request = requestOf(stream, { "content-length": "99" });
  const controllers = vi.spyOn(globalThis, "AbortController");
  const answer = await gateway.answer(request, { onDisconnect: () => {} });
  const body = answer?.body;
  if (typeof body === "object" && body !== null && Symbol.asyncIterator in body) for await (const _ of body);
  const times = controllers.mock.calls.length;
  controllers.mockRestore();
  expect(answer?.status).toBe(200);
  expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  return times;
}

describe("a call whose backend does not ask for its signal", () => {
  it.each([false, true])("makes no AbortController (stream: %s)", async (stream) => {
    expect(await made(stream, false)).toBe(0);
    expect(await made(stream, true)).toBe(1);
  });
});

describe("close", () => {
  const DAY_MS = 86_400_000;

  // A timer of Node that should wait longer than 2^31 - 1 ms, or for NaN, ends after 1 ms.
  it.each<[deadlineMs: unknown, cutsAfterMs: number]>([
    [Number.POSITIVE_INFINITY, 24 * DAY_MS],
    [2 ** 31, 24 * DAY_MS],
    [DAY_MS, DAY_MS],
    [0, 0],
    [undefined, 10_000],
  ])("with the deadline %s cuts calls after %i ms", async (deadlineMs, cutsAfterMs) => {
    const waits: number[] = [];
    const clock = {
      ...systemClock,
      after: (ms: number) => {
        waits.push(ms);
        return () => {};
      },
    };
    const gateway = createGateway({ backend: speaking(WORD), quotas: memoryQuotaStore([]), clock });
    for (const wrongMs of [-1, Number.NaN])
      await expect(gateway.close({ deadlineMs: wrongMs })).rejects.toThrow(
        "close: deadlineMs must be milliseconds from 0 up",
      );
    expect(gateway.isClosing()).toBe(false);
    await gateway.close({ deadlineMs: deadlineMs as number });
    expect(waits).toEqual([cutsAfterMs, cutsAfterMs + 30_000]);
    expect(Math.max(...waits)).toBeLessThan(2 ** 31);
  });

  it("takes the name and the number of a signal for no options", async () => {
    for (const given of [["SIGTERM", 15], [15]]) {
      const gateway = createGateway({ backend: speaking(WORD), quotas: memoryQuotaStore([]) });
      await expect(Reflect.apply(gateway.close, process, given)).resolves.toBeUndefined();
      expect(gateway.isClosing()).toBe(true);
      const store = borrowingQuotaStore(memoryQuotaStore([]));
      await expect(store.close(...(given as unknown as [object]))).resolves.toBeUndefined();
    }
  });
});
