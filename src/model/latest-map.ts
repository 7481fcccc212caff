/** Remembers the latest entries of names that callers or hosts choose, so that no number of names fills the memory. */

/** A map of the entries that were set last. */
export class LatestMap<Value> {
  readonly #most: number;
  readonly #entries = new Map<string, Value>();

  /** @param most The most entries. */
  constructor(most: number) {
    this.#most = most;
  }

  get(name: string): Value | undefined {
    return this.#entries.get(name);
  }

  /** Sets an entry, which becomes the latest, and forgets the oldest one of too many. */
  set(name: string, value: Value): void {
    this.#entries.delete(name);
    this.#entries.set(name, value);
    if (this.#entries.size <= this.#most) return;
    const [oldest = name] = this.#entries.keys();
    this.#entries.delete(oldest);
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }

  /** The names, the oldest first. */
  keys(): Iterable<string> {
    return this.#entries.keys();
  }
}
