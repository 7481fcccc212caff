/** Installs other gateways from npm into a folder outside the tree, and starts them. */

import { execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort, isListening } from "../relay/nginx.ts";

/** The port and the process of a contestant. */
export interface PeerState {
  readonly port: number;
  readonly pid: number;
}

/** The packages by their names in the table. */
export const PACKAGES = { Portkey: "@portkey-ai/gateway@1.15.2", Hebo: "@hebo-ai/gateway" } as const;

const folderOf = (name: keyof typeof PACKAGES): string => join(tmpdir(), "polygate-peers", name.toLowerCase());

/** Installs a package without running its scripts. Returns the reason of a failure, or undefined. */
export async function fetchPeer(name: keyof typeof PACKAGES): Promise<string | undefined> {
  const folder = folderOf(name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true }));
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", PACKAGES[name]];
  try {
    await promisify(execFile)("npm", args, { cwd: folder, timeout: 180_000 });
    return undefined;
  } catch (error) {
    const { stderr = "" } = error as { stderr?: string };
    return `npm cannot install ${PACKAGES[name]}: ${/code (\w+)/.exec(stderr)?.[1] ?? "unknown reason"}`;
  }
}

/** Starts a peer, and resolves when it listens. Either process ends with the other. The peer can connect only to the loopback. */
export async function startPortkey(): Promise<PeerState> {
  const port = await freePort();
  const home = join(folderOf("Portkey"), "node_modules/@portkey-ai/gateway");
  const guard = fileURLToPath(new URL("loopback.ts", import.meta.url));
  const args = ["--import", guard, "build/start-server.js", `--port=${port}`, "--headless"];
  const env = { ...process.env, NODE_ENV: "production" };
  const child = spawn(process.execPath, args, { cwd: home, env, stdio: "ignore" });
  child.once("exit", () => process.exit());
  process.once("exit", () => child.kill());
  while (!(await isListening(port))) await setTimeout(50);
  return { port, pid: child.pid ?? 0 };
}
