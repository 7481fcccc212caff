/** The redactor through a gateway: what the model reads, what the caller is shown, and what is refused. */

import { describe, expect, it } from "vitest";
import {
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type HookRequest,
  memoryQuotaStore,
  type ModelBackend,
} from "../../src/index.ts";
import { redactor, type RedactorFind, type RedactorOptions } from "../../src/redactor/index.ts";
import { Restorer, newTrie, addToTrie } from "../../src/redactor/restore.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { drawn } from "../hosts/stage.ts";
import { counted, never, opened, type Step } from "../pipeline/bench.ts";

const EMAIL = "ada@example.org";
const OTHER = "bob@example.org";
const find = { email: /[\w.]+@[\w.]+\w/ };

/** A gateway whose model says what it is given, and what the model has read. */
function redacting(options: Partial<RedactorOptions>, ...steps: readonly Step[]) {
  const read: HookRequest[] = [];
  const backend: ModelBackend = {
    async *chat(request) {
      read.push(request);
      for (const step of steps) yield step as ChatEvent;
    },
    async *image(request) {
      read.push(request);
      yield { ...drawn(0), revisedPrompt: `A picture of ${request.prompt}` };
    },
    async *embed(request) {
      read.push(request);
      for (const [index] of request.inputs.entries()) yield [index];
    },
    embeddingsModels: undefined,
  } as ModelBackend;
  const open = opened({ backend, hooks: [redactor({ find, ...options })], key: {} });
  const said = (): string => JSON.stringify(read.map(({ native: _native, ...request }) => request));
  return { ...open, read, said };
}

const user = (content: unknown) => ({ role: "user", content });
const ask = (content: unknown, more: object = {}) => ({
  body: { max_tokens: 5_000, messages: [user(content)], ...more },
});

