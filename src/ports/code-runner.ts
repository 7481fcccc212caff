/** The port for runners of code that models write. */

/**
 * Runs untrusted code, isolated from its machine. Each run is fresh: no run sees variables or files of another run. Several runs may be
 * active at once. A runner that limits concurrent runs makes further runs wait.
 */
export interface CodeRunner {
  /**
   * Runs one piece of code to its end. Resolves also when the code throws, crashes or uses too much memory. Rejects with the signal's
   * reason when the signal fires, and with its own Error when the runner cannot run any code: the call then fails with `internal`, and
   * `onFailure` names the port `code-runner`. The code must have ended when the promise settles.
   */
  run(code: CodeToRun, call: CodeCall): Promise<CodeResult>;
}

/** A complete piece of code. */
export interface CodeToRun {
  /** The language of the code. */
  readonly language: "python";
  /** The text of the code. */
  readonly code: string;
}

/** The details of the call that needs a run. */
export interface CodeCall {
  /**
   * The key of the call (`ApiKey.id`). A runner with waiting runs must take turns between keys: runs of one key must not block those of
   * another.
   */
  readonly keyId: string;
  /** Fires when the call no longer needs the outcome. The run must then end at once. */
  readonly signal: AbortSignal;
  /** The most time for the run, in milliseconds. Includes the wait for a turn and the time to load the language. */
  readonly deadlineMs: number;
}

/** The result of a run. */
export interface CodeResult {
  /** `failed`: an exception, an exit code other than 0, a crash, or too much memory. */
  readonly outcome: "ok" | "failed" | "deadline-exceeded";
  /**
   * The printed text: standard output and standard error in the order of printing, then the traceback of an exception. A runner cuts long
   * output, and says so in the text: the gateway cuts at 262,144 UTF-16 units. The text must not reveal anything about the machine.
   */
  readonly output: string;
}
