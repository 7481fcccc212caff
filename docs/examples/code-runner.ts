// code-runner.ts
import type { CodeRunner } from "polygate";

// Ask your own sandbox here, and stop it with the signal.
async function inSandbox(code: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  throw new Error(`No sandbox runs these ${code.length} characters.`);
}

/** The option `codeRunner` of `createGateway`. */
export const codeRunner: CodeRunner = {
  async run({ code }, { signal }) {
    return { outcome: "ok", output: await inSandbox(code, signal) };
  },
};
