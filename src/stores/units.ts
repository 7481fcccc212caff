/** What an amount of quota is, and a lease. */

export const isUnits = (units: number): boolean => Number.isSafeInteger(units) && units >= 0;

export const isLease = (leaseMs: number): boolean => Number.isSafeInteger(leaseMs) && leaseMs > 0;

export const unitsMessage = (name: string, units: number): string =>
  `${name} must be an integer from 0 up, not ${units}`;

export function assertUnits(name: string, units: number): void {
  if (!isUnits(units)) throw new RangeError(unitsMessage(name, units));
}
