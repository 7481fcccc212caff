/** Tools of Responses by the official client: functions, custom tools, choices, results in all forms, code that the service runs. */

import type OpenAI from "openai";
import type { ResponseInputItem, Tool } from "openai/resources/responses/responses";
import { expect, it } from "vitest";
import { sdks, type Stage } from "./sdk.ts";

const model = "demo-chat";

const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const WEATHER: Tool = {
  type: "function",
  name: "get_weather",
  description: "Tells the weather",
  parameters,
  strict: true,
};
const TIME: Tool = { type: "function", name: "get_time", description: "Tells the time", parameters, strict: false };
const SQL: Tool = { type: "custom", name: "run_sql", description: "Runs a query", format: { type: "text" } };

type Call = Extract<OpenAI.Responses.ResponseOutputItem, { type: "function_call" | "custom_tool_call" }>;

const callsOf = ({ output }: OpenAI.Responses.Response): Call[] =>
  output.flatMap((item) => (item.type === "function_call" || item.type === "custom_tool_call" ? [item] : []));

export function responseToolsSuite({ sdk, connect }: Stage): void {
  it("are called in parallel, streamed and complete, and their results are read", async () => {
    const input = "Use both tools for Oslo";
    const asked = { model, input, tools: [WEATHER, TIME] };
    const complete = await connect().responses.create(asked);
    const calls = callsOf(complete);
    expect(calls).toMatchObject([
      { type: "function_call", name: "get_weather", status: "completed" },
      { type: "function_call", name: "get_time", status: "completed" },
    ]);
    for (const call of calls)
      expect(JSON.parse("arguments" in call ? call.arguments : "")).toEqual({ city: expect.any(String) });

    const stream = connect().responses.stream(asked);
    const snapshots = new Map<number, string>();
    stream.on("response.function_call_arguments.delta", ({ output_index, snapshot }) =>
      snapshots.set(output_index, snapshot),
    );
    const streamed = await stream.finalResponse();
    expect(callsOf(streamed)).toMatchObject(
      calls.map(({ id: _id, ...call }, index) => ({ ...call, arguments: snapshots.get(index) })),
    );

    const results = calls.map(({ call_id }, index): ResponseInputItem => ({
      type: "function_call_output",
      call_id,
      output: `result ${index}`,
    }));
    const turns = [{ role: "user", content: input }, ...complete.output, ...results] as ResponseInputItem[];
    const next = await connect().responses.create({ ...asked, input: turns });
    expect(next.output_text).toBe("The tool get_weather answered: result 0. The tool get_time answered: result 1.");
  });

  it("are called in a loop that only names the response before", async () => {
    const first = await connect().responses.create({ model, input: "What is the weather?", tools: [WEATHER] });
    const input = callsOf(first).map(({ call_id }): ResponseInputItem => ({
      type: "function_call_output",
      call_id,
      output: [
        { type: "input_text", text: "sunny" },
        { type: "input_image", detail: "auto", image_url: "https://example.com/sun.png" },
      ],
    }));
    const asked = { model, tools: [WEATHER], previous_response_id: first.id, input };
    expect((await connect().responses.create(asked)).output_text).toBe(
      "The tool get_weather answered: sunny, an image at https://example.com/sun.png.",
    );
  });

  it("of one text keep their kind", async () => {
    const asked = { model, input: "Run the query select 1", tools: [SQL] };
    const stream = connect().responses.stream(asked);
    let input = "";
    stream.on("response.custom_tool_call_input.delta", ({ delta }) => void (input += delta));
    const first = await stream.finalResponse();
    const [call] = callsOf(first);
    expect(call).toMatchObject({ type: "custom_tool_call", name: "run_sql", input, status: "completed" });
    expect(input).not.toBe("");
    const output: ResponseInputItem = {
      type: "custom_tool_call_output",
      call_id: call?.call_id ?? "",
      output: "1 row",
    };
    const turns = [{ role: "user", content: asked.input }, ...first.output, output] as ResponseInputItem[];
    expect((await connect().responses.create({ ...asked, input: turns })).output_text).toBe(
      "The tool run_sql answered: 1 row.",
    );
  });

  // The code runs for seconds at the service, whatever the major.
  if (sdk !== sdks[0]) return;
  it("run code, whose outputs are shown", async () => {
    const tools: Tool[] = [{ type: "code_interpreter", container: { type: "auto" } }];
    const asked = { model, input: "compute 2+2 with python", tools };
    const streamed = await connect().responses.stream(asked).finalResponse();
    for (const { output } of [streamed, await connect().responses.create(asked)])
      expect(output.find(({ type }) => type === "code_interpreter_call")).toMatchObject({
        status: "completed",
        code: expect.stringContaining("2+2"),
        outputs: [{ type: "logs", logs: "4\n" }],
      });
  });
}
