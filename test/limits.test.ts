/** A host's limits are taken over where they make sense, and refused by name where they do not. */

import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type Limits, resolveLimits } from "../src/limits.ts";

const names = Object.keys(DEFAULT_LIMITS) as (keyof Limits)[];
const times = names.filter((name) => name.endsWith("Ms"));

describe("limits", () => {
  it("have the documented defaults", () => {
    const { maxJsonBytes, maxUploadBytes, maxBodyBytesInFlight, maxBodyBytesPerKey, maxPngPixels, ...others } =
      DEFAULT_LIMITS;
    expect([maxJsonBytes, maxUploadBytes, maxBodyBytesInFlight, maxBodyBytesPerKey]).toEqual(
      [32, 402, 804, 402].map((mebibytes) => mebibytes * 1_048_576),
    );
    expect([maxPngPixels, others.maxImagePixels]).toEqual([67_108_864, 268_435_456]);
    expect(others).toMatchObject({
      maxJsonDepth: 200,
      maxJsonValues: 1_000_000,
      maxJsonKeys: 10_000,
      maxJsonItems: 100_000,
      maxSchemaValues: 50_000,
      maxSchemaChars: 4_194_304,
      maxStopSequences: 16,
      maxStopSequenceChars: 4_096,
      maxCallsInFlight: 16_384,
      maxCallsPerKey: 8_192,
      maxKnownBodyBytes: 67_108_864,
      mediumBodyBytes: 65_536,
      largeBodyBytes: 1_048_576,
      bodyStallMs: 30_000,
      minBodyBytesPerSecond: 16_384,
      maxImageBytes: 26_214_400,
      maxFormBytes: 1_048_576,
      maxFieldBytes: 262_144,
      maxFields: 64,
      maxFiles: 17,
      deadlineMs: 600_000,
      keepAliveMs: 8_000,
      leaseMs: 60_000,
      usageNoteMs: 1_000,
      storeTimeoutMs: 10_000,
      maxWaitingSettlements: 10_000,
      maxWaitingHookBytes: 67_108_864,
      storeBreakerFailures: 5,
      storeBreakerOpenMs: 5_000,
      maxReplayBytes: 8_388_608,
      replayRetentionMs: 3_600_000,
      replayDrainMs: 60_000,
      codeDeadlineMs: 30_000,
      defaultMaxOutputTokens: 8_192,
    });
  });

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
    expect(() => resolveLimits(wrong)).toThrow(TypeError);
    expect(() => resolveLimits(wrong)).toThrow(`createGateway: limits.leaseMs must be a positive integer, not "60000"`);
  });

  it.each(times)("refuse %s beyond what a timer can wait, which would fire at once", (name) => {
    expect(resolveLimits({ [name]: 2 ** 31 - 1 })[name]).toBe(2 ** 31 - 1);
    expect(() => resolveLimits({ [name]: 2 ** 31 })).toThrow(`limits.${name} must be at most 2147483647 ms`);
  });

  it.each([
    ["deadlineMS", "did you mean deadlineMs? There are"],
    ["maxBodyBytes", "did you mean maxBodyBytesInFlight or maxBodyBytesPerKey? There are"],
    ["timeout", "did you mean deadlineMs? There are"],
    ["max", "there are"],
    ["toString", "there are"],
    ["__proto__", "there are"],
  ])("refuse %s, which does not exist", (name, words) => {
    const misspelt = JSON.parse(`{"${name}": 5}`) as object;
    expect(() => resolveLimits(misspelt)).toThrow(TypeError);
    expect(() => resolveLimits(misspelt)).toThrow(`limits.${name} does not exist; ${words} maxJsonBytes, `);
  });
});
