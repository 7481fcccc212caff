/** Faults of the Redis store, as changes to its scripts on their way to the server. */

import * as scripts from "../../../src/stores/redis/scripts.ts";
import { CHARGED_ONCE, LEASED, type Mutant, REMAINS, SHARED } from "./mutant.ts";

/** Replaces a part of the scripts, which must be there. */
function replacing(part: string, replacement: string): NonNullable<Mutant["script"]> {
  if (
    !Object.values(scripts).some(
      (script) => typeof script === "object" && "text" in script && script.text.includes(part),
    )
  )
    throw new Error(`No script has the part ${part}.`);
  return (script) => script.replaceAll(part, replacement);
}

export const redisMutants: readonly Mutant[] = [
  {
    fault: "holds without a condition",
    store: "redis",
    breaks: [LEASED, REMAINS],
    script: replacing("if units < least then return false end", "if units < least then units = least end"),
  },
  {
    fault: "drops overdraft",
    store: "redis",
    breaks: [CHARGED_ONCE],
    seed: 6,
    script: replacing("'overdraft', overdraft + over", "'overdraft', overdraft"),
  },
  {
    fault: "charges late calls to the present period",
    store: "redis",
    breaks: [SHARED, REMAINS],
    script: replacing("(starts and starts ~= found[1])", "false"),
  },
  {
    fault: "never ends a period",
    store: "redis",
    breaks: [SHARED],
    script: replacing("or now >= tonumber(found[2])", ""),
  },
  {
    fault: "writes over what others have changed",
    store: "redis",
    breaks: [LEASED, REMAINS, CHARGED_ONCE, SHARED],
    seed: 22,
    script: replacing("~= ARGV[at + 1 + count + index] then return false end", "== '' then return false end"),
  },
];
