/** Seals of other providers go through the official clients and come back: of reasoning, of tool calls, of texts. */

import OpenAI from "openai";
import OpenAI6 from "openai-6";
import { describe, expect, it } from "vitest";
import { wrapSeal } from "../../../src/formats/shared/seal.ts";
import type { ChatEvent, Part } from "../../../src/index.ts";
import { openStage, plays, type Stage } from "./stage.ts";

const CLIENTS = [
  ["openai 7", OpenAI],
  ["openai 6", OpenAI6 as unknown as typeof OpenAI],
] as const;

const clientOf = (Client: typeof OpenAI, { ask }: Stage): OpenAI =>
  new Client({
    apiKey: "sk-test",
    baseURL: "http://gateway.test/v1",
    fetch: async (_url, init) => ask(init?.body),
    maxRetries: 0,
  });

const hi = { role: "user", content: "Hi" } as const;
const tools = [
  { type: "function", function: { name: "clock", parameters: { type: "object", properties: {} } } },
] as const;

/** Asks once, sends the message back as the client has it with a result for each call, and returns what the backend then gets. */
async function returned(client: OpenAI, stage: Stage, stream: boolean): Promise<readonly Part[]> {
  const request = { model: "model-a", messages: [hi], tools: [...tools] };
  const { message } = (stream
    ? await client.chat.completions.stream(request).finalChatCompletion()
    : await client.chat.completions.create(request)
  ).choices[0] ?? { message: undefined };
  if (!message) throw new Error("There is no message.");
  const results = (message.tool_calls ?? []).map(
    ({ id }) => ({ role: "tool", tool_call_id: id, content: "12" }) as const,
  );
  const end = results.length > 0 ? results : [hi];
  await client.chat.completions.create({ ...request, messages: [hi, message, ...end] });
  return stage.received.at(-1)?.messages[1]?.parts ?? [];
}

const call = (id: string, more: object = {}): Part => ({ type: "tool-call", id, name: "clock", input: {}, ...more });
const CALLED: ChatEvent = { type: "finish", reason: "tool-calls" };
const starts = (id: string, more: object = {}): ChatEvent => ({ type: "tool-call-start", id, name: "clock", ...more });
const ends = (id: string, more: object = {}): ChatEvent => ({ type: "tool-call-end", id, ...more });
const thinks = (...texts: string[]): ChatEvent[] => texts.map((text) => ({ type: "reasoning-delta", text }));
const claude = { maker: "messages" };
const gemini = { signature: "R2VtaW5p", maker: "generate-content" };

const CASES: readonly (readonly [name: string, events: readonly ChatEvent[], parts: readonly Part[]])[] = [
  [
    "Claude's thinking before a call",
    [
      ...thinks("Two ", "zones."),
      { type: "reasoning-signature", signature: "c2ln", ...claude },
      starts("a"),
      ends("a"),
      CALLED,
    ],
    [{ type: "reasoning", text: "Two zones.", signature: "c2ln", ...claude }, call("a")],
  ],
  [
    "thinking, encrypted thinking and more thinking",
    [
      ...thinks("One"),
      { type: "reasoning-signature", signature: "MQ==", ...claude },
      { type: "redacted-reasoning", data: "ZGF0YQ==", ...claude },
      ...thinks("T", "wo"),
      { type: "reasoning-signature", signature: "Mg==", ...claude },
      { type: "text-delta", text: "Well." },
      starts("a"),
      ends("a"),
      CALLED,
    ],
    [
      { type: "reasoning", text: "One", signature: "MQ==", ...claude },
      { type: "redacted-reasoning", data: "ZGF0YQ==", ...claude },
      { type: "reasoning", text: "Two", signature: "Mg==", ...claude },
      { type: "text", text: "Well." },
      call("a"),
    ],
  ],
  [
    "a signature that its maker left empty",
    [...thinks("Hm"), { type: "reasoning-signature", signature: "", ...claude }, { type: "text-delta", text: "Yes" }],
    [
      { type: "reasoning", text: "Hm", signature: "", ...claude },
      { type: "text", text: "Yes" },
    ],
  ],
  [
    "the signature of a host's own backend",
    [...thinks("Hm"), { type: "reasoning-signature", signature: "own" }, { type: "text-delta", text: "Yes" }],
    [
      { type: "reasoning", text: "Hm", signature: "own", maker: "chat-completions" },
      { type: "text", text: "Yes" },
    ],
  ],
  [
    "the signature of the first of Gemini's calls",
    [starts("a", gemini), ends("a"), starts("b"), ends("b"), CALLED],
    [call("a", gemini), call("b")],
  ],
  [
    "a signature that comes with the end of a call",
    [starts("a"), { type: "tool-call-delta", id: "a", json: "{}" }, starts("b"), ends("a", gemini), ends("b"), CALLED],
    [call("a", gemini), call("b")],
  ],
  [
    "a call's signature of another maker",
    [starts("a", { signature: "x", maker: "ai-sdk.other" }), ends("a"), CALLED],
    [call("a", { signature: "x", maker: "ai-sdk.other" })],
  ],
  [
    "the signature of a text, in a piece without one",
    [
      { type: "text-delta", text: "Yes" },
      { type: "text-delta", text: "", ...gemini },
    ],
    [{ type: "text", text: "Yes", ...gemini }],
  ],
];

