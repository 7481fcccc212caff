/** Averages that a route learns from answers: the chance that a prefix is still cached, and means that forget. */

/** The time after which half of what was learned is forgotten, in milliseconds. */
const HALF_LIFE_MS = 1_800_000;
/** The number of observations that the first guess counts for. */
const GUESS_WEIGHT = 4;

/** Returns the weight of something learned so long ago, from 1 to 0. */
export const decay = (ms: number): number => 2 ** (-Math.max(0, ms) / HALF_LIFE_MS);

/** The chance of something that has been seen to come true in a share of cases. Old cases count less. */
export class Chance {
  readonly #guess: number;
  #true = 0;
  #all = 0;
  #at = 0;

  /** @param guess The chance before anything is known. */
  constructor(guess: number) {
    this.#guess = guess;
  }

  at(now: number): number {
    const factor = decay(now - this.#at);
    return (this.#true * factor + this.#guess * GUESS_WEIGHT) / (this.#all * factor + GUESS_WEIGHT);
  }

  /** @param share How far it came true, from 0 to 1. */
  add(share: number, now: number): void {
    const factor = decay(now - this.#at);
    this.#true = this.#true * factor + share;
    this.#all = this.#all * factor + 1;
    this.#at = now;
  }
}

/** The weight of the newest observation in a mean. */
const NEWEST = 0.1;

/** A mean that forgets: undefined until the first observation. */
export class Mean {
  value: number | undefined = undefined;

  add(observed: number): void {
    this.value = this.value === undefined ? observed : this.value + NEWEST * (observed - this.value);
  }
}

/** Upper ends of the ages of a prefix, in lifetimes. Each has a chance of its own, so that the real lifetimes of vendors are learned. */
const AGES = [0.2, 0.5, 1, 2, 4, Number.POSITIVE_INFINITY];
/** The first guess of the chance within a lifetime, and after it. */
const [WITHIN, AFTER] = [0.9, 0.1];

/** The chances that one upstream still has a prefix, by its age. */
export class CacheChances {
  readonly #byAge = AGES.map((age) => new Chance(age <= 1 ? WITHIN : AFTER));

  /** @param lifetimes The age of the prefix, in lifetimes. */
  of(lifetimes: number): Chance {
    const chance = this.#byAge[AGES.findIndex((end) => lifetimes <= end)];
    if (!chance) throw new RangeError(`${lifetimes} is no age`);
    return chance;
  }
}
