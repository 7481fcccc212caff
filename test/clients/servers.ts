/** The servers that the clients' suites run on: the playground, and the hosts to copy from, each started by its script. */

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
  /**
   * Whether the clients try all that they can here. The hosts run the same gateway as the playground, so there they try what
   * comes another way through each host: streams, tools, uploads, errors, and clients that hang up.
   */
  readonly isTriedInFull: boolean;
  readonly start: () => Promise<Playground>;
}

/** The host that `npm run host:…` starts. */
export function scripted(name: string): Server {
  const [runtime = "", ...parameters] = scripts[`host:${name}`]?.split(" ") ?? [];
  const program = `${bin}/${runtime}`;
  // Where npm looks first for what a script names.
  const env = { PATH: [bin, process.env["PATH"]].join(delimiter) };
  const start = (): Promise<Playground> => startPlayground(env, [program, ...parameters]);
  return { name, available: existsSync(program), isTriedInFull: false, start };
}

export const servers: readonly Server[] = [
  { name: "the playground", available: true, isTriedInFull: true, start: () => startPlayground() },
  ...["express", "koa", "bun", "deno"].map(scripted),
];

/** The suites that a client runs on a server: all of them, or those named. */
export function suitesOn<Suite extends readonly [name: string, ...unknown[]]>(
  { isTriedInFull }: Server,
  suites: readonly Suite[],
  everywhere: readonly Suite[0][],
): readonly Suite[] {
  return isTriedInFull ? suites : suites.filter(([name]) => everywhere.includes(name));
}

/** The versions of a client that are tried on a server: all of them, or the newest, which stands first. */
export const versionsOn = <Sdk>({ isTriedInFull }: Server, sdks: readonly Sdk[]): readonly Sdk[] =>
  isTriedInFull ? sdks : sdks.slice(0, 1);

/** All that a client tries on a server: it declares the tests. */
export type Client = (playground: () => Playground, server: Server) => void;

/** Runs clients on the server of a name, which is started once for all of them. */
export function tryOn(name: string, clients: Readonly<Record<string, Client>>): void {
  const server = servers.find((each) => each.name === name);
  if (!server) throw new Error(`There is no server ${name}.`);
  describe.skipIf(!server.available)(`on ${name}`, () => {
    let playground: Playground;
    beforeAll(async () => {
      playground = await server.start();
    });
    afterAll(() => playground.stop());
    describe.each(Object.entries(clients))("%s", (_client, client) => {
      client(() => playground, server);
    });
  });
}
