/** Replaces default numbers by the host's own, and checks these before any call uses them. */

import { MAX_TIMER_MS, unknownName, quoted } from "./options.ts";

/** A rule for the value of an option that is a number. */
export interface NumberRule {
  /** The words after "must be" in the error. */
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

/**
 * Returns the defaults with a host's overrides. An undefined override counts as absent.
 *
 * @param option The name of the option in errors, such as `limits`.
 * @param rules The rule of each number, by name. Default: a positive integer.
 * @throws RangeError that names an override which breaks its rule, is longer than a timer can wait, or does not exist.
 */
export function overridden<Numbers extends Readonly<Record<keyof Numbers, number>>>(
  option: string,
  defaults: Numbers,
  overrides: Partial<Numbers> = {},
  rules: Partial<Readonly<Record<keyof Numbers, NumberRule>>> = {},
): Numbers {
  if (typeof overrides !== "object" || overrides === null || Array.isArray(overrides))
    throw new TypeError(`${option} must be an object of numbers.`);
  const result: Numbers = { ...defaults };
  for (const [key, value] of Object.entries<number | undefined>(overrides)) {
    const name = `${option}.${key}`;
    if (!isKeyOf(defaults, key)) throw new RangeError(`${option}.${unknownName(key, Object.keys(defaults))}`);
    if (value === undefined) continue;
    const rule = rules[key] ?? POSITIVE;
    if (!rule.allows(value)) throw new RangeError(`${name} must be ${rule.words}, not ${quoted(value)}`);
    if (key.endsWith("Ms") && value > MAX_TIMER_MS)
      throw new RangeError(`${name} must be at most ${MAX_TIMER_MS} ms, the longest that a timer waits, not ${value}`);
    Object.assign(result, { [key]: value });
  }
  return result;
}

const isKeyOf = <Value extends object>(value: Value, key: PropertyKey): key is keyof Value & string =>
  Object.hasOwn(value, key);
