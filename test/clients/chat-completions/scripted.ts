/** What clients make of a backend that is told what to do: silence, interleaved calls, an upstream's own frames. */

import { streamText } from "ai";
import { expect, it } from "vitest";
import type { ChatEvent } from "../../../src/index.ts";
import { sdks } from "../openai/sdk.ts";
import { chatModel, connect, listeningFetch, quiet, say, serve } from "./stage.ts";

const CALLS: readonly ChatEvent[] = [
  { type: "tool-call-start", id: "a", name: "one" },
  { type: "tool-call-start", id: "b", name: "two" },
  { type: "tool-call-delta", id: "b", json: '{"x":' },
  { type: "tool-call-delta", id: "a", json: '{"y":1}' },
  { type: "text-delta", text: "Wait." },
  { type: "tool-call-delta", id: "b", json: "2}" },
];

export function scriptedSuite(): void {
  for (const sdk of sdks) {
    it(`${sdk.name} takes keep-alives for nothing`, async () => {
      const { clock, chat } = quiet();
      await using server = await serve(chat, { clock });
      const { fetch, heard } = listeningFetch();
      const client = connect({ sdk, url: server.url }, { fetch });
      const pieces: unknown[] = [];
      const stream = await client.chat.completions.create({ ...say("Hi"), stream: true });
      for await (const { choices } of stream) pieces.push(choices[0]?.delta.content);
      expect(pieces).toEqual(["", "Hello", " there", undefined]);
      expect((await heard()).split(": keep-alive\n\n").length).toBeGreaterThan(3);
    });

    it(`${sdk.name} tells calls apart that come by turns`, async () => {
      await using server = await serve(async function* () {
        yield* CALLS;
      });
      const stream = connect({ sdk, url: server.url }).chat.completions.stream(say("Hi"));
      const done: string[] = [];
      stream.on("tool_calls.function.arguments.done", ({ name, arguments: json }) => void done.push(`${name} ${json}`));
      const { choices } = await stream.finalChatCompletion();
      expect(done).toEqual(['one {"y":1}', 'two {"x":2}']);
      expect(choices).toMatchObject([{ message: { content: "Wait." }, finish_reason: "tool_calls" }]);
    });

    it(`${sdk.name} reads what an upstream of the same format has sent, unknown fields and all`, async () => {
      const body = '{"id":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}],"own":1.50}';
      await using server = await serve(async function* () {
        const events = [
          { type: "start" },
          { type: "text-delta", text: "Hi" },
          { type: "finish", reason: "stop" },
        ] as const;
        yield { type: "native", format: "chat-completions", body, events };
      });
      const { fetch, heard } = listeningFetch();
      const answer = await connect({ sdk, url: server.url }, { fetch }).chat.completions.create(say("Hi"));
      expect(answer).toMatchObject({ id: "up", own: 1.5 });
      expect(await heard()).toBe(body);
    });
  }

  it("the ai SDK takes keep-alives for nothing", async () => {
    const { clock, chat } = quiet();
    await using server = await serve(chat, { clock });
    const result = streamText({ model: chatModel(server.url), prompt: "Hi", maxRetries: 0 });
    expect(await result.text).toBe("Hello there");
  });

  it("the ai SDK tells calls apart that come by turns", async () => {
    await using server = await serve(async function* () {
      yield* CALLS;
    });
    const result = streamText({ model: chatModel(server.url), prompt: "Hi", maxRetries: 0 });
    expect(await result.toolCalls).toMatchObject([
      { toolName: "one", input: { y: 1 } },
      { toolName: "two", input: { x: 2 } },
    ]);
  });
}
