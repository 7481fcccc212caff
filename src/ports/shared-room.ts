/** Divides a bounded room among API keys, so that no key can take the room that another key needs. */

/**
 * Uses the dynamic thresholds of a shared buffer (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
 * 1998). A key may hold a fixed multiple of the free room, and never more than `mostPerKey`. With `mostPerKey` at half of the room, the
 * multiple is 1: the first key can take half of the room, the second key half of the rest, and a key that holds nothing always finds some
 * room.
 *
 * This class only counts. Its callers choose the error of a refusal.
 *
 * @example
 * const room = new SharedRoom(100, 50);
 * if (room.take(key.id, 30)) throw busy();
 * …
 * room.remove(key.id, 30);
 */
export class SharedRoom {
  readonly capacity: number;
  /** The most that one key can hold. A key can take this much only while other keys hold nothing. */
  readonly mostPerKey: number;
  /** The amount that all keys hold together. */
  taken = 0;
  /** A key may hold this multiple of the free room. */
  readonly #multiple: number;
  readonly #byKey = new Map<string, number>();

  /**
   * @param mostPerKey The limit of one key. If it is the whole capacity, sharing is off, and one key may keep all others out.
   * @param names The names of the two numbers in errors.
   * @throws RangeError for a number that is not a positive integer.
   */
  constructor(
    capacity: number,
    mostPerKey: number = Math.ceil(capacity / 2),
    names: readonly string[] = ["capacity", "mostPerKey"],
  ) {
    for (const [index, value] of [capacity, mostPerKey].entries())
      if (!Number.isSafeInteger(value) || value < 1)
        throw new RangeError(`${names[index]} must be a positive integer, not ${value}`);
    this.capacity = capacity;
    this.mostPerKey = Math.min(capacity, mostPerKey);
    this.#multiple = Math.max(1, this.mostPerKey / (capacity - this.mostPerKey));
  }

  get free(): number {
    return this.capacity - this.taken;
  }

  heldBy(keyId: string): number {
    return this.#byKey.get(keyId) ?? 0;
  }

  /**
   * Returns the reason why a key cannot take `amount` more; undefined if it can. `room`: too little is free. `share`: the key would exceed
   * its share.
   */
  refuses(keyId: string, amount: number): "room" | "share" | undefined {
    const free = this.capacity - this.taken - amount;
    if (free < 0) return "room";
    const held = this.#byKey.get(keyId) ?? 0;
    if (held + amount > this.mostPerKey) return "share";
    // Allow one more than the threshold, so that a room with a small capacity can be filled.
    if (held + amount <= this.#multiple * free + 1 || this.mostPerKey === this.capacity) return undefined;
    return held === 0 ? "room" : "share";
  }

  /** Gives a key `amount` more, or returns the reason of a refusal, like `refuses`. */
  take(keyId: string, amount: number): "room" | "share" | undefined {
    const refusal = this.refuses(keyId, amount);
    if (!refusal) this.add(keyId, amount);
    return refusal;
  }

  /** Counts an amount without a check. An amount without a key counts only toward the whole room. */
  add(keyId: string | undefined, amount: number): void {
    if (amount === 0) return;
    this.taken += amount;
    if (keyId === undefined) return;
    const held = (this.#byKey.get(keyId) ?? 0) + amount;
    if (held === 0) this.#byKey.delete(keyId);
    else this.#byKey.set(keyId, held);
  }

  /** Frees an amount that was counted. */
  remove(keyId: string | undefined, amount: number): void {
    this.add(keyId, -amount);
  }
}
