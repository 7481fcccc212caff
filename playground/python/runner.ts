/** Runs Python for the playground. Each piece of code gets its own process without network, files or environment. */

import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { CodeResult, CodeRunner } from "../../src/index.ts";
import {
  type PythonEnd,
  type PythonProcess,
  type PythonSettings,
  type PythonSnapshot,
  startPython,
} from "./process.ts";
import { dropSnapshot, openSnapshot } from "./snapshot.ts";
import { turns } from "./turns.ts";

export interface PythonRunnerOptions {
  /**
   * The most concurrent runs. Other runs wait within their deadlines. Keys are served in turn, and a key never has more than half of
   * these runs, rounded up, so that two keys do not wait for one another. Default: 2.
   */
  readonly maxConcurrent?: number;
  /** The longest output, in UTF-16 code units. Longer output is cut, with a note. Default: 100,000. */
  readonly maxOutputLength?: number;
  /** The memory of Python, in bytes. The whole process may use 1 GiB more. Default: 512 MiB. */
  readonly maxMemoryBytes?: number;
  /** The URL of the file that imports the package `pyodide`. Default: this file. */
  readonly from?: string;
}

const MIB = 1024 * 1024;
const PACKAGE = "pyodide@314.0.7";
/** The time for loading Python, in milliseconds: long enough for slow machines, and only meant to end a load that hangs. */
const MAX_LOAD_MS = 300_000;

/**
 * Makes a runner of Python with Pyodide. The first run saves a snapshot of loaded Python beside the package, about 30 MB. The processes
 * of all runs start from the snapshot. After each run, a spare process gets ready for the next run. The spare process does not keep its
 * parent alive. Disposing of the runner kills all processes, and rejects their runs. On Linux, the kernel enforces the memory limit.
 * Elsewhere, the limit applies only to Python's own memory, without the files in that memory.
 */
export function pythonRunner(options: PythonRunnerOptions = {}): CodeRunner & AsyncDisposable {
  const { maxConcurrent = 2, maxOutputLength = 100_000, maxMemoryBytes = 512 * MIB, from = import.meta.url } = options;
  const free = turns(maxConcurrent);
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  let snapshot: PythonSnapshot | undefined;
  let loading: Promise<PythonSnapshot | PythonEnd> | undefined;
  let spare: PythonProcess | undefined;

  const settings = (): PythonSettings => ({ folder: folderOfPyodide(from), maxMemoryBytes, maxOutputLength });
  // A process that runs code does not notice the end of its parent.
  const killAll = (): void => {
    closing.abort(new Error("The runner of Python is closed."));
    spare?.kill();
  };
  process.once("exit", killAll);

  // Waiting runs share the load, which continues after their ends: a slow machine may need more time than a run has.
  async function load(): Promise<PythonSnapshot | PythonEnd> {
    loading ??= openSnapshot(settings(), AbortSignal.any([closing.signal, AbortSignal.timeout(MAX_LOAD_MS)]));
    const loaded = await loading;
    loading = undefined;
    if (!("wasReady" in loaded)) snapshot = loaded;
    return loaded;
  }

  // Replace a snapshot from which Python did not start, because the file may be damaged.
  async function renew(): Promise<void> {
    snapshot = undefined;
    await dropSnapshot(settings());
  }

  function takeProcess(snapshot: PythonSnapshot): PythonProcess {
    const taken = spare?.isAlive() === true ? spare : startPython(settings(), snapshot);
    spare = undefined;
    return taken;
  }

  // Start the spare process after a run, because two processes that load at once take twice as long.
  function keepSpare(): void {
    if (closing.signal.aborted || !snapshot || spare?.isAlive() === true) return;
    try {
      spare = startPython(settings(), snapshot);
    } catch {
      // Ignore the error: the next run starts a process itself, and reports the error.
      spare = undefined;
    }
  }

  async function run(code: string, keyId: string, stop: AbortSignal): Promise<PythonEnd> {
    const release = await free.take(keyId, stop);
    try {
      const loaded = snapshot ?? (await within(load(), stop));
      if ("wasReady" in loaded) return loaded;
      const end = await takeProcess(loaded).run(code, stop);
      if (!end.wasReady && !stop.aborted) await renew();
      return end;
    } finally {
      release();
      keepSpare();
    }
  }

  return {
    async run({ code }, { keyId, signal, deadlineMs }) {
      const overdue = AbortSignal.timeout(deadlineMs);
      const stop = AbortSignal.any([signal, closing.signal, overdue]);
      const ending = run(code, keyId, stop).catch((error: unknown) => {
        if (stop.aborted) return NOT_STARTED;
        throw error;
      });
      running.add(ending);
      // Keep this process alive during the run, because child processes do not.
      const alive = setInterval(() => {}, MAX_LOAD_MS);
      const end = await ending.finally(() => {
        clearInterval(alive);
        running.delete(ending);
      });
      signal.throwIfAborted();
      closing.signal.throwIfAborted();
      if (end.outcome === undefined && overdue.aborted) return { outcome: "deadline-exceeded", output: end.output };
      return outcomeOf(end);
    },
    async [Symbol.asyncDispose]() {
      process.off("exit", killAll);
      killAll();
      await Promise.allSettled(running);
    },
  };
}

/** Tells whether Python is installed. */
export function hasPython(): boolean {
  try {
    return folderOfPyodide(import.meta.url) !== "";
  } catch {
    return false;
  }
}

/** Returns the result of a promise. Rejects with the signal's reason if the signal fires first. */
function within<T>(promise: Promise<T>, stop: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(stop.reason as Error);
    stop.addEventListener("abort", giveUp);
    if (stop.aborted) giveUp();
    promise.then(resolve, reject).finally(() => stop.removeEventListener("abort", giveUp));
  });
}

/** The result of a run that was stopped before it started. */
const NOT_STARTED: PythonEnd = { outcome: undefined, wasReady: false, output: "", errors: "" };

function outcomeOf({ outcome, wasReady, output, errors }: PythonEnd): CodeResult {
  if (outcome !== undefined) return { outcome, output };
  if (!wasReady) throw new Error("Python could not be loaded.", { cause: new Error(errors) });
  const why = /out of memory|bad_alloc/i.test(errors) ? "MemoryError: Python ran out of memory." : "Python was ended.";
  return { outcome: "failed", output: `${output}${why}\n` };
}

/** Returns the folder of the package, without symbolic links. Throws an error with the command to install a missing package. */
function folderOfPyodide(from: string): string {
  try {
    return realpathSync(dirname(createRequire(from).resolve("pyodide/package.json")));
  } catch (cause) {
    throw new Error(`To run Python, install the package that it comes in: npm install ${PACKAGE}`, { cause });
  }
}
