/** The port behind which calls are watched while they run: where traces and metrics are made. */

import type { GatewayErrorCode } from "../errors.ts";
import type { FinishReason } from "../model/event.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { CallRecord } from "./observer.ts";
import type { RateKind } from "./rate-limiter.ts";

/**
 * Watches gateways, routes and calls. It only looks on: what any of its functions throws is dropped, and what a promise of them
 * rejects with as well. None of them is told a prompt, an answer or an api key, but for the request's own headers.
 */
export interface Observer<Context = unknown> {
  /** A gateway is made. What is returned is called when it closes. */
  watchGateway?(gauges: GatewayGauges): (() => void) | undefined;
  /** A route is made that was given this observer. */
  watchBreakers?(breakers: readonly BreakerGauge[]): void;
  /** A call begins; only its headers have been read. Where undefined is returned, it is not watched any further. */
  begin(call: BegunCall<Context>): CallObserver<Context> | undefined;
}

/** How a gateway stands at the moment in which it is read. */
export interface GatewayGauges {
  /** Calls that have begun, and are not yet settled. */
  readonly calls: number;
  /** Settlements of calls that have ended, which the quota store has not taken yet: each is retried. */
  readonly waitingSettlements: number;
  /** Requests of which a body, or a part of it, is in memory. */
  readonly bodies: number;
  /** The bytes of those bodies. */
  readonly bodyBytes: number;
}

/** `closed` lets calls pass, `open` lets none pass, `half-open` lets one try. */
export type BreakerState = "closed" | "open" | "half-open";

/** The circuit breaker of one upstream of a route; its state is that of the moment in which it is read. */
export interface BreakerGauge {
  /** The pattern of the models that lead there, as the host wrote it. */
  readonly route: string;
  /** The upstream's name, or its place in the route, from 0. */
  readonly upstream: string;
  readonly state: BreakerState;
}

/** A call whose headers have been read. */
export interface BegunCall<Context = unknown> {
  /** The id that the caller receives as `request-id`. */
  readonly requestId: string;
  /** The host's own, as the mount's `context` option made it for this request. */
  readonly context: Context | undefined;
  /** As they came: the caller's secret is among them. */
  readonly headers: Headers;
  /** The wire format, as `CallRecord` has it. */
  readonly dialect: string;
  /** What answers: a chat or an image model, the gateway itself, or, of pictures, without a key. */
  readonly kind: "chat" | "image" | "query" | "public";
  readonly method: string;
  /** The route's pattern, never an address. */
  readonly route: string;
}

/** Watches one call. */
export interface CallObserver<Context = unknown> {
  /** Runs a step of the backend's work, at once and once, and returns what that returns; sets around it what is to be active in it. */
  run?<Result>(work: () => Result): Result;
  /** The rate limiter was asked: for a request, or for tokens. */
  rateLimit?(decision: RateDecision): void;
  /** The call's hold has changed. The settlement of one that failed may be told after the call's end. */
  hold?(change: HoldChange): void;
  /** A backend asks an upstream for this call. There may be several, one after the other or at once. */
  upstream?(asked: AskedUpstream): UpstreamObserver | undefined;
  /** The call has ended, and is settled as far as it can be. */
  end(record: CallRecord<Context>): void;
}

/** What came of asking the rate limiter: `down` where it failed or took too long. */
export type RateDecision =
  | { readonly decision: "admitted" | "down"; readonly by?: never }
  | { readonly decision: "refused"; readonly by: RateKind };

/** What becomes of a hold on quota. Amounts are in quota units. */
export type HoldChange =
  | { readonly type: "reserved"; readonly granted: number }
  | {
      readonly type: "settled";
      readonly granted: number;
      /** What the key is charged; may be more than was granted. */
      readonly used: number;
      readonly certainty: Certainty;
      /** Whether its lease had run out before, by the gateway's clock: the store has charged it by an estimate first. */
      readonly expired: boolean;
    }
  /** The store has taken no settlement, and is told no more: `onFailure` hears of the charge, and the hold ends with its lease. */
  | { readonly type: "abandoned"; readonly granted: number };

/** An upstream that is asked for an answer. */
export interface AskedUpstream {
  /** The wire format that it speaks. */
  readonly format: string;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** Whether the host has named that model, or else it is the caller's own text. */
  readonly modelListed: boolean;
  readonly stream: boolean;
  /** The upstream's host name, and its port. */
  readonly address: string;
  readonly port: number;
}

/** Watches one exchange with an upstream. */
export interface UpstreamObserver {
  /** Headers to send with the request, such as `traceparent`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Runs what sends the request, at once and once, and returns what that returns. */
  run<Result>(work: () => Result): Result;
  /** The exchange is over; called once. */
  end(outcome: UpstreamOutcome): void;
}

/** How an exchange with an upstream ended; undefined where that is not known. */
export interface UpstreamOutcome {
  /** The HTTP status of its answer. */
  readonly status?: number | undefined;
  /** Why it failed or was cut; undefined where nothing went wrong. */
  readonly errorCode?: GatewayErrorCode | undefined;
  /** The model that it says has answered. */
  readonly model?: string | undefined;
  /** Counts that the backend reported itself. */
  readonly usage?: Partial<Usage> | undefined;
  readonly finishReason?: FinishReason | undefined;
  /** How long the first event took, in milliseconds from when it was asked. */
  readonly firstEventMs?: number | undefined;
  /** How long all of it took, in milliseconds. */
  readonly endMs: number;
}
