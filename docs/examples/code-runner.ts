// code-runner.ts
import type { CodeRunner } from "polygate";

declare function inSandbox(code: string, signal: AbortSignal): Promise<string>;

/** The option `codeRunner` of `createGateway`. */
export const codeRunner: CodeRunner = {
  async run({ code }, { signal }) {
    return { outcome: "ok", output: await inSandbox(code, signal) };
  },
};
