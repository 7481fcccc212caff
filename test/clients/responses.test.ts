/** What clients of Responses make of a backend that is told what to do: silence, refusals, rates, calls by turns, items of its own. */

import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import { streamText } from "ai";
import { ResponsesToolRunner } from "openai/helpers/responses-tool-runner";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { type ChatEvent, flexibleRateLimiter, memoryResponseStore, type ModelBackend } from "../../src/index.ts";
import { connect, listeningFetch, quiet, serve } from "./chat-completions/stage.ts";
import { errorOf, sdks } from "./openai/sdk.ts";

// The SDK's own switch: it warns on the console of models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

const asked = { model: "m", input: "Hi" } as const;

const plays = (...events: readonly (ChatEvent | string)[]): NonNullable<ModelBackend["chat"]> =>
  async function* () {
    yield* events;
  };

describe.each(sdks)("$name", (sdk) => {
  it("takes keep-alives for nothing", async () => {
    const { clock, chat } = quiet();
    await using server = await serve(chat, { clock });
    const { fetch, heard } = listeningFetch();
    const client = connect({ sdk, url: server.url }, { fetch });
    const events: ResponseStreamEvent[] = [];
    for await (const event of await client.responses.create({ ...asked, stream: true })) events.push(event);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.at(-1)).toMatchObject({ response: { output: [{ content: [{ text: "Hello there" }] }] } });
    expect((await heard()).split(": keep-alive\n\n").length).toBeGreaterThan(3);
  });

  it("reads a refusal, and not as text", async () => {
    const refusal: ChatEvent = { type: "refusal-delta", text: "I won't." };
    await using server = await serve(plays(refusal, { type: "finish", reason: "refusal" }));
    const { responses } = connect({ sdk, url: server.url });
    const stream = responses.stream(asked);
    let said = "";
    stream.on("response.refusal.delta", ({ delta }) => void (said += delta));
    for (const answer of [await stream.finalResponse(), await responses.create(asked)])
      expect(answer).toMatchObject({
        status: "completed",
        output: [{ content: [{ type: "refusal", refusal: "I won't." }] }],
        output_text: "",
      });
    expect(said).toBe("I won't.");
  });

  it("is told that an answer was filtered, with what came before", async () => {
    await using server = await serve(plays("Well", { type: "finish", reason: "content-filter" }));
    const answer = await connect({ sdk, url: server.url }).responses.stream(asked).finalResponse();
    expect(answer).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "content_filter" },
      output: [{ status: "incomplete" }],
      output_text: "Well",
    });
  });

  it("tells calls apart that come by turns", async () => {
    await using server = await serve(
      plays(
        { type: "tool-call-start", id: "a", name: "one" },
        { type: "tool-call-start", id: "b", name: "two" },
        { type: "tool-call-delta", id: "b", json: '{"x":' },
        { type: "tool-call-delta", id: "a", json: '{"y":1}' },
        { type: "text-delta", text: "Wait." },
        { type: "tool-call-delta", id: "b", json: "2}" },
      ),
    );
    const answer = await connect({ sdk, url: server.url }).responses.stream(asked).finalResponse();
    expect(answer.output).toMatchObject([
      { type: "function_call", call_id: "a", name: "one", arguments: '{"y":1}' },
      { type: "function_call", call_id: "b", name: "two", arguments: '{"x":2}' },
      { type: "message", content: [{ text: "Wait." }] },
    ]);
  });

  it("is told its rates, and when to come back", async () => {
    const requests = [new RateLimiterMemory({ points: 1, duration: 3_600 })];
    await using server = await serve(plays("Hi"), { rateLimiter: flexibleRateLimiter({ perKey: { requests } }) });
    const { responses } = connect({ sdk, url: server.url });
    const { response } = await responses.create(asked).withResponse();
    expect(response.headers.get("x-ratelimit-limit-requests")).toBe("1");
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("0");
    const error = await errorOf(responses.create({ ...asked, stream: true }));
    expect(error).toBeInstanceOf(sdk.OpenAI.RateLimitError);
    expect(error).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    expect(Number(error.headers?.get("retry-after-ms"))).toBeGreaterThan(0);
  });

  it("is told that nothing is kept where there is no store", async () => {
    await using server = await serve(plays("Hi"));
    const { responses, conversations } = connect({ sdk, url: server.url });
    const { id, ...answer } = await responses.create(asked);
    expect(answer).toMatchObject({ store: false });
    const { BadRequestError, NotFoundError } = sdk.OpenAI;
    for (const [call, kind] of [
      [() => responses.retrieve(id), NotFoundError],
      [() => responses.create({ ...asked, previous_response_id: id }), NotFoundError],
      [() => responses.create({ ...asked, conversation: "conv_1" }), NotFoundError],
      [() => responses.create({ ...asked, background: true }), BadRequestError],
      [() => conversations.create(), NotFoundError],
    ] as const)
      expect(await errorOf(call())).toBeInstanceOf(kind);
    const input = [{ type: "item_reference" as const, id: "rs_1" }];
    for (const named of [{ previous_response_id: id }, { input }])
      expect(await errorOf(responses.create({ ...asked, ...named }))).toMatchObject({
        message: expect.stringMatching(/not found\. .* send the whole input, with "store": false\.$/) as string,
      });
  });
});

it("the client's own runner runs functions to the answer", async () => {
  await using server = await serve(
    async function* ({ messages }) {
      const [result] = messages.at(-1)?.parts ?? [];
      if (result?.type === "tool-result") yield JSON.stringify(result.parts);
      else yield { type: "tool-call", id: "a", name: "add", input: { x: 1, y: 2 } };
    },
    { responseStore: memoryResponseStore() },
  );
  const [sdk] = sdks;
  if (!sdk) throw new Error("There is no client.");
  for (const stream of [false, true]) {
    const add = {
      tool: { type: "function", name: "add", parameters: { type: "object", properties: {} }, strict: false },
      execute: ({ x, y }: Record<string, unknown>) => String(Number(x) + Number(y)),
    } as const;
    const runner = new ResponsesToolRunner({ functions: [add] });
    const input = [{ role: "user", content: "Add 1 and 2" }] as const;
    const answer = await runner.run(connect({ sdk, url: server.url }), { ...asked, input: [...input] }, { stream });
    expect(answer.output_text).toBe('[{"type":"text","text":"3"}]');
  }
});

it("the ai SDK and LangChain take keep-alives for nothing", async () => {
  const texts: string[] = [];
  {
    const { clock, chat } = quiet();
    await using server = await serve(chat, { clock });
    const model = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: "sk-demo" })("m");
    texts.push(await streamText({ model, prompt: "Hi", maxRetries: 0 }).text);
  }
  const { clock, chat } = quiet();
  await using server = await serve(chat, { clock });
  const configuration = { baseURL: `${server.url}/v1` };
  const model = new ChatOpenAI({ model: "m", apiKey: "sk-demo", useResponsesApi: true, maxRetries: 0, configuration });
  let text = "";
  for await (const chunk of await model.stream("Hi")) text += chunk.text;
  expect([...texts, text]).toEqual(["Hello there", "Hello there"]);
});
