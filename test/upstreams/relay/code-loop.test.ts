/** Code for models of upstreams that cannot run code: the gateway's runner runs it, and the model goes on with the results. */

import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { relay as coreRelay, withCodeLoop } from "../../../src/core.ts";
import { UPSTREAMS } from "../../../src/formats/all.ts";
import { type CallRecord, type CodeRunner, createGateway, memoryQuotaStore } from "../../../src/index.ts";
import type { UnreadEvents } from "../../../src/ports/model-backend.ts";
import { type Fetch, relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import type { RelayFeature } from "../../../src/upstreams/relay/relay.ts";
import { callContext, chatRequest } from "./stage.ts";

type Format = "messages" | "chat-completions";

/** A piece of an upstream's answer: a text, or the call of a function with its arguments. */
type Said = string | { readonly name: string; readonly json: string };

const RUN = (code: string): Said => ({ name: "run_python", json: JSON.stringify({ code }) });
const OWN: Said = { name: "own", json: "{}" };
const BAD: Said = { name: "run_python", json: "{}" };
/** The connection is lost where this text would begin. */
const LOST = "LOST";

const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
const chunk = (data: object): string => `data: ${JSON.stringify({ id: "c", created: 1, model: "m", ...data })}\n\n`;

/** Writes a turn as an upstream streams it. Each turn reads 10 tokens, and writes 5. */
const STREAMS: Readonly<Record<Format, (said: readonly Said[], turn: number) => string>> = {
  messages: (said, turn) =>
    [
      event("message_start", {
        message: { id: `m_${turn}`, role: "assistant", model: "m", usage: { input_tokens: 10, output_tokens: 0 } },
      }),
      ...said.map((one, index) =>
        typeof one === "string"
          ? event("content_block_start", { index, content_block: { type: "text", text: one } }) +
            event("content_block_stop", { index })
          : event("content_block_start", {
              index,
              content_block: { type: "tool_use", id: `t_${turn}_${index}`, name: one.name, input: {} },
            }) +
            event("content_block_delta", { index, delta: { type: "input_json_delta", partial_json: one.json } }) +
            event("content_block_stop", { index }),
      ),
      event("message_delta", {
        delta: { stop_reason: said.some((one) => typeof one !== "string") ? "tool_use" : "end_turn" },
        usage: { output_tokens: 5 },
      }),
      event("message_stop", {}),
    ].join(""),
  "chat-completions": (said, turn) =>
    [
      ...said.map((one, index) =>
        chunk({
          choices: [
            {
              index: 0,
              delta:
                typeof one === "string"
                  ? { content: one }
                  : {
                      tool_calls: [
                        {
                          index,
                          id: `t_${turn}_${index}`,
                          type: "function",
                          function: { name: one.name, arguments: one.json },
                        },
                      ],
                    },
            },
          ],
        }),
      ),
      chunk({
        choices: [
          { index: 0, delta: {}, finish_reason: said.some((one) => typeof one !== "string") ? "tool_calls" : "stop" },
        ],
      }),
      chunk({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } }),
      "data: [DONE]\n\n",
    ].join(""),
};

interface Setup extends Pick<RelayOptions, "limits" | "strict" | "models" | "reasoning"> {
  readonly codeRunner?: CodeRunner;
  /** Set for a relay of polygate/core. */
  readonly features?: readonly RelayFeature[];
}

type Turns = readonly (string | readonly Said[])[];

/** An upstream of a format. A turn is a list of pieces, or a whole stream. Tells what it is sent. */
function upstream(format: Format, turns: Turns, { features, ...options }: Omit<Setup, "codeRunner"> = {}) {
  const sent: Record<string, unknown>[] = [];
  const asked: Fetch = async (_url, init) => {
    const body = JSON.parse(init?.body as string) as Record<string, unknown>;
    const turn = sent.push(body) - 1;
    const said = turns[turn] ?? turns.at(-1) ?? [];
    const [text = ""] = (typeof said === "string" ? said : STREAMS[format](said, turn)).split(`"${LOST}"`);
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  };
  const all = { baseUrl: "http://up.test/v1", ...options, fetch: asked };
  const backend = features ? coreRelay({ format: UPSTREAMS[format], ...all, features }) : relay({ format, ...all });
  return { sent, backend };
}

