/** What the demo model answers through a gateway: how it begins, what it calls, how it sounds, and what it cannot do. */

import { describe, expect, it } from "vitest";
import { demoModel } from "../../src/demo/backend.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";

const gateway = createGateway({ backend: demoModel(), quotas: memoryQuotaStore([{ apiKey: "sk-demo" }]) });

interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

async function post<Body>(path: string, body: object): Promise<Answer<Body>> {
  const headers = {
    authorization: "Bearer sk-demo",
    "x-goog-api-key": "sk-demo",
    "compat-version": "2023-06-01",
    "content-type": "application/json",
  };
  const request = new Request(`http://host${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await gateway.fetch(request);
  return { status: response.status, body: (await response.json()) as Body };
}

interface Message {
  readonly content: readonly { type: string; text?: string; name?: string; id?: string }[];
}

const say = (messages: readonly object[], body: object = {}): Promise<Answer<Message>> =>
  post("/v1/messages", { model: "demo-chat", max_tokens: 10_000, messages, ...body });

const wordsOf = ({ body }: Answer<Message>): string => body.content.map(({ text = "" }) => text).join("");
const user = (content: string): object => ({ role: "user", content });
const assistant = (content: unknown): object => ({ role: "assistant", content });
const text = (value: string): object => ({ type: "text", text: value });

describe("a prefill is continued", () => {
  it.each<[what: string, messages: object[]]>([
    ["of one text", [assistant("You said: Hello")]],
    ["of several texts", [assistant([text("You "), text("said: "), text("Hello")])]],
    ["of several messages", [assistant("You said:"), assistant([text(" Hel"), text("lo")])]],
  ])("%s", async (_what, prefill) => {
    expect(wordsOf(await say([user("Hello there"), ...prefill]))).toBe(" there");
  });
});

interface Generated {
  readonly candidates: readonly {
    readonly content: {
      readonly parts: readonly { text?: string; functionCall?: { args: { year: number } } }[];
    };
  }[];
}

const generate = <Body>(body: object): Promise<Answer<Body>> =>
  post("/v1beta/models/demo-chat:generateContent", { contents: [{ parts: [{ text: "Hello" }] }], ...body });

it("code that nothing can run is answered with the command that installs Python", async () => {
  const { body } = await generate<Generated>({
    contents: [{ parts: [{ text: "What is 6 * 7?" }] }],
    tools: [{ codeExecution: {} }],
  });
  const said = body.candidates[0]?.content.parts.map((part) => part.text ?? "").join("");
  expect(said).toMatch(/The code failed: Python is not installed\. Run npm install pyodide, and restart\.$/);
});

describe("what cannot be satisfied is a failed precondition:", () => {
  const list = { type: "ARRAY", items: { type: "STRING" }, minItems: "5000" };
  const tooMuch = { type: "OBJECT", properties: { x: list }, required: ["x"] };

  it.each<[what: string, body: object]>([
    ["a response schema", { generationConfig: { responseMimeType: "application/json", responseSchema: tooMuch } }],
    [
      "the input schema of a tool",
      {
        tools: [{ functionDeclarations: [{ name: "it", parameters: tooMuch }] }],
        toolConfig: { functionCallingConfig: { mode: "ANY" } },
      },
    ],
  ])("%s", async (_what, body) => {
    expect(await generate<object>(body)).toMatchObject({
      status: 400,
      body: { error: { status: "FAILED_PRECONDITION", message: expect.stringContaining("cannot satisfy") as string } },
    });
  });
});

describe("a number far from zero is made", () => {
  const schema = { type: "INTEGER", minimum: 1_900 };

  it("for a response schema", async () => {
    const generationConfig = { responseMimeType: "application/json", responseSchema: schema };
    const { body } = await generate<Generated>({ generationConfig });
    expect(Number(body.candidates[0]?.content.parts[0]?.text)).toBeGreaterThanOrEqual(1_900);
  });

  it("for a forced tool", async () => {
    const parameters = { type: "OBJECT", properties: { year: schema }, required: ["year"] };
    const { body } = await generate<Generated>({
      tools: [{ functionDeclarations: [{ name: "it", parameters }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY" } },
    });
    expect(body.candidates[0]?.content.parts[0]?.functionCall?.args.year).toBeGreaterThanOrEqual(1_900);
  });
});

describe("tools are known by their names and by the first sentences of their descriptions", () => {
  const tools = [
    ["CronCreate", "Schedules a prompt for later. Such as every morning.\nSay 0 9 * * * for nine o'clock."],
    ["WebSearch", "\nLooks for pages, such as those of a newspaper\n\nBefore each search, think."],
    ["weather", "Tells v1.5 of the forecast! Rain included."],
  ].map(([name, description]) => ({ name, description, input_schema: { type: "object" } }));

  it.each([
    ["Good morning", []],
    ["Think about rain at nine o'clock", []],
    ["Please schedules", ["CronCreate"]],
    ["A cron job", ["CronCreate"]],
    ["A newspaper, please", ["WebSearch"]],
    ["The forecast and the web", ["WebSearch", "weather"]],
    ["All of your tools", ["CronCreate", "WebSearch", "weather"]],
  ])("%s", async (message, names) => {
    const { body } = await say([user(message)], { tools });
    expect(body.content.flatMap(({ name }) => name ?? [])).toEqual(names);
  });
});

interface Completion {
  readonly choices: readonly {
    readonly message: {
      readonly tool_calls?: readonly { id: string }[];
      readonly audio?: { data: string };
    };
  }[];
  readonly error?: object;
}

const complete = (messages: readonly object[], body: object = {}): Promise<Answer<Completion>> =>
  post("/v1/chat/completions", { model: "demo-chat", messages, ...body });

const messageOf = ({ body: { choices } }: Answer<Completion>) => choices[0]?.message;

const called = (id: string) => ({ type: "function", id, function: { name: "weather", arguments: "{}" } });
const custom = (id: string) => ({ type: "custom", id, custom: { name: "shell", input: "ls" } });
const result = (tool_call_id: string) => ({ role: "tool", tool_call_id, content: "Done." });

describe("an id of the history is not given to another call:", () => {
  const parameters = { type: "object", properties: {} };
  const tools = [
    { type: "function", function: { name: "weather", parameters } },
    { type: "custom", custom: { name: "shell" } },
  ];

  it.each<[what: string, history: object[], id: string]>([
    [
      "of a function",
      [{ role: "assistant", tool_calls: [called("call_demo_4")] }, result("call_demo_4")],
      "call_demo_5",
    ],
    [
      "of a custom tool",
      [{ role: "assistant", tool_calls: [custom("call_demo_7")] }, result("call_demo_7")],
      "call_demo_8",
    ],
    [
      "of a custom tool without its result",
      [{ role: "assistant", tool_calls: [custom("call_demo_2")] }],
      "call_demo_3",
    ],
    ["of another's making", [{ role: "assistant", tool_calls: [custom("call_1")] }, result("call_1")], "call_demo_1"],
  ])("%s", async (_what, history, id) => {
    const answer = await complete([user("Hello"), ...history, assistant("Done."), user("The weather?")], {
      tools,
      tool_choice: { type: "function", function: { name: "weather" } },
    });
    expect(messageOf(answer)?.tool_calls).toMatchObject([{ id }]);
  });
});

const bytesOf = (answer: Answer<Completion>): Buffer => Buffer.from(messageOf(answer)?.audio?.data ?? "", "base64");

const hear = (audio?: object): Promise<Answer<Completion>> =>
  complete([user("Hello there")], {
    modalities: ["text", "audio"],
    ...(audio && { audio: { voice: "alloy", ...audio } }),
  });

describe("a sound is written as", () => {
  it.each<[format: string, audio?: object]>([["wav", { format: "wav" }], ["nothing"], ["null", { format: null }]])(
    "a WAV where %s is asked for",
    async (_format, audio) => {
      const bytes = bytesOf(await hear(audio));
      expect([bytes.toString("latin1", 0, 4), bytes.toString("latin1", 8, 12)]).toEqual(["RIFF", "WAVE"]);
      // Samples a second, bytes of samples, and as many bytes as the file has.
      expect([bytes.readUInt32LE(24), bytes.readUInt16LE(34), bytes.readUInt32LE(40)]).toEqual([
        24_000,
        16,
        bytes.length - 44,
      ]);
    },
  );

  it("bare samples of 16 bits where pcm16 is asked for", async () => {
    const [file, samples] = [bytesOf(await hear({ format: "wav" })), bytesOf(await hear({ format: "pcm16" }))];
    // A tenth of a second for each of the four words: "You said: Hello there".
    expect(samples.length).toBe(4 * 2_400 * 2);
    expect(file.subarray(44).equals(samples)).toBe(true);
  });

  it.each(["mp3", "opus", "none"])("nothing where %s is asked for", async (format) => {
    expect(await hear({ format })).toMatchObject({
      status: 400,
      body: {
        error: {
          code: "failed_precondition",
          param: "audio.format",
          message: "audio.format: The demo makes wav and pcm16 alone.",
        },
      },
    });
  });

  it("nothing where only text is asked for, whatever the form", async () => {
    const answer = await complete([user("Hello")], { modalities: ["text"], audio: { voice: "alloy", format: "mp3" } });
    expect(answer.status).toBe(200);
    expect(messageOf(answer)?.audio).toBeUndefined();
  });
});
