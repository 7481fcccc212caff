/** A gateway for tests of the pipeline: called in process, on a clock that is wound by hand, its ledger and its reports in view. */

import { setImmediate } from "node:timers/promises";
import {
  type ApiKeyOptions,
  type CallContext,
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayOptions,
  type LedgerReport,
  type MemoryQuotaStore,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaRecalls,
  type QuotaStore,
  type ReplayStore,
  type ResponseStore,
} from "../../src/index.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { aborted } from "../aborted.ts";

/** A token is a character here, so the prompt is 10 tokens, and `WORD` is 4. */
export const PROMPT = "ten tokens";
export const WORD = "word";
export const INPUT = 10;
export const MINUTE = 60_000;

export type Setup = Partial<Omit<GatewayOptions, "clock" | "quotas">> & {
  readonly key?: Omit<ApiKeyOptions, "apiKey">;
  /** True for a gateway that prints its failures. Default: they are noted. */
  readonly prints?: boolean;
  /** A store around the memory store. */
  readonly around?: Around;
  /** Makes the store for repeated calls. */
  readonly replays?: (clock: ManualClock) => ReplayStore;
  /** Makes the store of responses. */
  readonly responses?: (clock: ManualClock) => ResponseStore;
  /** The gateway's own option of this name. */
  readonly compaction?: NonNullable<GatewayOptions["responses"]>["compaction"];
};

export type Around = (store: MemoryQuotaStore, clock: ManualClock) => Partial<QuotaStore & QuotaRecalls>;

export interface Send {
  readonly body?: object | string | ReadableStream;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly path?: string;
  readonly method?: string;
}

/** A store's verbs as an object that others can be laid over. */
export const verbsOf = (store: QuotaStore): QuotaStore => ({
  find: (apiKey, call) => store.find(apiKey, call),
  reserve: (hold, call) => store.reserve(hold, call),
  balance: (keyId, call) => store.balance(keyId, call),
  renew: (id, renewal, call) => store.renew(id, renewal, call),
  settle: (id, outcome, call) => store.settle(id, outcome, call),
});

/** What a test has of a gateway. */
export interface Opened {
  readonly clock: ManualClock;
  readonly failures: readonly Failure[];
  readonly gateway: Gateway;
  readonly store: MemoryQuotaStore;
  readonly send: (send?: Send) => Promise<Response>;
  readonly report: () => (LedgerReport & { readonly timers: number }) | undefined;
}

export function opened({
  key = { granted: 1000 },
  around,
  prints = false,
  replays,
  responses,
  compaction,
  ...options
}: Setup = {}): Opened {
  const clock = manualClock();
  const store = memoryQuotaStore([{ apiKey: "sk-one", id: "one", ...key }], { clock });
  const failures: Failure[] = [];
  const quotas: QuotaStore = {
    ...verbsOf(store),
    ...around?.(store, clock),
  };
  const gateway = createGateway({
    backend: speaking(WORD),
    countTokens: (text) => text.length,
    ...(!prints && { onFailure: (failure: Failure) => failures.push(failure) }),
    ...(replays && { replayStore: replays(clock) }),
    ...(responses && { responseStore: responses(clock) }),
    ...(compaction && { responses: { compaction } }),
    ...options,
    quotas,
    clock,
  });
  const send = ({ body = {}, headers, signal, path = "/v1/messages", method = "POST" }: Send = {}) =>
    gateway.fetch(
      new Request(`http://host${path}`, {
        method,
        headers: {
          authorization: "Bearer sk-one",
          "compat-version": "2023-06-01",
          "content-type": "application/json",
          ...headers,
        },
        ...(method === "POST" && { body: wire(body), duplex: "half" }),
        ...(signal && { signal }),
      }),
    );
  return {
    clock,
    failures,
    gateway,
    store,
    send,
    report() {
      const report = store.report("one");
      return report && { ...report, timers: clock.pending };
    },
  };
}

function wire(body: object | string | ReadableStream): string | ReadableStream {
  if (typeof body === "string" || body instanceof ReadableStream) return body;
  return JSON.stringify({ model: "any", max_tokens: 50, messages: [{ role: "user", content: PROMPT }], ...body });
}

export type Step = ChatEvent | string | Promise<unknown> | Error;

/** A backend for tests that do not ask one. */
export const UNASKED: ModelBackend = {
  // oxlint-disable-next-line require-yield -- fails first
  async *chat() {
    throw new Error("Nothing asks this backend.");
  },
};

export const never: Promise<never> = new Promise(() => {});

/** A backend that yields what it is given; awaits promises and throws errors on its way. */
export const speaking = (...steps: readonly Step[]): ModelBackend => ({
  async *chat() {
    for (const step of steps) {
      if (step instanceof Error) throw step;
      if (step instanceof Promise) await step;
      else yield step;
    }
  },
});

export const counted = (outputTokens: number): ChatEvent => ({
  type: "finish",
  reason: "stop",
  usage: { inputTokens: INPUT, outputTokens },
});

/** A backend whose events come at once and are several frames each, and which then falls silent. */
export const chatty = (): ModelBackend =>
  speaking(WORD, WORD, { type: "tool-call", id: "1", name: "look", input: {} }, never);

/** A backend that does as backends should: it says a word, then waits until it is told to stop. */
export function obedient(): ModelBackend & { readonly seen: { reason?: unknown; ended?: boolean } } {
  const seen: { reason?: unknown; ended?: boolean } = {};
  async function* chat(_: ChatRequest, { signal }: CallContext): AsyncGenerator<string> {
    try {
      yield WORD;
      await aborted(signal);
      signal.throwIfAborted();
    } finally {
      seen.reason = signal.reason;
      seen.ended = true;
    }
  }
  return { chat, seen };
}

export function fail(error: Error): never {
  throw error;
}

export async function microtasks(count: number): Promise<void> {
  for (let task = 0; task < count; task++) await Promise.resolve();
}

/** A store that takes some turns of the event loop to settle, as one behind a socket does. */
export const slowToSettle =
  (turns: number): Around =>
  (store) => ({
    async settle(id, outcome) {
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      await store.settle(id, outcome);
    },
  });

/** A store whose settlements fail as often as it is told, and the moments at which it was asked. */
export function failing(times: number): { asked: number[]; around: Around } {
  const asked: number[] = [];
  const around: Around = (store, clock) => ({
    settle: async (id, outcome) => {
      asked.push(clock.now());
      if (asked.length <= times) throw new Error("The database is away.");
      await store.settle(id, outcome);
    },
  });
  return { asked, around };
}

/** Reads a stream until `text` has come. */
export async function readUntil(text: string, response: Response): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  if (!response.body) throw new Error("The response has no body.");
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  for (let read = ""; !read.includes(text);) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`The stream ended before ${text}: ${read}`);
    read += decoder.decode(value, { stream: true });
  }
  return reader;
}

export const errorCode = async (response: Response): Promise<unknown> =>
  ((await response.json()) as { error: { code: string } }).error.code;

/** Nothing is held, and nothing will ever call back. */
export const AT_REST = { held: 0, liveHolds: 0, timers: 0 };

/** A messages request, for a gateway that is called without its host. */
export const requestOf = (stream: boolean, headers: Record<string, string> = {}): Request =>
  new Request("http://host/v1/messages", {
    method: "POST",
    headers: { "x-api-key": "sk-one", "compat-version": "2023-06-01", "content-type": "application/json", ...headers },
    body: wire({ stream }),
    duplex: "half",
  } as RequestInit);
