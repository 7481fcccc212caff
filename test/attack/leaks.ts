/** Attacks by leaks: a call ends while a function still hangs. Nothing of the call may be reachable afterwards. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  memoryImageStore,
  memoryReplayStore,
  type ModelBackend,
  type QuotaStore,
  type RateVerdict,
} from "../../src/index.ts";
import { ALL, type Attack, type Run } from "./frame.ts";
import { keyed, RICH, type Sent, Stage, type StageOptions } from "./stage.ts";

export const leaks: Attack = {
  name: "leaks",
  does: "Ends calls while a host function, a repeated request or an upload waits; counts leaked objects by WeakRef",
  counts: { full: ALL, short: ALL },
  open(run) {
    // In the tests, combine each wait with one way to end its calls.
    const both = WAITS.flatMap((wait, index) =>
      ENDINGS.map((ending, place) => ({ wait, ending, isShort: index % ENDINGS.length === place })),
    );
    const all = both.filter(({ isShort }) => isShort || !run.plan.isShort);
    return {
      count: all.length,
      async attempt(_random, index) {
        const one = all[index];
        if (one) await attempt(run, one.wait, one.ending);
      },
    };
  },
};

/** The ways to end the calls. */
const ENDINGS = ["hangs up", "deadline"] as const;

/** Hands out promises that never settle, and keeps them, as a connection pool does whose server is silent. */
class Pool {
  readonly #waiting: ((value: never) => void)[] = [];