describe("the request", () => {
  it("has no value in any of its texts", async () => {
    const { send, said } = redacting({}, "ok", counted(1));
    const response = await send({
      body: {
        max_tokens: 5_000,
        system: [{ type: "text", text: `system ${EMAIL}` }],
        metadata: { user_id: EMAIL },
        stop_sequences: [`stop ${EMAIL}`],
        tools: [
          {
            name: "send",
            description: `tool ${EMAIL}`,
            input_schema: { type: "object", properties: { [EMAIL]: { enum: [EMAIL] } } },
          },
        ],
        messages: [
          user([
            { type: "text", text: `text ${EMAIL}` },
            {
              type: "document",
              title: `title ${EMAIL}`,
              context: `context ${EMAIL}`,
              source: { type: "text", media_type: "text/plain", data: `document ${EMAIL}` },
            },
            {
              type: "document",
              source: { type: "content", content: [{ type: "text", text: `part ${EMAIL}` }] },
            },
          ]),
          {
            role: "assistant",
            content: [
              { type: "text", text: `said ${EMAIL}` },
              { type: "tool_use", id: "t-1", name: "send", input: { to: [EMAIL], [EMAIL]: { deep: EMAIL } } },
            ],
          },
          user([{ type: "tool_result", tool_use_id: "t-1", content: [{ type: "text", text: `result ${EMAIL}` }] }]),
        ],
      },
    });
    expect(response.status).toBe(200);
    expect(said()).not.toContain("ada");
    for (const place of "system stop tool text title context document part said result".split(" "))
      expect(said()).toContain(`${place} [EMAIL_1]`);
    expect(said()).toContain('"[EMAIL_1]":{"deep":"[EMAIL_1]"}');
    expect(said()).toContain('"endUser":"[EMAIL_1]"');
  });

  it("has the same replacements as before when the conversation goes on", async () => {
    const { send, read } = redacting({}, "ok", counted(1));
    const turns = [
      user(`To ${OTHER}`),
      { role: "assistant", content: `Yes, ${OTHER} and ${EMAIL}` },
      user(`And new@example.org`),
    ];
    for (const count of [1, 3]) await send({ body: { system: EMAIL, messages: turns.slice(0, count) } });
    const texts = read.map((request) =>
      (request as ChatRequest).messages.map(({ parts }) =>
        parts.map((part) => ("text" in part ? part.text : "")).join(""),
      ),
    );
    expect(texts).toEqual([["To [EMAIL_2]"], ["To [EMAIL_2]", "Yes, [EMAIL_2] and [EMAIL_1]", "And [EMAIL_3]"]]);
  });

  it("keeps signed reasoning, and replaces in any other", async () => {
    const { send, said } = redacting({}, "ok", counted(1));
    const thinking = (signature: string) => ({ type: "thinking", thinking: `I think of ${EMAIL}`, signature });
    await send({
      body: {
        max_tokens: 5_000,
        thinking: { type: "enabled", budget_tokens: 1_024 },
        messages: [
          user(`To ${EMAIL}`),
          { role: "assistant", content: [thinking("c2ln"), { type: "text", text: "Hm." }] },
          user("Go"),
        ],
      },
    });
    expect(said()).toContain(`I think of ${EMAIL}`);
    expect(said()).toContain("To [EMAIL_1]");
  });

  it("of a picture and of vectors is redacted, too", async () => {
    const { send, said } = redacting({});
    const image = await send({
      path: "/v1/images/generations",
      body: JSON.stringify({ model: "image-model-3", prompt: `For ${EMAIL}`, response_format: "b64_json" }),
    });
    expect(await image.json()).toMatchObject({ data: [{ revised_prompt: `A picture of For ${EMAIL}` }] });
    const embedded = await send({
      path: "/v1/embeddings",
      body: JSON.stringify({ model: "any", input: [`Of ${EMAIL}`, OTHER] }),
    });
    expect(embedded.status).toBe(200);
    expect(said()).toContain("For [EMAIL_1]");
    expect(said()).toContain('"inputs":["Of [EMAIL_1]","[EMAIL_2]"]');
  });

  it("is sent as it came when nothing is found, also its answer; and anew when only an unknown field has a value", async () => {
    const bodies: string[] = [];
    const answer = {
      type: "message",
      id: "msg_1",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: "end_turn",
      x_new: 1,
    };
    const backend = relay({
      format: "messages",
      baseUrl: "http://upstream/v1",
      apiKey: "sk-inner",
      fetch: async (input, init) => {
        bodies.push(await new Request(input, init).text());
        return Response.json({ ...answer, usage: { input_tokens: 1, output_tokens: 1 } });
      },
    });
    const { send } = opened({ backend, hooks: [redactor({ find })], key: {} });
    const plain = await (await send(ask("Hello", { x_later: { deep: "a" } }))).json();
    expect(plain).toMatchObject({ x_new: 1 });
    const secret = await send(ask("Hello", { x_later: { deep: EMAIL } }));
    expect(secret.headers.get("polygate-dropped")).toContain("x_later");
    expect(bodies.map((body) => body.includes("x_later"))).toEqual([true, false]);
  });

  it("takes other numbers where a replacement stands in it, even those that a text foresees", async () => {
    const { send, said } = redacting({}, { type: "text-delta", text: "ok" }, counted(1));
    await send(ask(`${EMAIL} is not [EMAIL_1].`));
    expect(said()).toContain("[EMAIL_1000001] is not [EMAIL_1].");
    await send(ask(`${EMAIL} is not [EMAIL_1] or [EMAIL_1000001].`));
    expect(said()).toMatch(/"\[EMAIL_\d+\] is not \[EMAIL_1\] or \[EMAIL_1000001\]\."/);
  });

  it("has no value behind the escapes of JSON in a text, and the same replacement for it as elsewhere", async () => {
    const { send, read } = redacting(
      { find: { name: ["Jürgen", 'A "B" C'], path: [String.raw`C:\new`] } },
      "[NAME_2] of [NAME_1] in [PATH_1]",
      counted(9),
    );
    const result = String.raw`{"name": "J\u00fcrgen", "of": "A \"B\" C", "bad": "\u12`;
    const response = await send(
      ask([
        { type: "text", text: String.raw`Who is Jürgen in C:\new?` },
        { type: "text", text: result },
      ]),
    );
    expect((read[0] as ChatRequest).messages[0]?.parts).toMatchObject([
      { text: "Who is [NAME_1] in [PATH_1]?" },
      { text: String.raw`{"name": "[NAME_1]", "of": "[NAME_2]", "bad": "\u12` },
    ]);
    expect(await response.json()).toMatchObject({ content: [{ text: String.raw`A "B" C of Jürgen in C:\new` }] });
  });

  it("has the value alone behind an escape that ends in a letter", async () => {
    const { send, said } = redacting({ find: { ...find, key: /\bsk-\w+/ } }, "To [EMAIL_1]", counted(9));
    const response = await send(
      ask(String.raw`{"body": "Hello\nada@example.org\tsk-1234", "plain": "ada@example.org"}`),
    );
    expect(said()).toContain(JSON.stringify(String.raw`{"body": "Hello\n[EMAIL_1]\t[KEY_1]", "plain": "[EMAIL_1]"}`));
    expect(await response.json()).toMatchObject({ content: [{ text: `To ${EMAIL}` }] });
    await send(ask(JSON.stringify({ inner: JSON.stringify({ body: `Hello\n${EMAIL}` }) })));
    expect(said()).toContain(JSON.stringify(JSON.stringify({ inner: JSON.stringify({ body: "Hello\n[EMAIL_1]" }) })));
  });

  it("reads a hostile pile of escapes in time", async () => {
    const { send, read } = redacting({}, "ok", counted(1));
    const pile = String.raw`\u005c` + "u005c".repeat(200_000);
    expect((await send(ask(pile + EMAIL))).status).toBe(200);
    expect(JSON.stringify((read[0] as ChatRequest).messages)).toContain("[EMAIL_1]");
  });

  it("joins matches that overlap, so that no part is left", async () => {
    const { send, said } = redacting({ find: { part: /b+c+/, whole: /a+b+/, word: ["cd"] } }, "ok", counted(1));
    await send(ask("x aabbccd y"));
    expect(said()).toContain('"x [WHOLE_1] y"');
  });
});

