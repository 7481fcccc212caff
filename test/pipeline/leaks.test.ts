/**
 * After its end nothing of a call can be reached, whatever still waits for it: for each feature that waits, what it waits for never
 * comes, the call ends, and weak references tell what is left. The test holds on to all that a host would.
 */

import process from "node:process";
import { setImmediate } from "node:timers/promises";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, describe, expect, it, vi } from "vitest";
import {
  createGateway,
  type GatewayOptions,
  memoryImageStore,
  memoryQuotaStore,
  memoryReplayStore,
  type ModelBackend,
  type RateLimiter,
  type RateVerdict,
} from "../../src/index.ts";
import { Call } from "../../src/pipeline/call.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { aiSdk } from "../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { rawUpstream } from "../upstreams/relay/raw-upstream.ts";
import { verbsOf, WORD } from "./bench.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const DEADLINE_MS = 600_000;

/** What hosts hold on to: promises that never settle, answers that nobody reads. */
const kept: unknown[] = [];

/** A promise that never settles, and is kept by somebody who could settle it. */
function hangs<Value = never>(): Promise<Value> {
  const { promise, resolve, reject } = Promise.withResolvers<Value>();
  kept.push({ promise, resolve, reject });
  return promise;
}

/** Events of which only the first comes. What has begun is no generator, which would hold its own arguments. */
function hangingAfter<Event>(...first: Event[]): AsyncIterable<Event> & AsyncIterator<Event> {
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => {
      const value = first.shift();
      return value === undefined ? hangs() : Promise.resolve({ done: false, value });
    },
    return: () => hangs(),
  };
}

const speaks: ModelBackend = {
  async *chat() {
    yield WORD;
  },
  async *image() {
    yield { type: "image", bytes: new Uint8Array(100), mediaType: "image/png" };
  },
};

interface Stage {
  readonly clock: ManualClock;
  /** Sends a request and forgets all of it; a promise of the status, and what hangs up. */
  readonly send: (sending?: Sending) => { readonly answer: Promise<Response | undefined>; readonly hangUp: () => void };
}

interface Sending {
  readonly path?: string;
  readonly body?: object | ReadableStream;
  readonly stream?: boolean;
  readonly headers?: Record<string, string>;
  /** Whether it is looked for what is left of the call. Default: true. */
  readonly isWatched?: boolean;
}

interface Waiting {
  readonly what: string;
  readonly options?: (clock: ManualClock) => Partial<GatewayOptions> | Promise<Partial<GatewayOptions>>;
  readonly quotas?: Partial<Record<"find" | "balance" | "reserve" | "renew" | "settle", () => Promise<never>>>;
  readonly sending?: Sending;
  /** How the call comes to its end. Default: its client hangs up. */
  readonly end?: "deadline" | "hang-up";
  /** What is done in place of one call. */
  readonly run?: (stage: Stage) => Promise<void>;
  /** How many calls may be left, small as they are then: a store that answers late must still be told that it is too late. */
  readonly calls?: number;
  /** Whether the host's context is needed on, because its store is still to be told something. Default: where calls are left. */
  readonly isContextNeeded?: boolean;
}

const ONCE = { "idempotency-key": "once" };

const admits = (): Promise<RateVerdict> => Promise.resolve({ limits: [] });
const limited = (verbs: Partial<RateLimiter>): Partial<GatewayOptions> => ({
  rateLimiter: { begin: admits, take: admits, end: () => Promise.resolve(), ...verbs },
});

const idempotency = (clock: ManualClock, verbs: object): Partial<GatewayOptions> => {
  const store = memoryReplayStore({ clock });
  return {
    replayStore: {
      claim: (...claim) => store.claim(...claim),
      record: (...record) => store.record(...record),
      release: (...release) => store.release(...release),
      ...verbs,
    },
  };
};

const pictures = (clock: ManualClock, verbs: object): Partial<GatewayOptions> => {
  const store = memoryImageStore({ clock });
  return {
    images: {
      store: {
        book: (...book) => store.book(...book),
        put: (...put) => store.put(...put),
        get: (...get) => store.get(...get),
        ...verbs,
      },
    },
  };
};

const PICTURE: Sending = { path: "/v1/images/generations", body: { prompt: "A fox", size: "256x256" } };
const CODE: Sending = {
  path: "/v1beta/models/any:generateContent",
  body: { contents: [{ parts: [{ text: "Count." }] }], tools: [{ codeExecution: {} }] },
};

