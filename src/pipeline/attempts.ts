/** The requests of one call to upstreams: for its record, for the reports of failures, and for its price. */

import { type GatewayError, type GatewayErrorCode, toGatewayError } from "../errors.ts";
import { redact } from "../http/request.ts";
import type { Metered } from "../kinds/meter.ts";
import type {
  AskedUpstream,
  OnFailure,
  UpstreamAttempt,
  UpstreamObserver,
  UpstreamOutcome,
} from "../ports/observer.ts";
import { reportAttempt } from "./failures.ts";

/** The most attempts that a call keeps. A backend may report as many as it likes. */
const MAX_ATTEMPTS = 64;

/** The parts of a call that its attempts need. */
interface Attempting {
  readonly id: string;
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
  readonly clock: { now(): number };
  readonly isEnded: boolean;
  readonly watch: { upstream(asked: AskedUpstream): UpstreamObserver } | undefined;
  readonly meter: Metered | undefined;
  attempts: readonly Attempt[];
  answering: Attempt | undefined;
}

/**
 * Begins an attempt. From now on, the call is charged as one that this upstream answers. Throws before anything is spent when the host's
 * price has none for this upstream: quota was held without it where the backend does not tell its upstreams.
 */
export function beginAttempt(call: Attempting, asked: AskedUpstream): Attempt {
  const attempt = new Attempt(call, asked);
  // Set this first: a backend that ignores the error below, and answers, is not charged the price of the caller's name.
  if (!asked.resting) call.answering = attempt;
  // An attempt with a time of its own is over already.
  if (!asked.resting && asked.beganAt === undefined) assertPriced(call, asked);
  if (call.attempts.length < MAX_ATTEMPTS && !call.isEnded) call.attempts = [...call.attempts, attempt];
  return attempt;
}

function assertPriced({ meter }: Attempting, asked: AskedUpstream): void {
  try {
    meter?.assertPrice({ name: nameOf(asked), model: asked.model });
  } catch (error) {
    throw toGatewayError(error);
  }
}

const nameOf = ({ name, address, format }: AskedUpstream): string => name ?? address ?? format;

const NO_HEADERS = {};

export class Attempt implements UpstreamObserver {
  readonly name: string;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The error that `onFailure` has heard of. */
  reported: GatewayError | undefined = undefined;
  readonly #call: Attempting;
  readonly #asked: AskedUpstream;
  readonly #beganAt: number;
  readonly #observer: UpstreamObserver | undefined;
  /** Undefined until the end. */
  #outcome: UpstreamOutcome | undefined = undefined;

  constructor(call: Attempting, asked: AskedUpstream) {
    this.#call = call;
    this.#asked = asked;
    this.name = nameOf(asked);
    this.model = asked.model;
    this.#beganAt = asked.beganAt ?? call.clock.now();
    this.#observer = asked.resting ? undefined : call.watch?.upstream(asked);
  }

  get isBrief(): boolean {
    return !this.#observer || this.#observer.isBrief === true;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#observer?.headers ?? NO_HEADERS;
  }

  run<Result>(work: () => Result): Result {
    return this.#observer ? this.#observer.run(work) : work();
  }

  /** Ends the attempt. Only the first end counts. */
  end(outcome: UpstreamOutcome): void {
    if (this.#outcome) return;
    this.#outcome = outcome;
    // A call that has ended has cut its backend, so the error tells nothing about the upstream.
    if (outcome.error && !this.#call.isEnded) this.#report(outcome.error);
    if (!this.#observer) return;
    const { error: _, ...told } = outcome;
    this.#observer.end(told);
  }

  #report(error: GatewayError): void {
    const { address, port, model } = this.#asked;
    const told = reportAttempt(this.#call, error, {
      name: this.name,
      address: address === undefined || port === undefined ? address : `${address}:${port}`,
      model: redact(model, this.#call.secret),
      status: this.#outcome?.status,
    });
    if (told) this.reported = error;
  }

  /**
   * Returns the attempt for the record of its call.
   *
   * @param isLast True when no attempt follows.
   * @param endedAt The end of the call, for an attempt that has not ended.
   * @param callError The error of the call, for the same.
   */
  record(isLast: boolean, endedAt: number, callError: GatewayErrorCode | undefined): UpstreamAttempt {
    const outcome = this.#outcome;
    const { movedOn } = outcome ?? {};
    return {
      upstream: this.name,
      // A model's name is the caller's own text, and a caller may write its key anywhere.
      model: redact(this.#asked.model, this.#call.secret),
      status: outcome?.status,
      beganAt: this.#beganAt,
      endMs: Math.max(0, outcome ? outcome.endMs : endedAt - this.#beganAt),
      errorCode: outcome ? outcome.errorCode : callError,
      movedOn: isLast && movedOn !== "resting" ? undefined : movedOn,
    };
  }
}