const shown = async (options: Partial<RedactorOptions>, content: string, ...steps: readonly Step[]) => {
  const { send } = redacting(options, ...steps, counted(9));
  return (await (await send(ask(content))).json()) as {
    content: { text?: string; thinking?: string; signature?: string }[];
  };
};

const names: RedactorOptions["replace"] = ({ number }) => ["Jo", "John", "Johnny"][number - 1] ?? `J${number}`;

describe("the answer", () => {
  it("has the values in the input of a tool that the provider runs, under any name", async () => {
    const { send } = redacting(
      {},
      {
        type: "provider",
        format: "messages",
        value: {
          type: "mcp_tool_use",
          id: "mcptoolu_1",
          name: "[EMAIL_1]",
          server_name: "s",
          input: { name: "[EMAIL_1]", "[EMAIL_1]": { url: "[EMAIL_1]" } },
        },
      },
      counted(9),
    );
    expect(await (await send(ask(EMAIL))).json()).toMatchObject({
      content: [{ name: "[EMAIL_1]", input: { name: EMAIL, [EMAIL]: { url: EMAIL } } }],
    });
  });

  it("is masked by a function, or stays redacted", async () => {
    const masked = await shown({ restore: (value) => `${value.slice(0, 1)}***` }, EMAIL, "To [EMAIL", "_1].");
    expect(masked.content).toMatchObject([{ text: "To a***." }]);
    const kept = await shown({ restore: false }, EMAIL, "To [EMAIL", "_1].");
    expect(kept.content).toMatchObject([{ text: "To [EMAIL_1]." }]);
  });

  it("has other replacements by a function, of which one may begin another", async () => {
    const { content } = await shown(
      { replace: names },
      `${EMAIL} ${OTHER} c@d.ef`,
      "Joh",
      "nny, J",
      "ohn, Jo",
      "h, Jo",
    );
    expect(content).toMatchObject([{ text: `c@d.ef, ${OTHER}, ${EMAIL}h, ${EMAIL}` }]);
  });

  it("leaves replacements that it does not know", async () => {
    expect((await shown({}, EMAIL, "[EMAIL_2] [EMAIL_11] [email_1] [EMAIL_1")).content).toMatchObject([
      { text: "[EMAIL_2] [EMAIL_11] [email_1] [EMAIL_1" },
    ]);
  });

  it("keeps the reasoning and its signature, unless it is told to restore reasoning", async () => {
    const signed: Step[] = [
      { type: "reasoning-delta", text: "To [EMAIL_1]?" },
      { type: "reasoning-signature", signature: "c2ln", maker: "messages" },
      "Yes, [EMAIL_1].",
    ];
    expect((await shown({}, EMAIL, ...signed)).content).toMatchObject([
      { thinking: "To [EMAIL_1]?", signature: "c2ln" },
      { text: `Yes, ${EMAIL}.` },
    ]);
    expect((await shown({ reasoning: true }, EMAIL, ...signed)).content).toMatchObject([
      { thinking: `To ${EMAIL}?`, signature: "" },
      { text: `Yes, ${EMAIL}.` },
    ]);
  });

  it("is JSON where the caller asked for JSON, whatever a value has in it", async () => {
    const name = 'A "quoted" \\ name';
    const { send } = redacting({ find: { name: [name] } }, '{"to":"[NA', 'ME_1]","n":[1]}', counted(9));
    const response = await send({
      path: "/v1/chat/completions",
      body: JSON.stringify({
        model: "any",
        messages: [{ role: "user", content: name }],
        response_format: { type: "json_object" },
      }),
    });
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    expect(JSON.parse(choices[0]?.message.content ?? "")).toEqual({ to: name, n: [1] });
  });

  it("puts values back into the titles and quotes of citations", async () => {
    const citation = { uri: "https://a.b", title: "Of [EMAIL_1]", quote: "By [EMAIL_1]." };
    const { send } = redacting(
      {},
      "Hi.",
      { type: "annotation", annotation: { type: "citations", citations: [citation] } },
      counted(9),
    );
    const response = await send({ body: { messages: [user(EMAIL)] } });
    expect(await response.json()).toMatchObject({
      content: [{ citations: [{ title: `Of ${EMAIL}`, cited_text: `By ${EMAIL}.` }] }],
    });
  });

  it("shifts the places of citations and of grounding, in bytes", async () => {
    const text = "é [EMAIL_1] and [EMAIL_2]!";
    const at = (part: string): number => Buffer.byteLength(text.slice(0, text.indexOf(part)));
    const [first, second] = [at("[EMAIL_1]"), at("[EMAIL_2]")];
    const { send } = redacting(
      {},
      text.slice(0, 8),
      text.slice(8, 20),
      {
        type: "annotation",
        annotation: { type: "citations", citations: [{ start: first, end: first + 9, uri: "https://a.b" }] },
      },
      text.slice(20),
      {
        type: "annotation",
        annotation: {
          type: "grounding",
          supports: [{ segment: { start: second, end: second + 9, text: "[EMAIL_2]" } }],
          searchQueries: ["who is [EMAIL_1]"],
        },
      },
      counted(9),
    );
    const response = await send({
      path: "/v1beta/models/any:generateContent",
      body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: `${EMAIL} ${OTHER}` }] }] }),
      headers: { "x-goog-api-key": "sk-one" },
    });
    const { candidates } = (await response.json()) as {
      candidates: {
        content: { parts: { text: string }[] };
        citationMetadata: { citationSources: { startIndex: number; endIndex: number }[] };
        groundingMetadata: {
          groundingSupports: { segment: { startIndex: number; endIndex: number; text: string } }[];
          webSearchQueries: string[];
        };
      }[];
    };
    const [candidate] = candidates;
    const bytes = Buffer.from(candidate?.content.parts.map((part) => part.text).join("") ?? "");
    expect(bytes.toString()).toBe(`é ${EMAIL} and ${OTHER}!`);
    const [citation] = candidate?.citationMetadata.citationSources ?? [];
    expect(bytes.subarray(citation?.startIndex, citation?.endIndex).toString()).toBe(EMAIL);
    const [support] = candidate?.groundingMetadata.groundingSupports ?? [];
    expect(bytes.subarray(support?.segment.startIndex, support?.segment.endIndex).toString()).toBe(OTHER);
    expect(support?.segment.text).toBe(OTHER);
    expect(candidate?.groundingMetadata.webSearchQueries).toEqual([`who is ${EMAIL}`]);
  });
});