/** A body that is begun and goes on for ever. */
const endless = (): ReadableStream =>
  new ReadableStream({
    start(controller) {
      kept.push(controller);
      controller.enqueue(new Uint8Array(1_000).fill(0x20));
    },
  });

const upstream = await rawUpstream((socket) => void kept.push(socket));
afterAll(() => upstream[Symbol.asyncDispose]());

const relayed = (): ModelBackend => relay({ format: "messages", baseUrl: upstream.url, apiKey: "sk-upstream" });

const WAITING: readonly Waiting[] = [
  { what: "a store that finds no key", quotas: { find: hangs } },
  {
    what: "a store that tells no balance",
    quotas: { balance: hangs },
    sending: { headers: { "content-length": "2000000" }, body: endless() },
  },
  { what: "a store that reserves nothing", quotas: { reserve: hangs }, calls: 1 },
  { what: "a store that reserves nothing, until the deadline", quotas: { reserve: hangs }, end: "deadline", calls: 1 },
  {
    what: "a store that does not settle",
    quotas: { settle: hangs },
    options: () => ({ backend: speaks }),
    isContextNeeded: true,
  },
  {
    what: "a store that renews nothing",
    quotas: { renew: hangs },
    options: () => ({ backend: { chat: () => hangingAfter(WORD) } }),
    end: "deadline",
  },
  { what: "a rate limiter at the beginning", options: () => limited({ begin: hangs }), calls: 1 },
  { what: "a rate limiter for tokens", options: () => limited({ take: hangs }) },
  { what: "a rate limiter at the end", options: () => ({ ...limited({ end: hangs }), backend: speaks }) },
  {
    what: "a replay store that claims nothing",
    options: (clock) => idempotency(clock, { claim: hangs }),
    sending: { headers: ONCE },
    calls: 1,
  },
  {
    what: "a replay store that records nothing",
    options: (clock) => ({ ...idempotency(clock, { record: hangs }), backend: speaks }),
    sending: { headers: ONCE },
  },
  {
    what: "a replay store that releases nothing",
    options: (clock) => idempotency(clock, { release: hangs }),
    quotas: { reserve: () => Promise.reject(new Error("No connection.")) },
    sending: { headers: ONCE },
  },
  {
    what: "the call of another process, polled",
    options: (clock) =>
      idempotency(clock, {
        claim: ({ fingerprint }: { fingerprint: string }) => Promise.resolve({ state: "running", fingerprint }),
      }),
    sending: { headers: ONCE },
    run: async ({ send, clock }) => {
      const { hangUp } = send({ headers: ONCE });
      await clock.advance(60_000);
      hangUp();
    },
  },
  {
    what: "the first call of a repetition, whole",
    options: (clock) => ({ ...idempotency(clock, {}), backend: { chat: () => hangingAfter() } }),
    run: repeated,
    calls: 1,
  },
  {
    what: "the first call of a repetition, streamed",
    options: (clock) => ({ ...idempotency(clock, {}), backend: { chat: () => hangingAfter(WORD) } }),
    sending: { stream: true },
    run: repeated,
    calls: 1,
  },
  { what: "a body that does not go on", sending: { body: endless() } },
  { what: "a body that does not go on, until the deadline", sending: { body: endless() }, end: "deadline" },
  { what: "a small body", sending: { body: endless(), headers: { "content-length": "2000" } } },
  { what: "a backend that lists its models", options: () => ({ backend: { ...speaks, models: hangs } }) },
  {
    what: "a backend that counts tokens",
    options: () => ({ backend: { ...speaks, countInputTokens: hangs } }),
    sending: { path: "/v1/messages/count_tokens" },
  },
  { what: "a backend's first event", options: () => ({ backend: { chat: () => hangingAfter() } }) },
  {
    what: "a backend's first event, until the deadline",
    options: () => ({ backend: { chat: () => hangingAfter() } }),
    end: "deadline",
  },
  { what: "a backend's next event", options: () => ({ backend: { chat: () => hangingAfter(WORD) } }) },
  {
    what: "a backend's next event, streamed",
    options: () => ({ backend: { chat: () => hangingAfter(WORD) } }),
    sending: { stream: true },
  },
  {
    what: "a backend's next event behind stop sequences",
    options: () => ({ backend: { chat: () => hangingAfter(WORD) } }),
    sending: { body: { stop_sequences: ["never"] } },
  },
  {
    what: "a backend's next event, watched",
    options: () => ({ backend: { chat: () => hangingAfter(WORD) }, observer: { begin: () => ({ end: () => {} }) } }),
  },
  {
    what: "a backend that draws",
    options: () => ({ backend: { image: () => hangingAfter() } }),
    sending: PICTURE,
  },
  {
    what: "an image store that books nothing",
    options: (clock) => ({ ...pictures(clock, { book: hangs }), backend: speaks }),
    sending: PICTURE,
    calls: 1,
  },
  {
    what: "an image store that takes nothing",
    options: (clock) => ({ ...pictures(clock, { put: hangs }), backend: speaks }),
    sending: PICTURE,
  },
  {
    what: "code that runs",
    options: () => ({
      codeRunner: { run: hangs },
      backend: {
        async *chat(_request, call) {
          yield WORD;
          await call.runCode?.({ language: "python", code: "while True: pass" });
        },
      },
    }),
    sending: CODE,
  },
  {
    what: "a reader of a stream that reads no more",
    options: () => ({ backend: { chat: () => hangingAfter(WORD) } }),
    run: async ({ send, clock }) => {
      const reader = (await send({ stream: true }).answer)?.body?.getReader();
      kept.push(reader);
      await reader?.read();
      await clock.advance(DEADLINE_MS);
    },
  },
  {
    what: "a reader of another call's stream that reads no more",
    options: (clock) => ({ ...idempotency(clock, {}), backend: { chat: () => hangingAfter(WORD) } }),
    run: async ({ send, clock }) => {
      for (let each = 0; each < 2; each++) {
        const reader = (await send({ stream: true, headers: ONCE }).answer)?.body?.getReader();
        kept.push(reader);
        await reader?.read();
      }
      await clock.advance(DEADLINE_MS);
    },
  },
  { what: "a record that its host writes", options: () => ({ backend: speaks, onCall: hangs }) },
  { what: "an upstream that does not answer", options: () => ({ backend: relayed() }) },
  {
    what: "an upstream that does not answer, streamed",
    options: () => ({ backend: relayed() }),
    sending: { stream: true },
  },
  {
    what: "an upstream behind one that fails",
    options: () => {
      const fails: ModelBackend = {
        chat: () => ({ [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error("Down.")) }) }),
      };
      return { backend: route({ routes: { "*": { upstreams: [{ backend: fails }, { backend: relayed() }] } } }) };
    },
  },
  {
    what: "a pause before an upstream is tried again",
    options: () => {
      const fails: ModelBackend = {
        chat: () => ({ [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error("Down.")) }) }),
      };
      return { backend: route({ routes: { "*": fails }, retry: { pauseMs: 100_000, maxPauseMs: 100_000 } }) };
    },
  },
  {
    what: "a model of the AI SDK",
    options: () => ({
      backend: aiSdk({
        chat: {
          any: {
            specificationVersion: "v3",
            provider: "fake",
            modelId: "any",
            supportedUrls: {},
            doStream: hangs,
            doGenerate: hangs,
          },
        },
      }),
    }),
  },
];