  readonly hang = <Result>(): Promise<Result> => new Promise((resolve) => void this.#waiting.push(resolve));

  get size(): number {
    return this.#waiting.length;
  }
}

/** A function of the host that hangs while calls wait for it. */
interface Wait {
  readonly what: string;
  readonly options: (pool: Pool) => Partial<StageOptions>;
  readonly path?: string;
  readonly body?: object;
  /** True when calls carry an `Idempotency-Key`. Two calls share a key. */
  readonly isRepeated?: boolean;
  /** True when a late answer of the function leads to another one with the call's context, which may then be reachable. */
  readonly isTold?: true;
}

async function* words(): AsyncGenerator<string> {
  yield "word";
}
const answering: ModelBackend = { chat: () => words() };

const around = (verb: keyof QuotaStore, pool: Pool): Partial<StageOptions> => ({
  around: () => ({ [verb]: () => pool.hang() }),
});
const admitted = async (): Promise<RateVerdict> => ({ limits: [] });
const limiting = (verb: "begin" | "take" | "end", pool: Pool): Partial<StageOptions> => ({
  rateLimiter: { begin: admitted, take: admitted, end: async () => {}, [verb]: () => pool.hang() },
});
const replaying = (verb: "claim" | "record" | "release", pool: Pool): Partial<StageOptions> => ({
  onClock: (clock) => {
    const store = memoryReplayStore({ clock });
    return {
      replayStore: {
        claim: (claim) => store.claim(claim),
        record: (record) => store.record(record),
        release: (holder) => store.release(holder),
        [verb]: () => pool.hang(),
      },
    };
  },
});
/** A backend that keeps nothing of a call, so that only the gateway can leak. */
const iterating = (step: () => unknown, end: () => unknown = () => Promise.resolve({ done: true })): ModelBackend => ({
  chat: () => ({ [Symbol.asyncIterator]: () => ({ next: step, return: end }) }) as AsyncIterable<string>,
});

const PICTURE = { path: "/v1/images/generations", body: { prompt: "A hat", response_format: "url" } };
const drawing = (verb: "book" | "put", pool: Pool): Partial<StageOptions> => ({
  backend: {
    async *image() {
      yield { type: "image", bytes: new Uint8Array(9), mediaType: "image/png" };
    },
  },
  onClock: (clock) => {
    const store = memoryImageStore({ clock });
    return {
      images: { store: { put: (image) => store.put(image), get: (id) => store.get(id), [verb]: () => pool.hang() } },
    };
  },
});

const WAITS: readonly Wait[] = [
  { what: "nothing", options: () => ({}) },
  { what: "nothing, streamed,", options: () => ({}), body: { stream: true } },
  { what: "the quota store's find", options: (pool) => around("find", pool) },
  // The gateway gives a late hold back, and retries a settlement.
  ...(["reserve", "settle"] as const).map((verb): Wait => ({
    what: `the quota store's ${verb}`,
    options: (pool) => around(verb, pool),
    isTold: true,
  })),
  {
    what: "the quota store's renew",
    options: (pool) => ({ ...around("renew", pool), backend: iterating(() => pool.hang()) }),
  },
  ...(["begin", "take", "end"] as const).map((verb): Wait => ({
    what: `the rate limiter's ${verb}`,
    options: (pool) => limiting(verb, pool),
    // The gateway gives a late slot back.
    ...(verb === "begin" && { isTold: true as const }),
  })),
  ...(["claim", "record", "release"] as const).map((verb): Wait => ({
    what: `the replay store's ${verb}`,
    options: (pool) => replaying(verb, pool),
    isRepeated: true,
    ...(verb === "claim" && { isTold: true as const }),
  })),
  {
    what: "a call of another process that answers the same request",
    options: () => ({
      replayStore: {
        claim: async ({ fingerprint }) => ({ state: "running", fingerprint }),
        record: async () => {},
        release: async () => {},
      },
    }),
    isRepeated: true,
  },
  {
    what: "the first call of the same request",
    options: (pool) => ({
      backend: { ...iterating(() => pool.hang()), hangUp: { drainMs: 500_000 } },
      onClock: (clock) => ({ replayStore: memoryReplayStore({ clock }) }),
    }),
    isRepeated: true,
  },
  ...(["book", "put"] as const).map((verb): Wait => ({
    what: `the image store's ${verb}`,
    options: (pool) => drawing(verb, pool),
    ...(verb === "book" && { isTold: true as const }),
    ...PICTURE,
  })),
  { what: "the backend's next event", options: (pool) => ({ backend: iterating(() => pool.hang()) }) },
  {
    what: "the backend's next event, streamed",
    options: (pool) => ({ backend: iterating(() => pool.hang()) }),
    body: { stream: true },
  },
  {
    what: "the backend's next event, before a stop sequence",
    options: (pool) => ({ backend: iterating(() => pool.hang()) }),
    body: { stop_sequences: ["END"] },
  },
  {
    what: "the backend's end",
    options: (pool) => ({
      backend: iterating(
        () => new Promise(() => {}),
        () => pool.hang(),
      ),
    }),
  },
  { what: "the backend's models", options: (pool) => ({ backend: { ...answering, models: () => pool.hang() } }) },
  {
    what: "the backend's count of tokens",
    options: (pool) => ({ backend: { ...answering, countInputTokens: () => pool.hang() } }),
    path: "/v1/messages/count_tokens",
  },
  { what: "onCall", options: (pool) => ({ onCall: () => pool.hang() }) },
  {
    what: "onFailure",
    options: (pool) => ({ onFailure: () => pool.hang(), backend: iterating(() => Promise.reject(new Error("no"))) }),
  },
];

const CALLS = 12;
/** The number of calls that may remain: a stack or a register may still refer to the last one. */
const MAY_STAY = 2;
const DEADLINE_MS = 100_000;

async function attempt(run: Run, wait: Wait, ending: (typeof ENDINGS)[number]): Promise<void> {
  const pool = new Pool();
  const stage = new Stage({
    backend: answering,
    withoutReplays: true,
    limits: { deadlineMs: DEADLINE_MS },
    ...wait.options(pool),
  });
  const traces = await calls(stage, wait, ending);
  await stage.clock.advance(2 * DEADLINE_MS);
  // Drop the notes of the stage about the calls.
  stage.records.length = 0;
  stage.failures.length = 0;
  const left = await survivorsOf(traces);
  run.check(
    left <= MAY_STAY,
    `${wait.what} keeps calls that are over`,
    `${left} of ${traces.length}, where the end is: ${ending}`,
  );
  // The hanging promises must live until here.
  run.check(pool.size >= 0, "A pool has less than nothing");
}

/** Makes calls that wait, and ends them. Returns only weak references to them. */
async function calls(stage: Stage, wait: Wait, ending: string): Promise<WeakRef<object>[]> {
  const traces: WeakRef<object>[] = [];
  for (let number = 0; number < CALLS; number++) {
    const leaving = new AbortController();
    const context = { number };
    if (!wait.isTold) traces.push(new WeakRef(context));
    const made = (request: Request): void => void traces.push(new WeakRef(request));
    const asked = stage.send({ ...sentOf(wait, number), signal: leaving.signal, mounted: { context }, made });
    const read = asked?.then((response) => response.text()).catch(() => {});
    await stage.clock.advance(10);
    if (ending === "hangs up") leaving.abort();
    void read;
  }
  return traces;
}

const MESSAGE = { model: "model-a", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };

function sentOf({ path = "/v1/messages", body, isRepeated }: Wait, number: number): Sent {
  const headers: Record<string, string> = { ...keyed(RICH), "content-type": "application/json" };
  if (isRepeated) headers["idempotency-key"] = `once ${number >> 1}`;
  const whole = path.startsWith("/v1/messages") ? { ...MESSAGE, ...body } : body;
  return { path, headers, body: JSON.stringify(whole) };
}

/** Returns the number of objects that survive a collection of all garbage. */
async function survivorsOf(traces: readonly WeakRef<object>[]): Promise<number> {
  const collect = collector();
  let left = traces.length;
  // The second collection frees objects that the first has finalized.
  for (let round = 0; round < 6 && left > 0; round++) {
    await nextTurn();
    collect();
    await nextTurn();
    left = traces.filter((trace) => trace.deref() !== undefined).length;
  }
  return left;
}

/** Collects all garbage, even in a process without `--expose-gc`. */
function collector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}
