/** What a racer is told to do, and what it tells in the end. */

/** As JSON in the first argument of its process. */
export interface RacerOrder {
  readonly address: string;
  readonly prefix: string;
  readonly apiKey: string;
  readonly calls: number;
}

/** How many calls got each status. */
export type Statuses = Readonly<Record<number, number>>;

/** The tokens of each call. */
export const INPUT = 4;
export const OUTPUT = 6;

/** What a call holds, and what it is charged. */
export const UNITS: number = INPUT + OUTPUT;
