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
  readonly #ask: (isRefused: boolean) => Promise<Expiring<Value>>;
  readonly #now: () => number;
  readonly #limitMs: number;
  #known: Expiring<Value> | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  /** The time of the last renewal after a refusal. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  #running: Renewal<Value> | undefined;
  /** The number of the last request, and that of the request whose value is known. */
  #lastNumber = 0;
  #knownNumber = 0;

  /**
   * @param ask Returns a new value. Its own errors reach those who wait. The argument is true when the last value was refused.
   * @param limitMs A request that takes longer, in milliseconds, is given up: the next wait begins another one.
   */
  constructor(ask: (isRefused: boolean) => Promise<Expiring<Value>>, now: () => number, limitMs: number) {
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

  /** Returns a replacement for a refused value; undefined if there is none. */
  async after(refused: Value): Promise<Value | undefined> {
    const now = this.#now();
    if (this.#known && this.#known.value !== refused) return this.get();
    if (!this.#runningAt(now)) {
      // A clock may be set back.
      if (Math.abs(now - this.#refusedAt) < REST_MS) return undefined;
      this.#refusedAt = now;
    }
    const value = await this.#renewed(now, true);
    return value === refused ? undefined : value;
  }

  /** Returns the running request, unless it is given up. No timer gives it up: in Workers, a timer belongs to the call that has set it. */
  #runningAt(now: number): Renewal<Value> | undefined {
    const running = this.#running;
    return running && Math.abs(now - running.startedAt) < this.#limitMs ? running : undefined;
  }

  #renewed(now: number, isRefused = false): Promise<Value> {
    const running = this.#runningAt(now);
    if (running) return running.value;
    const number = ++this.#lastNumber;
    const value = this.#ask(isRefused).then((asked) => this.#keep(asked, now, number));
    const request = (this.#running = { startedAt: now, value });
    const end = (): void => {
      if (this.#running === request) this.#running = undefined;
    };
    value.then(end, end);
    return value;
  }

  #keep({ value, expiresAt }: Expiring<Value>, askedAt: number, number: number): Value {
    // A request that was given up may answer later than a newer one.
    if (number < this.#knownNumber) return value;
    this.#knownNumber = number;
    this.#known = { value, expiresAt };
    if (expiresAt === undefined) this.#dueAt = Number.POSITIVE_INFINITY;
    else {
      const earlyMs = Math.min(EARLY_MS, (expiresAt - askedAt) * EARLY_SHARE);
      this.#dueAt = Math.max(expiresAt - earlyMs, askedAt + REST_MS);
    }
    return value;
  }
}
