/** Seals of another provider in the chats of the official client: what the model signed comes back to it, streamed and complete. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Chat, GoogleGenAI } from "@google/genai";
import { GoogleGenAI as GoogleGenAI2 } from "genai-2";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { type ChatEvent, type ChatRequest, createGateway, memoryQuotaStore } from "../../src/index.ts";

const maker = "messages";

/** A turn of Claude: sealed and encrypted reasoning, a text, and two calls, as an upstream of the messages format streams them. */
const TURN: readonly ChatEvent[] = [
  { type: "reasoning-delta", text: "Two files, " },
  { type: "reasoning-delta", text: "two calls." },
  { type: "reasoning-signature", signature: "EqQBCgIYAhIM1gbcDa9GJwZA2b3h==", maker },
  { type: "redacted-reasoning", data: "EmwKAhgBEgy3va3pzix/LafPsn4a", maker },
  { type: "text-delta", text: "I will " },
  { type: "text-delta", text: "read both." },
  { type: "tool-call", id: "toolu_1", name: "read_file", input: { path: "a" } },
  { type: "tool-call", id: "toolu_2", name: "read_file", input: { path: "b" }, signature: "Y2FsbA==", maker: "x.y" },
  { type: "finish", reason: "tool-calls" },
];

let server: Server;
let baseUrl: string;
let asked: ChatRequest[] = [];

beforeAll(async () => {
  const gateway = createGateway({
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    backend: {
      async *chat(request) {
        asked.push(request);
        yield* asked.length === 1 ? TURN : ["Done."];
      },
    },
  });
  server = createServer(toNodeHandler(gateway));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

const RESPONSES = ["toolu_1", "toolu_2"].map((id) => ({
  functionResponse: { id, name: "read_file", response: { output: id } },
}));

const ASK: Readonly<Record<string, (chat: Chat, message: string | typeof RESPONSES) => Promise<unknown>>> = {
  async streamed(chat, message) {
    for await (const _ of await chat.sendMessageStream({ message }));
  },
  complete: (chat, message) => chat.sendMessage({ message }),
};

describe.each(Object.entries(ASK))("%s", (_form, ask) => {
  it.each([
    ["3", () => new GoogleGenAI({ apiKey: "sk-test", httpOptions: { baseUrl } })],
    ["2", () => new GoogleGenAI2({ apiKey: "sk-test", httpOptions: { baseUrl } }) as unknown as GoogleGenAI],
  ])("come back whole from a chat in @google/genai %s", async (_version, client) => {
    asked = [];
    const config = { thinkingConfig: { includeThoughts: true } };
    const chat = client().chats.create({ model: "m", config });
    await ask(chat, "Read a and b");
    await ask(chat, RESPONSES);
    const [, model, user] = asked[1]?.messages ?? [];
    expect(model?.parts.filter((part) => part.type !== "text")).toEqual([
      { type: "reasoning", text: "Two files, two calls.", signature: "EqQBCgIYAhIM1gbcDa9GJwZA2b3h==", maker },
      { type: "redacted-reasoning", data: "EmwKAhgBEgy3va3pzix/LafPsn4a", maker },
      { type: "tool-call", id: "toolu_1", name: "read_file", input: { path: "a" } },
      {
        type: "tool-call",
        id: "toolu_2",
        name: "read_file",
        input: { path: "b" },
        signature: "Y2FsbA==",
        maker: "x.y",
      },
    ]);
    expect(model?.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("")).toBe("I will read both.");
    expect(user?.parts.map((part) => (part.type === "tool-result" ? part.callId : part.type))).toEqual([
      "toolu_1",
      "toolu_2",
    ]);
  });
});
