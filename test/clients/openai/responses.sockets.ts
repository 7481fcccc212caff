/** A session of the official client over a WebSocket: tools in parallel, a compaction, a cut, and the next turn. */

import type OpenAI from "openai";
import { ResponsesWS as ResponsesWSSix } from "openai-6/resources/responses/ws";
import { ResponsesWS } from "openai/resources/responses/ws";
import { expect, it } from "vitest";
import { type Stage, sdks } from "./sdk.ts";

type Asked = Parameters<ResponsesWS["send"]>[0];
type Turn = Omit<Extract<Asked, { type: "response.create" }>, "type">;

const model = "demo-chat";
const tools = (["weather", "population"] as const).map((what) => ({
  type: "function" as const,
  name: `get_${what}`,
  description: `Tells the ${what}.`,
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
}));

/** Takes a turn, and returns its response. */
function turn(ws: ResponsesWS, request: Turn): Promise<OpenAI.Responses.Response> {
  const { promise, resolve, reject } = Promise.withResolvers<OpenAI.Responses.Response>();
  ws.once("response.completed", ({ response }) => resolve(response));
  ws.once("error", reject);
  ws.send({ type: "response.create", model, ...request });
  return promise;
}

export function socketResponsesSuite({ sdk, connect }: Stage): void {
  const Socket = sdk === sdks[0] ? ResponsesWS : (ResponsesWSSix as unknown as typeof ResponsesWS);

  it("calls tools in parallel, compacts, is cut, and goes on", async () => {
    const ws = new Socket(connect());
    const asked = await turn(ws, { input: "What are the weather and the population of Oslo?", tools });
    const calls = asked.output.filter((item) => item.type === "function_call");
    expect(calls.map(({ name }) => name)).toEqual(["get_weather", "get_population"]);
    const input = calls.map(({ call_id, name }) => ({
      type: "function_call_output" as const,
      call_id,
      output: `${name} is fine`,
    }));
    const told = await turn(ws, { input, tools, previous_response_id: asked.id });
    expect(told.output).toMatchObject([{ content: [{ text: expect.stringContaining("get_weather is fine") }] }]);

    const trigger = { type: "compaction_trigger" } as unknown as OpenAI.Responses.ResponseInputItem;
    const compacted = await turn(ws, { input: [trigger], tools, previous_response_id: told.id });
    expect(compacted.output.map(({ type }) => type)).toEqual(["compaction"]);
    const items = compacted.output as unknown as OpenAI.Responses.ResponseInput;
    const on = await turn(ws, { input: [...items, { role: "user", content: "Go on." }], store: false });
    expect(on.output).toMatchObject([{ content: [{ text: expect.stringMatching(/Go on\.$/) }] }]);

    ws.send({ type: "response.create", model, input: "/delay 50 /repeat 500" });
    await new Promise((resolve) => void ws.once("response.output_text.delta", resolve));
    ws.close();
    const again = new Socket(connect());
    const after = await turn(again, { input: "And now?", previous_response_id: told.id });
    expect(after).toMatchObject({ status: "completed", output: [{ content: [{ text: "You said: And now?" }] }] });
    again.close();
  });
}
