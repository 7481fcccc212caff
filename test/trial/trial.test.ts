/** The frame of the trials: it chooses subjects and flags by the command line, and fails for every problem. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { conduct, listOf, type Outcome, type Subject, tableOf, type Trial } from "./frame.ts";

interface Flags extends Readonly<Record<string, number | boolean | undefined>> {
  readonly seed: number;
  readonly calls: number | undefined;
  readonly short: boolean;
}

const seen: [name: string, flags: Flags][] = [];

const trial: Trial<Subject, Flags> = {
  name: "sample",
  does: "Tries nothing.",
  flags: { seed: 1, calls: undefined, short: false },
  subjects: [{ name: "memory" }, { name: "Redis" }, { name: "away", available: false }],
  async run({ name }, flags): Promise<Outcome> {
    seen.push([name, flags]);
    if (flags.calls === 13) throw new Error("Thirteen calls.");
    return { rows: [{ store: name, calls: flags.calls ?? 0 }], problems: flags.short ? ["Too short."] : [] };
  },
};

beforeEach(() => {
  seen.length = 0;
  for (const method of ["log", "error"] as const) vi.spyOn(console, method).mockImplementation(() => {});
});

afterEach(() => void vi.restoreAllMocks());

it("runs on all available subjects with the default flags", async () => {
  expect(await conduct(trial, [])).toBe(0);
  expect(seen).toEqual(["memory", "Redis"].map((name) => [name, { seed: 1, calls: undefined, short: false }]));
  expect(console.log).toHaveBeenCalledWith("sample --seed 1");
  expect(console.log).toHaveBeenCalledWith(expect.stringContaining("| Redis  |     0 |"));
});

it("runs on the named subjects with the given flags", async () => {
  expect(await conduct(trial, ["--seed", "7", "red", "--calls=3"])).toBe(0);
  expect(seen).toEqual([["Redis", { seed: 7, calls: 3, short: false }]]);
});

it.each([
  ["a subject has a problem", ["--short"]],
  ["a subject rejects", ["--calls", "13"]],
  ["a named subject is not available", ["memory", "away"]],
])("fails where %s", async (_name, args) => {
  expect(await conduct(trial, args)).toBe(1);
});

it("fails where nothing ran", async () => {
  expect(await conduct({ ...trial, subjects: [{ name: "away", available: false }] }, [])).toBe(1);
});

it.each([
  ["an unknown subject", ["sqlite"]],
  ["an unknown flag", ["--many"]],
  ["no number", ["--calls", "many"]],
  ["an empty number", ["--calls="]],
  ["a negative number", ["--calls=-1"]],
])("refuses %s, and runs nothing", async (_name, args) => {
  expect(await conduct(trial, args)).toBe(2);
  expect(seen).toEqual([]);
});

it("lists a trial with its flags and subjects", () => {
  expect(listOf([trial])).toBe(
    "sample         Tries nothing.\n               --seed --calls --short on memory, Redis, away",
  );
});

it("aligns columns of numbers to the right", () => {
  expect(tableOf([{ store: "Redis", ms: "12.5" }, { store: "-" }])).toBe(
    ["| store |   ms |", "| ----- | ---: |", "| Redis | 12.5 |", "| -     |      |"].join("\n"),
  );
});
