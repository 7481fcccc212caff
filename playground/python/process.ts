/** Starts a process for a single piece of Python, passes the code, and reads the output or kills the process. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** The settings of a process. */
export interface PythonSettings {
  /** The folder of Pyodide without symbolic links, because the permission model compares real paths. */
  readonly folder: string;
  readonly maxMemoryBytes: number;
  readonly maxOutputLength: number;
}

/** A snapshot of loaded Python, from which processes start. */
export type PythonSnapshot = Uint8Array;

export interface PythonProcess {
  /** Tells whether the process still accepts code. */
  isAlive(): boolean;
  /** Runs code, and waits for the end of the process. Kills the process when the signal fires. Never rejects. */
  run(code: string, stop: AbortSignal): Promise<PythonEnd>;
  kill(): void;
}

export interface PythonEnd {
  /** The reported result of the code; undefined if the process ended before its report. */
  readonly outcome: "ok" | "failed" | undefined;
  /** True if Python was loaded. Otherwise the process has failed, and not the code. */
  readonly wasReady: boolean;
  readonly output: string;
  /** The end of the standard error output, for developers. It may contain paths of this machine. */
  readonly errors: string;
}

/** An object that keeps the process alive. The input in Bun has no `unref`, because it does not keep the process alive. */
interface Alive {
  unref?(): void;
}

/** The program of a process, and the part of it that keeps Python from JavaScript. */
export const WORKER: string = fileURLToPath(new URL("./worker.ts", import.meta.url));
export const GATE: string = fileURLToPath(new URL("./gate.ts", import.meta.url));
const HARNESS = fileURLToPath(new URL("./harness.py", import.meta.url));
const KIB = 1024;

/** The memory for Node and Pyodide themselves, as the kernel counts it. They use about 0.8 GB, and touch only a small part. */
const OWN_DATA_BYTES = 1024 * 1024 * KIB;
const MAX_HEAP_MIB = 256;
/** Makes V8 validate a function of Python with its first call, and optimize only long-running functions: most code ends before. */
const WASM_FLAGS = ["--wasm-lazy-validation", "--wasm-tiering-budget=130000000"];
/** The processor time of a process, in seconds. This ends a process whose parent has crashed. */
const MAX_CPU_SECONDS = 900;
const MAX_ERRORS_LENGTH = 4_000;
const MAX_REPORT_LENGTH = 100;

/** Loads Python in a separate process, which takes seconds. Kills the process when the signal fires. Never rejects. */
export async function makeSnapshot(settings: PythonSettings, stop: AbortSignal): Promise<PythonSnapshot | PythonEnd> {
  const { child, streams, errors, closedOrKilled } = open(settings, 0);
  const [, stdout, , reports] = streams;
  const chunks: Buffer[] = [];
  stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  const report = collect(reports, MAX_REPORT_LENGTH);
  await closedOrKilled(stop);
  if (report.text() === "ready\n" && child.exitCode === 0) return Buffer.concat(chunks);
  return { outcome: undefined, wasReady: false, output: "", errors: errors.text() };
}

/** Starts a process with loaded Python that waits for code. The process never keeps its parent alive. */
export function startPython(settings: PythonSettings, snapshot: PythonSnapshot): PythonProcess {
  const { child, streams, errors, closedOrKilled } = open(settings, snapshot.length);
  const [input, stdout, , reports] = streams;
  const output = collect(stdout, settings.maxOutputLength);
  const report = collect(reports, MAX_REPORT_LENGTH);
  input.write(snapshot);
  return {
    isAlive: () => child.exitCode === null && child.signalCode === null && child.pid !== undefined,
    kill: () => void child.kill("SIGKILL"),
    async run(code, stop) {
      input.end(code);
      await closedOrKilled(stop);
      const [ready, outcome] = report.text().split("\n");
      return {
        outcome: outcome === "ok" || outcome === "failed" ? outcome : undefined,
        wasReady: ready === "ready",
        output: output.isFull() ? `${output.text()}\n[The output was cut here.]\n` : output.text(),
        errors: errors.text(),
      };
    },
  };
}