describe.each(CLIENTS)("%s", (_name, Client) => {
  it.each(CASES)("returns %s, complete and streamed", async (_case, events, parts) => {
    for (const stream of [false, true]) {
      const stage = openStage(plays(...events));
      expect(await returned(clientOf(Client, stage), stage, stream)).toEqual(parts);
    }
  });

  it("reads the end of a blocked prompt and of a refusal as a filtered answer", async () => {
    const refuses: ChatEvent[] = [
      { type: "refusal-delta", text: "No." },
      { type: "finish", reason: "refusal" },
    ];
    const blocked: ChatEvent[] = [
      { type: "prompt-feedback", blockReason: "safety", ratings: [] },
      { type: "finish", reason: "other" },
    ];
    for (const [events, refusal] of [
      [refuses, "No."],
      [blocked, null],
    ] as const) {
      const client = clientOf(Client, openStage(plays(...events)));
      const request = { model: "model-a", messages: [hi] };
      const answers = [
        await client.chat.completions.create(request),
        await client.chat.completions.stream(request).finalChatCompletion(),
      ];
      for (const { choices } of answers)
        expect(choices).toMatchObject([{ finish_reason: "content_filter", message: { refusal } }]);
    }
  });
});

const lists = async (...events: ChatEvent[]): Promise<object[]> => {
  const text = await (await openStage(plays(...events)).ask({ model: "m", messages: [hi], stream: true })).text();
  return text
    .split("\n\n")
    .filter((frame) => frame.includes("reasoning_details"))
    .map((frame) => (JSON.parse(frame.slice(6)) as { choices: object[] }).choices[0] as object);
};

const wrapped = (value: string): string => wrapSeal({ maker: "messages", value, kind: "part" });

const seal = (signature: string): ChatEvent => ({ type: "reasoning-signature", signature, ...claude });

describe("a stream", () => {
  it("has all seals of a run of reasoning in one chunk, before anything else", async () => {
    const choices = await lists(...(CASES[1]?.[1] ?? []));
    expect(choices).toMatchObject([
      {
        delta: {
          reasoning_details: [
            { type: "reasoning.text", text: "One", signature: wrapped("MQ==") },
            {
              type: "reasoning.encrypted",
              data: wrapSeal({ maker: "messages", value: "ZGF0YQ==", kind: "redacted" }),
            },
            { type: "reasoning.text", text: "Two", signature: wrapped("Mg==") },
          ],
        },
      },
    ]);
  });

  it("has all seals once more at its end, where they came in several chunks", async () => {
    const events = [
      ...thinks("One"),
      seal("MQ=="),
      { type: "text-delta", text: "Well." },
      ...thinks("Two"),
      seal("Mg=="),
    ];
    const [one, two] = ["MQ==", "Mg=="].map((value, index) => ({
      type: "reasoning.text",
      text: ["One", "Two"][index],
      signature: wrapped(value),
    }));
    const choices = (await lists(...(events as ChatEvent[]))) as { delta: { reasoning_details: object } }[];
    expect(choices.map(({ delta }) => delta.reasoning_details)).toEqual([[one], [one, two]]);
    const stage = openStage(plays("Yes"));
    const reasoning_details = [one, one, two];
    await stage.ask({ model: "m", messages: [hi, { role: "assistant", content: "Well.", reasoning_details }, hi] });
    expect(stage.received[0]?.messages[1]?.parts).toMatchObject([{ text: "One" }, { text: "Two" }, { text: "Well." }]);
  });

  it("has no list where nothing is sealed", async () => {
    expect(await lists(...thinks("Hm"), { type: "text-delta", text: "Yes" })).toEqual([]);
  });
});

describe("a caller's history", () => {
  it.each<[string, object, readonly Part[]]>([
    ["reasoning as a text", { reasoning: "Hm" }, [{ type: "reasoning", text: "Hm", maker: "chat-completions" }]],
    [
      "the older name",
      { reasoning_content: "Hm", reasoning: "Hm" },
      [{ type: "reasoning", text: "Hm", maker: "chat-completions" }],
    ],
    [
      "Mistral's parts",
      {
        content: [
          {
            type: "thinking",
            thinking: [
              { type: "text", text: "H" },
              { type: "text", text: "m" },
            ],
          },
          { type: "text", text: "Yes" },
        ],
      },
      [
        { type: "reasoning", text: "Hm", maker: "chat-completions" },
        { type: "text", text: "Yes" },
      ],
    ],
    [
      "OpenRouter's list, without the text beside it",
      {
        reasoning: "Hm",
        reasoning_details: [
          { type: "reasoning.text", text: "Hm", signature: "s", format: "anthropic-claude-v1", index: 0 },
          { type: "reasoning.summary", summary: "So", id: "rs_1" },
          { type: "reasoning.encrypted", data: "d" },
        ],
      },
      [
        { type: "reasoning", text: "Hm", signature: "s", maker: "chat-completions" },
        { type: "reasoning", text: "So", maker: "chat-completions" },
        { type: "redacted-reasoning", data: "d", maker: "chat-completions" },
      ],
    ],
    [
      "an empty signature",
      { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "" }] },
      [{ type: "reasoning", text: "Hm", maker: "chat-completions" }],
    ],
  ])("may hold %s", async (_name, message, parts) => {
    const stage = openStage(plays("Yes"));
    const response = await stage.ask({ model: "m", messages: [hi, { role: "assistant", ...message }, hi] });
    expect(response.status).toBe(200);
    expect(stage.received[0]?.messages[1]?.parts).toEqual(parts);
  });
});
