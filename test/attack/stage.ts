/** A gateway with everything that a host can inject, and the oracle that looks at each of its answers and at what is left behind. */

import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type ApiKeyOptions,
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayGauges,
  type GatewayOptions,
  type Mounted,
  type MemoryQuotaStore,
  memoryQuotaStore,
  memoryReplayStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { type ManualClock, manualClock } from "../contracts/manual-clock.ts";
import type { Run } from "./frame.ts";

/** A key without limits, whose id is its secret. */
export const RICH = "sk-rich-0123456789";
/** A key with some millions of units. */
export const METERED = "sk-metered-0123456789";
/** A key with nothing left. */
export const EMPTY = "sk-empty-0123456789";

const GRANTED = 50_000_000;

const KEYS: readonly ApiKeyOptions[] = [
  { apiKey: RICH, id: RICH },
  { apiKey: METERED, id: METERED, granted: GRANTED },
  { apiKey: EMPTY, id: EMPTY, granted: 0 },
];

/** Stands in every error of the host's own inside: no caller may read it. */
export const INSIDE = "the host's inside";

/** What is sent to a gateway. */
export interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
  readonly signal?: AbortSignal;
  readonly mounted?: Mounted;
  /** Is given the request that is made of this. */
  readonly made?: (request: Request) => void;
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export type StageOptions = Partial<Omit<GatewayOptions, "clock" | "quotas">> & {
  readonly backend: ModelBackend;
  /** Default: a clock of the stage's own. */
  readonly clock?: ManualClock;
  readonly keys?: readonly ApiKeyOptions[];
  /** Lays other verbs over those of the store. */
  readonly around?: (store: MemoryQuotaStore, clock: ManualClock) => Partial<QuotaStore>;
  /** Whether no replay store is injected where none is told. */
  readonly withoutReplays?: boolean;
  /** Makes options that need the stage's own clock. */
  readonly onClock?: (clock: ManualClock) => Partial<GatewayOptions>;
  /** Lays another clock over the stage's own. */
  readonly clockAround?: (clock: ManualClock) => NonNullable<GatewayOptions["clock"]>;
};

export class Stage {
  readonly clock: ManualClock;
  readonly quotas: MemoryQuotaStore;
  readonly gateway: Gateway;
  readonly records: CallRecord[] = [];
  readonly failures: Failure[] = [];
  readonly #keys: readonly string[];
  #gauges: GatewayGauges | undefined;