interface Opened {
  readonly child: ChildProcess;
  /** The input, the output, the errors and the reports of the process. */
  readonly streams: readonly [Socket, Socket, Socket, Socket];
  /** The end of the standard error output, and the reason if the process could not start. */
  readonly errors: { text(): string };
  /** Waits for the end of the process. Kills the process when the signal fires. */
  readonly closedOrKilled: (stop: AbortSignal) => Promise<void>;
}

function open(settings: PythonSettings, snapshotLength: number): Opened {
  const child = launch(settings, snapshotLength);
  const streams = child.stdio as unknown as Opened["streams"];
  const [input, , stderr] = streams;
  for (const part of [child, ...streams] as readonly Alive[]) part.unref?.();
  const errors = collectEnd(stderr, MAX_ERRORS_LENGTH);
  // Ignore a broken pipe of a process that ends before it reads its code: `close` reports the end.
  input.on("error", () => {});
  child.on("error", (error) => errors.add(error.message));
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const kill = (): void => void child.kill("SIGKILL");
  const closedOrKilled: Opened["closedOrKilled"] = async (stop) => {
    if (stop.aborted) kill();
    stop.addEventListener("abort", kill);
    await closed;
    stop.removeEventListener("abort", kill);
  };
  return { child, streams, errors, closedOrKilled };
}

function launch({ folder, maxMemoryBytes }: PythonSettings, snapshotLength: number): ChildProcess {
  const node = [
    pathOfNode(),
    // Node 25 and later forbid the network, too. In older versions, the code reaches no function that opens a socket.
    "--permission",
    ...[`${folder}/`, WORKER, GATE, HARNESS].map((path) => `--allow-fs-read=${path}`),
    "--disallow-code-generation-from-strings",
    `--max-old-space-size=${MAX_HEAP_MIB}`,
    ...WASM_FLAGS,
    WORKER,
    folder,
    HARNESS,
    String(maxMemoryBytes),
    String(snapshotLength),
  ];
  const dataKib = Math.ceil((OWN_DATA_BYTES + maxMemoryBytes) / KIB);
  // The kernel limits processor time and written memory, and forbids writing files. It does not limit address space, because
  // WebAssembly reserves gigabytes of that. Nothing runs if a limit cannot be set.
  const limits = `ulimit -t ${MAX_CPU_SECONDS} && ulimit -d ${dataKib} && ulimit -f 0 && ulimit -c 0 && exec "$@"`;
  const [command = "", ...parameters] = process.platform === "linux" ? ["/bin/sh", "-c", limits, "sh", ...node] : node;
  // Use pipes for output, errors and reports, because code might reach an IPC channel.
  return spawn(command, parameters, { cwd: folder, env: {}, stdio: ["pipe", "pipe", "pipe", "pipe"] });
}

/** Returns the path of Node. Bun and Deno accept the options of Node's permission model but do not enforce them, so they need Node, too. */
function pathOfNode(): string {
  if (!("bun" in process.versions || "deno" in process.versions)) return process.execPath;
  const folders = process.env["PATH"]?.split(delimiter) ?? [];
  const path = folders.map((folder) => join(folder, "node")).find(existsSync);
  if (path === undefined)
    throw new Error("To run Python, Node must be on the PATH: its permission model confines the code.");
  return path;
}

/** Collects text up to a length, and then closes the stream, so that the output cannot keep the parent busy. */
function collect(stream: Readable, maxLength: number): { text(): string; isFull(): boolean } {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.length > maxLength) stream.destroy();
  });
  return {
    // Do not split a surrogate pair.
    text: () => text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, ""),
    isFull: () => text.length > maxLength,
  };
}

/** Collects the last characters of a text. */
function collectEnd(stream: Readable, maxLength: number): { text(): string; add(chunk: string): void } {
  let text = "";
  const add = (chunk: string): void => void (text = (text + chunk).slice(-maxLength));
  stream.setEncoding("utf8").on("data", add);
  return { text: () => text, add };
}
