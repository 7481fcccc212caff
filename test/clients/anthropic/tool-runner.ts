/** The SDK's own tool runner, from the question to the final answer. */

import { expect, it } from "vitest";
import { recordingFetch, say, type Stage, textOf } from "./sdk.ts";

export function toolRunnerSuite({ sdk, connect }: Stage): void {
  // The newer major sends only the new messages of each turn, unless the server says that it keeps no conversations.
  it.each([false, true])("runs to the final answer (stream: %s)", async (stream) => {
    const cities: string[] = [];
    const tool = sdk.weatherTool((city) => {
      cities.push(city);
      return `sunny in ${city}`;
    });
    const asked = say("What is the weather in Oslo?");
    const message = await connect()
      .beta.messages.toolRunner({ ...asked, tools: [tool], stream })
      .runUntilDone();
    expect(cities).toEqual(["Oslo"]);
    expect(textOf(message)).toBe("The tool get_weather answered: sunny in Oslo.");
    expect(message.stop_reason).toBe("end_turn");
  });

  it.each([false, true])("runs where the whole conversation is sent every turn (stream: %s)", async (stream) => {
    const tools = [sdk.weatherTool((city) => `sunny in ${city}`)];
    const { fetch, sent } = recordingFetch();
    const asked = { ...say("What is the weather in Oslo?"), tools, stream, thread: false as const };
    const message = await connect({ fetch }).beta.messages.toolRunner(asked).runUntilDone();
    expect(textOf(message)).toBe("The tool get_weather answered: sunny in Oslo.");
    expect(sent).toHaveLength(2);
  });

  it("tells the model of a tool that fails", async () => {
    const tool = sdk.weatherTool(() => {
      throw new Error("the station is down");
    });
    const asked = { ...say("The weather?"), tools: [tool], thread: false as const };
    const message = await connect().beta.messages.toolRunner(asked).runUntilDone();
    expect(textOf(message)).toMatch(/^The tool get_weather failed: .*the station is down/);
  });
}
