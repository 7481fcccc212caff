/** Responses by the official client: answers, streams and their events, schemas, media, reasoning, counts, and calls that are ended. */

import type OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { usageOf, usedUntil } from "../playground.ts";
import { responseErrorsSuite } from "./responses.errors.ts";
import { keptResponsesSuite } from "./responses.kept.ts";
import { responseToolsSuite } from "./responses.tools.ts";
import { errorOf, type Stage } from "./sdk.ts";

export const model = "demo-chat";

export function responsesSuite(stage: Stage): void {
  describe("answers", () => {
    answerSuite(stage);
  });
  describe("tools", () => {
    responseToolsSuite(stage);
  });
  describe("errors", () => {
    responseErrorsSuite(stage);
  });
  describe("kept", () => {
    keptResponsesSuite(stage);
  });
  describe("abort", () => {
    abortSuite(stage);
  });
}

function answerSuite({ sdk, connect }: Stage): void {
  const ask = (input: OpenAI.Responses.ResponseInput | string, more: object = {}) =>
    connect().responses.create({ model, input, ...more });

  it("come whole", async () => {
    const { data: answer, request_id } = await connect()
      .responses.create({ model, input: "Hello there", instructions: "Be kind.", metadata: { team: "a" } })
      .withResponse();
    expect(answer).toMatchObject({
      id: `resp_${request_id?.replace("req_", "")}`,
      object: "response",
      status: "completed",
      model,
      error: null,
      incomplete_details: null,
      instructions: "Be kind.",
      metadata: { team: "a" },
      output: [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text" }] }],
      output_text: "You said: Hello there",
      usage: {
        input_tokens: 4,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 4,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 8,
      },
    });
    expect(Math.abs(answer.created_at - Date.now() / 1000)).toBeLessThan(3_600);
  });

  it("come in pieces, with every event in its order and the same response at the end", async () => {
    const stream = connect().responses.stream({ model, input: "Hello there" });
    const events: ResponseStreamEvent[] = [];
    const snapshots: string[] = [];
    stream.on("event", (event) => void events.push(event));
    stream.on("response.output_text.delta", ({ snapshot }) => void snapshots.push(snapshot));
    const final = await stream.finalResponse();
    expect(final).toMatchObject({ status: "completed", output_text: "You said: Hello there", model });
    expect(final.usage).toMatchObject({ input_tokens: 2, output_tokens: 4, total_tokens: 6 });
    expect(snapshots).toEqual(["You", "You said:", "You said: Hello", "You said: Hello there"]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      ...Array.from({ length: 4 }, () => "response.output_text.delta"),
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
    expect(events.at(-1)).toMatchObject({ response: { output: done } });
  });

  it("are iterated in pieces", async () => {
    let text = "";
    for await (const event of await connect().responses.create({ model, input: "Hello there", stream: true }))
      if (event.type === "response.output_text.delta") text += event.delta;
    expect(text).toBe("You said: Hello there");
  });

  it("keep to a schema, which the client parses", async () => {
    const format = zodTextFormat(z.object({ name: z.string() }), "person");
    const asked = { model, input: "A woman called Ada", text: { format } };
    expect((await connect().responses.parse(asked)).output_parsed).toEqual({ name: "Ada" });
    expect((await connect().responses.stream(asked).finalResponse()).output_parsed).toEqual({ name: "Ada" });
    const free = await ask("A woman called Ada, as JSON", { text: { format: { type: "json_object" } } });
    expect(JSON.parse(free.output_text)).toEqual(expect.any(Object));
  });

  it("end at the limit, complete and streamed", async () => {
    const cut = await ask("/repeat 9", { max_output_tokens: 2 });
    const ending = {
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ status: "incomplete" }],
      output_text: "word word",
    };
    expect(cut).toMatchObject(ending);
    const stream = connect().responses.stream({ model, input: "/repeat 9", max_output_tokens: 2 });
    const types: string[] = [];
    stream.on("event", ({ type }) => void types.push(type));
    expect(await stream.finalResponse()).toMatchObject(ending);
    expect(types.at(-1)).toBe("response.incomplete");
  });

  it("show a summary of the reasoning, which goes back with its seal", async () => {
    const asked: OpenAI.Responses.ResponseCreateParamsNonStreaming & { stream?: never } = {
      model,
      reasoning: { effort: "low", summary: "auto" },
      include: ["reasoning.encrypted_content"],
      store: false,
    };
    const stream = connect().responses.stream({ ...asked, input: "Think of me" });
    let summary = "";
    stream.on("response.reasoning_summary_text.delta", ({ delta }) => void (summary += delta));
    const first = await stream.finalResponse();
    const [reasoning, message] = first.output;
    expect(reasoning).toMatchObject({
      type: "reasoning",
      summary: [{ type: "summary_text", text: summary }],
      encrypted_content: expect.stringMatching(/./),
    });
    expect(summary).not.toBe("");
    expect(first.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    const again = { role: "user", content: "And again" } as const;
    const input = [{ role: "user", content: "Think of me" } as const, ...first.output, again];
    const second = await connect().responses.create({ ...asked, input: input as OpenAI.Responses.ResponseInput });
    expect(second.output_text).toBe("You said: And again");
    const without = [input[0], message, again] as OpenAI.Responses.ResponseInput;
    const forgotten = await connect().responses.create({ ...asked, input: without });
    expect(second.usage?.input_tokens).toBeGreaterThan(forgotten.usage?.input_tokens ?? 0);
  });

  it("are counted before they are asked for", async () => {
    const asked = { model, input: "Hello there", instructions: "Be kind." };
    const counted = await connect().responses.inputTokens.count(asked);
    expect(counted).toEqual({ object: "response.input_tokens", input_tokens: expect.any(Number) });
    expect(counted.input_tokens).toBeGreaterThan(0);
    const error = await errorOf(connect().responses.inputTokens.count({ ...asked, model: "nobody" }));
    expect(error).toBeInstanceOf(sdk.OpenAI.NotFoundError);
    // The model may be missing: the count is then the gateway's own.
    for (const unnamed of [{ input: "Hello there" }, { input: "Hello there", model: null }])
      expect((await connect().responses.inputTokens.count(unnamed)).input_tokens).toBeGreaterThan(0);
    for (const wrong of [{}, { input: 7 as unknown as string }])
      expect(await errorOf(connect().responses.inputTokens.count(wrong))).toMatchObject({
        status: 400,
        param: "input",
      });
  });
}

function abortSuite({ sdk, connect, playground }: Stage): void {
  it.each(["stream", "complete"] as const)("ends a %s answer at once, and what was said is charged", async (form) => {
    const max_output_tokens = 5_000;
    const { url } = playground();
    const { total_used: before } = await usageOf(url, "sk-metered");
    const controller = new AbortController();
    const asked = { model, input: "/delay 20 /repeat 1000", max_output_tokens };
    const { responses } = connect({ apiKey: "sk-metered" });
    const { signal } = controller;
    const error = errorOf(
      form === "stream" ? responses.stream(asked, { signal }).done() : responses.create(asked, { signal }),
    );
    await usedUntil(url, "sk-metered", (now) => now >= before + max_output_tokens);
    controller.abort();
    expect(await error).toBeInstanceOf(sdk.OpenAI.APIUserAbortError);
    const charged = await usedUntil(url, "sk-metered", (now) => now < before + max_output_tokens);
    expect(charged).toBeLessThan(before + 1_000);
  });

  it("ends a stream that its reader leaves", async () => {
    const stream = await connect().responses.create({ model, input: "/delay 20 /repeat 1000", stream: true });
    const types = new Set<string>();
    for await (const { type } of stream) {
      types.add(type);
      if (type === "response.output_text.delta") break;
    }
    expect([...types].at(-1)).toBe("response.output_text.delta");
  });
}
