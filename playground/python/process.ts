/** One process that runs one piece of Python: started, given its code, read to its end, or killed. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** What a process is started with. */
export interface PythonSettings {
  /** Where Pyodide is, without symbolic links: the permission model compares real paths. */
  readonly folder: string;
  readonly maxMemoryBytes: number;
  readonly maxOutputLength: number;
}

/** Python as it is once it is loaded, for processes to start from. */
export type PythonSnapshot = Uint8Array;

export interface PythonProcess {
  /** Whether it can still be given code. */
  isAlive(): boolean;
  /** Gives the process its code, and waits for its end. It is killed when the signal fires. Never rejects. */
  run(code: string, stop: AbortSignal): Promise<PythonEnd>;
  kill(): void;
}

export interface PythonEnd {
  /** What the process said of the code's end; undefined where it did not live to say so. */
  readonly outcome: "ok" | "failed" | undefined;
  /** Whether Python was loaded. Where it was not, the process failed and not the code. */
  readonly wasReady: boolean;
  readonly output: string;
  /** The end of what the process wrote for its developers. It names paths of this machine. */
  readonly errors: string;
}

/** What keeps its process alive; in Bun the input does not, and so has neither. */
interface Alive {
  unref?(): void;
}

/** The program of a process, and the part of it that keeps Python from JavaScript. */
export const WORKER: string = fileURLToPath(new URL("./worker.ts", import.meta.url));
export const GATE: string = fileURLToPath(new URL("./gate.ts", import.meta.url));
const HARNESS = fileURLToPath(new URL("./harness.py", import.meta.url));
const KIB = 1024;

/** What Node and Pyodide take before any code runs, as the kernel counts it: about 0.8 GB, most of it never touched. */
const OWN_DATA_BYTES = 1024 * 1024 * KIB;
const MAX_HEAP_MIB = 256;
/** V8 checks each function of Python before its first call, and optimizes it once it has run for long: most code is over before. */
const WASM_FLAGS = ["--wasm-lazy-validation", "--wasm-tiering-budget=130000000"];
/** Ends a process that nobody is left to kill, because its parent died without a word. */
const MAX_CPU_SECONDS = 900;
const MAX_ERRORS_LENGTH = 4_000;
const MAX_REPORT_LENGTH = 100;

/** Loads Python anew, in a process of its own, which takes seconds. The process is killed when the signal fires. Never rejects. */
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

/** Starts a process that is Python, loaded, and waits for code. It keeps its parent alive at no time. */
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
  /** Its input, output, errors and reports. */
  readonly streams: readonly [Socket, Socket, Socket, Socket];
  /** The end of what it writes to standard error, and why it could not be started. */
  readonly errors: { text(): string };
  /** Waits for its end, and brings it about when the signal fires. */
  readonly closedOrKilled: (stop: AbortSignal) => Promise<void>;
}

function open(settings: PythonSettings, snapshotLength: number): Opened {
  const child = launch(settings, snapshotLength);
  const streams = child.stdio as unknown as Opened["streams"];
  const [input, , stderr] = streams;
  for (const part of [child, ...streams] as readonly Alive[]) part.unref?.();
  const errors = collectEnd(stderr, MAX_ERRORS_LENGTH);
  // A process that dies before it reads its code breaks the pipe. How it died is told by its end.
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
    // From Node 25 on this forbids the network too; before, nothing that the code reaches can open it.
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
  // The kernel's own limits: seconds of the processor, memory that is written to, no byte in any file. Address space cannot be the
  // measure of memory: WebAssembly reserves gigabytes of it. Where a limit cannot be set, nothing runs.
  const limits = `ulimit -t ${MAX_CPU_SECONDS} && ulimit -d ${dataKib} && ulimit -f 0 && ulimit -c 0 && exec "$@"`;
  const [command = "", ...parameters] = process.platform === "linux" ? ["/bin/sh", "-c", limits, "sh", ...node] : node;
  // Output, errors, and the worker's word on how the code ended: there is no IPC channel that code could reach.
  return spawn(command, parameters, { cwd: folder, env: {}, stdio: ["pipe", "pipe", "pipe", "pipe"] });
}

/** Bun and Deno take the options of Node's permission model and hold nothing to them, so that under these it is Node as well. */
function pathOfNode(): string {
  if (!("bun" in process.versions || "deno" in process.versions)) return process.execPath;
  const folders = process.env["PATH"]?.split(delimiter) ?? [];
  const path = folders.map((folder) => join(folder, "node")).find(existsSync);
  if (path === undefined)
    throw new Error("To run Python, Node must be on the PATH: its permission model confines the code.");
  return path;
}

/** Collects text up to a length, and then closes the stream: the process shall not keep this one busy. */
function collect(stream: Readable, maxLength: number): { text(): string; isFull(): boolean } {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.length > maxLength) stream.destroy();
  });
  return {
    // A pair of surrogates is not cut in two.
    text: () => text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, ""),
    isFull: () => text.length > maxLength,
  };
}

/** Keeps the end of a text. */
function collectEnd(stream: Readable, maxLength: number): { text(): string; add(chunk: string): void } {
  let text = "";
  const add = (chunk: string): void => void (text = (text + chunk).slice(-maxLength));
  stream.setEncoding("utf8").on("data", add);
  return { text: () => text, add };
}
