/** A map that forgets by itself: what is old goes a whole generation at a time, which costs nothing per entry. */

/**
 * Entries by their id. The newest stand in one map, those before them in another. When the newer map is full, or old enough, it
 * takes the place of the older one, whose entries are forgotten together.
 */
export class Generations<Item> {
  readonly #capacity: number;
  readonly #ageMs: number;
  #newer = new Map<string, Item>();
  #older = new Map<string, Item>();
  /** When the newer map was begun, in milliseconds since the Unix epoch. */
  #begunAt: number;

  /**
   * Each entry stays until `capacity` more have come, or `ageMs` have passed, whichever is first; and none stays for more than
   * twice that.
   */
  constructor(capacity: number, ageMs: number, now: number) {
    this.#capacity = capacity;
    this.#ageMs = ageMs;
    this.#begunAt = now;
  }

  get(id: string): Item | undefined {
    return this.#newer.get(id) ?? this.#older.get(id);
  }

  add(id: string, item: Item, now: number): void {
    if (this.#capacity === 0) return;
    if (this.#newer.size >= this.#capacity) this.#rotate(now);
    this.#newer.set(id, item);
  }

  /** Forgets what is too old; to be called before each use. */
  age(now: number): void {
    const elapsed = now - this.#begunAt;
    if (elapsed < this.#ageMs) return;
    this.#rotate(now);
    // Nothing was added since, or the first of these calls would have begun a new map.
    if (elapsed >= 2 * this.#ageMs) this.#older = new Map();
  }

  #rotate(now: number): void {
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#begunAt = now;
  }
}
