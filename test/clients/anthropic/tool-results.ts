/** The results of tools, sent back by hand. */

import type { ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import { expect, it } from "vitest";
import { png } from "../png.ts";
import { weather } from "./schemas.ts";
import { say, type Stage, textOf } from "./sdk.ts";

export function toolResultsSuite({ connect }: Stage): void {
  const image = {
    type: "image" as const,
    source: { type: "base64" as const, media_type: "image/png" as const, data: png(4, 3).toString("base64") },
  };

  it.each<[string, Omit<ToolResultBlockParam, "type" | "tool_use_id">, string]>([
    ["a string", { content: "sunny" }, "The tool get_weather answered: sunny."],
    ["blocks", { content: [{ type: "text", text: "sunny" }] }, "The tool get_weather answered: sunny."],
    [
      "text and an image",
      { content: [{ type: "text", text: "a map" }, image] },
      "The tool get_weather answered: a map, an image (image/png, 4 × 3 pixels).",
    ],
    ["an error", { content: "no such city", is_error: true }, "The tool get_weather failed: no such city."],
    ["nothing", {}, "The tool get_weather answered: nothing."],
    ["an empty string", { content: "" }, "The tool get_weather answered: nothing."],
  ])("takes %s", async (_what, result, answer) => {
    const client = connect();
    const asked = say("What is the weather in Oslo?", { tools: [weather] });
    const first = await client.messages.create(asked);
    const call = first.content.find((block) => block.type === "tool_use");
    const second = await client.messages.create({
      ...asked,
      messages: [
        ...asked.messages,
        { role: "assistant", content: first.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call?.id ?? "", ...result }] },
      ],
    });
    expect(textOf(second)).toBe(answer);
    expect(second.stop_reason).toBe("end_turn");
  });

  it("takes the results of parallel calls in one turn, with text after them", async () => {
    const client = connect();
    const other = { ...weather, name: "get_tides" };
    const asked = say("Use every tool for Oslo", { tools: [weather, other] });
    const first = await client.messages.create(asked);
    const results = first.content.flatMap((block) =>
      block.type === "tool_use"
        ? [{ type: "tool_result" as const, tool_use_id: block.id, content: `of ${block.name}` }]
        : [],
    );
    const second = await client.messages.create({
      ...asked,
      messages: [
        ...asked.messages,
        { role: "assistant", content: first.content },
        { role: "user", content: [...results, { type: "text", text: "Well?" }] },
      ],
    });
    expect(textOf(second)).toBe(
      "The tool get_weather answered: of get_weather. The tool get_tides answered: of get_tides. You said: Well?",
    );
  });
}
