/** All that is broken on purpose, so that the simulator shows that it would notice. */

import { lineMutants } from "./mutants.line.ts";
import { memoryMutants } from "./mutants.memory.ts";
import { sqliteMutants } from "./mutants.sqlite.ts";
import type { Mutant } from "./mutant.ts";

export const mutants: readonly Mutant[] = [...memoryMutants, ...lineMutants, ...sqliteMutants];
