/** Prints failures for a host that hears of none: in one line where the host's code has no fault, and seldom where they repeat. */

import { type GatewayErrorCode, mistakeOf, restOf } from "../errors.ts";
import { printError } from "../options.ts";
import type { Clock } from "../ports/clock.ts";
import type { Failure, OnFailure } from "../ports/observer.ts";
import { isDebugged, type PrintFailure, printFailure } from "./reports.ts";

/** The most rests of upstreams that a gateway remembers to have printed. */
const MAX_PRINTED_RESTS = 100;

/**
 * Returns a function that prints failures. Those of an upstream and of a store, a model without a price and a wrong setting are no faults of the
 * host's code: one line without stacks, unless `DEBUG` names polygate. Calls that find all upstreams at rest are told once for each rest.
 */
export function failurePrinter(print: PrintFailure = printFailure): OnFailure {
  const printed = new Set<string>();
  return (failure) => {
    const isBrief = isKnownFailure(failure) && !isDebugged();
    const rest = isBrief ? restOf(failure.error) : undefined;
    if (rest !== undefined) {
      if (printed.has(rest)) return;
      if (printed.size === MAX_PRINTED_RESTS) printed.clear();
      printed.add(rest);
    }
    const { text } = failure;
    if (!isBrief) return printFailure(failure, `\n${text}`);
    return print(failure, `: ${text.replaceAll(/\n.*(?:\n[ \t]+at .*)+/g, "").replaceAll(/\.?\s*\n\s*/g, ", ")}`);
  };
}

const isKnownFailure = ({ error, upstream }: Failure): boolean =>
  upstream !== undefined ||
  (mistakeOf(error) ?? restOf(error)) !== undefined ||
  (BRIEF.has(error.code) && !isFaultOfCode(error));

/** The codes whose causes tell all without their stacks. */
const BRIEF: ReadonlySet<GatewayErrorCode> = new Set([
  "deadline_exceeded",
  "misconfigured",
  "model_not_found",
  "store_unavailable",
]);

/** The most causes that are looked at. A chain of causes may be circular. */
const MAX_CAUSES = 8;

/** True for an error with a cause that the engine throws for wrong code: only the stack says where. */
function isFaultOfCode(error: unknown): boolean {
  let cause = error;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth++) {
    if (/^(?:Type|Reference|Range|Syntax)Error$/.test(cause.name)) return true;
    ({ cause } = cause);
  }
  return false;
}

export function printRecovery(count: number): void {
  printError(
    `polygate: the quota store is back and has taken ${count} settlement${count === 1 ? "" : "s"} that waited.`,
    {},
    "info",
  );
}

/** The number of failures of a kind that are printed as they come, and the time between two later ones, in milliseconds. */
const FIRST_PRINTED = 3;
const PRINT_EVERY_MS = 60_000;

/** The most kinds that are told apart, the most that are remembered, and the most characters of a failure that tell its kind. */
const MAX_KINDS = 100;
const MAX_REMEMBERED = 200;
const MAX_KIND_CHARS = 1_000;

/**
 * Returns a function that prints failures of the same kind three times, and then once a minute: an upstream with a wrong key would fill the log.
 * Sets no timer: the next failure of a kind tells how many were not printed.
 */
export function repeatsPrinter(clock: Clock): PrintFailure {
  const kinds = new Map<string, { times: number; at: number; unprinted: number }>();
  return (failure, told) => {
    // The host must read of each charge that the ledger does not have.
    if (failure.unsettled) return printFailure(failure, told);
    const now = clock.now();
    const isDue = ({ at }: { readonly at: number }): boolean => now < at || now >= at + PRINT_EVERY_MS;
    let name = kindOf(failure, told);
    if (!kinds.has(name) && kinds.size >= MAX_KINDS) {
      for (const [one, known] of kinds) if (isDue(known)) kinds.delete(one);
      // A caller may name a new model in each call.
      if (kinds.size >= MAX_KINDS) name = sharedKindOf(failure);
    }
    const kind = kinds.get(name) ?? { times: 0, at: 0, unprinted: 0 };
    kinds.set(name, kind);
    for (const oldest of kinds.keys()) if (kinds.size > MAX_REMEMBERED) kinds.delete(oldest);
    if (kind.times >= FIRST_PRINTED && !isDue(kind)) return void kind.unprinted++;
    const before = kind.unprinted > 0 ? `, like ${kind.unprinted} before it that are not printed` : "";
    Object.assign(kind, { times: kind.times + 1, at: now, unprinted: 0 });
    return printFailure(failure, before + told);
  };
}

/** Returns the same text for failures of the same cause. An upstream may answer each call in other words, such as with the id of its request. */
function kindOf({ error, upstream }: Failure, told: string): string {
  const kind = upstream ? JSON.stringify([error.code, { ...upstream, attempt: 0 }, mistakeOf(error)]) : told;
  return kind.slice(0, MAX_KIND_CHARS);
}

/** Returns the same text for failures of the same code and upstream. */
const sharedKindOf = ({ error, upstream }: Failure): string => JSON.stringify([error.code, upstream?.name]);
