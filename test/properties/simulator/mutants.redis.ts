/** Faults of the Redis store, as changes to its scripts on their way to the server. */

import { CHARGED_ONCE, LEASED, type Mutant, REMAINS, SHARED } from "./mutant.ts";

/** Replaces a part of the scripts, which must be there. */
const replacing = (part: string, replacement: string): NonNullable<Mutant["script"]> => {
  let isFound = false;
  return (script) => {
    isFound ||= script.includes(part);
    if (!isFound && script.includes("HSET")) throw new Error(`No script has the part ${part}.`);
    return script.replaceAll(part, replacement);
  };
};

export const redisMutants: readonly Mutant[] = [
  {
    fault: "holds without a condition",
    store: "redis",
    breaks: [LEASED, REMAINS],
    script: replacing("if units < least then", "units = least if false then"),
  },
  {
    fault: "drops overdraft",
    store: "redis",
    breaks: [CHARGED_ONCE],
    script: replacing("'held', held, 'overdraft', overdraft, 'estimated'", "'held', held, 'overdraft', 0, 'estimated'"),
  },
  {
    fault: "charges late calls to the present period",
    store: "redis",
    breaks: [SHARED, REMAINS],
    script: replacing("if starts and starts ~= found[1] then", "if false then"),
  },
  {
    fault: "never ends a period",
    store: "redis",
    breaks: [SHARED],
    script: replacing("if now >= window.ends then", "if false then"),
  },
];
