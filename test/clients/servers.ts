/** The server that the clients' suites run on, which is the playground, and the hosts to copy from, each started by its script. */

import { existsSync, readFileSync } from "node:fs";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe } from "vitest";
import { type Playground, startPlayground } from "./playground.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const bin = `${root}node_modules/.bin`;
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { scripts: Record<string, string> };

export interface Server {
  readonly name: string;
  /** Whether what runs it is here. */
  readonly available: boolean;
  readonly start: () => Promise<Playground>;
}

/** The host that `npm run host:…` starts. */
export function scripted(name: string): Server {
  const [runtime = "", ...parameters] = scripts[`host:${name}`]?.split(" ") ?? [];
  const program = `${bin}/${runtime}`;
  // Where npm looks first for what a script names.
  const env = { PATH: [bin, process.env["PATH"]].join(delimiter) };
  const start = (): Promise<Playground> => startPlayground(env, [program, ...parameters]);
  return { name, available: existsSync(program), start };
}

/** The suites that a major of an SDK runs. The newest runs all, and an older one those that depend on how a client sends and reads. */
export const suitesOfMajor = <Suite extends readonly [name: string, ...unknown[]]>(
  isNewest: boolean,
  suites: readonly Suite[],
  ofOlder: readonly Suite[0][],
): readonly Suite[] => (isNewest ? suites : suites.filter(([name]) => ofOlder.includes(name)));

/** All that a client tries on the playground: it declares the tests. */
export type Client = (playground: () => Playground) => void;

/** Runs clients on the playground, which is started once for all of them. */
export function tryOnPlayground(clients: Readonly<Record<string, Client>>): void {
  let playground: Playground;
  beforeAll(async () => void (playground = await startPlayground()));
  afterAll(() => playground.stop());
  describe.each(Object.entries(clients))("%s", (_client, client) => {
    client(() => playground);
  });
}
