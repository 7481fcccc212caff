/** A host's numbers in place of the defaults, checked before a call depends on them. */

/** What a number may be. */
export interface NumberRule {
  /** After "must be". */
  readonly words: string;
  allows(value: number): boolean;
}

export const POSITIVE: NumberRule = {
  words: "a positive integer",
  allows: (value) => Number.isSafeInteger(value) && value >= 1,
};

export const FROM_ZERO: NumberRule = {
  words: "an integer from 0 up",
  allows: (value) => Number.isSafeInteger(value) && value >= 0,
};

/** Timers fire at once where they are set for later than this. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The defaults with a host's overrides, of which an undefined one is none. Throws a RangeError that names one which breaks its rule
 * (unless told, it must be a positive integer), is a time of more than a timer can wait, or does not exist.
 *
 * @param option What the error calls the whole of them, such as `limits`.
 */
export function overridden<Numbers extends Readonly<Record<keyof Numbers, number>>>(
  option: string,
  defaults: Numbers,
  overrides: Partial<Numbers> = {},
  rules: Partial<Readonly<Record<keyof Numbers, NumberRule>>> = {},
): Numbers {
  const result: Numbers = { ...defaults };
  for (const [key, value] of Object.entries<number | undefined>(overrides)) {
    const name = `${option}.${key}`;
    if (!isKeyOf(defaults, key))
      throw new RangeError(`${name} does not exist; there are ${Object.keys(defaults).join(", ")}`);
    if (value === undefined) continue;
    const rule = rules[key] ?? POSITIVE;
    if (!rule.allows(value)) throw new RangeError(`${name} must be ${rule.words}, not ${String(value)}`);
    if (key.endsWith("Ms") && value > MAX_TIMER_MS)
      throw new RangeError(`${name} must be at most ${MAX_TIMER_MS} ms, the longest that a timer waits, not ${value}`);
    Object.assign(result, { [key]: value });
  }
  return result;
}

const isKeyOf = <Value extends object>(value: Value, key: PropertyKey): key is keyof Value & string =>
  Object.hasOwn(value, key);
