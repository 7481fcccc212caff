/** The errors whose cause the user of the admin is told. Every other error is told to the host alone. */

import type { UnitsLimit } from "../../model/refused-units.ts";
import type { AdminErrorCode } from "../refusal-codes.ts";

/** The fields of a refusal beside its message. */
export interface Refused {
  /** Default: that of the status. */
  readonly code?: AdminErrorCode;
  /** The limit that has refused some units, for programs. */
  readonly limit?: UnitsLimit;
  /** The reason in the log of changes. Default: the message. */
  readonly reason?: string;
}

/** An error with the status and the reason that the user gets. A class of the admin's own: a host may throw errors of h3 too. */
export class AdminRefusal extends Error {
  readonly status: number;
  readonly told: Refused;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, told: Refused, headers: Readonly<Record<string, string>>) {
    super(message);
    this.status = status;
    this.told = told;
    this.headers = headers;
  }
}

/** Makes an error with the reason that the user gets. */
export const refused = (
  status: number,
  message: string,
  told: Refused = {},
  headers: Readonly<Record<string, string>> = {},
): AdminRefusal => new AdminRefusal(status, message, told, headers);

/** The wait that a client is told while the store is away or busy, in seconds. */
const RETRY_AFTER = { "retry-after": "5" };

/** Makes an error for a request that may succeed some seconds later. */
export const refusedForNow = (message: string): AdminRefusal => refused(503, message, {}, RETRY_AFTER);

/** The error for a request that finds no room beside others. */
export const tooMany = (what: string): AdminRefusal =>
  refusedForNow(`Too many ${what} run. Try again in some seconds.`);
