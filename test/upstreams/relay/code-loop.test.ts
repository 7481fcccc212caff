/** Code for models of upstreams that cannot run code: the gateway's runner runs it, and the model goes on with the results. */

import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { type CallRecord, type CodeRunner, createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

type Format = "messages" | "chat-completions";

/** A piece of an upstream's answer: a text, or the call of a function with its arguments. */
type Said = string | { readonly name: string; readonly json: string };

const RUN = (code: string): Said => ({ name: "run_python", json: JSON.stringify({ code }) });
const OWN: Said = { name: "own", json: "{}" };
const BAD: Said = { name: "run_python", json: "{}" };

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

interface Setup {
  readonly codeRunner?: CodeRunner;
  readonly maxCodeTurns?: number;
}

function open(format: Format, turns: readonly (readonly Said[])[], { codeRunner, maxCodeTurns = 8 }: Setup = {}) {
  const sent: Record<string, unknown>[] = [];
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
  const gateway = createGateway({
    backend: relay({
      format,
      baseUrl: "http://up.test/v1",
      limits: { maxCodeTurns },
      async fetch(_url, init) {
        const body = JSON.parse(init?.body as string) as Record<string, unknown>;
        const turn = sent.push(body) - 1;
        const text = STREAMS[format](turns[turn] ?? turns.at(-1) ?? [], turn);
        return new Response(text, { headers: { "content-type": "text/event-stream" } });
      },
    }),
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
  const gemini = async (): Promise<unknown> => {
    const body = { contents: [{ role: "user", parts: [{ text: "Count" }] }], tools: [{ codeExecution: {} }] };
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

  it("is run beside a function of the caller's own, whose call ends the answer", async () => {
    const { responses, sent, ran } = open(format, [[RUN("print(1)"), OWN]]);
    const answer = await responses.create({ ...ASK, tools: [...ASK.tools, FUNCTION] });
    expect([sent.length, ran]).toEqual([1, ["print(1)"]]);
    expect(answer.output.map(({ type }) => type).toSorted()).toEqual(["code_interpreter_call", "function_call"]);
  });

  it("ends after the turns of the host, and a call without code is told", async () => {
    const endless = open(format, [[RUN("print(1)")]], { maxCodeTurns: 2 });
    expect(await endless.responses.create({ ...ASK })).toMatchObject({ status: "completed" });
    expect([endless.sent.length, endless.ran.length]).toEqual([3, 2]);
    const bad = open(format, [[BAD], ["Sorry."]]);
    expect((await bad.responses.create({ ...ASK })).output_text).toBe("Sorry.");
    expect([bad.ran, JSON.stringify(bad.sent[1]).includes("needs one argument")]).toEqual([[], true]);
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
    const { responses, sent } = open(format, [[RUN("while True: pass")]], { codeRunner });
    await expect(responses.create({ ...ASK }, { signal: leaving.signal })).rejects.toMatchObject({ status: 499 });
    expect([await stopped, sent.length]).toEqual([true, 1]);
  });
});
