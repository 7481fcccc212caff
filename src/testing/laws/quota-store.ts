/** The laws of the QuotaStore port, to be run on a store by any test runner. Races come first: they are what a ledger is for. */

import { extremeLaws, inputLaws, settlementLaws } from "./quota-store/amounts.ts";
import { keyLaws } from "./quota-store/keys.ts";
import type { QuotaStoreLaw } from "./quota-store/law.ts";
import { leaseLaws } from "./quota-store/leases.ts";
import { raceLaws } from "./quota-store/races.ts";
import { reservationLaws } from "./quota-store/reservations.ts";

/**
 * The promises of every QuotaStore. The laws make up to 300 calls at once, and measure no time: a store may be as slow as it likes.
 * Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of quotaStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const quotaStoreLaws: readonly QuotaStoreLaw[] = [
  ...raceLaws,
  ...reservationLaws,
  ...settlementLaws,
  ...leaseLaws,
  ...keyLaws,
  ...inputLaws,
  ...extremeLaws,
];
