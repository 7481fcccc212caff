/** Runs Python for the playground: each piece of code in a process of its own that has no network, files or environment. */

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
   * How many runs go on at a time; the others wait, within their deadlines. Keys are served in turn, and a key never has more than half
   * of these runs, rounded up, so that two keys do not wait for one another. 2 unless told.
   */
  readonly maxConcurrent?: number;
  /** The longest output, in UTF-16 code units; what is longer is cut, with a note. 100,000 unless told. */
  readonly maxOutputLength?: number;
  /** What Python may hold, in bytes; the process as a whole may write to 1 GiB more. 512 MiB unless told. */
  readonly maxMemoryBytes?: number;
  /** The file, as an address, from whose place the package `pyodide` is looked for. This one unless told. */
  readonly from?: string;
}

const MIB = 1024 * 1024;
const PACKAGE = "pyodide@314.0.7";
/** To end what hangs, not to measure. */
const MAX_LOAD_MS = 300_000;

/**
 * A runner of Python by Pyodide. The first run makes a snapshot of it once loaded, some 30 MB, which is kept beside the package: the
 * process of every run starts from it. After each run a spare process stands ready, so that the next need not wait for it; it keeps
 * nothing alive. Disposing of the runner kills every process, and rejects their runs. The limit of memory is held by the kernel, on
 * Linux; elsewhere only for Python's own memory, files in it excepted.
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
  // A process that runs code would not notice that this one is gone.
  const killAll = (): void => {
    closing.abort(new Error("The runner of Python is closed."));
    spare?.kill();
  };
  process.once("exit", killAll);

  // For all runs that wait, and past the end of each: a machine that needs longer than one run may take must get there too.
  async function load(): Promise<PythonSnapshot | PythonEnd> {
    loading ??= openSnapshot(settings(), AbortSignal.any([closing.signal, AbortSignal.timeout(MAX_LOAD_MS)]));
    const loaded = await loading;
    loading = undefined;
    if (!("wasReady" in loaded)) snapshot = loaded;
    return loaded;
  }

  // What Python did not start from may be broken, as a file may be.
  async function renew(): Promise<void> {
    snapshot = undefined;
    await dropSnapshot(settings());
  }

  function takeProcess(snapshot: PythonSnapshot): PythonProcess {
    const taken = spare?.isAlive() === true ? spare : startPython(settings(), snapshot);
    spare = undefined;
    return taken;
  }

  // After a run and not beside it: two processes that load at once take twice as long.
  function keepSpare(): void {
    if (closing.signal.aborted || !snapshot || spare?.isAlive() === true) return;
    try {
      spare = startPython(settings(), snapshot);
    } catch {
      // What keeps a spare from starting shows where a run needs one.
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
      // Processes keep nothing alive by themselves, the spare one least of all.
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

/** What a promise brings, unless the signal fires first: then rejects with its reason. */
function within<T>(promise: Promise<T>, stop: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(stop.reason as Error);
    stop.addEventListener("abort", giveUp);
    if (stop.aborted) giveUp();
    promise.then(resolve, reject).finally(() => stop.removeEventListener("abort", giveUp));
  });
}

/** The end of a run that was stopped while it waited for its turn. */
const NOT_STARTED: PythonEnd = { outcome: undefined, wasReady: false, output: "", errors: "" };

function outcomeOf({ outcome, wasReady, output, errors }: PythonEnd): CodeResult {
  if (outcome !== undefined) return { outcome, output };
  if (!wasReady) throw new Error("Python could not be loaded.", { cause: new Error(errors) });
  const why = /out of memory|bad_alloc/i.test(errors) ? "MemoryError: Python ran out of memory." : "Python was ended.";
  return { outcome: "failed", output: `${output}${why}\n` };
}

/** Where the package is, following symbolic links; an Error that says how to install it where it is not. */
function folderOfPyodide(from: string): string {
  try {
    return realpathSync(dirname(createRequire(from).resolve("pyodide/package.json")));
  } catch (cause) {
    throw new Error(`To run Python, install the package that it comes in: npm install ${PACKAGE}`, { cause });
  }
}
