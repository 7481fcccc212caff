/** Extended thinking: given, signed, and sent back. */

import { describe, expect, it } from "vitest";
import { weather } from "./schemas.ts";
import { type Params, say, type Stage, textOf } from "./sdk.ts";

const enabled: Partial<Params> = { max_tokens: 2_000, thinking: { type: "enabled", budget_tokens: 1_024 } };

export function thinkingSuite({ connect }: Stage): void {
  it.each<[string, Partial<Params>]>([
    ["enabled", enabled],
    ["adaptive", { thinking: { type: "adaptive" } }],
  ])("%s puts signed thoughts before the answer", async (_mode, more) => {
    const message = await connect().messages.create(say("Think of me", more));
    const [thoughts, answer] = message.content;
    expect(message.content).toHaveLength(2);
    expect(thoughts).toEqual({
      type: "thinking",
      thinking: "The user wrote 3 words. I will tell them back what arrived.",
      signature: expect.stringMatching(/^[\w+/]+=*$/) as unknown,
    });
    expect(answer).toMatchObject({ type: "text", text: "You said: Think of me" });
    // Thoughts count as output (spec 2.6).
    expect(message.usage.output_tokens).toBe(12 + 5);
  });

  it.each<[string, Partial<Params>]>([
    ["disabled", { thinking: { type: "disabled" } }],
    ["left out", {}],
  ])("%s means none", async (_mode, more) => {
    const message = await connect().messages.create(say("Think of me", more));
    expect(message.content.map(({ type }) => type)).toEqual(["text"]);
  });

  it("counts toward max_tokens", async () => {
    const message = await connect().messages.create(say("Think", { thinking: { type: "adaptive" }, max_tokens: 5 }));
    expect(message.content).toMatchObject([{ type: "thinking", thinking: "The user wrote 1 words." }]);
    expect(message.stop_reason).toBe("max_tokens");
    expect(message.usage.output_tokens).toBe(5);
  });

  it("streams thoughts and their signature to the helper", async () => {
    const thoughts: string[] = [];
    const signatures: string[] = [];
    const stream = connect().messages.stream(say("Think of me", enabled));
    stream.on("thinking", (delta) => thoughts.push(delta)).on("signature", (signature) => signatures.push(signature));
    const [block] = (await stream.finalMessage()).content;
    expect(thoughts.length).toBeGreaterThan(1);
    expect(block).toMatchObject({ type: "thinking", thinking: thoughts.join(""), signature: signatures[0] });
    expect(signatures).toHaveLength(1);
  });

  describe("sent back in the next turn", () => {
    it("is taken with its signature, and counted as input", async () => {
      const client = connect();
      const asked = say("Think of me", enabled);
      const first = await client.messages.create(asked);
      const next = (content: typeof first.content) =>
        client.messages.create({
          ...asked,
          messages: [...asked.messages, { role: "assistant", content }, { role: "user", content: "And again" }],
        });
      const whole = await next(first.content);
      expect(textOf(whole)).toBe("You said: And again");
      const without = await next(first.content.filter(({ type }) => type !== "thinking"));
      expect(whole.usage.input_tokens).toBeGreaterThan(without.usage.input_tokens);
    });

    it("is taken before a tool call and its result", async () => {
      const client = connect();
      const asked = say("What is the weather in Oslo?", { ...enabled, tools: [weather] });
      const first = await client.messages.create(asked);
      expect(first.content[0]?.type).toBe("thinking");
      const call = first.content.find(({ type }) => type === "tool_use");
      const id = call?.type === "tool_use" ? call.id : "";
      const second = await client.messages.create({
        ...asked,
        messages: [
          ...asked.messages,
          { role: "assistant", content: first.content },
          { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "sunny" }] },
        ],
      });
      expect(textOf(second)).toBe("The tool get_weather answered: sunny.");
    });

    it("is taken where it was redacted", async () => {
      const message = await connect().messages.create({
        ...say("", enabled),
        messages: [
          { role: "user", content: "Think" },
          { role: "assistant", content: [{ type: "redacted_thinking", data: "EmwKAhgBEgy3va3pzix/LafPsn4a" }] },
          { role: "user", content: "Go on" },
        ],
      });
      expect(textOf(message)).toBe("You said: Go on");
    });
  });
}
