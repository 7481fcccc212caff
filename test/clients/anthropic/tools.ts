/** Tools: who decides on them, and what they are called with. */

import type { Message, ToolChoice } from "@anthropic-ai/sdk/resources/messages";
import { describe, expect, it } from "vitest";
import { bookFlight, expectSatisfies, weather } from "./schemas.ts";
import { say, type Stage, textOf } from "./sdk.ts";

const tools = [weather, bookFlight];

const callsOf = ({ content }: Message) => content.filter((block) => block.type === "tool_use");
const namesOf = (message: Message): string[] => callsOf(message).map(({ name }) => name);

export function toolsSuite({ connect }: Stage): void {
  const ask = (text: string, tool_choice: ToolChoice): Promise<Message> =>
    connect().messages.create(say(text, { tools, tool_choice }));

  describe("choice", () => {
    it("is the model's where nothing is said: it calls the tool that the message speaks of", async () => {
      const message = await connect().messages.create(say("What is the weather in Oslo?", { tools }));
      expect(namesOf(message)).toEqual(["get_weather"]);
      expect(message.stop_reason).toBe("tool_use");
    });

    it("auto calls no tool where the message speaks of none", async () => {
      const message = await ask("Hello", { type: "auto" });
      expect(textOf(message)).toBe("You said: Hello");
      expect(message.stop_reason).toBe("end_turn");
    });

    it("tool forces the named one, whatever the message says", async () => {
      expect(namesOf(await ask("The weather?", { type: "tool", name: "book_flight" }))).toEqual(["book_flight"]);
    });

    it("any forces one, though the message speaks of none", async () => {
      const message = await ask("Hello", { type: "any" });
      expect(callsOf(message)).toHaveLength(1);
      expect(message.stop_reason).toBe("tool_use");
    });

    it("none forbids all", async () => {
      expect(namesOf(await ask("Use every tool", { type: "none" }))).toEqual([]);
    });

    it.each(["auto", "any"] as const)("%s allows calls in parallel", async (type) => {
      expect(namesOf(await ask("Use every tool", { type }))).toEqual(["get_weather", "book_flight"]);
    });

    it.each(["auto", "any"] as const)("%s holds to one call where parallel calls are disabled", async (type) => {
      const message = await ask("Use every tool", { type, disable_parallel_tool_use: true });
      expect(namesOf(message)).toEqual(["get_weather"]);
    });
  });

  it("calls with inputs that satisfy the schemas, each under its own id", async () => {
    const message = await connect().messages.create(say("Use every tool for Oslo", { tools }));
    const [first, second] = callsOf(message);
    expectSatisfies(first?.input, weather);
    expect(first?.input).toMatchObject({ city: "Oslo" });
    expectSatisfies(second?.input, bookFlight);
    expect(first?.id).not.toBe(second?.id);
  });

  it("streams an input as JSON in pieces, which add up to the same", async () => {
    const pieces: string[] = [];
    const stream = connect().messages.stream(say("Reserve seats", { tools }));
    stream.on("inputJson", (piece) => pieces.push(piece));
    const [call] = callsOf(await stream.finalMessage());
    expect(pieces.length).toBeGreaterThan(1);
    expect(JSON.parse(pieces.join(""))).toEqual(call?.input);
    expectSatisfies(call?.input, bookFlight);
  });

  it("takes the built-in tools of the spec's date", async () => {
    const message = await connect().beta.messages.create({
      ...say("Use every tool"),
      betas: ["computer-use-2024-10-22"],
      tools: [
        { type: "computer_20241022", name: "computer", display_width_px: 1_024, display_height_px: 768 },
        { type: "bash_20241022", name: "bash" },
        { type: "text_editor_20241022", name: "str_replace_editor" },
      ],
    });
    const names = message.content.map((block) => (block.type === "tool_use" ? block.name : block.type));
    expect(names).toEqual(["computer", "bash", "str_replace_editor"]);
  });

  it("cuts a call that does not fit into max_tokens", async () => {
    const message = await connect().messages.create(say("Reserve seats", { tools, max_tokens: 4 }));
    expect(message.stop_reason).toBe("max_tokens");
    expect(callsOf(message)).toEqual([]);
  });
}
