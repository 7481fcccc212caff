/** The services that all calls of a gateway share. */

import type { Port } from "../errors.ts";
import type { BodyRoom } from "../http/body-room.ts";
import type { Price } from "../kinds/chat/price.ts";
import type { CountTokens } from "../kinds/count-tokens.ts";
import type { ImagePrice } from "../kinds/image/meter.ts";
import type { Limits } from "../limits.ts";
import type { Breaker } from "../ports/circuit-breaker.ts";
import type { Clock } from "../ports/clock.ts";
import type { CodeRunner } from "../ports/code-runner.ts";
import type { ModelBackend } from "../ports/model-backend.ts";
import type { Observer, OnCall, OnFailure } from "../ports/observer.ts";
import type { QuotaStore } from "../ports/quota-store.ts";
import type { RateLimiter } from "../ports/rate-limiter.ts";
import type { ResponseStore } from "../ports/response-store.ts";
import type { SharedRoom } from "../ports/shared-room.ts";
import type { ExhaustedKeys } from "./exhausted-keys.ts";
import type { Hooks } from "./hooks.ts";
import type { Replays } from "./idempotency.ts";
import type { InFlightCalls } from "./in-flight.ts";
import type { Settlements } from "./settlements.ts";

/** The host's store of responses, with the retention of its documents in milliseconds. */
export interface Responses {
  readonly store: ResponseStore;
  readonly retainMs: number;
}

export interface Services {
  readonly backend: ModelBackend;
  readonly quotas: QuotaStore;
  readonly rateLimiter: RateLimiter | undefined;
  readonly rateLimiterDown: "closed" | "open";
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly replays: Replays | undefined;
  /** Undefined when the host has no store of responses. */
  readonly responses: Responses | undefined;
  readonly codeRunner: CodeRunner | undefined;
  readonly price: Price;
  readonly imagePrice: ImagePrice;
  readonly countTokens: CountTokens;
  readonly countInput: "estimate" | "backend";
  readonly limits: Limits;
  readonly clock: Clock;
  readonly onFailure: OnFailure;
  readonly onCall: OnCall | undefined;
  readonly observer: Observer | undefined;
  /** Undefined when the host has no hooks. */
  readonly hooks: Hooks | undefined;
  /** True when `onCall`, an observer or the `after` of a hook wants records. Otherwise nothing is noted for records. */
  readonly isRecorded: boolean;
  /** Returns the aliases of a model. */
  readonly aliasesOf: (model: string) => readonly string[];
  readonly inFlight: InFlightCalls;
  /** The settlements of ended calls that the quota store has not taken yet. */
  readonly settlements: Settlements;
  readonly bodies: BodyRoom;
  /** Bounds the WebSockets, in all and of one key. */
  readonly sockets: SharedRoom;
  /** Ends each idle WebSocket, for a gateway that closes. */
  readonly connections: Set<() => void>;
  /** The keys that had no quota left when the store was last asked. */
  readonly exhausted: ExhaustedKeys;
  /** The circuit breakers of the store verbs that were used so far. */
  readonly breakers: Map<Port, Map<string, Breaker>>;
}
