/** Requests of official clients that an upstream of another format would refuse as they are: each is adapted, accepted, and told. */

import { describe, expect, it } from "vitest";
import { connectAnthropic, connectOpenAi, responseTools } from "./clients.ts";
import { type MakerName, relayedMaker, serveGateway } from "./stage.ts";
import type { StrictUpstream } from "./strict.ts";

interface Stage extends AsyncDisposable {
  readonly upstream: StrictUpstream;
  readonly url: string;
}

/** Serves a gateway before a strict upstream that always answers with a text. */
async function before(name: MakerName): Promise<Stage> {
  const maker = await relayedMaker(name, { script: () => ({ thought: "Hm.", text: "Yes.", calls: [] }) });
  const gateway = await serveGateway(maker.backend);
  return {
    upstream: maker.upstream,
    url: gateway.url,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await maker[Symbol.asyncDispose]();
    },
  };
}

/** The fields that the answer tells to be changed or left out. */
const toldIn = ({ headers }: Response): readonly string[] =>
  ["approximated", "dropped"].flatMap((kind) => headers.get(`polygate-${kind}`)?.split(", ") ?? []);

const TINY = { max_tokens: 99 } as const;
const PDF = { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } as const;

describe("a document without a name", () => {
  it("has one before chat completions, also in the result of a tool", async () => {
    await using stage = await before("openai");
    const document = { type: "document", source: PDF } as const;
    await connectAnthropic(stage.url).messages.create({
      ...TINY,
      model: "openai",
      messages: [
        { role: "user", content: [document, { type: "text", text: "Read." }] },
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "read", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [document] }] },
      ],
    });
    expect(stage.upstream.violations).toEqual([]);
    expect(JSON.stringify(stage.upstream.requests).match(/"filename":"document\.pdf"/g)).toHaveLength(2);
  });
});

describe("the identifier of an end user", () => {
  it.each([
    [64, []],
    [65, ["endUser"]],
  ])("of %i characters, before chat completions", async (length, told) => {
    await using stage = await before("openai");
    const { response } = await connectAnthropic(stage.url)
      .messages.create({
        ...TINY,
        model: "openai",
        messages: [{ role: "user", content: "Hi" }],
        metadata: { user_id: "u".repeat(length) },
      })
      .withResponse();
    expect(stage.upstream.violations).toEqual([]);
    expect(toldIn(response)).toEqual(told);
    expect(stage.upstream.requests[0]?.body["user"]).toEqual(told.length === 0 ? "u".repeat(length) : undefined);
  });

  it.each([
    [256, []],
    [257, ["endUser"]],
  ])("of %i characters, before messages", async (length, told) => {
    await using stage = await before("messages");
    const user_id = "u".repeat(length);
    const { response } = await connectOpenAi(stage.url)
      .chat.completions.create({ model: "messages", messages: [{ role: "user", content: "Hi" }], user: user_id })
      .withResponse();
    expect(stage.upstream.violations).toEqual([]);
    expect(toldIn(response)).toEqual(told);
    expect(stage.upstream.requests[0]?.body["metadata"]).toEqual(told.length === 0 ? { user_id } : undefined);
  });
});

describe("a text between a call and its result", () => {
  const CALL = { type: "function_call", call_id: "a", name: "get_tides", arguments: "{}" } as const;
  const RESULT = { type: "function_call_output", call_id: "a", output: "High." } as const;
  const ORDER = ["messages.tool-result.order"];

  describe.each(["messages", "openai", "deepseek", "generate-content", "converse", "responses"] as const)(
    "before %s",
    (name) => {
      it.each([
        ["of the user", [{ role: "user", content: "Hurry." }, RESULT, { role: "user", content: "Well?" }], ORDER],
        ["of the developer", [{ role: "developer", content: "Be brief." }, RESULT], ORDER],
        ["of both", [{ role: "developer", content: "Be brief." }, { role: "user", content: "Hurry." }, RESULT], ORDER],
        ["behind a result", [RESULT, { role: "user", content: "Well?" }], []],
      ] as const)("%s", async (_name, later, told) => {
        await using stage = await before(name);
        const client = connectOpenAi(stage.url);
        const input = [{ role: "user", content: "Is it high tide?" }, CALL, ...later] as const;
        const { response } = await client.responses
          .create({ model: name, input: [...input], tools: responseTools(), store: false })
          .withResponse();
        expect(stage.upstream.violations).toEqual([]);
        // The upstream's own format takes any order, and instructions.
        expect(toldIn(response).filter((field) => field.endsWith("order"))).toEqual(name === "responses" ? [] : told);
        const sent = JSON.stringify(stage.upstream.requests[0]?.body);
        for (const text of ["High.", ...later.flatMap((item) => ("content" in item ? item.content : []))])
          expect(sent.split(text)).toHaveLength(2);
      });
    },
  );

  it("stands behind the result, as in a turn of messages that ends with one", async () => {
    await using stage = await before("openai");
    await connectAnthropic(stage.url).messages.create({
      ...TINY,
      model: "openai",
      messages: [
        { role: "user", content: "Is it high tide?" },
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "get_tides", input: {} }] },
        {
          role: "user",
          content: [
            { type: "text", text: "Hurry." },
            { type: "tool_result", tool_use_id: "a", content: "High." },
          ],
        },
      ],
    });
    expect(stage.upstream.violations).toEqual([]);
    expect(stage.upstream.requests[0]?.body["messages"]).toMatchObject([
      { role: "user" },
      { role: "assistant" },
      { role: "tool", content: "High." },
      { role: "user", content: "Hurry." },
    ]);
  });
});
