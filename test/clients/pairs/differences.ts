/** Holds a client's suites to a list of what differs: each case on it must fail as it says, and all others must pass. */

import { stripVTControlCharacters } from "node:util";
import { aroundEach, describe, expect, it, type RunnerTestCase } from "vitest";
import type { CallRecord } from "../../../src/index.ts";

/** A case by its names, why its outcome is another one, and how it is told that it is: a piece of what its failure says. */
export type Difference = readonly [name: string, why: string, outcome: string];

export interface Held {
  /** The format of the client. */
  readonly caller: string;
  /** Each for the conversion of a field, which a record of the case's own calls must tell of, or its error. */
  readonly differences: readonly Difference[];
  /** Each for a policy of all relays, whatever the conversions of fields. */
  readonly policies: readonly Difference[];
  /** The records of all calls so far. */
  readonly records: () => readonly CallRecord[];
}

/** Describes suites that are held to a list. A case on it that does not differ any more fails, and so does one that is not there. */
export function describeHeld({ caller, differences, policies, records }: Held, suites: () => void): void {
  const declared = new Map([...differences, ...policies].map((one) => [one[0], one]));
  const converted = new Set(differences);
  const met = new Set<string>();
  const windows = new Windows();

  describe(`to a client of ${caller}`, () => {
    aroundEach(async (runCase, { task }) => {
      const from = windows.open(task.suite, records().length);
      const difference = declared.get(nameBelow(`to a client of ${caller}`, task));
      await runCase();
      windows.moveTo(records().length);
      if (!difference) return;
      met.add(difference[0]);
      const { result } = task;
      const [error] = result?.errors ?? [];
      if (!result || !error) throw new Error("It differs no more: it is to be taken off the list.");
      const { message, actual, diff = "" } = error;
      const told = [message, typeof actual === "string" ? actual : "", stripVTControlCharacters(diff)].join("\n");
      expect(told).toContain(difference[2]);
      if (converted.has(difference)) await assertReported(difference[1], told, () => records().slice(from));
      // It has failed as it is declared to. The runner does the same for a case that is marked to fail.
      result.state = "pass";
      result.errors = [];
    });

    suites();

    it("differs in no case that is not there", () => {
      expect([...declared.keys()].filter((name) => !met.has(name))).toEqual([]);
    });
  });
}

/** Calls of a suite's own, made before its first case, belong to each of its cases. */
class Windows {
  readonly #begins: Map<string, number> = new Map();
  #end: number | undefined;

  open(suite: RunnerTestCase["suite"], now: number): number {
    const id = suite?.id ?? "";
    const begin = this.#begins.get(id) ?? this.#end ?? now;
    this.#begins.set(id, begin);
    return begin;
  }

  moveTo(now: number): void {
    this.#end = now;
  }
}

function nameBelow(title: string, task: RunnerTestCase): string {
  const names = [task.name];
  for (let { suite } = task; suite && suite.name !== title; { suite } = suite) names.unshift(suite.name);
  return names.join(" > ");
}

/** A field that is rejected is named by the error, and any other by a record, which comes when its call has ended. */
async function assertReported(field: string, told: string, records: () => readonly CallRecord[]): Promise<void> {
  if (told.includes(`${field} (`)) return;
  const reported = (): string[] =>
    records().flatMap(({ dropped, droppedFromAnswer }) =>
      [...dropped, ...droppedFromAnswer].map((conversion) => conversion.field),
    );
  await expect.poll(reported).toContain(field);
}
