/** A value that expires, such as a key: kept, renewed early, and asked for by one request at a time. */

/** A value, and the time at which it expires, in milliseconds since the Unix epoch. Without a time, it is valid until it is refused. */
export interface Expiring<Value> {
  readonly value: Value;
  readonly expiresAt: number | undefined;
}

/** A value is renewed this long before it expires, in milliseconds, or after four fifths of a short life. */
const EARLY_MS = 5 * 60_000;
const EARLY_SHARE = 1 / 5;

/** The least time between two early renewals, and between two renewals after a refusal, in milliseconds. */
const REST_MS = 10_000;

/** A request for a new value. */
interface Renewal<Value> {
  readonly startedAt: number;
  readonly value: Promise<Value>;
}

export class Renewing<Value> {
  readonly #ask: () => Promise<Expiring<Value>>;
  readonly #now: () => number;
  readonly #limitMs: number;
  #known: Expiring<Value> | undefined;
  /** The time of the next early renewal. */
  #dueAt = Number.POSITIVE_INFINITY;
  /** The time up to which a refusal renews nothing, because the last renewal after one is too new. */
  #restsUntil = Number.NEGATIVE_INFINITY;
  #running: Renewal<Value> | undefined;

  /**
   * @param ask Returns a new value. Its own errors reach those who wait.
   * @param limitMs A request that takes longer, in milliseconds, is given up: the next wait begins another one.
   */
  constructor(ask: () => Promise<Expiring<Value>>, now: () => number, limitMs: number) {
    this.#ask = ask;
    this.#now = now;
    this.#limitMs = limitMs;
  }

  /** Returns the value; a promise of it when it must be asked for. Rejects when the request fails. */
  get(): Value | Promise<Value> {
    const now = this.#now();
    const known = this.#known;
    if (!known || now >= (known.expiresAt ?? Number.POSITIVE_INFINITY)) return this.#renewed(now);
    if (now >= this.#dueAt) {
      this.#dueAt = now + REST_MS;
      // A failure is tried again later. It is met by a call when the value has expired.
      this.#renewed(now).catch(() => {});
    }
    return known.value;
  }

  /** Returns another value in place of one that was refused; undefined when there is no other. */
  async after(refused: Value): Promise<Value | undefined> {
    const now = this.#now();
    if (this.#known && this.#known.value !== refused) return this.get();
    if (now < this.#restsUntil) return undefined;
    this.#restsUntil = now + REST_MS;
    const value = await this.#renewed(now);
    return value === refused ? undefined : value;
  }

  #renewed(now: number): Promise<Value> {
    const running = this.#running;
    // No timer gives a request up: in Workers, a timer belongs to the call that has set it.
    if (running && Math.abs(now - running.startedAt) < this.#limitMs) return running.value;
    const request: Renewal<Value> = {
      startedAt: now,
      value: this.#ask().then((asked) => this.#keep(asked, now, request)),
    };
    this.#running = request;
    const end = (): void => {
      if (this.#running === request) this.#running = undefined;
    };
    request.value.then(end, end);
    return request.value;
  }

  #keep({ value, expiresAt }: Expiring<Value>, askedAt: number, request: object): Value {
    // A request that was given up may answer later than the next one.
    if (this.#running !== request) return value;
    this.#known = { value, expiresAt };
    if (expiresAt === undefined) this.#dueAt = Number.POSITIVE_INFINITY;
    else {
      const earlyMs = Math.min(EARLY_MS, (expiresAt - askedAt) * EARLY_SHARE);
      this.#dueAt = Math.max(expiresAt - earlyMs, askedAt + REST_MS);
    }
    return value;
  }
}
