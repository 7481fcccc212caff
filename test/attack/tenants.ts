/** Attacks on another tenant: under every kind of load, a call of a second tenant must be served soon. */

import { memoryImageStore, memoryReplayStore, type ModelBackend, systemClock } from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/laws/manual-clock.ts";
import { aborted } from "../aborted.ts";
import { ALL, type Attack, type Run, cpuMs, longestTurn, slowness } from "./frame.ts";
import { type Answered, EMPTY, keyed, METERED, RICH, type Sent, Stage, type StageOptions, answering } from "./stage.ts";

export const tenants: Attack = {
  name: "tenants",
  does: "Loads the gateway with other tenants' calls; a second tenant must be served within one second of CPU time",
  counts: { full: ALL, short: ALL },
  open: (run) => ({
    count: LOADS.length,
    async attempt(_random, index) {
      const load = LOADS[index];
      if (load) await attempt(run, load);
    },
  }),
};

/** The most CPU time of the shared thread until the second tenant is served, in milliseconds. */
const PATIENCE_MS = 1_000;

/** The second tenant. No other caller has its key. */
const SECOND = "sk-second-0123456789";

/** The load of the other tenants. */
interface Load {
  readonly what: string;
  readonly options?: (isShort: boolean) => Partial<StageOptions>;
  /** Starts the load, and resolves when it is complete. */
  readonly put: (load: Loaded) => Promise<void> | void;
  /** The request of the second tenant. Default: an ordinary call. */
  readonly asks?: Sent;
}

/** A gateway under load. */
interface Loaded {
  readonly stage: Stage;
  readonly isShort: boolean;
  /** Starts a call without waiting for it. */
  readonly begin: (sent: Sent) => void;
}

const headersOf = (apiKey: string): Record<string, string> => ({
  ...keyed(apiKey),
  "content-type": "application/json",
});
const MESSAGE = { model: "model-a", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
const messaging = (apiKey: string, more: object = {}, headers: Record<string, string> = {}): Sent => ({
  path: "/v1/messages",
  headers: { ...headersOf(apiKey), ...headers },
  body: JSON.stringify({ ...MESSAGE, ...more }),
});
const drawing = (apiKey: string, n: number): Sent => ({
  path: "/v1/images/generations",
  headers: headersOf(apiKey),
  body: JSON.stringify({ prompt: "A hat", n, size: "1024x1024", response_format: "url" }),
});

const KIB = 1_024;
const MIB = KIB * KIB;

const properties = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, { type: "string" }]));
const nothings = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [index, {}]));
const tool = (count: number): object => ({
  name: "f",
  input_schema: { type: "object", properties: properties(count) },
});

/** Makes a body that sends a part, and then single bytes. */
function trickling(clock: ManualClock, first: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new Uint8Array(first).fill(0x20));
    },
    pull: (controller) =>
      new Promise((resolve) => {
        clock.after(25_000, () => {
          controller.enqueue(new Uint8Array(1).fill(0x20));
          resolve();
        });
      }),
  });
}

/** Never yields before the end of its call. */
const silent: ModelBackend = {
  ...answering,
  async *chat(request, call) {
    if (call.key.id === SECOND) return yield* answering.chat(request, call);
    await aborted(call.signal);
  },
};

/** Yields without a pause, except to the second tenant. */
const flooding: ModelBackend = {
  ...answering,
  async *chat(request, call) {
    if (call.key.id === SECOND) return yield* answering.chat(request, call);
    for (let count = 0; count < 50_000 && !call.signal.aborted; count++)
      yield { type: "tool-call", id: `c${count}`, name: "f", input: {} };
  },
};

const ROOM = { maxBodyBytesInFlight: 4 * MIB, maxBodyBytesPerKey: 2 * MIB, maxJsonBytes: 2 * MIB };

