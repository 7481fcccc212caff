/** Requests of official clients that an upstream of another format would refuse as they are: each is adapted, accepted, and told. */

import { type Content, FunctionCallingConfigMode, type GenerateContentResponse, GoogleGenAI } from "@google/genai";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { connectAnthropic, connectOpenAi, responseTools } from "./clients.ts";
import type { Script, Turn } from "./script.ts";
import { KEY, type MakerName, relayedMaker, serveGateway } from "./stage.ts";
import type { StrictUpstream } from "./strict.ts";

interface Stage extends AsyncDisposable {
  readonly upstream: StrictUpstream;
  readonly url: string;
}

/** @param script The answers of the upstream. Default: always a text. */
async function before(name: MakerName, script: Script = () => YES): Promise<Stage> {
  const maker = await relayedMaker(name, { script });
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

const YES: Turn = { thought: "Hm.", text: "Yes.", calls: [] };

/** Calls all tools, in two answers. The third is a text. */
const callAll: Script = ({ tools, steps }) =>
  steps === 2
    ? YES
    : { ...YES, calls: tools.map(({ name }): { name: string; args: JsonObject } => ({ name, args: {} })) };

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

describe("the names of tools", () => {
  const parameters = { type: "object", properties: {} } as const;
  const LONG = `read_${"x".repeat(60)}_${"y".repeat(60)}`;

  /** What a client gets in an answer: the names of its calls. The history of the client has the answer and the results then. */
  interface Asker {
    ask(isStreamed: boolean): Promise<readonly string[]>;
  }

  const asGoogle = (url: string, model: string, names: readonly string[]): Asker => {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    const contents: Content[] = [{ role: "user", parts: [{ text: "Call." }] }];
    const functionCallingConfig = { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: [...names] };
    return {
      async ask(isStreamed) {
        const tools = [{ functionDeclarations: names.map((name) => ({ name, parametersJsonSchema: parameters })) }];
        const asked = { model, contents, config: { tools, toolConfig: { functionCallingConfig } } };
        const chunks: GenerateContentResponse[] = [];
        if (isStreamed) for await (const chunk of await client.models.generateContentStream(asked)) chunks.push(chunk);
        else chunks.push(await client.models.generateContent(asked));
        const parts = chunks.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? []);
        const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
        contents.push(
          { role: "model", parts },
          {
            role: "user",
            parts: calls.map(({ id = "", name = "" }) => ({ functionResponse: { id, name, response: {} } })),
          },
        );
        return calls.map(({ name = "" }) => name);
      },
    };
  };

  const asAnthropic = (url: string, model: string, names: readonly string[]): Asker => {
    const { messages: endpoint } = connectAnthropic(url);
    const messages: Parameters<typeof endpoint.create>[0]["messages"] = [{ role: "user", content: "Call." }];
    return {
      async ask(isStreamed) {
        const tools = names.map((name) => ({ name, input_schema: parameters }));
        const asked = { ...TINY, model, messages, tools };
        const { content } = await (isStreamed ? endpoint.stream(asked).finalMessage() : endpoint.create(asked));
        const calls = content.flatMap((block) => (block.type === "tool_use" ? block : []));
        const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "Done." }) as const);
        messages.push({ role: "assistant", content }, { role: "user", content: results });
        return calls.map(({ name }) => name);
      },
    };
  };

  const asOpenAi = (url: string, model: string, names: readonly string[]): Asker => {
    const { completions } = connectOpenAi(url).chat;
    const messages: Parameters<typeof completions.create>[0]["messages"] = [{ role: "user", content: "Call." }];
    return {
      async ask(isStreamed) {
        const tools = names.map((name) => ({ type: "function", function: { name, parameters } }) as const);
        const asked = { model, messages, tools };
        const { choices } = await (isStreamed
          ? completions.stream(asked).finalChatCompletion()
          : completions.create(asked));
        const { tool_calls: calls = [], content = null } = choices[0]?.message ?? {};
        messages.push(
          { role: "assistant", content, tool_calls: calls },
          ...calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "Done." }) as const),
        );
        return calls.map((call) => (call.type === "function" ? call.function.name : ""));
      },
    };
  };

  const OPEN = { Google: asGoogle, Anthropic: asAnthropic, OpenAI: asOpenAi };

  it.each<[vendor: keyof typeof OPEN, name: MakerName, names: readonly string[]]>([
    ["Google", "openai", ["srv.tides:now", "srv_tides_now", LONG, `${LONG}z`]],
    ["Google", "messages", ["srv.tides:now", "srv.tides.now", LONG]],
    ["Google", "responses", ["web.search", "code.interpreter", LONG]],
    ["Google", "converse", ["srv.tides:now", LONG]],
    ["Google", "openai", ["srv.only"]],
    ["Anthropic", "openai", [LONG, LONG.replace("_x", "_z"), "plain"]],
    ["Anthropic", "generate-content", ["3d-render", "_3d-render", LONG]],
    ["OpenAI", "generate-content", ["3d-render", "plain"]],
  ])("of a client of %s before %s", async (vendor, name, names) => {
    for (const isStreamed of [false, true]) {
      await using stage = await before(name, callAll);
      const asker = OPEN[vendor](stage.url, name, names);
      // The upstream checks the history, with its own signatures of the calls.
      for (const expected of [names, names, []]) expect(await asker.ask(isStreamed)).toEqual(expected);
      expect(stage.upstream.violations).toEqual([]);
      expect(stage.upstream.requests).toHaveLength(3);
    }
  });
});

const warming = (model: MakerName, prewarm: boolean) =>
  ({ model, input: "Hi", store: false, prompt_cache_options: { prewarm } }) as const;

describe("a wish to prepare the prompt cache without an answer", () => {
  it.each(["messages", "openai", "generate-content", "converse"] as const)("is refused before %s", async (name) => {
    await using stage = await before(name);
    const { responses } = connectOpenAi(stage.url);
    await expect(responses.create(warming(name, true))).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("native.prompt_cache_options.prewarm") as string,
    });
    expect(stage.upstream.requests).toEqual([]);
    expect(await responses.create(warming(name, false))).toMatchObject({ status: "completed" });
  });

  it("reaches an upstream of Responses", async () => {
    await using stage = await before("responses");
    await connectOpenAi(stage.url)
      .responses.create(warming("responses", true))
      .catch(() => {});
    expect(stage.upstream.requests[0]?.body).toMatchObject({ prompt_cache_options: { prewarm: true } });
  });
});
