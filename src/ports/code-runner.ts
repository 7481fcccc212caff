/** The port behind which code that a model wrote is run. */

/**
 * Runs code that nobody has read, apart from the machine it runs on. Each run is fresh: nothing that one run sets or writes
 * is seen by another. Runs may overlap; a runner that takes only so many at once lets the others wait.
 */
export interface CodeRunner {
  /**
   * Runs one piece of code to its end. Never rejects for what the code does: an exception, a crash and an exhausted memory are
   * outcomes. Rejects with the signal's reason when that fires, and with an Error of its own when no code can be run at all.
   * Either way nothing of the code still runs when the promise is settled.
   */
  run(code: CodeToRun, call: CodeCall): Promise<CodeResult>;
}

/** A piece of code, whole. */
export interface CodeToRun {
  readonly language: "python";
  readonly code: string;
}

/** What a run is told about the call that it belongs to. */
export interface CodeCall {
  /** The id of the key that pays for the call: a runner that takes only so many runs at once serves keys in turn. */
  readonly keyId: string;
  /** Fires when nobody waits for the outcome any more; the run then ends at once. */
  readonly signal: AbortSignal;
  /** How long the run may take, in milliseconds: waiting for its turn and loading the language included. */
  readonly deadlineMs: number;
}

/** How a run ended. */
export interface CodeResult {
  /** `failed` is the code's own end: an exception, an exit code other than 0, a crash, more memory than it may have. */
  readonly outcome: "ok" | "failed" | "deadline-exceeded";
  /**
   * What the code printed until then, standard output and error in the order of printing, an exception's traceback last.
   * A runner cuts what is too long and says so here. Nothing in it tells of the machine that ran the code.
   */
  readonly output: string;
}
