/** What a gateway's calls work with, all of it decided. */

import type { Port } from "../errors.ts";
import type { BodyRoom } from "../http/body-room.ts";
import type { Limits } from "../limits.ts";
import type { CountTokens } from "../metering/count-tokens.ts";
import type { ImagePrice } from "../metering/image-price.ts";
import type { Price } from "../metering/price.ts";
import type { Breaker } from "../ports/breaker.ts";
import type { Clock } from "../ports/clock.ts";
import type { CodeRunner } from "../ports/code-runner.ts";
import type { ModelBackend } from "../ports/model-backend.ts";
import type { QuotaStore } from "../ports/quota-store.ts";
import type { RateLimiter } from "../ports/rate-limiter.ts";
import type { Observer } from "../ports/call-observer.ts";
import type { OnCall, OnFailure } from "../ports/observer.ts";
import type { ExhaustedKeys } from "./exhausted-keys.ts";
import type { InFlightCalls } from "./in-flight.ts";
import type { Replays } from "./replays.ts";
import type { Settlements } from "./settlements.ts";

export interface Services {
  readonly backend: ModelBackend;
  readonly quotas: QuotaStore;
  readonly rateLimiter: RateLimiter | undefined;
  readonly rateLimiterDown: "closed" | "open";
  /** Undefined where the host has no store for answers: then no call is one that may be repeated. */
  readonly replays: Replays | undefined;
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
  /** Whether either of the two wants records: where not, nothing is noted for them. */
  readonly isRecorded: boolean;
  /** The other names that callers and keys may know a model by. */
  readonly aliasesOf: (model: string) => readonly string[];
  readonly inFlight: InFlightCalls;
  /** Of calls that have ended, what the quota store has not taken yet. */
  readonly settlements: Settlements;
  readonly bodies: BodyRoom;
  /** The keys that had nothing left when the quota store was last asked. */
  readonly exhausted: ExhaustedKeys;
  /** Of each verb of a store that was asked so far. */
  readonly breakers: Map<Port, Map<string, Breaker>>;
}
