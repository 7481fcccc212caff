/** Chats, whose history the SDK keeps: what a turn leaves in it goes up with the next. */

import {
  type Chat,
  type GenerateContentConfig,
  type GenerateContentResponse,
  HarmBlockThreshold,
  HarmCategory,
  type PartListUnion,
} from "@google/genai";
import { describe, expect, it } from "vitest";
import { tides, weather } from "./schemas.ts";
import { all, errorOf, type Stage, streamedText, textOf } from "./sdk.ts";

/** Sends a message in one of the two ways, and tells the text that came back. */
type Send = (
  chat: Chat,
  message: PartListUnion,
) => Promise<{ text: string; last: GenerateContentResponse | undefined }>;

const complete: Send = async (chat, message) => {
  const response = await chat.sendMessage({ message });
  return { text: textOf(response), last: response };
};

const streamed: Send = async (chat, message) => {
  const chunks = await all(await chat.sendMessageStream({ message }));
  return { text: streamedText(chunks), last: chunks.at(-1) };
};

export function chatSuite({ sdk, connect }: Stage): void {
  const open = (config: GenerateContentConfig = {}): Chat => connect().chats.create({ model: "demo-chat", config });

  describe.each([
    ["sendMessage", complete],
    ["sendMessageStream", streamed],
  ])("%s", (_name, send) => {
    it("sends the whole conversation with each turn", async () => {
      const chat = open();
      expect((await send(chat, "one two")).text).toBe("You said: one two");
      const second = await send(chat, "three");
      expect(second.text).toBe("You said: three");
      expect(second.last?.usageMetadata?.promptTokenCount).toBe(2 + 4 + 1);
      const roles = chat.getHistory(true).map(({ role }) => role);
      // A streamed turn is kept as the chunks that it came in.
      expect(roles.filter((role, index) => role !== roles[index - 1])).toEqual(["user", "model", "user", "model"]);
    });

    it("keeps what every kind of answer leaves", async () => {
      const chat = open({
        thinkingConfig: { includeThoughts: true },
        safetySettings: [{ category: HarmCategory.HARM_CATEGORY_HARASSMENT, threshold: HarmBlockThreshold.OFF }],
        responseModalities: ["TEXT", "IMAGE"],
        responseLogprobs: true,
      });
      expect((await send(chat, "Draw a cat")).text).toBe("You said: Draw a cat");
      expect((await send(chat, "And again")).text).toBe("You said: And again");
      expect(chat.getHistory(true).filter(({ role }) => role === "user")).toHaveLength(2);
    });

    it("goes through a function call and back", async () => {
      const chat = open({ tools: [{ functionDeclarations: [weather, tides] }] });
      const { last } = await send(chat, "What is the weather in Oslo?");
      const calls = chat
        .getHistory(true)
        .flatMap(({ parts }) => parts?.flatMap((part) => part.functionCall ?? []) ?? []);
      expect(calls).toMatchObject([{ name: "get_weather", args: { city: "Oslo" } }]);
      expect(last?.candidates?.[0]?.finishReason).toBe("STOP");
      const { id, name } = calls[0] ?? {};
      const answer = {
        functionResponse: { ...(id !== undefined && { id }), name: name ?? "", response: { sky: "clear" } },
      };
      expect((await send(chat, [answer])).text).toBe('The tool get_weather answered: {"sky":"clear"}.');
    });

    it("goes on after a turn that failed", async () => {
      const chat = open();
      expect(await errorOf(send(chat, "/fail 503"))).toBeInstanceOf(sdk.ApiError);
      expect((await send(chat, "Hello")).text).toBe("You said: Hello");
      expect((await send(chat, "there")).last?.usageMetadata?.promptTokenCount).toBe(1 + 3 + 1);
    });

    it("forgets a turn that was blocked", async () => {
      const chat = open();
      expect((await send(chat, "/block this")).last?.promptFeedback?.blockReason).toBe("SAFETY");
      expect((await send(chat, "Hello")).last?.usageMetadata?.promptTokenCount).toBe(1);
    });
  });
}