const LOADS: readonly Load[] = [
  {
    what: "ten large bodies of a key with nothing left",
    put({ begin, isShort }) {
      const sent = messaging(EMPTY, { tools: [{ name: "f", input_schema: nothings(80_000) }] });
      for (let count = isShort ? 5 : 0; count < 10; count++) begin(sent);
    },
  },
  {
    what: "ten bodies with wide schemas",
    put({ begin, isShort }) {
      for (let count = 0; count < 10; count++) begin(messaging(METERED, { tools: [tool(isShort ? 2_000 : 30_000)] }));
    },
  },
  {
    what: "large bodies whose tokens are counted",
    put({ begin, isShort }) {
      const body = { messages: [{ role: "user", content: "word ".repeat((isShort ? 100 : 900) * 200) }] };
      for (let count = 0; count < 10; count++) begin({ ...messaging(RICH, body), path: "/v1/messages/count_tokens" });
    },
  },
  {
    what: "two keys that hold the room for bodies, a byte at a time",
    options: () => ({ limits: { ...ROOM, bodyStallMs: 30_000, minBodyBytesPerSecond: 16 * KIB } }),
    async put({ begin, stage }) {
      for (const apiKey of [RICH, METERED])
        for (let count = 0; count < 2; count++)
          begin({
            path: "/v1/messages",
            headers: { ...headersOf(apiKey), "content-length": String(MIB) },
            body: trickling(stage.clock, MIB - 2),
          });
      await stage.clock.advance(1_000);
    },
  },
  {
    what: "five hundred calls that wait for their backend",
    options: () => ({ backend: silent }),
    async put({ begin, stage }) {
      for (let count = 0; count < 500; count++) begin(messaging(RICH));
      await stage.clock.advance(0);
    },
  },
  {
    what: "five hundred streams that nobody reads",
    options: () => ({ backend: silent }),
    async put({ stage }) {
      for (let count = 0; count < 500; count++) void stage.send(messaging(RICH, { stream: true }));
      await stage.clock.advance(10_000);
    },
  },
  {
    what: "a backend that never waits",
    options: () => ({ backend: flooding }),
    put({ begin }) {
      for (let count = 0; count < 4; count++)
        begin(messaging(RICH, { max_tokens: 100_000_000, stream: count % 2 === 0 }));
    },
  },
  {
    what: "two keys that fill the room for kept answers",
    options: () => ({
      withoutReplays: true,
      backend: silent,
      onClock: (clock) => ({ replayStore: memoryReplayStore({ clock, maxEntries: 40 }) }),
    }),
    async put({ begin, stage }) {
      for (const apiKey of [RICH, METERED])
        for (let count = 0; count < 40; count++) begin(messaging(apiKey, {}, { "idempotency-key": String(count) }));
      await stage.clock.advance(0);
    },
    asks: messaging(SECOND, {}, { "idempotency-key": "mine" }),
  },
  {
    what: "two keys that fill the room for pictures",
    options: () => ({
      backend: {
        ...answering,
        async *image(request, call) {
          if (call.key.id === SECOND) return yield* answering.image(request, call);
          await aborted(call.signal);
        },
      },
      onClock: (clock) => ({ images: { store: memoryImageStore({ clock, maxBytes: 252 * MIB }) } }),
    }),
    async put({ begin, stage }) {
      for (const apiKey of [RICH, METERED])
        for (const n of [10, 1]) for (let count = 0; count < 40; count++) begin(drawing(apiKey, n));
      await stage.clock.advance(0);
    },
    asks: drawing(SECOND, 1),
  },
  {
    what: "the same request again and again",
    options: () => ({ backend: silent }),
    async put({ begin, stage }) {
      for (let count = 0; count < 300; count++) begin(messaging(RICH, {}, { "idempotency-key": "same" }));
      await stage.clock.advance(5_000);
    },
    asks: messaging(SECOND, {}, { "idempotency-key": "same" }),
  },
  {
    what: "many stop sequences",
    put({ begin, isShort }) {
      const stop_sequences = Array.from({ length: isShort ? 1_000 : 6_000 }, (_, index) => `stop ${index}`);
      for (let count = 0; count < 10; count++) begin(messaging(RICH, { stop_sequences }));
    },
  },
];

async function attempt(run: Run, { what, options, put, asks = messaging(SECOND) }: Load): Promise<void> {
  const { isShort } = run.plan;
  const stage = new Stage({
    backend: answering,
    keys: [{ apiKey: SECOND, id: SECOND, granted: 1_000_000 }],
    ...options?.(isShort),
  });
  const leaving = new AbortController();
  const others: Promise<unknown>[] = [];
  const begin = (sent: Sent): void =>
    void others.push(Promise.resolve(stage.ask({ ...sent, signal: leaving.signal })).catch(() => {}));
  await put({ stage, isShort, begin });
  const before = cpuMs();
  const { done: answered, ms } = await longestTurn(() => soon(stage, asks));
  const waitedMs = cpuMs() - before;
  run.noteTurn(ms);
  run.check(answered !== undefined, `A second tenant is not answered under ${what}`);
  run.check(
    answered?.status === undefined || answered.status === 200,
    `A second tenant is refused under ${what}`,
    `${answered?.status} ${answered?.text.slice(0, 300)}`,
  );
  if (waitedMs > PATIENCE_MS && waitedMs > PATIENCE_MS * slowness())
    run.find(`A second tenant waits under ${what}`, `${Math.round(waitedMs)} ms`);
  leaving.abort();
  for (let hour = 0; hour < 2; hour++) await stage.clock.advance(3_600_000);
  await Promise.race([Promise.all(others), patience()]);
}

/** Returns the answer, or undefined after some seconds. Advances the clock when nothing of the second tenant waits. */
async function soon(stage: Stage, sent: Sent): Promise<Answered | undefined> {
  return Promise.race([stage.ask(sent), patience()]);
}

/** Resolves after more turns than any answer needs, and some seconds. Ends a stuck run. */
function patience(): Promise<undefined> {
  return new Promise((resolve) => void systemClock.after(20_000, () => resolve(undefined)));
}
