/** The real playground as a process of its own: at the root of Node's server, or in a host that it has for copying. */

import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A stuck process must fail its test, not hang the run. */
const STUCK_MS = 180_000;

/** A program and its parameters. */
export type Command = readonly [program: string, ...parameters: string[]];

const SERVER: Command = [process.execPath, "playground/server.ts"];

/** The playground's process, and all that it says. */
export interface PlaygroundProcess {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  readonly output: () => string;
  readonly errors: () => string;
  /** How it ended, once it has. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** What a client has to know of a server. */
export interface Site {
  /** Where the gateway is. */
  readonly url: string;
}

export interface Playground extends Site {
  readonly process: PlaygroundProcess;
  /** Sends SIGTERM, and holds the process to ending by itself with code 0. */
  stop(): Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Starts the playground's process; a variable that is undefined is unset for it. */
export function spawnPlayground(
  env: Environment,
  [program, ...parameters]: Command = SERVER,
  cwd: string = ROOT,
): PlaygroundProcess {
  const child = spawn(program, parameters, {
    cwd,
    env: { ...process.env, HOST: undefined, PORT: undefined, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "close").then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  return { child, output: collect(child.stdout), errors: collect(child.stderr), ended };
}

/** Starts the playground on a free port, and waits until it says that it is ready. */
export async function startPlayground(
  env: Environment = {},
  command: Command = SERVER,
  cwd: string = ROOT,
): Promise<Playground> {
  const started = spawnPlayground({ PORT: "0", ...env }, command, cwd);
  const lines = createInterface({ input: started.child.stdout });
  const firstLine = once(lines, "line", { signal: AbortSignal.timeout(STUCK_MS) }).then(([line]) => String(line));
  const said = await Promise.race([firstLine, started.ended.then(() => "")]).catch(() => "");
  const url = /http:\/\/\S+/.exec(said)?.[0];
  if (url !== undefined) return { url, process: started, stop: () => stop(started) };
  started.child.kill("SIGKILL");
  throw new Error(`The playground did not say where it is. It said: ${started.output()}${started.errors()}`);
}

/** Makes the call of a printed command. The shell reads the command, and `fetch` makes the call: not every machine has curl. */
export async function callOf(command: string): Promise<Response> {
  const { stdout } = await promisify(execFile)("sh", ["-c", `curl() { printf '%s\\0' "$@"; }\n${command}`]);
  const [url = "", ...options] = stdout.split("\0");
  const valuesOf = (option: string): string[] => options.filter((_, index) => options[index - 1] === option);
  const headers = valuesOf("-H").map((line) => line.split(": ") as [string, string]);
  return fetch(url, { method: "POST", headers, body: valuesOf("-d")[0] ?? "" });
}

async function stop({ child, ended, errors }: PlaygroundProcess): Promise<void> {
  const overdue = once(AbortSignal.timeout(STUCK_MS), "abort").then(() => "still running");
  try {
    child.kill("SIGTERM");
    const end = await Promise.race([ended, overdue]);
    // What it said last is shown where this fails.
    expect({ end, errors: errors() }).toMatchObject({ end: { code: 0, signal: null } });
  } finally {
    child.kill("SIGKILL");
  }
}

function collect(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return () => text;
}

/** What a key may see of its quota (spec 2.5). */
export interface TokenUsage {
  readonly object: string;
  readonly name: string;
  readonly total_granted: number;
  readonly total_used: number;
  readonly total_available: number;
  readonly unlimited_quota: boolean;
  readonly model_limits: Readonly<Record<string, boolean>>;
  readonly model_limits_enabled: boolean;
  readonly expires_at: number;
}

/** What a key may see of its quota now. */
export async function usageOf(url: string, apiKey: string): Promise<TokenUsage> {
  const response = await fetch(`${url}/api/usage/token`, { headers: { authorization: `Bearer ${apiKey}` } });
  const { data } = (await response.json()) as { data: TokenUsage };
  return data;
}

/** Asks again and again until a key's used quota is as expected, and hands on what it was. */
export async function usedUntil(url: string, apiKey: string, expected: (used: number) => boolean): Promise<number> {
  let used = 0;
  await expect
    .poll(async () => expected((used = (await usageOf(url, apiKey)).total_used)), { timeout: STUCK_MS })
    .toBe(true);
  return used;
}
