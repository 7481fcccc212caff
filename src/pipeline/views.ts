/** A call as others see it: its kind of generation, and its backend. */

import { type Port, toGatewayError } from "../errors.ts";
import type { CountTokens } from "../kinds/count-tokens.ts";
import type { DecodedRequest, HostPrices, InputCounter, KindCall, KindModule } from "../kinds/kind.ts";
import { isCount } from "../kinds/meter.ts";
import type { Limits } from "../limits.ts";
import type { Conversion } from "../model/conversion.ts";
import type { JsonLimits } from "../model/json.ts";
import type { CodeResult, CodeRunner, CodeToRun } from "../ports/code-runner.ts";
import type { CallContext, UpstreamModel } from "../ports/model-backend.ts";
import type { AskedUpstream, UpstreamObserver } from "../ports/observer.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import { type Call, CallDetails } from "./call.ts";
import { answeringUpstream, beginAttempt, upstreamsOf } from "./record.ts";
import { doubt, report } from "./reports.ts";

/** A call as its kind sees it. */
export class CallOfKind implements KindCall {
  readonly key: ApiKey;
  readonly limits: Limits;
  readonly jsonLimits: JsonLimits;
  readonly prices: HostPrices;
  readonly countTokens: CountTokens;
  readonly isRecorded: boolean;
  readonly #call: Call;
  readonly #kind: KindModule;

  constructor(call: Call, key: ApiKey, kind: KindModule) {
    const { services } = call;
    this.key = key;
    this.limits = services.limits;
    this.jsonLimits = call.json.limits;
    this.prices = services.prices;
    this.countTokens = services.countTokens;
    this.isRecorded = services.isRecorded;
    this.#call = call;
    this.#kind = kind;
  }

  // A getter: a signal that nobody reads is never created.
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isEnded(): boolean {
    return this.#call.isEnded;
  }

  baseUrl(): string {
    return this.#call.baseUrl();
  }

  upstreamsOf(model: string): readonly UpstreamModel[] {
    return upstreamsOf(this.#call, model, this.#kind);
  }

  answeringUpstream(): UpstreamModel | undefined {
    return answeringUpstream(this.#call);
  }

  doubt(why: string): void {
    doubt(this.#call, why);
  }

  report(error: unknown, port: Port): void {
    report(this.#call, error, port);
  }

  noteAnswerConversions(conversions: readonly Conversion[]): void {
    this.#call.found.answerConversions = conversions;
  }

  askStore<T>(port: Port, verb: string, ask: () => Promise<T>, late?: (answer: T) => unknown): Promise<T> {
    return askStore(this.#call, port, verb, ask, late);
  }

  defer(release: () => void): void {
    this.#call.defer(release);
  }

  assertLive(): void {
    this.#call.assertLive();
  }
}

/** The call as its backend sees it, beside the request. */
export class BackendContext extends CallDetails implements CallContext {
  readonly key: ApiKey;
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
  readonly #call: Call;

  /** @param mayRunCode True for a request with the tool that lets a model run code. */
  constructor(call: Call, key: ApiKey, mayRunCode = false) {
    super(call, call.details.clientAddress);
    this.key = key;
    this.#call = call;
    const { codeRunner, limits } = call.services;
    if (codeRunner && mayRunCode) this.runCode = runsFor(call, key.id, codeRunner, limits.codeDeadlineMs);
  }

  reportConversions(conversions: readonly Conversion[]): void {
    this.#call.found.conversions = conversions;
  }

  get observeUpstream(): (asked: AskedUpstream) => UpstreamObserver {
    return (asked) => beginAttempt(this.#call, asked);
  }

  // A getter, so that a signal nobody reads is never created. A getter of the class: one on each object would be slow to make.
  get signal(): AbortSignal {
    return this.#call.signal;
  }
}

const runsFor =
  (call: Call, keyId: string, runner: CodeRunner, deadlineMs: number) =>
  (code: CodeToRun): Promise<CodeResult> =>
    call.wait(runner.run(code, { keyId, signal: call.signal, deadlineMs }));

/** Returns the backend's count of the input; undefined for a backend that does not count. Throws the backend's error. */
export async function countedByBackend<Request extends DecodedRequest>(
  call: Call,
  key: ApiKey,
  input: InputCounter<Request>,
  request: Request,
): Promise<number | undefined> {
  try {
    const counting = input.byBackend(call.services.backend, request, new BackendContext(call, key));
    const tokens = counting === undefined ? undefined : await call.wait(counting);
    const isKnown: boolean = isCount(tokens);
    if (tokens === undefined || isKnown) return tokens;
    throw new TypeError(`A count of tokens must be an integer from 0 up, not ${tokens}.`);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}