  constructor(options: StageOptions) {
    const { keys = [], around, withoutReplays, onClock, clockAround, clock: own = manualClock(), ...rest } = options;
    this.clock = own;
    const clock = clockAround?.(this.clock) ?? this.clock;
    const all = [...KEYS, ...keys];
    this.#keys = all.map(({ id, apiKey }) => id ?? String(apiKey));
    this.quotas = memoryQuotaStore(all, { clock });
    const { quotas } = this;
    const store: QuotaStore = {
      find: (apiKey) => quotas.find(apiKey),
      balance: (keyId) => quotas.balance(keyId),
      reserve: (hold) => quotas.reserve(hold),
      renew: (id, renewal) => quotas.renew(id, renewal),
      settle: (id, outcome) => quotas.settle(id, outcome),
      ...around?.(quotas, this.clock),
    };
    this.gateway = createGateway({
      quotas: store,
      clock,
      ...(!withoutReplays && { replayStore: memoryReplayStore({ clock }) }),
      onCall: (record) => void this.records.push(record),
      onFailure: (failure) => void this.failures.push(failure),
      observer: { watchGateway: (gauges) => void (this.#gauges = gauges), begin: () => undefined },
      ...onClock?.(this.clock),
      ...rest,
    });
  }

  get callsInFlight(): number {
    return this.#gauges?.calls ?? 0;
  }

  /** Sends a request and hands out the response, unread; undefined for one that no Request can say, or that is not the gateway's. */
  send(sent: Sent): Promise<Response> | undefined {
    const request = requestOf(sent);
    if (request) sent.made?.(request);
    return request && this.gateway.handle(request, sent.mounted);
  }

  /** Sends a request and reads the whole answer. */
  async ask(sent: Sent): Promise<Answered | undefined> {
    const response = await this.send(sent);
    return response && { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Asks, and lets time pass until there is an answer: for what hangs. A call that outlives a day has no end. */
  async asking(run: Run, sent: Sent, stepMs = 5_000): Promise<Answered | undefined> {
    const asked = this.ask(sent);
    const state = { isOver: false };
    const over = (): void => void (state.isOver = true);
    asked.then(over, over);
    for (let passedMs = 0; !state.isOver; passedMs += stepMs) {
      if (passedMs > DAY_MS) {
        run.find("A call has no end", `${sent.method ?? "POST"} ${sent.path}`);
        return undefined;
      }
      await this.clock.advance(passedMs === 0 ? 0 : stepMs);
    }
    return asked;
  }

  /** Looks at what is left once all calls are over: no call, no body, no timer, no hold. */
  async assertAtRest(run: Run, about = ""): Promise<void> {
    for (let turn = 0; turn < REST_TURNS && !this.#isAtRest; turn++) await nextTurn();
    run.check(this.callsInFlight === 0, "A call is still in flight when all are over", about);
    const { bodies = 0, bodyBytes = 0 } = this.#gauges ?? {};
    run.check(bodies === 0 && bodyBytes === 0, "A body is left when all calls are over", about);
    run.check(this.clock.pending === 0, "A timer is left when all calls are over", `${this.clock.pending} ${about}`);
    for (const key of this.#keys) {
      const ledger = this.quotas.report(key);
      run.check(ledger?.liveHolds === 0, "A hold is left when all calls are over", about);
      const adds = ledger && (ledger.granted === ledger.used + ledger.available || key === RICH);
      run.check(adds !== false, "A ledger does not add up", JSON.stringify(ledger));
    }
  }

  get #isAtRest(): boolean {
    const left = this.#keys.some((key) => (this.quotas.report(key)?.liveHolds ?? 0) > 0);
    return this.callsInFlight === 0 && this.clock.pending === 0 && !left;
  }
}

const DAY_MS = 86_400_000;
const REST_TURNS = 200;

/** The request, unless the platform itself cannot say it. */
function requestOf({ path, method = "POST", headers = {}, body, signal }: Sent): Request | undefined {
  try {
    const hasBody = body !== undefined && method !== "GET" && method !== "HEAD";
    const request = new Request(`http://gateway.test${path}`, {
      method,
      headers,
      ...(hasBody && { body, duplex: "half" }),
      ...(signal && { signal }),
    });
    // A client over a socket tells how long a body is; a bare Request does not.
    if (hasBody && !(body instanceof ReadableStream) && !request.headers.has("content-length"))
      request.headers.set("content-length", String(typeof body === "string" ? Buffer.byteLength(body) : body.length));
    return request;
  } catch {
    return undefined;
  }
}

/** A file of the gateway's or of a package in a stack: a caller has no business with it. */
const STACK = /\bat .*:\d+:\d+|node_modules|\/src\//;

/** Looks at an answer: what it may be whatever was sent, by whomever. */
export function judge(run: Run, { status, headers, text }: Answered, about: string): void {
  run.check(status >= 200 && status < 600, "An answer has no status of HTTP's", `${status} ${about}`);
  run.check(headers.has("request-id"), "An answer has no request-id", `${status} ${about}`);
  run.check(!text.includes(INSIDE), "An answer tells of the host's inside", `${about} ${text}`);
  if (status < 400) return;
  run.check(!STACK.test(text), "An error shows a stack", `${about} ${text}`);
  run.check(isError(text), "An error is not in any format's words", `${status} ${about} ${text}`);
}

/** Looks at the answer to a client's mistake, or to what a hostile client sends: never the gateway's own failure. */
export function judgeMistake(run: Run, answered: Answered, about: string): void {
  judge(run, answered, about);
  run.check(
    answered.status < 500,
    `A client's mistake is answered with ${answered.status}`,
    `${about} ${answered.text}`,
  );
}

function isError(text: string): boolean {
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown }; message?: unknown } | [{ error?: object }] | null;
    if (Array.isArray(body)) return typeof body[0]?.error === "object";
    return typeof (body?.error?.message ?? body?.message) === "string";
  } catch {
    // The files of pictures are no format's: their errors are a text.
    return text.length < 200 && !text.includes("{");
  }
}

/** The credential, as every format reads it. */
export const keyed = (apiKey: string): Record<string, string> => ({
  authorization: `Bearer ${apiKey}`,
  "x-api-key": apiKey,
  "x-goog-api-key": apiKey,
  "compat-version": "2026-10-21",
  "anthropic-version": "2023-06-01",
});
