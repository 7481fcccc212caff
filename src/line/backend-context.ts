/** A call as its backend sees it. */

import type { FieldFate } from "../model/fate.ts";
import type { AskedUpstream, UpstreamObserver } from "../ports/call-observer.ts";
import type { CodeResult, CodeRunner, CodeToRun } from "../ports/code-runner.ts";
import type { CallContext } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Call } from "./call.ts";
import { CallDetails } from "./call-details.ts";

/** What a backend is told beside its request. */
export class BackendContext extends CallDetails implements CallContext {
  readonly key: ApiKey;
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
  readonly #call: Call;

  /** @param mayRunCode Whether the request has the tool that lets a model run code. */
  constructor(call: Call, key: ApiKey, mayRunCode = false) {
    super(call);
    this.key = key;
    this.#call = call;
    const { codeRunner, limits } = call.services;
    if (codeRunner && mayRunCode) this.runCode = runsFor(call, key.id, codeRunner, limits.codeDeadlineMs);
  }

  reportFates(fates: readonly FieldFate[]): void {
    this.#call.fates = fates;
  }

  get observeUpstream(): ((asked: AskedUpstream) => UpstreamObserver) | undefined {
    const { watch } = this.#call;
    return watch && ((asked) => watch.upstream(asked));
  }

  // A getter of the class, so that no signal is made which nobody reads; one on each object would be slow to make.
  get signal(): AbortSignal {
    return this.#call.signal;
  }
}

/** Runs code for a call, whose signal is made only when there is code to run. */
const runsFor =
  (call: Call, keyId: string, runner: CodeRunner, deadlineMs: number) =>
  (code: CodeToRun): Promise<CodeResult> =>
    call.wait(runner.run(code, { keyId, signal: call.signal, deadlineMs }));
