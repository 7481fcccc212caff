/** Code that a model wrote, run by the host's runner: offered where it is wanted, within the call's life and its limit. */

import { describe, expect, it } from "vitest";
import {
  type CallContext,
  type CodeResult,
  type CodeRunner,
  DEFAULT_LIMITS,
  type Failure,
  type ModelBackend,
} from "../../src/index.ts";
import { opened } from "./bench.ts";

const CODE = { language: "python", code: "print(1)" } as const;

interface Seen {
  readonly context: CallContext;
  readonly result: CodeResult | undefined;
}

/** Asks with the given tools, with a runner or without. */
async function asked(
  tools: readonly object[],
  codeRunner?: CodeRunner,
): Promise<{ readonly seen: readonly Seen[]; readonly response: Response; readonly failures: readonly Failure[] }> {
  const seen: Seen[] = [];
  const backend: ModelBackend = {
    async *chat(_, context) {
      seen.push({ context, result: await context.runCode?.(CODE) });
      yield "Done.";
    },
  };
  const { gateway, failures } = opened({ backend, ...(codeRunner && { codeRunner }) });
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
  return { seen, response, failures };
}

/** What a backend is told about a call, and what came of its code. */
async function ran(...call: Parameters<typeof asked>): Promise<Seen> {
  const { seen, response } = await asked(...call);
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

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no sandbox");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no sandbox"))],
    ["returns nothing", () => undefined],
    ["names no outcome", () => ({ outcome: "done", output: "1" })],
    ["gives no text", () => ({ outcome: "ok" })],
  ])("fails the call as the host's runner, not its backend, when the runner %s", async (_how, run) => {
    const { response, failures } = await asked([{ codeExecution: {} }], { run } as CodeRunner);
    expect(response.status).toBe(500);
    expect(failures).toMatchObject([{ error: { code: "internal", port: "code-runner" } }]);
  });

  it("cuts the output of a runner that does not", async () => {
    const { result } = await ran([{ codeExecution: {} }], {
      run: async () => ({ outcome: "ok", output: "x".repeat(10_000_000) }),
    });
    expect(result?.output.length).toBeLessThan(300_000);
  });

  it("is not there without the tool", async () => {
    expect((await ran([], runner)).context.runCode).toBeUndefined();
  });

  it("is not there without a runner", async () => {
    expect((await ran([{ codeExecution: {} }])).context.runCode).toBeUndefined();
  });
});