function open(format: Format, turns: Turns, { codeRunner, ...options }: Setup = {}) {
  const ran: string[] = [];
  const records: CallRecord[] = [];
  const runner: CodeRunner = {
    async run({ code }) {
      ran.push(code);
      return code.includes("raise")
        ? { outcome: "failed", output: "Traceback" }
        : { outcome: "ok", output: `${code.length}\n` };
    },
  };
  const { sent, backend } = upstream(format, turns, options);
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    codeRunner: codeRunner ?? runner,
    onCall: (record) => void records.push(record),
    onFailure: () => {},
  });
  const { responses } = new OpenAI({
    apiKey: "sk-test",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url, init)),
  });
  const gemini = async (generationConfig = {}): Promise<unknown> => {
    const contents = [{ role: "user", parts: [{ text: "Count" }] }];
    const body = { contents, tools: [{ codeExecution: {} }], generationConfig };
    const headers = { "content-type": "application/json", "x-goog-api-key": "sk-test" };
    const asked = { method: "POST", headers, body: JSON.stringify(body) };
    const answer = await gateway.fetch(new Request("http://gateway.test/v1beta/models/m:generateContent", asked));
    return answer.json();
  };
  return { responses, gemini, sent, ran, records };
}

const ASK = {
  model: "m",
  input: "Count",
  max_output_tokens: 100,
  tools: [{ type: "code_interpreter", container: { type: "auto" } }],
  include: ["code_interpreter_call.outputs"],
} satisfies OpenAI.Responses.ResponseCreateParamsNonStreaming;
const FUNCTION = { type: "function", name: "own", parameters: { type: "object" }, strict: false } as const;

