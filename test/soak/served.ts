/** The host's side of the soak: a process with a gateway for each policy, a scripted backend, and counts of everything that is open. */

import process from "node:process";
import { createInterface } from "node:readline";
import {
  type CallContext,
  type Cancel,
  type ChatEvent,
  type ChatRequest,
  type Clock,
  type Gateway,
  type GatewayOptions,
  type ImageEvent,
  type LedgerReport,
  type Limits,
  memoryQuotaStore,
  type ModelBackend,
  systemClock,
} from "../../src/index.ts";
import { Peer } from "../hosts/remote/peer.ts";
import { apiKeyOf, nextTurn, nowMs, type Payer, PAYERS, type Policy, POLICIES, scriptIn } from "./calls.ts";

export interface Served {
  readonly url: string | undefined;
  readonly gateway: Pick<Gateway, "close">;
  stop(): Promise<void>;
}

/** The counts of a host's process at one moment. */
export interface Census {
  readonly ledgers: Readonly<Record<Payer, LedgerReport | undefined>>;
  /** Calls in a backend. */
  readonly running: number;
  /** Timers of the gateways. */
  readonly timers: number;
  /** Resources that keep the process alive, by kind, where the runtime lists them. */
  readonly handles: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
}

/**
 * Longer than any drained call takes. No other timer of a gateway has this length, and a timer of it tells the soak that a call drains: a drain
 * on the shared timer of its call has other lengths, and the soak would wait for ever.
 */
const DRAIN_MS = 599_999;

/** Longer than any soak: no call ends by a deadline, and no upload because the machine is slow. No body outlives its call, so growth is a leak. */
const LIMITS: Partial<Limits> = {
  deadlineMs: 24 * 3_600_000,
  bodyStallMs: 24 * 3_600_000,
  minBodyBytesPerSecond: 1,
  maxKnownBodyBytes: 1,
};

const HANG_UP = { cancels: "cancel", drains: { drainMs: DRAIN_MS }, cuts: { drainMs: 20 } } as const satisfies Record<
  Policy,
  NonNullable<GatewayOptions["backend"]["hangUp"]>
>;

/** Serves the gateways until the parent ends. */
export async function beSoaked(serve: (options: GatewayOptions) => Promise<Served>): Promise<void> {
  const failures: string[] = [];
  const plays = new Plays({
    waiting: (id) => void peer.call("waiting", id),
    fired: (id, atMs) => void peer.call("fired", id, atMs),
  });
  const clock = countingClock((ms) => ms === DRAIN_MS && void peer.call("draining"));
  const keys = PAYERS.map((payer) => ({ apiKey: apiKeyOf(payer), id: apiKeyOf(payer) }));
  // A store that retains few ended holds is full early, and growth from then on is a leak.
  const quotas = memoryQuotaStore(keys, { clock, maxRetained: 1_000 });
  const onFailure: NonNullable<GatewayOptions["onFailure"]> = ({ text }) => void failures.push(text);
  const open = (policy: Policy): Promise<Served> =>
    serve({ backend: plays.backend(HANG_UP[policy]), quotas, clock, onFailure, limits: LIMITS });
  const served: Served[] = [];

  const peer = new Peer((line) => void process.stdout.write(line), {
    open: async (): Promise<readonly number[]> => {
      for (const policy of POLICIES) served.push(await open(policy));
      return served.map(({ url = "" }) => Number(new URL(url).port));
    },
    now: nowMs,
    goOn: (id: number) => plays.goOn(id),
    heapBytes,
    bufferBytes: () => process.memoryUsage().external,
    census: (): Census => ({
      ledgers: Object.fromEntries(PAYERS.map((payer) => [payer, quotas.report(apiKeyOf(payer))])) as Census["ledgers"],
      running: plays.running,
      timers: clock.pending,
      handles: countByKind(process.getActiveResourcesInfo()),
      failures,
    }),
    close: (): Promise<boolean[]> => Promise.all(served.map(({ gateway }) => closesAtOnce(gateway))),
  });
  process.stdout.on("error", () => process.exit());
  createInterface({ input: process.stdin })
    .on("line", peer.receive)
    .on("close", () => process.exit());
}

