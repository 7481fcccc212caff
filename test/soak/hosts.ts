/** The hosts that are soaked, each in a process of its own. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface SoakHost {
  readonly name: string;
  /** False where its runtime is missing. */
  readonly available: boolean;
  readonly command: string;
  readonly args: readonly string[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));

const script = (name: string): string => `${root}test/soak/hosts/${name}.ts`;

const onNode = (name: string): SoakHost => ({
  name,
  available: true,
  command: process.execPath,
  args: ["--expose-gc", script("node"), name],
});

function onRuntime(name: string, ...args: readonly string[]): SoakHost {
  const command = `${root}node_modules/.bin/${name}`;
  return { name, available: existsSync(command), command, args: [...args, script(name)] };
}

export const soakHosts: readonly SoakHost[] = [
  ...["node", "express 4", "express 5", "koa", "fastify", "hono"].map(onNode),
  onRuntime("bun", "--expose-gc"),
  onRuntime("deno", "run", "--allow-all", "--quiet", "--v8-flags=--expose-gc"),
];
