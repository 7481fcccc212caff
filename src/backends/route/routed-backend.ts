/** One backend of a route, and the order in which several are asked. */

import { type GatewayError, type GatewayErrorCode, toGatewayError } from "../../errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { Breaker, type BreakerOptions } from "../../ports/breaker.ts";
import type { RouteUpstream } from "./options.ts";

/** Errors that speak against an upstream. */
const ITS_FAULT: ReadonlySet<GatewayErrorCode> = new Set([
  "backend_failed",
  "backend_unavailable",
  "backend_overloaded",
  "deadline_exceeded",
  "internal",
]);

/**
 * Errors after which another upstream may do better; all others are the request's own. `backend_refused` is among them, but does not
 * speak against the upstream: what one caller asks for (a model, a beta feature) may be refused to this service, and must not
 * close the upstream to all others.
 */
const OTHERS_MAY: ReadonlySet<GatewayErrorCode> = new Set([
  ...ITS_FAULT,
  "backend_refused",
  "rate_limited",
  "model_not_found",
]);

/** Errors that the same request would meet again, however long it waits. */
const LASTING: ReadonlySet<GatewayErrorCode> = new Set(["backend_refused", "model_not_found"]);

/** Whether asking the same upstream for the same again is of no use. */
export const isLasting = ({ code }: GatewayError): boolean => LASTING.has(code);

export class RoutedBackend {
  readonly backend: ModelBackend;
  readonly name: string | undefined;
  readonly weight: number;
  readonly model: string | undefined;
  readonly breaker: Breaker;

  constructor(upstream: ModelBackend | RouteUpstream, breaker: BreakerOptions, clock: Clock) {
    const { backend, name, weight = 1, model }: RouteUpstream = isUpstream(upstream) ? upstream : { backend: upstream };
    if (!Number.isFinite(weight) || weight < 0) throw new TypeError("route: a weight must be a number from 0 up.");
    this.backend = backend;
    this.name = name;
    this.weight = weight;
    this.model = model;
    this.breaker = new Breaker(breaker, clock);
  }

  /** Takes note of a call that failed before its first event; tells whether another upstream may do better. */
  failed(error: GatewayError): boolean {
    const { code, retryAfterMs } = error;
    if (ITS_FAULT.has(code)) this.breaker.fail();
    else this.breaker.leave();
    if (OTHERS_MAY.has(code) && retryAfterMs !== undefined) this.breaker.rest(retryAfterMs);
    return OTHERS_MAY.has(code);
  }

  /** Takes note of a call that failed after its first event. */
  brokeOff(error: unknown): void {
    if (ITS_FAULT.has(toGatewayError(error, "model-backend").code)) this.breaker.fail();
  }
}

const isUpstream = (upstream: ModelBackend | RouteUpstream): upstream is RouteUpstream => "backend" in upstream;

/** The upstreams in the order of one call: drawn by weight, and those without any at the end. */
export function drawn(upstreams: readonly RoutedBackend[], random: () => number): readonly RoutedBackend[] {
  const left = upstreams.filter(({ weight }) => weight > 0);
  const order: RoutedBackend[] = [];
  while (left.length > 0) {
    let point = random() * left.reduce((sum, { weight }) => sum + weight, 0);
    const index = left.findIndex(({ weight }) => (point -= weight) < 0);
    // Sums of fractions may miss the last by a hair.
    order.push(...left.splice(index < 0 ? left.length - 1 : index, 1));
  }
  return [...order, ...upstreams.filter(({ weight }) => weight === 0)];
}
