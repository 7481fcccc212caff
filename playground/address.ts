/** Where the playground and its hosts listen: PORT and HOST, and how that is said. */

import process from "node:process";

// What is set to nothing is not set: nothing for a host would be every address that the machine has.
const said = process.env["PORT"] || "3000";

export const hostname: string = process.env["HOST"] || "127.0.0.1";

export const port: number = Number(said);

if (!/^\d{1,5}$/.test(said) || port > 65_535)
  fail(`The playground needs a PORT from 0 to 65535, not ${JSON.stringify(said)}.`);

/** The address of what listens at a port; with port 0 only the server itself knows. */
export const urlOf = (bound: number): string =>
  `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${bound}`;

/** Ends the process, which cannot do what it was started for. */
export function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}
