/** Functions of the host's that throw, reject or return nonsense: a clear error, a report, no hold left, and no answer for free. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type CallRecord,
  type ChatEvent,
  GatewayError,
  type GatewayOptions,
  type ModelBackend,
  type ModelInfo,
} from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import {
  AT_REST,
  counted,
  errorCode,
  fail,
  INPUT,
  never,
  opened,
  type Setup,
  speaking,
  WORD,
  requestOf,
} from "./bench.ts";

/** What nobody has handled: each is an end of the process in Node. */
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => void process.on("unhandledRejection", onUnhandled));
afterEach(async () => {
  await new Promise((resolve) => void setImmediate(resolve));
  process.off("unhandledRejection", onUnhandled);
  const [first, ...others] = unhandled.splice(0);
  if (first !== undefined) throw new Error(`${1 + others.length} rejections had no handler`, { cause: first });
});

const boom = (): never => fail(new Error("secret inside"));

const NONSENSE = [
  Number.NaN,
  Number.NEGATIVE_INFINITY,
  -1,
  ...(["many", "7", null, true] as unknown as readonly number[]),
];

/** A price that holds while quota is reserved, and fails when it comes to the charge. */
const failingAtLast = (last: () => number): { price: GatewayOptions["price"] & object } => ({
  price: ({ inputTokens, outputTokens }) => (outputTokens === 7 ? last() : inputTokens + outputTokens),
});

/** Errors that resist being looked at. */
const getters = (): object =>
  Object.defineProperties(
    {},
    Object.fromEntries(["cause", "code", "name", "message", "stack"].map((name) => [name, { get: boom }])),
  );
const traps = (): object =>
  new Proxy({}, Object.fromEntries(["get", "has", "getPrototypeOf", "ownKeys"].map((trap) => [trap, boom] as const)));

