/** The state that all parts of a world share. */

import type { Random } from "../../trial/random.ts";
import type { Figures } from "./figures.ts";
import type { Breaches } from "./laws.ts";
import type { LedgerLaws } from "./ledger-laws.ts";
import type { LifeLaws } from "./life-laws.ts";
import type { Mutant } from "./mutant.ts";
import type { Plan } from "./plan.ts";
import type { Timeline } from "./timeline.ts";

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
