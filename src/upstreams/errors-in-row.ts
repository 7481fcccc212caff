/** Counts the errors of an upstream since its last complete answer, for its state. Circuit breakers know nothing of them. */

import { type GatewayError, type GatewayErrorCode, LACKS_MODEL, mistakeOf } from "../errors.ts";
import type { UpstreamErrors, UpstreamStatus } from "../ports/observer.ts";
import { type FailedCall, failureAt, LastFailures, LatestMap, MOST_UPSTREAMS, UPSTREAM_FAILURES } from "./backend.ts";

/** Errors that the upstream or this service causes, and wrong requests do not. */
const OF_SERVICE: ReadonlySet<GatewayErrorCode> = new Set([...UPSTREAM_FAILURES, "backend_refused", "rate_limited"]);

/** The numbers of calls with errors in a row from which the state of an upstream tells of them. */
const MIN_OF_SERVICE = 3;
const MIN_OF_ANY = 10;

/** Counts calls, each once: a call may have several attempts. */
class Calls {
  readonly #counted = new WeakSet<FailedCall>();
  count = 0;

  add(call: FailedCall): void {
    if (this.#counted.has(call)) return;
    this.#counted.add(call);
    this.count++;
  }
}

/** The errors of one upstream. */
export class ErrorsInRow {
  #last: Omit<UpstreamErrors, "times"> | undefined = undefined;
  readonly #calls = new Calls();
  readonly #ofService = new Calls();
  /** The calls with errors that no caller can cause, such as for a wrong key of the host. */
  readonly #ofHost = new Calls();
  /** The key of all errors; null once there are several. */
  #key: string | null | undefined = undefined;

  /**
   * @param call The same object for all attempts of a call.
   * @param modelListed True when the host has named the model.
   */
  add(error: GatewayError, at: number, call: FailedCall, modelListed: boolean): void {
    const { code, port } = error;
    // The gateway's own parts tell nothing about the upstream.
    if (port !== undefined && port !== "model-backend") return;
    const key = call.key?.id;
    this.#key = !this.#last || this.#key === key ? key : null;
    this.#last = { ...failureAt(error, at), since: this.#last?.since ?? at };
    this.#calls.add(call);
    const lacksModel = modelListed && LACKS_MODEL.has(code);
    if (OF_SERVICE.has(code) || lacksModel) this.#ofService.add(call);
    if (code === "backend_refused" || lacksModel || mistakeOf(error) !== undefined) this.#ofHost.add(call);
  }

  /** The errors, if there are so many that no call may be answered. */
  get failing(): UpstreamErrors | undefined {
    const times = this.#calls.count;
    if (!this.#last || (this.#ofService.count < MIN_OF_SERVICE && times < MIN_OF_ANY)) return undefined;
    const ofOneKey = this.#key !== null && this.#ofHost.count < MIN_OF_SERVICE;
    return { ...this.#last, times, ...(ofOneKey && { ofOneKey }) };
  }
}

/** The last failures and the errors of upstreams that have no circuit breaker. */
export class CountedFailures extends LastFailures {
  readonly #errorsOf = new LatestMap<ErrorsInRow>(MOST_UPSTREAMS);

  override note(
    name: string,
    error: GatewayError | undefined,
    at: number,
    call: FailedCall = {},
    modelListed = false,
  ): void {
    super.note(name, error, at);
    if (!error) return this.#errorsOf.delete(name);
    const errors = this.#errorsOf.get(name) ?? new ErrorsInRow();
    errors.add(error, at, call, modelListed);
    this.#errorsOf.set(name, errors);
  }

  override status(names: Iterable<string>): readonly UpstreamStatus[] {
    const known = super.status([...names, ...this.#errorsOf.keys()]);
    return known.map((status) => ({ ...status, failing: this.#errorsOf.get(status.upstream)?.failing }));
  }
}
