/** The health of a gateway, for the health checks of its host. */

import type { Port } from "../errors.ts";
import type { CallInfo } from "../ports/call-info.ts";
import { LATE, within } from "../ports/clock.ts";
import type { UpstreamStatus } from "../ports/observer.ts";
import { databaseOf, type QuotaRecalls, type QuotaStore, UNMIGRATED } from "../ports/quota-store.ts";
import { quietly, report } from "./reports.ts";
import type { Services } from "./services.ts";

/** The options of a health check. */
export interface HealthOptions<Context = unknown> {
  /** The longest wait for the quota store, in milliseconds. A store that takes longer is `unreachable`. From 1 to 2³¹ − 1; default: 1 second. */
  readonly timeoutMs?: number;
  /** The host's own context for the stores, where they find their database by it. Each check with a context asks the store. Default: undefined. */
  readonly context?: Context;
}

/** The health of a gateway. It can be shown as JSON, and contains no secret. */
export interface GatewayHealth {
  /** True when the gateway takes calls: it is not closing, and its quota store answers and takes writes. */
  readonly ready: boolean;
  /** True from the call of `close` on. */
  readonly closing: boolean;
  /** The number of calls that have begun and are not yet settled. */
  readonly calls: number;
  /** The number of settlements of ended calls that the quota store has not accepted yet. They are retried. */
  readonly waitingSettlements: number;
  /** The state of each store and of the rate limiter. */
  readonly stores: Readonly<Partial<Record<Port, StoreHealth>>>;
  /** The reason for each store that is not `ok`, in a sentence. `onFailure` receives the cause. */
  readonly reasons: Readonly<Partial<Record<Port, string>>>;
  /** The number of upstreams that are not asked for now, because their circuit breaker is open or they have asked for a pause. */
  readonly restingUpstreams: number;
  /** The state of each upstream; empty for a backend without `status`. */
  readonly upstreams: readonly UpstreamStatus[];
}

/**
 * The state of a store.
 * - `ok`: the store answers, or nothing is known against it. The check asks only the quota store; other stores of the same `openStores` share
 *   its trouble, and so does a rate limiter with its counters. A check after a failure, and otherwise each ten seconds, also writes a recall to
 *   the store, if it has the verb `recall`: a database that is read-only or full still answers.
 * - `resting`: the store has hung several times in a row, and calls do not wait for it for a while.
 * - `unmigrated`: the store answers, but its tables are not of this release.
 * - `read-only`: the database answers, and takes no writes, as a replica does.
 * - `unreachable`: the store has failed, is full, or has not answered in time.
 */
export type StoreHealth = "ok" | "resting" | "unmigrated" | "read-only" | "unreachable";

/** The default wait for the quota store, in milliseconds. */
const TIMEOUT_MS = 1_000;

/** The time for which an answer of the quota store is used again, in milliseconds: a check may be asked for by anybody. */
const FRESH_MS = 1_000;

/** The time for which a question without an answer is not asked again, in milliseconds: a store that hangs may keep each one. */
const PENDING_MS = 10_000;

/** The time for which a write counts, in milliseconds: a database may become read-only while no call writes. */
const WRITTEN_MS = 10_000;

/** The time for which the answer to a check with a context stands for the metric of readiness, in milliseconds. */
const BY_CONTEXT_MS = 60_000;

/** The id of a key that no store has: its balance is read, and only a recall of it is written, which no process heeds. */
const NO_KEY = "polygate-health";

/** The trouble of a store. */
interface Trouble {
  readonly state: Exclude<StoreHealth, "ok" | "resting">;
  readonly reason: string;
  /** The error for `onFailure`. */
  readonly thrown: unknown;
}

const RESTING = "The store has hung several times in a row.";
const TOO_LATE = "The store has not answered in time.";

