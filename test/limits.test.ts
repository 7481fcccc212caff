/** A host's limits are taken over where they make sense, and refused by name where they do not. */

import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type Limits, resolveLimits } from "../src/limits.ts";

const names = Object.keys(DEFAULT_LIMITS) as (keyof Limits)[];
const times = names.filter((name) => name.endsWith("Ms"));

describe("limits", () => {
  it("are the defaults but for what a host sets", () => {
    expect(resolveLimits()).toEqual(DEFAULT_LIMITS);
    expect(resolveLimits({ leaseMs: 5 })).toEqual({ ...DEFAULT_LIMITS, leaseMs: 5 });
    const unset: object = { leaseMs: undefined };
    expect(resolveLimits(unset)).toEqual(DEFAULT_LIMITS);
  });

  it.each(
    names.flatMap((name) =>
      [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53].map((value) => [name, value] as const),
    ),
  )("refuse %s of %s", (name, value) => {
    expect(() => resolveLimits({ [name]: value })).toThrow(RangeError);
    expect(() => resolveLimits({ [name]: value })).toThrow(`limits.${name} `);
  });

  it("refuse what is no number", () => {
    const wrong: object = { leaseMs: "60000" };
    expect(() => resolveLimits(wrong)).toThrow(`limits.leaseMs must be a positive integer, not "60000"`);
  });

  it.each(times)("refuse %s beyond what a timer can wait, which would fire at once", (name) => {
    expect(resolveLimits({ [name]: 2 ** 31 - 1 })[name]).toBe(2 ** 31 - 1);
    expect(() => resolveLimits({ [name]: 2 ** 31 })).toThrow(`limits.${name} must be at most 2147483647 ms`);
  });

  it.each([
    ["deadlineMS", "did you mean deadlineMs? There are"],
    ["maxBodyBytes", "did you mean maxBodyBytesPerKey? There are"],
    ["toString", "there are"],
    ["__proto__", "there are"],
  ])("refuse %s, which does not exist", (name, words) => {
    const misspelt = JSON.parse(`{"${name}": 5}`) as object;
    expect(() => resolveLimits(misspelt)).toThrow(RangeError);
    expect(() => resolveLimits(misspelt)).toThrow(`limits.${name} does not exist; ${words} maxJsonBytes, `);
  });
});
