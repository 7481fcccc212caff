/** The stage of attacks: a gateway with every injectable part, and checks of each answer and of everything that is left. */

import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type ApiKeyOptions,
  type CallRecord,
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayGauges,
  type GatewayOptions,
  type EmbeddingEvent,
  type EmbeddingRequest,
  type ImageEvent,
  type ImageRequest,
  type Mounted,
  type MemoryQuotaStore,
  memoryQuotaStore,
  memoryReplayStore,
  memoryResponseStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { CLEAR } from "../formats/images/pictures.ts";
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

/** A text in every internal error of the host. No caller may read it. */
export const INSIDE = "the host's inside";

/** A request to a gateway. */
export interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
  readonly signal?: AbortSignal;
  readonly mounted?: Mounted;
  /** Receives the request that is made from these fields. */
  readonly made?: (request: Request) => void;
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export type StageOptions = Partial<Omit<GatewayOptions, "clock" | "quotas">> & {
  readonly backend: ModelBackend;
  /** Default: the stage's own clock. */
  readonly clock?: ManualClock;
  readonly keys?: readonly ApiKeyOptions[];
  /** Replaces verbs of the store. */
  readonly around?: (store: MemoryQuotaStore, clock: ManualClock) => Partial<QuotaStore>;
  /** True to inject no replay store by default. */
  readonly withoutReplays?: boolean;
  /** Makes options that need the clock of the stage. */
  readonly onClock?: (clock: ManualClock) => Partial<GatewayOptions>;
  /** Wraps the clock of the stage. */
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
      responseStore: memoryResponseStore({ clock }),
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

  /** Sends a request and returns the response unread. Undefined when `Request` refuses it, or when the gateway does not serve it. */
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

  /** Sends a request, and advances the clock until there is an answer. Fails for a call that lasts longer than a day. */
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

  /** Checks that no call, body, timer or hold is left after all calls. */
  async assertAtRest(run: Run, about = ""): Promise<void> {
    for (let turn = 0; turn < REST_TURNS && !this.#isAtRest; turn++) await nextTurn();
    run.check(this.callsInFlight === 0, "A call is still in flight when all are over", about);
    const { bodies = 0, bodyBytes = 0 } = this.#gauges ?? {};
    run.check(bodies === 0 && bodyBytes === 0, "A body is left when all calls are over", about);
    run.check(this.clock.pending === 0, "A timer is left when all calls are over", `${this.clock.pending} ${about}`);
    for (const key of this.#keys) {
      const ledger = this.quotas.report(key);
      run.check(ledger?.liveHolds === 0, "A hold is left when all calls are over", about);
      const adds = ledger && (key === RICH || ledger.granted === ledger.used + (ledger.available ?? NaN));
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

/** Makes the request, or returns undefined when the platform refuses it. */
function requestOf({ path, method = "POST", headers = {}, body, signal }: Sent): Request | undefined {
  try {
    const hasBody = body !== undefined && method !== "GET" && method !== "HEAD";
    const request = new Request(`http://gateway.test${path}`, {
      method,
      headers,
      ...(hasBody && { body, duplex: "half" }),
      ...(signal && { signal }),
    });
    // A client over a socket sends the length of a body; a bare Request does not.
    if (hasBody && !(body instanceof ReadableStream) && !request.headers.has("content-length"))
      request.headers.set("content-length", String(typeof body === "string" ? Buffer.byteLength(body) : body.length));
    return request;
  } catch {
    return undefined;
  }
}

/** A file name of a stack trace. No caller may read it. */
const STACK = /\bat .*:\d+:\d+|node_modules|\/src\//;

/** Checks the rules that hold for the answer to any request. */
export function judge(run: Run, { status, headers, text }: Answered, about: string): void {
  run.check(status >= 200 && status < 600, "An answer has no status of HTTP's", `${status} ${about}`);
  run.check(headers.has("request-id"), "An answer has no request-id", `${status} ${about}`);
  run.check(!text.includes(INSIDE), "An answer tells of the host's inside", `${about} ${text}`);
  if (status < 400) return;
  run.check(!STACK.test(text), "An error shows a stack", `${about} ${text}`);
  run.check(isError(text), "An error is not in any format's words", `${status} ${about} ${text}`);
}

/** Checks the answer to a wrong or hostile request: it must not be a failure of the gateway. */
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
    // The addresses of pictures belong to no format: their errors are plain text.
    return text.length < 200 && !text.includes("{");
  }
}

/** Returns the credential in the headers of every format. */
export const keyed = (apiKey: string): Record<string, string> => ({
  authorization: `Bearer ${apiKey}`,
  "x-api-key": apiKey,
  "x-goog-api-key": apiKey,
  "compat-version": "2026-10-21",
  "anthropic-version": "2023-06-01",
});

async function* chat({ messages }: ChatRequest): AsyncGenerator<ChatEvent | string> {
  yield "You said ";
  yield `${messages.length} things.`;
  yield { type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 4 } };
}

async function* image({ count }: ImageRequest): AsyncGenerator<ImageEvent> {
  for (let number = 0; number < count; number++) yield { type: "image", bytes: CLEAR, mediaType: "image/png" };
}

async function* embed({ inputs }: EmbeddingRequest): AsyncGenerator<EmbeddingEvent> {
  for (const number of inputs.keys()) yield [number, 0.5];
}

/** A backend for attackers: it answers chat, draws pictures and embeds, and takes every name of a model. */
export const answering: Required<Pick<ModelBackend, "chat" | "image" | "embed">> = { chat, image, embed };