/** A first call that goes on, and repetitions of it that hang up. */
async function repeated({ send, clock }: Stage, sending: Sending = {}): Promise<void> {
  kept.push(send({ ...sending, headers: ONCE, isWatched: false }).answer);
  await clock.advance(0);
  for (let each = 0; each < 3; each++) {
    const { hangUp } = send({ ...sending, headers: ONCE });
    await clock.advance(0);
    hangUp();
  }
}

const BODY = { model: "any", max_tokens: 50, messages: [{ role: "user", content: "ten tokens" }] };

describe("nothing of a call is left with", () => {
  let known = 0;

  it.each(WAITING)(
    "$what",
    async ({ options, quotas, sending, end = "hang-up", run, calls = 0, isContextNeeded = calls > 0 }) => {
      const clock = manualClock();
      const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000_000 }], { clock });
      const refs: { readonly what: string; readonly ref: WeakRef<object> }[] = [];
      let isNoted = true;
      const note = <Noted extends object>(what: string, noted: Noted): Noted => {
        if (isNoted) refs.push({ what, ref: new WeakRef(noted) });
        return noted;
      };
      const { backend = { chat: () => hangingAfter<string>() }, ...others } = (await options?.(clock)) ?? {};
      const noting: ModelBackend = {
        ...backend,
        ...(backend.chat && {
          chat: (request, call) =>
            backend.chat?.(note("decoded request", request), note("context", call)) ?? hangingAfter(),
        }),
        ...(backend.image && {
          image: (request, call) =>
            backend.image?.(note("decoded request", request), note("context", call)) ?? hangingAfter(),
        }),
      };
      const gateway = createGateway({
        quotas: { ...verbsOf(store), ...quotas },
        clock,
        onFailure: () => {},
        limits: { deadlineMs: DEADLINE_MS, replayDrainMs: 2 * DEADLINE_MS },
        ...others,
        backend: noting,
      });
      kept.push(gateway);
      const send: Stage["send"] = ({ path = "/v1/messages", body = {}, stream, headers, isWatched = true } = {}) => {
        isNoted = isWatched;
        const client = new AbortController();
        const isForever = body instanceof ReadableStream;
        const own = path.startsWith("/v1/messages") ? { ...BODY, ...(stream && { stream }), ...body } : body;
        const request = new Request(`http://host${path}`, {
          method: "POST",
          headers: {
            authorization: "Bearer sk-one",
            "x-goog-api-key": "sk-one",
            "compat-version": "2023-06-01",
            "content-type": "application/json",
            ...headers,
          },
          body: isForever ? body : JSON.stringify(own),
          duplex: "half",
          signal: client.signal,
        } as RequestInit);
        // A body that goes on for ever holds its request by itself.
        if (!isForever) note("request", request);
        const answer = gateway.handle(request, { context: isContextNeeded ? {} : note("host's context", {}) });
        return { answer: Promise.resolve(answer), hangUp: () => client.abort() };
      };
      if (run) await run({ clock, send: (more) => send({ ...sending, ...more }) });
      else await single({ clock, send }, sending, end);
      for (let second = 0; second < 60; second++) await clock.advance(1_000);
      expect(await leftOf(refs)).toEqual([]);
      known += calls;
    },
  );

  it("any of them, but for what a late answer is told with", () => {
    // Node warns that this function is experimental.
    const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const found = Number(queryObjects(Call));
    warning.mockRestore();
    expect(found).toBeLessThanOrEqual(known);
  });
});

