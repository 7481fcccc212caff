/** Code that a model wrote, run by the host's runner: offered where it is wanted, within the call's life and its limit. */

import { describe, expect, it } from "vitest";
import {
  type CallContext,
  type CodeResult,
  type CodeRunner,
  DEFAULT_LIMITS,
  type ModelBackend,
} from "../../src/index.ts";
import { opened } from "./bench.ts";

const CODE = { language: "python", code: "print(1)" } as const;

/** What a backend is told about a call with the given tools, with a runner or without; and what came of its code. */
async function ran(
  tools: readonly object[],
  codeRunner?: CodeRunner,
): Promise<{ readonly context: CallContext; readonly result: CodeResult | undefined }> {
  const seen: { context: CallContext; result: CodeResult | undefined }[] = [];
  const backend: ModelBackend = {
    async *chat(_, context) {
      seen.push({ context, result: await context.runCode?.(CODE) });
      yield "Done.";
    },
  };
  const { gateway } = opened({ backend, ...(codeRunner && { codeRunner }) });
  const response = await gateway.fetch(
    new Request("http://host/v1beta/models/any:generateContent?key=sk-one", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        contents: [{ parts: [{ text: "Count." }] }],
        tools,
        generationConfig: { maxOutputTokens: 50 },
      }),
    }),
  );
  expect(response.status).toBe(200);
  const [only] = seen;
  if (!only) throw new Error("The backend was not asked.");
  return only;
}

describe("CallContext.runCode", () => {
  const runs: unknown[] = [];
  const runner: CodeRunner = {
    run: async (...run) => {
      runs.push(run);
      return { outcome: "ok", output: "1\n" };
    },
  };

  it("runs code for its key, within the call's life and the gateway's limit", async () => {
    const { context, result } = await ran([{ codeExecution: {} }], runner);
    expect(result).toEqual({ outcome: "ok", output: "1\n" });
    expect(runs).toEqual([[CODE, { keyId: "one", signal: context.signal, deadlineMs: DEFAULT_LIMITS.codeDeadlineMs }]]);
  });

  it("is not there without the tool", async () => {
    expect((await ran([], runner)).context.runCode).toBeUndefined();
  });

  it("is not there without a runner", async () => {
    expect((await ran([{ codeExecution: {} }])).context.runCode).toBeUndefined();
  });
});