/** A gateway before an upstream that answers with one body. */
const before = (format: "messages" | "chat-completions" | "responses", body: object | string) => {
  const backend = relay({
    format,
    baseUrl: "http://upstream/v1",
    apiKey: "sk-inner",
    fetch: () =>
      Promise.resolve(
        typeof body === "string"
          ? new Response(body, { headers: { "content-type": "text/event-stream" } })
          : Response.json(body),
      ),
  });
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    hooks: [redactor({ find })],
  });
  return async (path: string, request: object): Promise<string> => {
    const response = await gateway.fetch(
      new Request(`http://host${path}`, {
        method: "POST",
        headers: {
          authorization: "Bearer sk-one",
          "compat-version": "2023-06-01",
          "content-type": "application/json",
        },
        body: JSON.stringify({ model: "any", ...request }),
      }),
    );
    return response.text();
  };
};

const frame = (type: string, fields: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const messageItem = (id: string, said: string, annotations: object[]) => ({
  type: "message",
  id,
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: said, annotations, logprobs: [] }],
});

describe("the annotations of an upstream of the caller's own format", () => {
  it("of messages: the quote is restored, and the place in the document is that in the caller's", async () => {
    const document = `From ${OTHER} to ${EMAIL}: hello`;
    const redacted = "From [EMAIL_1] to [EMAIL_2]: hello";
    const cited = "to [EMAIL_2]: hello";
    const send = before("messages", {
      type: "message",
      id: "msg_1",
      role: "assistant",
      model: "m",
      stop_reason: "end_turn",
      usage: { input_tokens: 1, output_tokens: 1 },
      content: [
        { type: "text", text: "It says " },
        {
          type: "text",
          text: "hello to [EMAIL_2]",
          citations: [
            {
              type: "char_location",
              cited_text: cited,
              document_index: 0,
              document_title: null,
              start_char_index: redacted.indexOf(cited),
              end_char_index: redacted.length,
            },
          ],
        },
      ],
    });
    const source = { type: "text", media_type: "text/plain", data: document };
    const answer = JSON.parse(
      await send("/v1/messages", {
        max_tokens: 100,
        messages: [
          user([
            { type: "document", source, citations: { enabled: true } },
            { type: "text", text: "Who?" },
          ]),
        ],
      }),
    ) as {
      content: {
        text: string;
        citations: { cited_text: string; start_char_index: number; end_char_index: number }[];
      }[];
    };
    expect(answer.content.map(({ text }) => text)).toEqual(["It says ", `hello to ${EMAIL}`]);
    const [citation] = answer.content[1]?.citations ?? [];
    expect(citation?.cited_text).toBe(`to ${EMAIL}: hello`);
    expect(document.slice(citation?.start_char_index, citation?.end_char_index)).toBe(citation?.cited_text);
  });

  it("of messages in a stream: each block keeps its own, behind its text", async () => {
    const delta = (index: number, given: object): string => frame("content_block_delta", { index, delta: given });
    const said = (index: number, text: string): string => delta(index, { type: "text_delta", text });
    const cite = (index: number, cited_text: string): string =>
      delta(index, { type: "citations_delta", citation: { type: "page_location", cited_text, document_index: 0 } });
    const begin = (index: number): string =>
      frame("content_block_start", { index, content_block: { type: "text", text: "" } });
    const end = (index: number): string => frame("content_block_stop", { index });
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      usage,
    };
    const send = before(
      "messages",
      frame("message_start", { message }) +
        begin(0) +
        said(0, "a [EMA") +
        said(0, "IL_1]") +
        cite(0, "of [EMAIL_1]") +
        end(0) +
        begin(1) +
        said(1, "b [") +
        cite(1, "of b") +
        end(1) +
        frame("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage }) +
        frame("message_stop", {}),
    );
    const frames = await send("/v1/messages", { max_tokens: 100, stream: true, messages: [user(EMAIL)] });
    const deltas = Array.from(frames.matchAll(/^data: (.*)$/gm), ([, data]) => JSON.parse(data ?? "") as never)
      .map(
        ({ index, delta: given }: { index: number; delta?: { text?: string; citation?: { cited_text: string } } }) => [
          index,
          given?.text ?? given?.citation?.cited_text,
        ],
      )
      .filter(([, shown]) => shown !== undefined);
    expect(deltas).toEqual([
      [0, "a "],
      [0, EMAIL],
      [0, `of ${EMAIL}`],
      [1, "b "],
      [1, "["],
      [1, "of b"],
    ]);
  });

  const text = "😀 [EMAIL_1] is at A.";
  const url = { title: "A", url: "https://a.b" };
  const range = { start_index: 2, end_index: Array.from(text).length };
  const slice = (shown: string, { start_index, end_index }: typeof range): string =>
    Array.from(shown).slice(start_index, end_index).join("");

  it("of chat completions: their places move with the text", async () => {
    const send = before("chat-completions", {
      id: "c",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [
        {
          index: 0,
          finish_reason: "stop",
          message: {
            role: "assistant",
            content: text,
            annotations: [{ type: "url_citation", url_citation: { ...url, ...range } }],
          },
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    });
    const { choices } = JSON.parse(await send("/v1/chat/completions", { messages: [user(EMAIL)] })) as {
      choices: { message: { content: string; annotations: { url_citation: typeof range }[] } }[];
    };
    const { content, annotations } = choices[0]?.message ?? { content: "", annotations: [] };
    expect(content).toBe(`😀 ${EMAIL} is at A.`);
    expect(slice(content, annotations[0]?.url_citation ?? range)).toBe(`${EMAIL} is at A.`);
  });

  it("of responses: their places move with the text of their own message", async () => {
    const call = {
      type: "function_call",
      id: "fc",
      call_id: "call_1",
      name: "look",
      arguments: "{}",
      status: "completed",
    };
    const send = before("responses", {
      id: "resp_1",
      object: "response",
      created_at: 1,
      status: "completed",
      model: "m",
      output: [
        messageItem("m1", "First [EMAIL_1].", []),
        call,
        messageItem("m2", text, [{ type: "url_citation", ...url, ...range }]),
      ],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    });
    const { output } = JSON.parse(await send("/v1/responses", { input: EMAIL })) as {
      output: { type: string; content: { text: string; annotations: (typeof range)[] }[] }[];
    };
    const [first, second] = output.filter(({ type }) => type === "message").flatMap(({ content }) => content);
    expect(first?.text).toBe(`First ${EMAIL}.`);
    expect(second?.annotations).toMatchObject([{ type: "url_citation", title: "A" }]);
    expect(slice(second?.text ?? "", second?.annotations[0] ?? range)).toBe(`${EMAIL} is at A.`);
  });
});

describe("a function that finds", () => {
  it("may be asynchronous, and is asked once for each different text", async () => {
    const asked: string[] = [];
    const finding: RedactorFind = async (text) => {
      asked.push(text);
      const start = text.indexOf("Ada");
      return start < 0 ? [] : [{ start, end: start + 3, kind: "name" }];
    };
    const { send, said } = redacting({ find: finding }, "Hi [NAME_1]", counted(1));
    const response = await send({
      body: { messages: [user("Ada"), { role: "assistant", content: "Yes?" }, user("Ada")] },
    });
    expect(await response.json()).toMatchObject({ content: [{ text: "Hi Ada" }] });
    expect(asked).toEqual(["Ada", "Yes?"]);
    expect(said()).not.toContain("Ada");
  });

  const wrong: readonly [string, RedactorFind][] = [
    ["throws", () => JSON.parse("{") as []],
    ["rejects", () => Promise.reject(new Error("down"))],
    ["returns nothing", () => undefined as unknown as []],
    ["returns a place behind the text", () => [{ start: 0, end: 99, kind: "x" }]],
    ["returns an empty place", () => [{ start: 1, end: 1, kind: "x" }]],
    ["returns no kind", () => [{ start: 0, end: 1 } as never]],
    ["returns a kind with a space", () => [{ start: 0, end: 1, kind: "a b" }]],
    [
      "never ends",
      function* () {
        for (;;) yield { start: 0, end: 1, kind: "x" };
      },
    ],
  ];

  it.each(wrong)("refuses the request when it %s, and shows it to nobody", async (_name, finding) => {
    const { send, read, failures, report } = redacting({ find: finding }, "ok", counted(1));
    expect((await send(ask("ten tokens"))).status).toBe(503);
    expect([read, failures.length]).toEqual([[], 1]);
    expect(report()).toMatchObject({ used: 0, held: 0 });
  });

  it("refuses the request when it takes too long", async () => {
    const { send, read, clock } = redacting({ find: () => never, timeoutMs: 100 }, "ok", counted(1));
    const sending = send(ask("ten tokens"));
    await clock.advance(100);
    expect([(await sending).status, read]).toEqual([503, []]);
  });
});

describe("replace", () => {
  it.each<[string, NonNullable<RedactorOptions["replace"]>]>([
    ["returns the same for two values", () => "[X]"],
    ["returns nothing", () => ""],
    ["returns no text", () => 1 as unknown as string],
    ["returns a text that is too long", () => "x".repeat(257)],
  ])("that %s refuses the request", async (_name, replace) => {
    const { send, read, failures } = redacting({ replace }, "ok", counted(1));
    expect((await send(ask(`${EMAIL} ${OTHER}`))).status).toBe(503);
    expect([read, failures.length]).toEqual([[], 1]);
  });

  it("that stands in the request for every number refuses it, and one may be the same for all where nothing is restored", async () => {
    const same = redacting({ replace: ({ value }) => `<${value.length}>` }, "ok", counted(1));
    expect((await same.send(ask(`${EMAIL} <15>`))).status).toBe(503);
    const blind = redacting({ replace: () => "[X]", restore: false }, "ok", counted(1));
    expect((await blind.send(ask(`${EMAIL} ${OTHER} [X]`))).status).toBe(200);
    expect(blind.said()).toContain("[X] [X] [X]");
  });
});

it("holds back no more than a replacement, and its work is linear in hostile texts", () => {
  const trie = newTrie();
  const replacement = "[".repeat(255) + "]";
  addToTrie(trie, replacement, "value");
  for (const isJson of [false, true]) {
    const restorer = new Restorer(trie, isJson);
    let shown = restorer.push(isJson ? '"' : "").length;
    let pushed = isJson ? 1 : 0;
    for (let piece = 0; piece < 3_000; piece++) {
      const text = isJson ? String.raw`\u005b` : "[";
      shown += restorer.push(text).length;
      pushed += text.length;
      expect(pushed - shown).toBeLessThanOrEqual(255 * text.length);
    }
  }
});

it.each<[string, unknown, string]>([
  ["nothing", undefined, "expects an object of options"],
  ["nothing to find", { find: {} }, "find must be a function, or an object"],
  ["a text to find", { find: "x" }, "find must be a function, or an object"],
  ["a kind with a space", { find: { "a b": /x/ } }, 'the kind "a b" must have'],
  ["no pattern", { find: { a: 1 } }, "redactor: find.a must be a RegExp, or a list of words"],
  ["an empty word", { find: { a: [""] } }, "redactor: find.a must be a RegExp, or a list of words"],
  ["a wrong restore", { find, restore: "yes" }, "restore must be true, false or a function"],
  ["a wrong replace", { find, replace: "x" }, "replace must be a function"],
  ["an unknown option", { find, down: "open" }, "down"],
])("given %s is refused by name", (_name, options, message) => {
  expect(() => redactor(options as RedactorOptions)).toThrow(message);
});
