/** Divides a bounded room among api keys, so that no key can take what another key needs. */

/**
 * The thresholds of a shared buffer (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
 * 1998). A key may hold a fixed multiple of what is still free, and never more than `mostPerKey`. Where `mostPerKey` is half of the
 * room, the multiple is 1: the first key can take half, the second half of the rest, and a key that holds nothing always finds some.
 *
 * The class counts only; what a refusal is called is up to the caller.
 *
 * @example
 * const room = new SharedRoom(100, 50);
 * if (room.refuses(key.id, 30)) throw busy();
 * room.add(key.id, 30);
 * …
 * room.remove(key.id, 30);
 */
export class SharedRoom {
  readonly capacity: number;
  /** The most that one key can hold, which it finds only while the others hold nothing. */
  readonly mostPerKey: number;
  /** A key may hold this multiple of the free room. */
  readonly #multiple: number;
  #taken = 0;
  readonly #byKey = new Map<string, number>();

  /**
   * @param mostPerKey The whole capacity means that one key may keep all others out.
   * @param names What the error calls the two numbers.
   * @throws RangeError that names the one which is no positive integer.
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

  /** What all keys hold together. */
  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return this.capacity - this.#taken;
  }

  heldBy(keyId: string): number {
    return this.#byKey.get(keyId) ?? 0;
  }

  /** Why a key cannot have so much more: the `room` has too little for anybody, or the key has its `share`; undefined where it can. */
  refuses(keyId: string, amount: number): "room" | "share" | undefined {
    const free = this.free - amount;
    if (free < 0) return "room";
    const held = this.heldBy(keyId);
    if (held + amount > this.mostPerKey) return "share";
    // One more than the threshold, so that a room of few places can be filled.
    if (held + amount <= this.#multiple * free + 1 || this.mostPerKey === this.capacity) return undefined;
    return held === 0 ? "room" : "share";
  }

  /** Counts what was given, to a key or to nobody in particular. */
  add(keyId: string | undefined, amount: number): void {
    this.#taken += amount;
    if (keyId === undefined || amount === 0) return;
    const held = this.heldBy(keyId) + amount;
    if (held === 0) this.#byKey.delete(keyId);
    else this.#byKey.set(keyId, held);
  }

  /** Counts what was given back. */
  remove(keyId: string | undefined, amount: number): void {
    this.add(keyId, -amount);
  }
}
