/** The printed table: the figures of each contestant, and their ratios within each round. */

import { type ContestantName, CONTESTANTS } from "./contestants.ts";
import type { Sample } from "./sample.ts";
import { type ScenarioName, SCENARIOS } from "./workload.ts";

/** A sample of each contestant, taken one after the other. */
export type Round = Readonly<Record<ContestantName, Sample>>;

const RATIOS = [
  ["gateway", "bare h3"],
  ["bare h3", "bare node"],
] as const;

export function report(scenario: ScenarioName, rounds: readonly Round[]): string {
  const title = `${scenario}, ${SCENARIOS[scenario].connections} connections, ${rounds.length} rounds: median (min–max)`;
  const header = row("", scenario === "streamed" ? "streams/s" : "requests/s", "CPU µs each", "bytes each");
  const contestants = (Object.keys(CONTESTANTS) as ContestantName[]).map((name) => {
    const samples = rounds.map((round) => round[name]);
    return row(
      name,
      spread(samples, (sample) => sample.answersPerSecond, 0),
      spread(samples, (sample) => sample.cpuMicrosPerAnswer, 0),
      median(samples.map((sample) => sample.bytesPerAnswer)).toFixed(0),
    );
  });
  // Compare within a round: a slow moment of the machine slows both.
  const ratios = RATIOS.map(([one, other]) =>
    row(
      `${one} / ${other}`,
      spread(rounds, (round) => round[one].answersPerSecond / round[other].answersPerSecond, 2),
      spread(rounds, (round) => round[other].cpuMicrosPerAnswer / round[one].cpuMicrosPerAnswer, 2),
    ),
  );
  return [title, header, ...contestants, ...ratios, ""].join("\n");
}

export const row = (...[name, ...cells]: [string, ...string[]]): string =>
  `  ${name.padEnd(24)}${cells.map((cell) => cell.padStart(24)).join("")}`;

export function spread<T>(items: readonly T[], measure: (item: T) => number, digits: number): string {
  const values = items.map(measure);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)}–${most.toFixed(digits)})`;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const [below, above] = [sorted[sorted.length - 1 - middle] ?? Number.NaN, sorted[middle] ?? Number.NaN];
  return (below + above) / 2;
}