/** Checks the health of one gateway. Checks that come together share one query of the store. */
export class Health {
  readonly #services: Services;
  #asked: Promise<Trouble | undefined> | undefined = undefined;
  #askedAt = 0;
  /** The time of the last write. */
  #writtenAt = -Infinity;
  /** The last question with a context, and its time. */
  #byContext: { readonly asked: Promise<Trouble | undefined>; readonly at: number } | undefined = undefined;
  #isPending = false;
  /** The reason that `onFailure` has heard of; undefined while the store answers. */
  #told: string | undefined = undefined;

  constructor(services: Services) {
    this.#services = services;
  }

  /** Never rejects. */
  check({ timeoutMs = TIMEOUT_MS, context }: HealthOptions): Promise<GatewayHealth> {
    const asked = this.#ask(context);
    if (context !== undefined) this.#byContext = { asked, at: this.#services.clock.now() };
    return this.#health(asked, timeoutMs);
  }

  /** Tells a metric whether the gateway is ready. A store that is asked with a context may fail without one, so its last answer stands a while. */
  async isReady(): Promise<boolean> {
    const { asked, at } = this.#byContext ?? { at: -Infinity };
    const isRecent = this.#services.clock.now() < at + BY_CONTEXT_MS;
    return (await this.#health((isRecent && asked) || this.#ask(undefined), TIMEOUT_MS)).ready;
  }

  async #health(asked: Promise<Trouble | undefined>, waitMs: number): Promise<GatewayHealth> {
    const { clock, inFlight, settlements, quotas, rateLimiter, replays } = this.#services;
    const answer = await within(asked, waitMs, clock);
    const trouble = answer === LATE ? late(waitMs) : answer;
    this.#tell(trouble);
    const closing = inFlight.isClosing;
    const upstreams = upstreamStatus(this.#services);
    const database = databaseOf(quotas);
    const states = Object.entries({
      "quota-store": quotas,
      "rate-limiter": rateLimiter,
      "replay-store": replays?.store,
    })
      .filter(([, store]) => store !== undefined)
      .map(([port, store = quotas]): [Port, StoreHealth] => {
        const isAway = trouble && (store === quotas || (database && databaseOf(store) === database));
        return [port as Port, isAway ? trouble.state : this.#resting(port as Port)];
      });
    return {
      ready: trouble === undefined && !closing,
      closing,
      calls: inFlight.size,
      waitingSettlements: settlements.size,
      stores: Object.fromEntries(states),
      reasons: Object.fromEntries(
        states.flatMap(([port, state]) =>
          state === "ok" ? [] : [[port, state === "resting" ? RESTING : trouble?.reason]],
        ),
      ),
      restingUpstreams: upstreams.filter(({ waitMs }) => waitMs > 0).length,
      upstreams,
    };
  }

  /** Reports a trouble once, until the store answers again or has another trouble. */
  #tell(trouble: Trouble | undefined): void {
    if (trouble && trouble.reason !== this.#told)
      report({ id: "health check", secret: undefined, services: this.#services }, trouble.thrown, "quota-store");
    this.#told = trouble?.reason;
  }

  #resting(port: Port): StoreHealth {
    const breakers = [...(this.#services.breakers.get(port)?.values() ?? [])];
    return breakers.some(({ waitMs }) => waitMs > 0) ? "resting" : "ok";
  }

  /** Resolves with the trouble of the quota store, if any. Asks again when the last answer is too old. */
  #ask(context: unknown): Promise<Trouble | undefined> {
    const now = this.#services.clock.now();
    // A runtime that hands a context to each request, as Workers do, does not let one request wait for another's.
    const keptMs = this.#isPending ? PENDING_MS : FRESH_MS;
    if (context === undefined && this.#asked && now >= this.#askedAt && now < this.#askedAt + keptMs)
      return this.#asked;
    this.#askedAt = now;
    this.#isPending = true;
    const call = { requestId: NO_KEY, context, headers: new Headers(), clientAddress: undefined };
    const answered = this.#probe(call)
      .then(() => undefined, troubleOf)
      .finally(() => {
        if (this.#asked === answered) this.#isPending = false;
      });
    this.#asked = answered;
    return answered;
  }

  /** Reads from the quota store, and writes to it if its last write is old or in doubt. Rejects when the store fails. */
  async #probe(call: CallInfo): Promise<void> {
    const { clock, doubted } = this.#services;
    // The cast is safe: a store may have more verbs than its port.
    const quotas = this.#services.quotas as QuotaStore & Partial<QuotaRecalls>;
    await quotas.balance(NO_KEY, call);
    const now = clock.now();
    const isFresh = now >= this.#writtenAt && now < this.#writtenAt + WRITTEN_MS;
    if (!quotas.recall || (isFresh && !doubted.quotas)) return;
    doubted.quotas = false;
    this.#writtenAt = now;
    try {
      await quotas.recall(NO_KEY);
    } catch (error) {
      doubted.quotas = true;
      throw error;
    }
  }
}

const late = (timeoutMs: number): Trouble => ({
  state: "unreachable",
  reason: TOO_LATE,
  thrown: new Error(`The quota store has not answered a health check within ${timeoutMs} ms.`),
});

/** The codes of the errors of systems, such as ECONNREFUSED, and of databases, such as 28P01. They contain no secret. */
const CODE = /^(?:E[A-Z_]{2,40}|SQLITE_[A-Z_]{2,40}|[0-9A-Z]{5})$/;

/** The first words of Redis for a server that takes no writes. */
const REDIS_CODE = /^(?:READONLY|OOM|MISCONF|NOREPLICAS)(?= )/;

/** The codes behind the numbers of `node:sqlite`, whose errors all have the same code. */
const SQLITE_CODES: Readonly<Record<number, string>> = { 8: "SQLITE_READONLY", 13: "SQLITE_FULL" };

function troubleOf(thrown: unknown): Trouble {
  const { code, message } = quietly(() => {
    const { code, errcode, message } = thrown as Readonly<Record<"code" | "errcode" | "message", unknown>>;
    // The low byte of an extended number tells the kind.
    return { code: SQLITE_CODES[Number(errcode) & 0xff] ?? code, message: String(message) };
  }) ?? { code: undefined, message: "" };
  if (code === UNMIGRATED) return { state: "unmigrated", reason: message, thrown };
  const named = typeof code === "string" && CODE.test(code) ? code : REDIS_CODE.exec(message)?.[0];
  if (named !== undefined && READ_ONLY.test(named))
    return { state: "read-only", reason: `The database is read-only (${named}).`, thrown };
  const words = named && MEANINGS.find(([codes]) => codes.test(named))?.[1];
  const reason = `The store has failed${words ? `: ${words}` : ""}${named ? ` (${named})` : ""}.`;
  return { state: "unreachable", reason, thrown };
}

/** The codes of a database that takes no writes. */
const READ_ONLY = /^25006|READ_?ONLY|^ER_OPTION_PREVENTS/;

/** The well-known codes, in words. */
const MEANINGS: readonly (readonly [codes: RegExp, words: string])[] = [
  [/^3D000|^ER_BAD_DB/, "the database does not exist"],
  [/^28|^ER_ACCESS_DENIED/, "the user or the password is wrong"],
  [/^ECONNREFUSED/, "nobody answers at its address"],
  [/^ENOTFOUND/, "the name of its host is unknown"],
  [/^55000/, "the database takes no connections"],
  [/^53100|^ER_DISK_FULL|^ER_RECORD_FILE_FULL|^SQLITE_FULL|^MISCONF/, "its disk is full"],
  [/^OOM/, "its memory is full"],
];

/** Returns the state of the backend's upstreams; none when the backend does not tell it, or fails, and no entry that names no route. */
export const upstreamStatus = ({ backend }: Pick<Services, "backend">): readonly UpstreamStatus[] =>
  quietly(() => {
    const told = backend.status?.();
    return Array.isArray(told) ? told.filter((one) => typeof one?.route === "string") : [];
  }) ?? [];