describe.each<Format>(["messages", "chat-completions"])("code before an upstream of %s", (format) => {
  it.each([false, true])("is run, shown, and its results go to the model (stream: %s)", async (isStream) => {
    const turns = [["Let me see. ", RUN("print(1)")], [RUN("raise 1")], ["It is 9."]];
    const { responses, sent, ran, records } = open(format, turns);
    const answer = isStream ? await responses.stream({ ...ASK }).finalResponse() : await responses.create({ ...ASK });
    expect(ran).toEqual(["print(1)", "raise 1"]);
    expect(answer.output).toMatchObject([
      { type: "message", content: [{ text: "Let me see. " }] },
      { type: "code_interpreter_call", code: "print(1)", outputs: [{ type: "logs", logs: "8\n" }] },
      { type: "code_interpreter_call", code: "raise 1", outputs: [{ type: "logs", logs: "Traceback" }] },
      { type: "message", content: [{ text: "It is 9." }] },
    ]);
    expect(answer).toMatchObject({ status: "completed", usage: { input_tokens: 30, output_tokens: 15 } });
    expect(records).toMatchObject([{ units: 45, certainty: "exact", attempts: [{}, {}, {}] }]);
    // The limit is that of all turns together, and no turn but the model's own is asked.
    const limits = sent.map((body) => body["max_tokens"] ?? body["max_completion_tokens"]);
    expect(limits).toEqual([100, 95, 90]);
    expect(JSON.stringify(sent[1])).toContain("8\\n");
    expect(JSON.stringify(sent[2])).toContain("The code has failed.");
  });

  it("is shown to callers of generate-content, too", async () => {
    const { gemini } = open(format, [[RUN("print(1)")], ["It is 8."]]);
    expect(await gemini()).toMatchObject({
      candidates: [
        {
          content: {
            parts: [
              { executableCode: { language: "PYTHON", code: "print(1)" } },
              { codeExecutionResult: { outcome: "OUTCOME_OK", output: "8\n" } },
              { text: "It is 8." },
            ],
          },
          finishReason: "STOP",
        },
      ],
    });
  });

  it("is known in the next request", async () => {
    const { responses, sent } = open(format, [[RUN("print(1)")], ["It is 8."]]);
    const { output } = await responses.create({ ...ASK });
    const input = [{ role: "user" as const, content: "Count" }, ...output, { role: "user" as const, content: "Why?" }];
    const { response } = await responses.create({ ...ASK, input: input as never }).withResponse();
    expect(response.headers.get("polygate-dropped")).toBeNull();
    expect(JSON.stringify(sent[2])).toMatch(/print\(1\).*8\\n.*It is 8/);
  });

  it("is run beside a function of the caller's own, whose call ends the answer", async () => {
    const { responses, sent, ran } = open(format, [[RUN("print(1)"), OWN]]);
    const answer = await responses.create({ ...ASK, tools: [...ASK.tools, FUNCTION] });
    expect([sent.length, ran]).toEqual([1, ["print(1)"]]);
    expect(answer.output.map(({ type }) => type).toSorted()).toEqual(["code_interpreter_call", "function_call"]);
  });

  it("ends after the turns of the host, and a call without code is told", async () => {
    const endless = open(format, [[RUN("print(1)")]], { limits: { maxCodeTurns: 2 } });
    expect(await endless.responses.create({ ...ASK })).toMatchObject({ status: "completed" });
    expect([endless.sent.length, endless.ran.length]).toEqual([3, 2]);
    const bad = open(format, [[BAD], ["Sorry."]]);
    expect((await bad.responses.create({ ...ASK })).output_text).toBe("Sorry.");
    expect([bad.ran, JSON.stringify(bad.sent[1]).includes("needs one argument")]).toEqual([[], true]);
    const many = open(format, [Array.from({ length: 20 }, () => RUN("print(1)")), ["Done."]]);
    await many.responses.create({ ...ASK });
    expect([many.ran.length, JSON.stringify(many.sent[1]).split("Not run").length]).toEqual([16, 5]);
    const forbidden = open(format, [[RUN("print(1)")]]);
    await forbidden.responses.create({ ...ASK, tool_choice: "none" });
    expect([forbidden.sent.length, forbidden.ran]).toEqual([1, []]);
    const long = open(format, [[RUN("print(1)")]]);
    const cut = await long.responses.create({ ...ASK, max_output_tokens: 16 });
    expect([cut.status, long.sent.length]).toEqual(["incomplete", 4]);
  });

  it("is asked for by name, once", async () => {
    const { responses, sent } = open(format, [[RUN("print(1)")], ["8"]]);
    await responses.create({ ...ASK, tool_choice: { type: "code_interpreter" } as never });
    const choices = sent.map(({ tool_choice }) => JSON.stringify(tool_choice ?? "auto"));
    expect(choices[0]).toContain("run_python");
    expect(choices[1]).not.toContain("run_python");
  });

  it("that fails is a result, which strict takes", async () => {
    const { responses } = open(format, [[RUN("raise 1")], ["It failed."]], { strict: true });
    expect(await responses.create({ ...ASK })).toMatchObject({ output_text: "It failed." });
  });

  it.each<[string, readonly Said[]]>([
    ["code", [RUN("x".repeat(20_000))]],
    ["calls", Array.from({ length: 200 }, () => BAD)],
  ])("has a bound: no more %s than the output limit can mean", async (_what, said) => {
    const { responses, ran } = open(format, [said, ["Done."]]);
    await expect(responses.create({ ...ASK })).rejects.toThrow("does not end");
    expect(ran).toEqual([]);
  });

  it("is charged with each turn so far when a turn breaks off, in the midst of the code", async () => {
    const { responses, records } = open(format, [[RUN("print(1)")], [RUN("x".repeat(2_000)), LOST]]);
    await expect(responses.create({ ...ASK, max_output_tokens: 1_000 })).rejects.toMatchObject({ status: 500 });
    const { usage, certainty } = records[0] ?? {};
    expect([usage?.inputTokens, certainty]).toEqual([20, "estimated"]);
    expect(usage?.outputTokens).toBeGreaterThan(500);
  });

  it("is charged with what has come and nobody has read", async () => {
    const { backend } = upstream(format, [[RUN("print(1)")], ["It is 8."]]);
    let unread: UnreadEvents | undefined;
    const call = {
      ...callContext(),
      runCode: async () => ({ outcome: "ok" as const, output: "8" }),
      reportUnread: (latest: UnreadEvents) => void (unread = latest),
    };
    for await (const one of backend.chat?.(chatRequest({ tools: [{ type: "code-execution" }] }), call) ?? [])
      if (JSON.stringify(one).includes("It is 8.")) break;
    expect([...(unread?.() ?? [])].at(-1)).toMatchObject({
      type: "finish",
      usage: { inputTokens: 20, outputTokens: 10 },
    });
  });

  it("stops with its caller", async () => {
    const leaving = new AbortController();
    const { promise: stopped, resolve } = Promise.withResolvers<boolean>();
    const codeRunner: CodeRunner = {
      run: (_code, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            resolve(true);
            reject(signal.reason as Error);
          });
          leaving.abort();
        }),
    };
    const { responses, sent, records } = open(format, [[RUN("while True: pass")]], { codeRunner });
    await expect(responses.create({ ...ASK }, { signal: leaving.signal })).rejects.toMatchObject({ status: 499 });
    expect([await stopped, sent.length]).toEqual([true, 1]);
    expect(records).toMatchObject([{ outcome: "client-closed", units: 15 }]);
  });
});

