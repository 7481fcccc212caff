/** The holds of a ledger by their ids, and how long those that are over are remembered. */

/** What is remembered of a hold. */
export interface Remembered {
  readonly id: string;
  /** When it was resolved or refused, in milliseconds since the Unix epoch. */
  overAt: number;
}

/** How long a hold that is over is remembered at most, so that a repeated call changes nothing and a late one corrects. */
const REMEMBERED_MS = 3_600_000;

/** Holds under their ids. Live ones are kept; of those that are over, the oldest are forgotten. */
export class Holds<Hold extends Remembered> {
  readonly #byId = new Map<string, Hold>();
  readonly #expired = new Queue<Hold>();
  readonly #closed = new Queue<Hold>();
  readonly #maxClosed: number;

  /** @param maxClosed How many settled and refused holds are remembered. */
  constructor(maxClosed: number) {
    this.#maxClosed = maxClosed;
  }

  get(id: string): Hold | undefined {
    return this.#byId.get(id);
  }

  /** Takes up a live hold. */
  open(hold: Hold): void {
    this.#byId.set(hold.id, hold);
  }

  /** Forgets a live hold. */
  drop(hold: Hold): void {
    this.#byId.delete(hold.id);
  }

  /** Its lease has run out. It is remembered for the whole time, whatever came since: its true count may still arrive. */
  expire(hold: Hold, now: number): void {
    hold.overAt = now;
    this.#expired.push(hold);
  }

  /** Nothing can change it any more. */
  close(hold: Hold, now: number): void {
    hold.overAt = now;
    this.#byId.set(hold.id, hold);
    this.#closed.push(hold);
    if (this.#closed.length > this.#maxClosed) this.#forgetFirst(this.#closed);
  }

  /** Forgets what is too old. */
  forget(now: number): void {
    for (const queue of [this.#expired, this.#closed])
      while (queue.first && queue.first.overAt + REMEMBERED_MS <= now) this.#forgetFirst(queue);
  }

  #forgetFirst(queue: Queue<Hold>): void {
    const hold = queue.shift();
    if (hold) this.#byId.delete(hold.id);
  }
}

/** First in, first out, in constant time. */
class Queue<Item> {
  #items: (Item | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): Item | undefined {
    return this.#items[this.#head];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    // Copied once in a while, because an array's own shift moves all that follow.
    if (this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