it("nothing of the last bodies is left once the gateway has closed", async () => {
  const refs: { what: string; ref: WeakRef<object> }[] = [];
  const gateway = createGateway({
    backend: {
      async *chat({ tools }) {
        const [tool] = tools;
        if (tool?.type === "function") refs.push({ what: "a schema", ref: new WeakRef(tool.inputSchema) });
        yield WORD;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: 1_000_000 }]),
  });
  kept.push(gateway);
  const body = JSON.stringify({
    model: "any",
    max_tokens: 5,
    system: "-".repeat(9_000),
    messages: [{ role: "user", content: "Hi" }],
    tools: [{ name: "look", input_schema: { type: "object" } }],
  });
  const headers = { "x-api-key": "sk-one", "anthropic-version": "2023-06-01", "content-type": "application/json" };
  const response = await gateway.fetch(new Request("http://host/v1/messages", { method: "POST", headers, body }));
  await response.text();
  expect(await leftOf(refs)).toEqual(["a schema"]);
  await gateway.close();
  expect(await leftOf(refs)).toEqual([]);
});

async function single(
  { clock, send }: Stage,
  sending: Sending | undefined,
  end: "deadline" | "hang-up",
): Promise<void> {
  const { answer, hangUp } = send(sending);
  const reading = answer.then((response) => response?.text()).catch(() => {});
  // A connection takes some turns of the event loop to be made.
  for (let turn = 0; turn < 20; turn++) await clock.advance(0);
  if (end === "deadline") await clock.advance(DEADLINE_MS);
  else hangUp();
  await clock.advance(30_000);
  await reading;
}

/** What is left once garbage is collected, which may take some turns to be found: sockets close, streams end. */
async function leftOf(refs: readonly { readonly what: string; readonly ref: WeakRef<object> }[]): Promise<string[]> {
  const left = (): string[] => refs.filter(({ ref }) => ref.deref() !== undefined).map(({ what }) => what);
  for (let attempt = 0; attempt < 20 && (attempt === 0 || left().length > 0); attempt++) {
    for (let turn = 0; turn < 4; turn++) await setImmediate();
    collect();
    // In a turn of its own: what was looked at stays until the turn ends.
    await setImmediate();
  }
  return left();
}