describe("a relay of polygate/core", () => {
  it.each<[string, readonly RelayFeature[], number]>([
    ["runs code with the code of the loop", [withCodeLoop], 2],
    ["leaves the tool out without it", [], 1],
  ])("%s", async (_what, features, turns) => {
    const { gemini, sent, ran } = open("messages", [[turns > 1 ? RUN("1") : "No code."], ["Done."]], { features });
    await gemini();
    expect([sent.length, ran.length]).toEqual([turns, turns - 1]);
    expect(sent[0]?.["tools"] !== undefined).toBe(turns > 1);
  });
});

describe("the turns of one answer", () => {
  const done = ["Done."];

  it.each([true, false])(
    "lose nothing of the caller's where a later one cannot reason (strict: %s)",
    async (strict) => {
      const { gemini, sent, records } = open("messages", [[RUN("1")], done], { strict, reasoning: "budget" });
      await gemini({ maxOutputTokens: 5_000, thinkingConfig: { thinkingBudget: 4_000, includeThoughts: true } });
      expect(sent.map(({ thinking }) => thinking)).toMatchObject([{ budget_tokens: 4_000 }, { type: "disabled" }]);
      expect(records).toMatchObject([{ outcome: "completed", dropped: [] }]);
    },
  );

  it("keep their search, and the places of their sources, before messages", async () => {
    const search = { type: "server_tool_use", id: "s_1", name: "web_search", input: {} };
    const cited = { type: "citations_delta", citation: { type: "web_search_result_location", url: "http://a.test" } };
    const block = (index: number, content_block: object): string =>
      event("content_block_start", { index, content_block });
    const first =
      STREAMS.messages(["Zürich: "], 0).split("event: message_delta")[0] +
      block(1, search) +
      event("content_block_delta", { index: 1, delta: { type: "input_json_delta", partial_json: '{"query":"x"}' } }) +
      event("content_block_stop", { index: 1 }) +
      STREAMS.messages([RUN("1")], 0)
        .split("\n\n")
        .slice(1)
        .join("\n\n");
    const last = STREAMS.messages(done, 1).replace(
      "event: content_block_stop",
      `${event("content_block_delta", { index: 0, delta: cited })}event: content_block_stop`,
    );
    const { gemini, sent } = open("messages", [first, last]);
    expect(await gemini()).toMatchObject({
      candidates: [{ citationMetadata: { citationSources: [{ startIndex: 9, endIndex: 14, uri: "http://a.test" }] } }],
    });
    expect(sent[1]).toMatchObject({
      messages: [{}, { content: [{ type: "text" }, { ...search, input: { query: "x" } }, {}] }, {}],
    });
  });

  it("keep the signature of their call, before a Gemini model of chat completions", async () => {
    const extra_content = { google: { thought_signature: "SEAL" } };
    const signed = STREAMS["chat-completions"]([RUN("1")], 0).replace(
      '"type":"function"',
      `"extra_content":${JSON.stringify(extra_content)},"type":"function"`,
    );
    // Without a memory of turns, the loop alone knows the signature.
    const options = { models: { m: "gemini-3-pro" }, limits: { maxRememberedChars: 0 } };
    const { responses, sent } = open("chat-completions", [signed, done], options);
    await responses.create({ ...ASK });
    expect(sent[1]).toMatchObject({ messages: [{}, { tool_calls: [{ extra_content }] }, {}] });
  });

  it("are estimated with the others where one of them was not counted", async () => {
    const words = "word ".repeat(250);
    const uncounted = STREAMS["chat-completions"]([words, RUN("1")], 0).replace(/data: [^\n]*"usage".*\n\n/, "");
    const { responses, records } = open("chat-completions", [uncounted, done]);
    await responses.create({ ...ASK, max_output_tokens: 1_000 });
    expect(records[0]?.certainty).toBe("estimated");
    expect(records[0]?.usage?.outputTokens).toBeGreaterThan(200);
  });
});