describe("onFailure", () => {
  const reporters: readonly [how: string, onFailure: NonNullable<GatewayOptions["onFailure"]>][] = [
    ["throws", boom],
    ["rejects", () => Promise.reject(new Error("The log is full."))],
    ["rejects later", () => new Promise((_, reject) => void setImmediate(reject, new Error("The log is full.")))],
    ["never answers", () => never],
    // oxlint-disable-next-line unicorn/no-thenable -- what is no promise of this platform's
    ["returns what throws when it is waited for", () => ({ then: boom })],
  ];

  it("is told why a backend has refused, though its caller knows the code", async () => {
    const cause = new Error("Tier 1 is spent.");
    const said = new GatewayError("rate_limited", "It is busy.", { port: "model-backend", cause });
    const { send, failures } = opened({ backend: speaking(said) });
    expect(await (await send()).text()).not.toContain("Tier 1");
    expect(failures).toMatchObject([{ port: "model-backend", error: said }]);
    expect(failures[0]?.text).toContain("Tier 1 is spent.");
    const own = opened({ backend: speaking(new GatewayError("rate_limited", "It is busy.")) });
    expect((await own.send()).status).toBe(429);
    expect(own.failures).toEqual([]);
  });

  it.each(reporters)("that %s changes nothing", async (_how, onFailure) => {
    for (const stream of [true, false]) {
      const { send, report } = opened({ onFailure, backend: speaking(WORD, new Error("broken")) });
      const response = await send({ body: { stream } });
      expect(response.status).toBe(stream ? 200 : 500);
      expect(await response.text()).toContain("backend_failed");
      expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    }
  });

  it.each(reporters)("that %s does not keep a settlement from being tried again", async (_how, onFailure) => {
    let asked = 0;
    const { send, report, clock } = opened({
      onFailure,
      backend: speaking(WORD, counted(7)),
      around: (store) => ({ settle: (id, outcome) => (asked++ === 0 ? boom() : store.settle(id, outcome)) }),
    });
    expect((await send()).status).toBe(200);
    await clock.advance(500);
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

describe("before a hold", () => {
  const functions: readonly (readonly [what: string, setup: Setup, code: string])[] = [
    ["a price that throws", { price: boom }, "internal_error"],
    ["a price that rejects", { price: (async () => boom()) as unknown as () => number }, "internal_error"],
    ["a count that rejects", { countTokens: (async () => boom()) as unknown as () => number }, "internal_error"],
    ...NONSENSE.map((value) => [`a price of ${value}`, { price: () => value }, "internal_error"] as const),
    ["a count of tokens that throws", { countTokens: boom }, "internal_error"],
    ...[...NONSENSE, Number.POSITIVE_INFINITY].map(
      (value) => [`a count of ${value} tokens`, { countTokens: () => value }, "internal_error"] as const,
    ),
    ["models that throw", { backend: { ...speaking(WORD), models: boom } }, "backend_failed"],
    [
      "models that reject",
      { backend: { ...speaking(WORD), models: () => Promise.reject(new Error("secret inside")) } },
      "backend_failed",
    ],
    ...[undefined, null, 7, [null]].map(
      (models) =>
        [
          `models that are ${JSON.stringify(models)}`,
          { backend: { ...speaking(WORD), models: () => models as unknown as ModelInfo[] } },
          "backend_failed",
        ] as const,
    ),
    ...[...NONSENSE, 0, 1.5, Number.POSITIVE_INFINITY].map(
      (maxOutputTokens) =>
        [
          `a model's limit of ${maxOutputTokens}`,
          { backend: { ...speaking(WORD), models: () => [{ id: "any", maxOutputTokens }] } },
          "backend_failed",
        ] as const,
    ),
  ];

  it.each(functions)("%s is a clear 500, reported once", async (_what, setup, code) => {
    for (const stream of [false, true]) {
      const { send, failures, report } = opened(setup);
      const response = await send({ body: { stream } });
      expect(response.status).toBe(500);
      const text = await response.clone().text();
      expect(text).not.toContain("secret");
      expect(await errorCode(response)).toBe(code);
      expect(failures).toHaveLength(1);
      expect(report()).toMatchObject({ used: 0, ...AT_REST });
    }
  });

  it.each<[name: string, setup: Setup, status: number]>([
    ["price", { price: boom }, 500],
    ["countTokens", { countTokens: boom }, 500],
    ["onCall", { onCall: boom }, 200],
    ["onCall", { onCall: async () => boom() }, 200],
  ])("%s is named to the host when it throws, and not to the caller", async (name, setup, status) => {
    const { send, failures } = opened(setup);
    const response = await send();
    expect(response.status).toBe(status);
    expect(await response.text()).not.toContain(name);
    await new Promise((resolve) => void setImmediate(resolve));
    expect(failures[0]?.text).toContain(`Error: ${name} has failed.\ncaused by Error: secret inside`);
  });

  it("a price beyond counting is one that no balance covers", async () => {
    const { send, report, failures } = opened({ price: () => Number.POSITIVE_INFINITY });
    expect((await send()).status).toBe(429);
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it.each([...NONSENSE, Number.POSITIVE_INFINITY])("a picture's price of %s costs nothing", async (value) => {
    const backend = {
      async *image() {
        yield drawn(0);
      },
    };
    const { gateway, failures, report } = opened({ backend, imagePrice: () => value });
    const response = await gateway.fetch(
      new Request("http://host/v1/images/generations", {
        method: "POST",
        headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
        body: JSON.stringify({ prompt: "A fox." }),
      }),
    );
    expect(response.status).toBe(500);
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

const oneUntilSeven = ({ outputTokens }: { readonly outputTokens: number }): number =>
  outputTokens === 7 ? boom() : 1;

describe("once an answer is on its way", () => {
  const finish: ChatEvent = {
    type: "finish",
    reason: "stop",
    usage: { inputTokens: INPUT, outputTokens: 7, reasoningTokens: 1 },
  };

  it.each<readonly [how: string, last: () => number]>([
    ["throws", boom],
    ...[...NONSENSE, Number.POSITIVE_INFINITY].map((value) => [`is ${value}`, () => value] as const),
  ])("a price that %s charges all that was held", async (_how, last) => {
    for (const stream of [false, true]) {
      const { send, failures, report } = opened({ ...failingAtLast(last), backend: speaking(WORD, finish) });
      const response = await send({ body: { stream } });
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(WORD)]);
      expect(failures).toHaveLength(1);
      expect(report()).toMatchObject({ used: INPUT + 50, estimated: INPUT + 50, ...AT_REST });
    }
  });

  it("a price that fails charges a hold of one unit as it is", async () => {
    const { send, report } = opened({ price: oneUntilSeven, backend: speaking(WORD, finish) });
    expect((await send()).status).toBe(200);
    expect(report()).toMatchObject({ used: 1, estimated: 1, ...AT_REST });
  });

  it.each<readonly [how: string, count: () => number]>([
    ["throws", boom],
    ...NONSENSE.map((value) => [`is ${value}`, () => value] as const),
  ])("a count of tokens that %s ends it, and what came before is charged", async (_how, count) => {
    for (const stream of [false, true]) {
      const { send, failures, report } = opened({
        countTokens: (text) => (text === "late" ? count() : text.length),
        backend: speaking(WORD, "late", WORD, counted(7)),
      });
      const response = await send({ body: { stream } });
      expect(response.status).toBe(stream ? 200 : 500);
      expect(await response.text()).toMatch(/"(internal_error|backend_failed)"/);
      expect(failures).toHaveLength(1);
      expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    }
  });
});

describe("a waitUntil that throws", () => {
  const waitUntil = boom;

  it.each([false, true])("keeps no call from its answer and its settlement (stream: %s)", async (stream) => {
    const { gateway, report } = opened({ backend: speaking(WORD, counted(7)) });
    const response = await gateway.handle(requestOf(stream), { waitUntil });
    expect(await response?.text()).toContain('"output_tokens":7');
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("nor from its end when it is cut", async () => {
    const { gateway, report, clock } = opened({ backend: speaking(WORD, never), limits: { deadlineMs: 1_000 } });
    const answer = gateway.handle(requestOf(false), { waitUntil });
    await clock.advance(1_000);
    expect((await answer)?.status).toBe(504);
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });
});

describe("a backend without types", () => {
  // An empty list is no empty text: what is left of it never becomes one.
  it.each<readonly [what: string, event: object]>([
    ["a text that is a list", { type: "text-delta", text: [] }],
    ["a text without a text", { type: "text-delta" }],
    ["a model that is a number", { type: "start", model: 7 }],
    ["a call without a name", { type: "tool-call", id: "a", input: {} }],
    ["arguments that are nothing", { type: "tool-call", id: "a", name: "f", input: null }],
    ["a stop sequence that is a list", { type: "finish", reason: "stop", stopSequence: ["END"] }],
    ["a piece that means nothing readable", { type: "native", format: "messages", events: {}, frames: [] }],
    ["a frame without data", { type: "native", format: "messages", events: [], frames: [{}] }],
    [
      "what a piece means is no event",
      { type: "native", format: "messages", events: [{ type: "text-delta" }], frames: [] },
    ],
  ])("that yields %s fails, and the call with it", async (_what, event) => {
    for (const stream of [false, true]) {
      const records: CallRecord[] = [];
      const onCall = (record: CallRecord): void => void records.push(record);
      const { send, report, failures } = opened({ onCall, backend: speaking(event as ChatEvent, WORD) });
      expect(await (await send({ body: { stream } })).text()).toContain("backend_failed");
      expect(records).toMatchObject([{ outcome: "failed", errorCode: "backend_failed" }]);
      expect(failures).toMatchObject([{ port: "model-backend" }]);
      expect(report()).toMatchObject(AT_REST);
    }
  });

  it.each<readonly [how: string, returned: () => unknown]>([
    ["rejects", () => Promise.reject(new Error("secret inside"))],
    ["rejects later", () => new Promise((_, reject) => void setImmediate(reject, new Error("secret inside")))],
    ["brings the events", () => Promise.resolve(speaking(WORD))],
  ])("that returns a promise which %s fails, and nothing is unhandled", async (_how, returned) => {
    const backend = { chat: returned } as unknown as ModelBackend;
    for (const body of [{}, { stream: true }, { stop_sequences: ["END"] }]) {
      const { send, report, failures } = opened({ backend });
      expect(await errorCode(await send({ body }))).toBe("backend_failed");
      expect(failures[0]?.text).toContain("must return an async iterable");
      expect(report()).toMatchObject({ used: 0, ...AT_REST });
    }
  });

  it.each([
    ["undefined", undefined],
    ["a text", WORD],
    ["an object", { text: WORD }],
  ])("that returns %s fails, and the host is told what to write", async (given, returned) => {
    const backend = { chat: () => returned } as unknown as ModelBackend;
    const { send, report, failures } = opened({ backend });
    expect(await errorCode(await send({}))).toBe("backend_failed");
    expect(failures[0]?.text).toContain(`must return an async iterable, not ${given}: write \`async *chat\`.`);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

const yields = (verb: string, ...events: readonly unknown[]): object => ({
  async *[verb]() {
    yield* events;
  },
});
const lists = (...models: readonly unknown[]): object => ({ ...speaking(WORD), models: () => models });

describe("the author of a backend", () => {
  const started = { type: "start", id: "a" };

  it.each<readonly [backend: object, told: RegExp]>([
    [
      yields("chat", { type: "text", text: "secret" }),
      /type of the event, text does not exist; did you mean text-delta\?/,
    ],
    [
      yields("chat", { type: "text-delta", delta: "secret" }),
      /text-delta: text is missing; it must be a text\. delta does/,
    ],
    [
      yields("chat", { type: "tool-call", id: "1", name: "f", input: "secret" }),
      /tool-call: input must be an object, not a t/,
    ],
    [
      yields("chat", { type: "usage", outputTokens: 1 }),
      /usage: usage is missing; it must be an object\. outputTokens/,
    ],
    [
      yields("chat", started, { type: "finish", reason: "stopped" }),
      /reason .*stopped does not exist; did you mean stop\?/,
    ],
    [yields("chat", started, { type: "finish", usage: {} }), /finish: reason is missing; it must be a text/],
    [yields("chat", started, "secret"), /must yield "finish"/],
    [yields("chat", null), /chat: yield a text, or an object with a type .*, not null/],
    [
      yields("chat", { type: "text-delta", text: "secret", candidate: 2 }),
      /candidate must be an integer from 0 to 0, not 2/,
    ],
    [yields("image", { type: "picture" }), /image: the type of the event, picture does not exist/],
    [yields("image", { type: "image", b64: "secret", mediaType: "image/png" }), /image: bytes .*b64 does not exist/],
    [yields("image", { type: "image", bytes: "secret" }), /image: bytes must be a Uint8Array, not a text/],
    [
      yields("image", { ...drawn(0), mediaType: "image/gif" }),
      /image: mediaType must be one of "image\/png".*not a text/,
    ],
    [yields("image", { ...drawn(0), revisedPrompt: 7 }), /image: revisedPrompt must be a text, not a number/],
    [yields("image", { ...drawn(0), size: 1024 }), /image: size must be a text, not a number/],
    [
      yields("image", { ...drawn(0), type: "partial-image", image: 0 }),
      /partial-image: step is missing; it must be an integer from 0 up/,
    ],
    [
      yields("image", { ...drawn(0), type: "partial-image", image: 0, step: 0.5 }),
      /partial-image: step must be an integer from 0 up, not 0\.5/,
    ],
    [yields("image"), /yield \{ type: "image", bytes, mediaType \}/],
    [
      yields("embed", { type: "vector", vector: [1] }),
      /embedding: the type of the event, vector does not exist; there are usage/,
    ],
    [yields("embed", ["secret"]), /vector 0 must have at 0 a number .*, not a text/],
    [yields("embed", [1]), /a vector for each of the 2 inputs; there were 1/],
    [lists("any"), /models\(\)\[0\] must be an object with id, not a text/],
    [lists({ id: "any" }, { name: "b" }), /models\(\)\[1\]: id is missing; it must be a text\. name does not exist/],
    [lists({ id: "any", kinds: "chat" }), /kinds must be a list, not a text/],
    [lists({ id: "any", kinds: ["chats"] }), /kinds, chats does not exist; did you mean chat\?/],
  ])("is told what is wrong (%$)", async (backend, told) => {
    const [path, body] = Object.hasOwn(backend, "image")
      ? ["/v1/images/generations", { prompt: "A fox." }]
      : Object.hasOwn(backend, "embed")
        ? ["/v1/embeddings", { model: "any", input: ["a", "b"] }]
        : ["/v1/messages", {}];
    const { send, failures } = opened({ key: { granted: 100_000 }, backend });
    const answer = await (await send({ path, body: path === "/v1/messages" ? body : JSON.stringify(body) })).text();
    expect(answer).not.toMatch(told);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.text).toMatch(told);
    expect(failures[0]?.text).not.toContain("secret");
  });

  it.each([null, 7, "fox"])("is told which listed model is none: %j", async (listed) => {
    const models = (): ModelInfo[] => [{ id: "any" }, listed as unknown as ModelInfo];
    const { send, failures } = opened({ backend: { ...speaking(WORD), models } });
    expect((await send()).status).toBe(500);
    expect(failures[0]?.text).toMatch(/models\(\)\[1\]/);
  });

  it("is told where a listed image model has no profile, as its caller is", async () => {
    const listed: ModelInfo[] = [{ id: "fox", kinds: ["image"] }, { id: "all" }];
    const { send, failures } = opened({ backend: { ...yields("image", drawn(0)), models: () => listed } });
    const ask = async (model: string): Promise<string> =>
      (await send({ path: "/v1/images/generations", body: JSON.stringify({ model, prompt: "A fox." }) })).text();
    expect(await ask("fox")).toContain("images.models has no profile of it");
    expect(await ask("all")).toContain("There is no image model");
    expect(failures.map(({ text }) => text)).toEqual([expect.stringContaining('images.models lacks "fox"')]);
  });
});

describe("an iterator of a backend's own", () => {
  it.each<readonly [what: string, step: unknown]>([
    ["undefined", undefined],
    ["null", null],
    [
      "an object that throws",
      {
        get done() {
          return boom();
        },
      },
    ],
  ])("whose step is %s has failed, and leaves no hold", async (_what, step) => {
    for (const image of [false, true]) {
      const events = { [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve(step) }) };
      const backend = { chat: () => events, image: () => events } as unknown as ModelBackend;
      const bench = opened({ backend, key: { granted: 1_000_000 } });
      const picture = { path: "/v1/images/generations", body: { prompt: "a cat", model: "image-model-2" } };
      expect((await bench.send(image ? picture : {})).status).toBe(500);
      expect(bench.report()).toMatchObject(AT_REST);
    }
  });
});

/** Makes an error of another version of this library, whose code is unknown here. */
const ofLater = (message: string): GatewayError =>
  Object.assign(new GatewayError("busy", message), { code: "overloaded_maybe" });

describe("an error that a backend throws", () => {
  it("with a code that nobody knows is reported, and told as the backend's", async () => {
    const odd = ofLater("secret inside");
    const { send, failures } = opened({ backend: speaking(odd) });
    const response = await send();
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("secret");
    expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed", cause: odd } }]);
  });

  it("from a store, with a code that nobody knows, is told as the store's", async () => {
    const odd = ofLater("secret inside");
    const { send, failures } = opened({ around: () => ({ find: () => Promise.reject(odd) }) });
    expect((await send()).status).toBe(503);
    expect(failures).toMatchObject([{ port: "quota-store", error: { code: "store_unavailable" } }]);
  });

  it.each([
    ["getters that throw", getters],
    ["traps that throw", traps],
    ["no prototype", () => Object.create(null) as object],
    ["nothing in it", () => undefined],
  ])("that has %s is a 500, reported once", async (_what, thrown) => {
    for (const stream of [false, true]) {
      const { send, failures, report } = opened({
        backend: {
          async *chat() {
            yield WORD;
            throw thrown();
          },
        },
      });
      const response = await send({ body: { stream } });
      expect(response.status).toBe(stream ? 200 : 500);
      expect(await response.text()).toContain("backend_failed");
      expect(failures).toHaveLength(1);
      expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    }
  });

  it.each([Number.NaN, -1, Number.POSITIVE_INFINITY])(
    "may say to come back in %s ms, which is not said",
    async (ms) => {
      const { send } = opened({ backend: speaking(new GatewayError("busy", "Full.", { retryAfterMs: ms })) });
      const response = await send();
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, null]);
    },
  );
});
