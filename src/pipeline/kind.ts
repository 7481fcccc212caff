/** The pipeline's side of a kind of generation: the call as its kind sees it, and the count of the input that a backend makes. */

import { type Port, toGatewayError } from "../errors.ts";
import type { Answer } from "../http/answer.ts";
import type { CountTokens } from "../kinds/count-tokens.ts";
import type { DecodedRequest, HostPrices, InputCounter, KindCall, KindModule } from "../kinds/kind.ts";
import { isCount } from "../kinds/meter.ts";
import type { Limits } from "../limits.ts";
import type { Conversion } from "../model/conversion.ts";
import type { JsonLimits } from "../model/json.ts";
import type { UpstreamModel } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import { answeringUpstream, upstreamsOf } from "./attempts.ts";
import type { Call } from "./call.ts";
import { doubt, report } from "./failures.ts";
import { BackendContext } from "./run-backend.ts";

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
    this.#call.answerConversions = conversions;
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

/** Recognises a repeated request by its key, and answers it with the answer of the first. */
export interface Repetitions {
  /** Returns the request's idempotency key; undefined without one. Throws `invalid_request` for a header that is not a key. */
  keyOf(request: Request): string | undefined;
  /** Returns the answer of the first call with the key; undefined when this call is the first. */
  replay(call: Call, key: ApiKey, idempotencyKey: string): Promise<Answer | undefined>;
}

/** The parts of the pipeline that come with the features of a gateway. */
export interface Parts {
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly repetitions: Repetitions | undefined;
}
