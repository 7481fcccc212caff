/** The state that all parts of a world share. */

import { Random } from "../../trial/random.ts";
import { type Figures, noFigures } from "./figures.ts";
import { Breaches } from "./laws.ts";
import { LedgerLaws } from "./ledger-laws.ts";
import { LifeLaws } from "./life-laws.ts";
import type { Mutant } from "./mutant.ts";
import type { Plan } from "./plan.ts";
import { Timeline } from "./timeline.ts";

export interface WorldParts {
  readonly plan: Plan;
  readonly random: Random;
  readonly timeline: Timeline;
  readonly breaches: Breaches;
  readonly ledgerLaws: LedgerLaws;
  readonly lifeLaws: LifeLaws;
  readonly figures: Figures;
  /** The deliberate fault. */
  readonly mutant: Mutant | undefined;
  /** Notes a step when steps are traced. */
  readonly trace: (line: () => string) => void;
}

/** Makes the parts of a world. Two worlds of one seed and plan run alike. */
export function worldPartsOf(
  seed: number,
  plan: Plan,
  mutant: Mutant | undefined,
  trace: ((line: string, timeline: Timeline) => void) | undefined,
): WorldParts {
  const random = new Random(seed + 1_000_003);
  const timeline = new Timeline(random);
  const figures = noFigures();
  const breaches = new Breaches(timeline, figures);
  const ledgerLaws = new LedgerLaws(plan, breaches, figures);
  const lifeLaws = new LifeLaws(ledgerLaws, breaches, timeline);
  const write = trace ? (line: () => string): void => trace(line(), timeline) : (): void => {};
  return { plan, random, timeline, breaches, ledgerLaws, lifeLaws, figures, mutant, trace: write };
}
