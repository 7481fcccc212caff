/** Prints failures of the same kind three times, and then once a minute: an upstream with a wrong key would fill the log. */

import { mistakeOf } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Failure } from "../ports/observer.ts";
import { type PrintFailure, printFailure } from "./reports.ts";

/** The number of failures of a kind that are printed as they come, and the time between two later ones, in milliseconds. */
const FIRST_PRINTED = 3;
const PRINT_EVERY_MS = 60_000;

/** The most kinds that are remembered, and the most characters of a failure that tell its kind. */
const MAX_KINDS = 100;
const MAX_KIND_CHARS = 1_000;

/** Returns a function that prints failures. Sets no timer: the next failure of a kind tells how many were not printed. */
export function repeatsPrinter(clock: Clock): PrintFailure {
  const kinds = new Map<string, { times: number; at: number; unprinted: number }>();
  return (failure, told) => {
    // The host must read of each charge that the ledger does not have.
    if (failure.unsettled) return printFailure(failure, told);
    const name = kindOf(failure, told);
    const kind = kinds.get(name) ?? { times: 0, at: 0, unprinted: 0 };
    // The kind becomes the latest, and the oldest one is forgotten.
    kinds.delete(name);
    kinds.set(name, kind);
    for (const oldest of kinds.keys()) if (kinds.size > MAX_KINDS) kinds.delete(oldest);
    const now = clock.now();
    if (kind.times >= FIRST_PRINTED && now >= kind.at && now < kind.at + PRINT_EVERY_MS) return void kind.unprinted++;
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