function countByKind(kinds: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of kinds.toSorted()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** Returns the heap in use after two collections: the second frees objects that the first has finalized. */
async function heapBytes(): Promise<number> {
  const { gc } = globalThis as { gc?: (options: object) => void };
  // V8 keeps the text of the last match of any expression, which may be a body of megabytes.
  /./.test(".");
  for (let round = 0; round < 2; round++) {
    // This flavor of V8 also frees code that has not run lately, which would otherwise look like growth or gain.
    gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
    await nextTurn();
  }
  return process.memoryUsage().heapUsed;
}

/** Returns true when a gateway has no live call to wait for. */
async function closesAtOnce(gateway: Served["gateway"]): Promise<boolean> {
  const closed = gateway.close({ deadlineMs: 60_000 }).then(() => true);
  return Promise.race([closed, nextTurn().then(() => false)]);
}

/** Receives the events of calls. */
interface Watch {
  /** The call has reached its pause. */
  readonly waiting: (id: number) => void;
  /** The call's signal has fired, at this time of `nowMs`. */
  readonly fired: (id: number, atMs: number) => void;
}

const PIECES = ["One", " two", " three."];

/** The start of a PNG: no client looks at the picture. */
const PICTURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47);

/** The backends of all gateways. They play the script of each call, and report every signal, even after the end of its call. */
class Plays {
  /** The number of calls that have begun and not ended. */
  running = 0;
  readonly #watch: Watch;
  readonly #waiting = new Map<number, () => void>();

  constructor(watch: Watch) {
    this.#watch = watch;
  }

  /** Makes the backend of a gateway. */
  backend(hangUp: NonNullable<ModelBackend["hangUp"]>): ModelBackend {
    return { hangUp, chat: (request, call) => this.#play(request, call), image: () => this.#draw() };
  }

  /** Ends the pause of a call. */
  goOn(id: number): void {
    this.#waiting.get(id)?.();
  }

  async *#play(request: ChatRequest, { signal }: CallContext): AsyncGenerator<ChatEvent | string> {
    const { id, waitsAfter, slow, endlessBytes, inputTokens, outputTokens } = scriptIn(request);
    // Keep the listener: the soak looks for signals that fire after the end of a call.
    signal.addEventListener("abort", () => this.#watch.fired(id, nowMs()));
    this.running++;
    try {
      for (const [index, piece] of PIECES.entries()) {
        if (index === waitsAfter) await this.#pause(id, signal);
        if (slow) await nextTurn();
        if (signal.aborted) return;
        yield piece;
      }
      if (endlessBytes !== undefined) for (const piece = "x".repeat(endlessBytes); !signal.aborted;) yield piece;
      yield { type: "finish", reason: "stop", usage: { inputTokens, outputTokens } };
    } finally {
      this.running--;
    }
  }

  /** Draws the same picture for every request. */
  async *#draw(): AsyncGenerator<ImageEvent> {
    this.running++;
    try {
      yield { type: "image", bytes: PICTURE, mediaType: "image/png" };
      yield { type: "usage", usage: { inputTextTokens: 1, inputImageTokens: 1, outputTokens: 1 } };
    } finally {
      this.running--;
    }
  }

  async #pause(id: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    this.#watch.waiting(id);
    await promise;
    this.#waiting.delete(id);
  }
}

/** The clock of the machine, with a count of set timers: no runtime lists the timers that keep no process alive. */
interface CountingClock extends Clock {
  /** The number of set timers. */
  readonly pending: number;
}

/** @param set Receives the milliseconds of each timer that fires once. */
function countingClock(set: (ms: number) => void): CountingClock {
  const timers = new Set<symbol>();
  const counted = (start: (timer: symbol) => Cancel): Cancel => {
    const timer = Symbol("timer");
    timers.add(timer);
    const cancel = start(timer);
    return () => {
      timers.delete(timer);
      cancel();
    };
  };
  return {
    now: () => systemClock.now(),
    after: (ms, callback) => {
      set(ms);
      return counted((timer) =>
        systemClock.after(ms, () => {
          timers.delete(timer);
          callback();
        }),
      );
    },
    every: (ms, callback) => counted(() => systemClock.every(ms, callback)),
    get pending() {
      return timers.size;
    },
  };
}
