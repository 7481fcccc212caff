/** Items that are written in batches behind the calls that made them: with bounded memory, and patient while the database is away. */

import { type Clock, LATE, systemClock, within } from "../ports/clock.ts";

/** An item that waits, and about how much memory it takes. */
interface Waiting<Item> {
  readonly item: Item;
  readonly bytes: number;
  /** The attempts at which the database has taken other items, but not this one. */
  refusals: number;
}

/** The places of a queue. */
interface WriteBehindOptions<Item> {
  /** Writes a batch, all of it or nothing. */
  readonly write: (items: readonly Item[]) => Promise<void>;
  /** Is told of the first failure of an outage, and of lost items. */
  readonly onError: (error: unknown) => void;
  readonly flushMs: number;
  readonly maxBytes: number;
  readonly clock?: Clock | undefined;
}

/** A transaction writes at most this many items. */
const MOST_AT_ONCE = 100;
/** An item that is refused so often is lost. */
const MOST_REFUSALS = 3;
/** The longest pause between two attempts while the database is away, in milliseconds. */
const LONGEST_PAUSE_MS = 30_000;
/** The attempts of `close`, and the pause between them in milliseconds. */
const [CLOSE_TRIES, CLOSE_PAUSE_MS] = [30, 1_000];
/** The longest wait of `close` for a database that is silent, in milliseconds. */
const CLOSE_MS = 30_000;

export class WriteBehind<Item> {
  readonly #options: WriteBehindOptions<Item>;
  readonly #clock: Clock;
  readonly #waiting: Waiting<Item>[] = [];
  #bytes = 0;
  #lost = 0;
  #failures = 0;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;

  constructor(options: WriteBehindOptions<Item>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Adds an item. When the memory is used up, the item is lost, and told. */
  add(item: Item, bytes: number): void {
    const { maxBytes, flushMs, onError } = this.#options;
    if (this.#bytes + bytes > maxBytes) {
      if (this.#lost++ === 0)
        onError(new Error("The calls that wait for the database fill their memory. Further calls get no record."));
      return;
    }
    this.#bytes += bytes;
    this.#waiting.push({ item, bytes, refusals: 0 });
    if (this.#failures === 0 && this.#waiting.length >= MOST_AT_ONCE) this.#start();
    else this.#arm(flushMs);
  }

  #arm(ms: number): void {
    this.#cancelTimer ??= this.#clock.after(ms, () => this.#start());
  }

  /** Writes without a caller: a failure is told, and tried again later. */
  #start(): void {
    const { flushMs, onError } = this.#options;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#writing) return this.#arm(flushMs);
    this.flush().then(
      // More items may have come meanwhile.
      () => void (this.#waiting.length > 0 && this.#arm(flushMs)),
      (error: unknown) => {
        if (this.#failures++ === 0) onError(error);
        this.#arm(Math.min(LONGEST_PAUSE_MS, flushMs * 2 ** Math.min(this.#failures, 20)));
      },
    );
  }

  /** Writes all items that wait now. Rejects when the database does not take them: they go on waiting. */
  async flush(): Promise<void> {
    for (let left = this.#waiting.length; left > 0 || this.#writing; left -= MOST_AT_ONCE) {
      // A batch is written after the one before it, also when several callers flush at once.
      this.#writing ??= this.#writeSome().finally(() => (this.#writing = undefined));
      await this.#writing;
    }
  }

  async #writeSome(): Promise<void> {
    const batch = this.#waiting.slice(0, MOST_AT_ONCE);
    if (batch.length === 0) return;
    const { write, onError } = this.#options;
    let left: readonly Waiting<Item>[] = [];
    await write(batch.map(({ item }) => item)).catch(async (error: unknown) => {
      const refused: Waiting<Item>[] = [];
      for (const one of batch.length > 1 ? batch : []) await write([one.item]).catch(() => refused.push(one));
      // When the database refuses every item, it is away.
      if (batch.length === 1 || refused.length === batch.length) throw error;
      // The database takes other items. It may refuse these, or have been away for a moment: try them again before they are lost.
      left = refused.filter((one) => ++one.refusals < MOST_REFUSALS);
      if (left.length < refused.length) onError(error);
      this.#lost += refused.length - left.length;
    });
    this.#waiting.splice(0, batch.length);
    this.#waiting.push(...left);
    for (const { bytes } of batch) this.#bytes -= bytes;
    for (const { bytes } of left) this.#bytes += bytes;
    this.#failures = 0;
    if (this.#lost === 0) return;
    onError(new Error(`${this.#lost} calls have no record. Their charges appear as unrecorded calls.`));
    this.#lost = 0;
  }

  /** Writes all waiting items, with some patience. Reports the lost ones, and never rejects. */
  async close(): Promise<void> {
    let failure: unknown;
    // The timers of the clock do not keep the process alive.
    const alive = setInterval(() => {}, CLOSE_PAUSE_MS);
    for (let tries = 1; this.#waiting.length > 0 && tries <= CLOSE_TRIES; tries++)
      try {
        if (tries > 1) await new Promise<void>((resolve) => this.#clock.after(CLOSE_PAUSE_MS, resolve));
        if ((await within(this.flush(), CLOSE_MS, this.#clock)) === LATE) {
          failure = new Error("The database has not answered in time.");
          break;
        }
      } catch (error) {
        failure = error;
      }
    clearInterval(alive);
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const lost = this.#waiting.splice(0).length;
    if (lost > 0) this.#options.onError(new Error(`${lost} calls have no record.`, { cause: failure }));
  }
}
