/** A queue of the item that comes first in some order, for items whose rank changes. */

/** A binary heap whose items can be moved and deleted. Each operation takes logarithmic time. */
export class Heap<T> {
  readonly #isBefore: (one: T, other: T) => boolean;
  readonly #items: T[] = [];
  readonly #positions = new Map<T, number>();

  constructor(isBefore: (one: T, other: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get top(): T | undefined {
    return this.#items[0];
  }

  /** Adds an item, or moves it after its rank has changed. */
  place(item: T): void {
    const at = this.#positions.get(item) ?? this.#items.length;
    this.#down(item, this.#up(item, at));
  }

  delete(item: T): void {
    const at = this.#positions.get(item);
    if (at === undefined) return;
    this.#positions.delete(item);
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#down(last, this.#up(last, at));
  }

  /** Moves the items above a free position down until `item` fits. Returns the position where it fits. */
  #up(item: T, from: number): number {
    let at = from;
    while (at > 0) {
      const above = this.#items[(at - 1) >> 1];
      if (above === undefined || !this.#isBefore(item, above)) break;
      this.#set(at, above);
      at = (at - 1) >> 1;
    }
    return at;
  }

  /** Moves the items below a free position up until `item` fits, and puts it there. */
  #down(item: T, from: number): void {
    let at = from;
    for (;;) {
      const [left, right] = [this.#items[2 * at + 1], this.#items[2 * at + 2]];
      const isRight = left !== undefined && right !== undefined && this.#isBefore(right, left);
      const below = isRight ? right : left;
      if (below === undefined || !this.#isBefore(below, item)) break;
      this.#set(at, below);
      at = 2 * at + (isRight ? 2 : 1);
    }
    this.#set(at, item);
  }

  #set(at: number, item: T): void {
    this.#items[at] = item;
    this.#positions.set(item, at);
  }
}
