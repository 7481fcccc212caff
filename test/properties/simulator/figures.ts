/** The counts of worlds, and their sums. */

/** The ends of lives: the outcome in the record, or the crash of the process. */
const ENDS = ["completed", "refused", "failed", "client-closed", "deadline", "shutdown", "stopped", "crashed"] as const;
export type End = (typeof ENDS)[number];

const BESIDE = [
  "processes that crashed",
  "processes that closed",
  "verbs",
  "messages lost",
  "messages duplicated",
  "messages delayed",
  "messages overtaken",
  "failures told by a store",
  "holds granted",
  "holds refused",
  "holds settled",
  "holds swept",
  "settlements after the sweep",
  "charges beyond the balance",
  "steps",
  "checks",
  "processes that paused",
  "partitions",
  "blocks",
  "recalls",
  "calls in blocks",
  "worlds in memory",
  "worlds in sqlite",
  "worlds in redis",
] as const;

export type Figures = Record<"lives" | End | (typeof BESIDE)[number], number>;

export const COUNTS: readonly (keyof Figures)[] = ["lives", ...ENDS, ...BESIDE];

export const noFigures = (): Figures => Object.fromEntries(COUNTS.map((name) => [name, 0])) as Figures;

export function addFigures(sum: Figures, more: Figures): void {
  for (const name of COUNTS) sum[name] += more[name];
}
