/** Runs Python for the playground: each piece of code in a process of its own that has no network, files or environment. */

import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { CodeResult, CodeRunner } from "../../src/index.ts";
import { type PythonEnd, type PythonProcess, startPython } from "./process.ts";
import { turns } from "./turns.ts";

export interface PythonRunnerOptions {
  /** How many runs go on at a time; the others wait, within their deadlines. 2 unless told. */
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

/**
 * A runner of Python by Pyodide. From the first run on, a spare process stands ready with Python loaded, so that the next run
 * need not wait for that; it keeps nothing alive. Disposing of the runner kills every process, and rejects their runs.
 * The limit of memory is held by the kernel, on Linux; elsewhere only for Python's own memory, files in it excepted.
 */
export function pythonRunner(options: PythonRunnerOptions = {}): CodeRunner & AsyncDisposable {
  const { maxConcurrent = 2, maxOutputLength = 100_000, maxMemoryBytes = 512 * MIB, from = import.meta.url } = options;
  const free = turns(maxConcurrent);
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  let spare: PythonProcess | undefined;

  const start = (): PythonProcess => startPython({ folder: folderOfPyodide(from), maxMemoryBytes, maxOutputLength });
  // A process that runs code would not notice that this one is gone.
  const killAll = (): void => {
    closing.abort(new Error("The runner of Python is closed."));
    spare?.kill();
  };
  process.once("exit", killAll);

  function takeProcess(): PythonProcess {
    const taken = spare?.isAlive() === true ? spare : start();
    spare = undefined;
    return taken;
  }

  // After a run and not beside it: two processes that load at once take twice as long.
  function keepSpare(): void {
    if (closing.signal.aborted || spare?.isAlive() === true) return;
    try {
      spare = start();
    } catch {
      // What keeps a spare from starting shows where a run needs one.
      spare = undefined;
    }
  }

  async function run(code: string, stop: AbortSignal): Promise<PythonEnd> {
    const release = await free.take(stop);
    try {
      return await takeProcess().run(code, stop);
    } finally {
      release();
      keepSpare();
    }
  }

  return {
    async run({ code }, { signal, deadlineMs }) {
      const overdue = AbortSignal.timeout(deadlineMs);
      const stop = AbortSignal.any([signal, closing.signal, overdue]);
      const ending = run(code, stop).catch((error: unknown) => {
        if (stop.aborted) return NOT_STARTED;
        throw error;
      });
      running.add(ending);
      const end = await ending.finally(() => running.delete(ending));
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
