/** Counts the errors of an upstream since its last complete answer, for its state. Circuit breakers know nothing of them. */

import { type GatewayError, type GatewayErrorCode, LACKS_MODEL } from "../errors.ts";
import { LatestMap } from "../model/latest-map.ts";
import type { UpstreamErrors, UpstreamStatus } from "../ports/observer.ts";
import { failureAt, LastFailures, MOST_UPSTREAMS, UPSTREAM_FAILURES } from "./backend.ts";

/** Errors that no caller can cause by a wrong request. */
const OF_SERVICE: ReadonlySet<GatewayErrorCode> = new Set([...UPSTREAM_FAILURES, "backend_refused", "rate_limited"]);

/** The numbers of errors in a row from which the state of an upstream tells of them. */
const MIN_OF_SERVICE = 3;
const MIN_OF_ANY = 10;

/** The errors of one upstream. */
export class ErrorsInRow {
  #errors: UpstreamErrors | undefined = undefined;
  #timesOfService = 0;
  /** The key of all errors; null once there are several. */
  #key: string | null | undefined = undefined;

  /**
   * @param key The id of the caller's API key.
   * @param modelListed True when the host has named the model.
   */
  add(error: GatewayError, at: number, key: string | undefined, modelListed: boolean): void {
    const { code, port } = error;
    // The gateway's own parts tell nothing about the upstream.
    if (port !== undefined && port !== "model-backend") return;
    const { times = 0, since = at } = this.#errors ?? {};
    this.#key = times === 0 || this.#key === key ? key : null;
    this.#errors = { ...failureAt(error, at), times: times + 1, since };
    if (OF_SERVICE.has(code) || (modelListed && LACKS_MODEL.has(code))) this.#timesOfService++;
  }

  /** The errors, if there are so many that no call may be answered. */
  get failing(): UpstreamErrors | undefined {
    if (!this.#errors || this.#timesOfService >= MIN_OF_SERVICE) return this.#errors;
    if (this.#errors.times < MIN_OF_ANY) return undefined;
    return this.#key === null ? this.#errors : { ...this.#errors, ofOneKey: true };
  }
}

/** The last failures and the errors of upstreams that have no circuit breaker. */
export class CountedFailures extends LastFailures {
  readonly #errorsOf = new LatestMap<ErrorsInRow>(MOST_UPSTREAMS);

  override note(name: string, error: GatewayError | undefined, at: number, key?: string, modelListed = false): void {
    super.note(name, error, at);
    if (!error) return this.#errorsOf.delete(name);
    const errors = this.#errorsOf.get(name) ?? new ErrorsInRow();
    errors.add(error, at, key, modelListed);
    this.#errorsOf.set(name, errors);
  }

  override status(names: Iterable<string>): readonly UpstreamStatus[] {
    const known = super.status([...names, ...this.#errorsOf.keys()]);
    return known.map((status) => ({ ...status, failing: this.#errorsOf.get(status.upstream)?.failing }));
  }
}
