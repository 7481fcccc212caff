/** The classes of attacks, in the order of the table. */

import type { Attack } from "./frame.ts";
import { backends } from "./backends.ts";
import { grow } from "./grow.ts";
import { mutate } from "./mutate.ts";

export const attacks: readonly Attack[] = [mutate, grow, backends];
