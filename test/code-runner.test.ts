/** Code that a model wrote, run by the host's runner: offered where it is wanted, within the call's life and its limit. */

import { describe, expect, it } from "vitest";
import { chatGeneration } from "../src/generation.ts";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { type CallContext, type ChatRequest, type CodeRunner, tokenPrice } from "../src/index.ts";

const CODE = { language: "python", code: "print(1)" } as const;

/** What a backend is told about a call of the given request, with a runner or without. */
async function contextOf(tools: ChatRequest["tools"], codeRunner: CodeRunner | undefined): Promise<CallContext> {
  const request: ChatRequest = {
    model: "m",
    messages: [],
    system: [],
    tools,
    maxOutputTokens: 10,
    stopSequences: [],
    stream: false,
  };
  const seen: CallContext[] = [];
  const backend = {
    async *chat(_: ChatRequest, call: CallContext) {
      seen.push(call);
      yield "";
    },
  };
  const terms = {
    backend,
    codeRunner,
    limits: DEFAULT_LIMITS,
    price: tokenPrice,
    imagePrice: () => 1,
    countTokens: () => 1,
  };
  const endpoint = { parse: async () => request, maxOutputTokensPath: [] };
  const generation = await chatGeneration(terms, endpoint as never, {} as never);
  const call = { signal: new AbortController().signal, requestId: "r", key: { unlimited: true } };
  for await (const _ of generation.begin(0, call as unknown as CallContext).answer(() => {}));
  const [context] = seen;
  if (!context) throw new Error("The backend was not asked.");
  return context;
}

describe("CallContext.runCode", () => {
  const runs: unknown[] = [];
  const runner: CodeRunner = {
    run: async (...run) => {
      runs.push(run);
      return { outcome: "ok", output: "1\n" };
    },
  };

  it("runs code within the call's life and the gateway's limit", async () => {
    const context = await contextOf([{ type: "code-execution" }], runner);
    expect(await context.runCode?.(CODE)).toEqual({ outcome: "ok", output: "1\n" });
    expect(runs).toEqual([[CODE, { signal: context.signal, deadlineMs: DEFAULT_LIMITS.codeDeadlineMs }]]);
  });

  it("is not there without the tool", async () => {
    expect((await contextOf([], runner)).runCode).toBeUndefined();
  });

  it("is not there without a runner", async () => {
    expect((await contextOf([{ type: "code-execution" }], undefined)).runCode).toBeUndefined();
  });
});
