/** The models of all makers on Bedrock by Converse, asked by the official clients, before a mock that checks signatures and requests. */

import type Anthropic from "@anthropic-ai/sdk";
import type { ContentBlock } from "@aws-sdk/client-bedrock-runtime";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AwsCredentialProvider,
  type AwsCredentials,
  bedrockConverse,
  type BedrockConverseOptions,
} from "../../src/clouds/aws.ts";
import { describeError } from "../../src/errors.ts";
import type { ChatVerbs } from "../../src/formats/module.ts";
import type { JsonObject } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { relay, type RelayBackend, type RelayOptions } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { awsFrame, type Bedrock, exception, refuse } from "./aws-mock.ts";
import {
  anthropicFor,
  CLIENTS,
  errorsFor,
  EXCEPTIONS,
  HELLO,
  KEYS,
  openaiFor,
  outcome,
  reframed,
  REFUSALS,
  session,
} from "./aws-stage.ts";
import { answered, converse, USAGE } from "./converse-mock.ts";
import { eventBytes, eventsOf } from "./converse-wire.ts";
import { cloud, front, json, MESSAGE, TEXT } from "./stage.ts";

const NOVA = "us.amazon.nova-2-lite-v1:0";
const CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const GPT = "us.openai.gpt-5.6-luna";
const clock = manualClock();
const now = (): number => clock.now();

const before = (
  upstream: Pick<Bedrock, "url">,
  options: Partial<BedrockConverseOptions> = {},
  more: Pick<RelayOptions, "models"> = {},
): Omit<RelayBackend, keyof ChatVerbs> & ChatVerbs =>
  relay({
    ...bedrockConverse({ region: "us-east-1", endpoint: upstream.url, credentials: KEYS, clock, ...options }),
    models: { nova: NOVA, sonnet: CLAUDE, gpt: GPT },
    ...more,
  });

const ask = { model: "nova", max_tokens: 100, messages: HELLO };

describe("Converse", () => {
  it.each(CLIENTS)("answers %s, complete and streamed, and is charged by its counts", async (_name, run) => {
    await using upstream = await converse([KEYS], now);
    await using stage = await front(before(upstream));
    for (const stream of [false, true]) {
      let text = "";
      await run(stage.url, "nova", stream, (piece) => void (text += piece));
      expect(text).toBe(TEXT);
    }
    expect(stage.records.map(({ usage, certainty }) => [usage, certainty])).toMatchObject([
      [{ inputTokens: 12, outputTokens: 5 }, "exact"],
      [{ inputTokens: 12, outputTokens: 5 }, "exact"],
    ]);
    expect(upstream.received.map(({ path }) => path)).toEqual([
      `/model/${encodeURIComponent(NOVA)}/converse`,
      `/model/${encodeURIComponent(NOVA)}/converse-stream`,
    ]);
    const [complete, stream] = upstream.received;
    expect(complete?.body).toMatchObject({ messages: [{ role: "user", content: [{ text: "Hello" }] }] });
    expect(stream?.body).toEqual(complete?.body);
    expect(stream?.headers["accept"]).toBe("application/vnd.amazon.eventstream");
    expect(stage.failures).toEqual([]);
  });

  it("is charged for what is written into the prompt cache and read from it", async () => {
    const usage = {
      inputTokens: 3,
      outputTokens: 5,
      totalTokens: 21_008,
      cacheReadInputTokens: 20_000,
      cacheWriteInputTokens: 1_000,
      cacheDetails: [
        { ttl: "1h" as const, inputTokens: 600 },
        { ttl: "5m" as const, inputTokens: 400 },
      ],
    };
    await using upstream = await converse([KEYS], now, () => ({ usage, serviceTier: { type: "flex" } }));
    await using stage = await front(before(upstream));
    const client = anthropicFor(stage.url);
    const expected = {
      input_tokens: 3,
      cache_read_input_tokens: 20_000,
      cache_creation_input_tokens: 1_000,
      cache_creation: { ephemeral_5m_input_tokens: 400, ephemeral_1h_input_tokens: 600 },
      output_tokens: 5,
    };
    expect((await client.messages.create(ask)).usage).toMatchObject(expected);
    // A stream tells only at its start how long the written tokens stay, and Bedrock counts at the end.
    const { cache_creation: _unknown, ...counted } = expected;
    expect((await client.messages.stream(ask).finalMessage()).usage).toMatchObject(counted);
    for (const record of stage.records)
      expect(record).toMatchObject({
        usage: {
          inputTokens: 21_003,
          outputTokens: 5,
          cacheReadTokens: 20_000,
          cacheWriteTokens: 1_000,
          cacheWritesByTtl: { "5m": 400, "1h": 600 },
          serviceTier: "flex",
        },
        certainty: "exact",
      });
    expect(stage.records).toHaveLength(2);
  });

  it("sends pictures, documents, marks of the cache and results with pictures as they are", async () => {
    await using upstream = await converse([KEYS], now);
    await using stage = await front(before(upstream));
    const image = { type: "base64" as const, media_type: "image/png" as const, data: "iVBORw0KGgo=" };
    const pdf = { type: "base64" as const, media_type: "application/pdf" as const, data: "JVBERi0xLjQ=" };
    const cache_control = { type: "ephemeral" as const, ttl: "1h" as const };
    await anthropicFor(stage.url).messages.create({
      model: "sonnet",
      max_tokens: 100,
      system: [{ type: "text", text: "Be brief.", cache_control }],
      tools: [{ name: "look", description: "Looks.", input_schema: { type: "object" }, cache_control }],
      messages: [
        {
          role: "user",
          content: [
            { type: "image", source: image },
            { type: "document", source: pdf, title: "Report #1", citations: { enabled: true } },
            { type: "document", source: pdf, title: "Report 1" },
            { type: "text", text: "Compare.", cache_control: { type: "ephemeral" } },
          ],
        },
        { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "look", input: {} }] },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "toolu_1",
              content: [{ type: "image", source: image }],
              is_error: true,
            },
          ],
        },
      ],
    });
    const mark = { cachePoint: { type: "default" } };
    const hour = { cachePoint: { type: "default", ttl: "1h" } };
    const bytes = { bytes: image.data };
    expect(upstream.received[0]?.body).toEqual({
      system: [{ text: "Be brief." }, hour],
      messages: [
        {
          role: "user",
          content: [
            { image: { format: "png", source: bytes } },
            {
              document: { format: "pdf", name: "Report 1", source: { bytes: pdf.data }, citations: { enabled: true } },
            },
            { document: { format: "pdf", name: "Report 1 2", source: { bytes: pdf.data } } },
            { text: "Compare." },
            mark,
          ],
        },
        { role: "assistant", content: [{ toolUse: { toolUseId: "toolu_1", name: "look", input: {} } }] },
        {
          role: "user",
          content: [
            {
              toolResult: {
                toolUseId: "toolu_1",
                content: [{ image: { format: "png", source: bytes } }],
                status: "error",
              },
            },
          ],
        },
      ],
      inferenceConfig: { maxTokens: 100 },
      toolConfig: {
        tools: [{ toolSpec: { name: "look", description: "Looks.", inputSchema: { json: { type: "object" } } } }, hour],
      },
    });
    expect(stage.records[0]?.dropped).toMatchObject([{ field: "messages.document.title", conversion: "approximated" }]);
  });

  it("answers with calls, complete and streamed, also without arguments", async () => {
    const content: ContentBlock[] = [
      { text: "Two things." },
      { toolUse: { toolUseId: "tooluse_1", name: "weather", input: { city: "Tromsø" } } },
      { toolUse: { toolUseId: "tooluse_2", name: "now", input: {} } },
    ];
    await using upstream = await converse([KEYS], now, () => ({
      output: { message: { role: "assistant", content } },
      stopReason: "tool_use",
    }));
    await using stage = await front(before(upstream));
    const tools = ["weather", "now"].map((name) => ({ name, input_schema: { type: "object" as const } }));
    const client = anthropicFor(stage.url);
    const expected = [
      { type: "text", text: "Two things." },
      { type: "tool_use", id: "tooluse_1", name: "weather", input: { city: "Tromsø" } },
      { type: "tool_use", id: "tooluse_2", name: "now", input: {} },
    ];
    const complete = await client.messages.create({ ...ask, tools });
    const streamed = await client.messages.stream({ ...ask, tools }).finalMessage();
    for (const { content: blocks, stop_reason } of [complete, streamed])
      expect([blocks, stop_reason]).toMatchObject([expected, "tool_use"]);
  });

  it("gets the signatures of one company's models back, and never those of another's", async () => {
    const signature = "c2lnbmF0dXJl".repeat(8);
    const encrypted = Buffer.from("encrypted by GPT");
    await using upstream = await converse([KEYS], now, (_body, model) => ({
      output: {
        message: {
          role: "assistant",
          content: [
            model === CLAUDE
              ? { reasoningContent: { reasoningText: { text: "Hm.", signature } } }
              : { reasoningContent: { redactedContent: encrypted } },
            { text: "Done." },
          ],
        },
      },
    }));
    await using stage = await front(before(upstream));
    const { messages: client } = anthropicFor(stage.url);
    const history: Anthropic.MessageParam[] = [];
    for (const [model, stream] of [
      ["sonnet", true],
      ["sonnet", false],
      ["gpt", true],
      ["gpt", false],
      ["sonnet", true],
    ] as const) {
      history.push({ role: "user", content: "Go on." });
      const body = {
        model,
        max_tokens: 3_000,
        messages: history,
        ...(model === "sonnet" && { thinking: { type: "enabled" as const, budget_tokens: 1_024 } }),
      };
      const answer = stream ? await client.stream(body).finalMessage() : await client.create(body);
      history.push({ role: "assistant", content: answer.content });
    }
    const reasoning = upstream.received.map(({ body }) =>
      (body["messages"] as { content: { reasoningContent?: JsonObject }[] }[]).flatMap(({ content }) =>
        content.flatMap((block) => block.reasoningContent ?? []),
      ),
    );
    const signed = { reasoningText: { text: "Hm.", signature } };
    const redacted = { redactedContent: encrypted.toString("base64") };
    expect(reasoning).toEqual([[], [signed], [], [redacted], [signed, signed]]);
    expect(stage.failures).toEqual([]);
  });

  it("takes ARNs and odd names as models, and no name that leads elsewhere", async () => {
    const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3";
    await using upstream = await converse([KEYS], now);
    const models = { profile: arn, up: "..", odd: "a b'(c)*!~+é" };
    await using stage = await front(before(upstream, {}, { models }));
    const client = anthropicFor(stage.url);
    for (const model of ["profile", "odd"])
      expect((await client.messages.create({ ...ask, model })).content).toMatchObject([{ text: TEXT }]);
    expect(upstream.received[0]?.path).toBe(`/model/${encodeURIComponent(arn)}/converse`);
    await expect(client.messages.create({ ...ask, model: "up" })).rejects.toMatchObject({ status: 400 });
    expect(upstream.received).toHaveLength(2);
  });

  it("counts tokens of the conversation and the tools, for the model behind a profile", async () => {
    await using upstream = await converse([KEYS], now);
    await using stage = await front(before(upstream));
    const tools = [{ name: "look", input_schema: { type: "object" as const } }];
    const counted = await anthropicFor(stage.url).messages.countTokens({
      model: "sonnet",
      messages: HELLO,
      system: "Hi.",
      tools,
    });
    expect(counted).toEqual({ input_tokens: 42 });
    const [received] = upstream.received;
    expect(received?.path).toBe("/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens");
    expect(received?.body).toEqual({
      input: {
        converse: {
          system: [{ text: "Hi." }],
          messages: [{ role: "user", content: [{ text: "Hello" }] }],
          toolConfig: { tools: [{ toolSpec: { name: "look", inputSchema: { json: { type: "object" } } } }] },
        },
      },
    });
  });

  it("leaves a count to the gateway where Bedrock counts for no such model", async () => {
    await using upstream = await cloud((_request, res) =>
      refuse(res, 400, "ValidationException", "The provided model doesn't support counting tokens."),
    );
    await using stage = await front(before(upstream));
    const { input_tokens: tokens } = await anthropicFor(stage.url).messages.countTokens({
      model: "nova",
      messages: HELLO,
    });
    expect(tokens).toBeGreaterThan(0);
  });

  it("adds the host's guardrail and fields, and says why an answer was stopped", async () => {
    await using upstream = await converse([KEYS], now, () => ({ stopReason: "guardrail_intervened" }));
    const options = {
      guardrail: { id: "gr-1", version: "3", streaming: "async" as const },
      modelFields: (model: string) => (model === NOVA ? { inferenceConfig: { topK: 7 } } : undefined),
    };
    await using stage = await front(before(upstream, options));
    const client = openaiFor(stage.url).chat.completions;
    const { choices } = await client.create({ model: "nova", messages: HELLO });
    expect(choices[0]?.finish_reason).toBe("content_filter");
    const stream = await client.create({ model: "gpt", messages: HELLO, stream: true });
    for await (const { choices: pieces } of stream) expect(pieces).toBeDefined();
    const [complete, streamed] = upstream.received.map(({ body }) => body);
    const guardrail = { guardrailIdentifier: "gr-1", guardrailVersion: "3" };
    expect(complete).toMatchObject({
      guardrailConfig: guardrail,
      additionalModelRequestFields: { inferenceConfig: { topK: 7 } },
    });
    expect(complete?.["guardrailConfig"]).toEqual(guardrail);
    expect(streamed?.["guardrailConfig"]).toEqual({ ...guardrail, streamProcessingMode: "async" });
    expect(streamed?.["additionalModelRequestFields"]).toBeUndefined();
  });

  it("is asked by an API key in place of a signature, and says in a check what is wrong", async () => {
    await using upstream = await cloud(({ headers }, res) =>
      headers["authorization"] === "Bearer bedrock-key"
        ? json(res, 200, answered())
        : refuse(res, 403, "UnrecognizedClientException", "The key is unknown."),
    );
    const options = { region: "us-east-1", endpoint: upstream.url };
    const right = relay({ ...bedrockConverse({ ...options, apiKey: () => "bedrock-key" }), models: { nova: NOVA } });
    await using stage = await front(right);
    expect((await anthropicFor(stage.url).messages.create(ask)).content).toMatchObject([{ text: TEXT }]);
    expect(await right.check()).toEqual({ ok: true, problem: undefined, models: undefined });
    const wrong = relay({ ...bedrockConverse({ ...options, apiKey: "another" }), models: { nova: NOVA } });
    const { ok, problem } = await wrong.check();
    expect([ok, problem]).toEqual([
      false,
      expect.stringContaining("The upstream refuses the relay's credential or account."),
    ]);
  });

  it("renews a session that AWS has ended", async () => {
    const sessions = [session("one"), session("two")];
    let asked = 0;
    const credentials: AwsCredentialProvider = () => Promise.resolve(sessions[asked++] as AwsCredentials);
    await using upstream = await converse(sessions.slice(0, 1), now);
    await using stage = await front(before(upstream, { credentials }));
    const { messages: client } = anthropicFor(stage.url);
    await client.create(ask);
    upstream.known.splice(0, 1, ...sessions.slice(1));
    expect((await client.stream(ask).finalMessage()).content).toMatchObject([{ text: TEXT }]);
    expect(asked).toBe(2);
    expect(stage.failures).toEqual([]);
  });

  it.each([
    ["no region", { credentials: KEYS }, "region is missing"],
    ["neither credentials nor a key", { region: "us-east-1" }, "needs credentials or an apiKey"],
    ["an unknown option", { region: "us-east-1", credentials: KEYS, guardrails: {} }, "guardrails"],
    ["half a guardrail", { region: "us-east-1", credentials: KEYS, guardrail: { id: "gr-1" } }, "version is missing"],
    ["fields that are no function", { region: "us-east-1", credentials: KEYS, modelFields: {} }, "must be a function"],
  ])("refuses %s", (_name, options, words) => {
    expect(() => bedrockConverse(options as never)).toThrow(words);
  });
});

describe("a stop reason of Converse", () => {
  it.each([
    ["end_turn", "end_turn", "stop"],
    ["tool_use", "tool_use", "tool_calls"],
    ["max_tokens", "max_tokens", "length"],
    ["stop_sequence", "stop_sequence", "stop"],
    ["guardrail_intervened", "refusal", "content_filter"],
    ["content_filtered", "refusal", "content_filter"],
    ["model_context_window_exceeded", "max_tokens", "length"],
    ["malformed_model_output", "end_turn", "stop"],
    ["malformed_tool_use", "end_turn", "stop"],
    ["a_new_reason", "end_turn", "stop"],
  ])("%s becomes %s and %s", async (stopReason, ofMessages, ofChat) => {
    await using upstream = await converse([KEYS], now, () => ({ stopReason: stopReason as "end_turn" }));
    await using stage = await front(before(upstream));
    const tools = [{ name: "look", input_schema: { type: "object" as const } }];
    for (const stream of [false, true]) {
      const body = { ...ask, tools };
      const { messages: client } = anthropicFor(stage.url);
      const answer = stream ? await client.stream(body).finalMessage() : await client.create(body);
      expect(answer.stop_reason).toBe(ofMessages);
    }
    const { choices } = await openaiFor(stage.url).chat.completions.create({ model: "nova", messages: HELLO });
    expect(choices[0]?.finish_reason).toBe(ofChat);
  });

  it("names the stop sequence that has ended an answer of Claude", async () => {
    await using upstream = await converse([KEYS], now, (_body, _model, number) => ({
      stopReason: "stop_sequence",
      additionalModelResponseFields: number === 0 ? { stop_sequence: "END" } : { delta: { stop_sequence: "END" } },
    }));
    await using stage = await front(before(upstream));
    const { messages: client } = anthropicFor(stage.url);
    const body = { ...ask, model: "sonnet", stop_sequences: ["END"] };
    for (const answer of [await client.create(body), await client.stream(body).finalMessage()])
      expect([answer.stop_reason, answer.stop_sequence]).toEqual(["stop_sequence", "END"]);
    expect(upstream.received.map(({ body: sent }) => sent["additionalModelResponseFieldPaths"])).toEqual([
      ["/stop_sequence"],
      ["/delta/stop_sequence"],
    ]);
  });
});

describe("an error of Converse", () => {
  it.each([
    ...REFUSALS,
    [
      400,
      "ValidationException",
      "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
      400,
      "prompt is too long",
    ],
    [502, undefined, "A proxy failed.", 503, "not available"],
  ] as const)("%d %s %j becomes %d for the caller", async (status, type, message, expected, words) => {
    await using upstream = await converse([KEYS], now, () => ({ refusal: [status, type, message] }));
    await using stage = await front(before(upstream));
    for (const told of await errorsFor(stage.url, "nova"))
      expect(told).toEqual([expected, expect.stringContaining(words)]);
  });

  /** The beginning of a stream, up to its text. */
  const BEGUN = eventBytes(eventsOf(answered()).slice(0, -3));

  it.each(EXCEPTIONS)("in mid-stream (%s) ends the answer behind its text", async (type, message, code) => {
    const bytes = Buffer.concat([BEGUN, exception(type, message)]);
    await using upstream = await converse([KEYS], now, () => ({ bytes }));
    expect(await outcome(before(upstream), "nova")).toMatchObject({ text: TEXT, error: { code } });
  });

  it.each(CLIENTS)("in mid-stream is an error for %s, behind the text", async (_name, run) => {
    const bytes = Buffer.concat([BEGUN, exception("throttlingException", "Too many.")]);
    await using upstream = await converse([KEYS], now, () => ({ bytes }));
    await using stage = await front(before(upstream));
    let text = "";
    await expect(run(stage.url, "nova", true, (piece) => void (text += piece))).rejects.toThrow(
      "The model backend is busy.",
    );
    expect(text).toBe(TEXT);
    expect(stage.records).toMatchObject([{ errorCode: "rate_limited", certainty: "estimated" }]);
  });

  it("without a type of its own ends the answer, too", async () => {
    const unmodelled = awsFrame({ ":message-type": "error", ":error-code": "500", ":error-message": "Oops." }, "");
    await using upstream = await converse([KEYS], now, () => ({ bytes: Buffer.concat([BEGUN, unmodelled]) }));
    expect(await outcome(before(upstream), "nova")).toMatchObject({ text: TEXT, error: { code: "backend_failed" } });
  });

  it.each([
    ["nothing", new Uint8Array()],
    ["a stream that ends before the stop reason", BEGUN],
    ["a stream that ends in a message", eventBytes(eventsOf(answered()).slice(0, -1)).slice(0, -9)],
    ["the prelude of 4 GB", Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 16, 0, 0, 0, 0)],
    ["headers of 16 MB", Uint8Array.of(0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0, 0, 0, 0, 0)],
    ["a wrong checksum", BEGUN.map((byte, index) => (index === BEGUN.length - 1 ? byte ^ 1 : byte))],
    ["an event that is no JSON", awsFrame({ ":event-type": "messageStart", ":message-type": "event" }, "{")],
    ["a delta of no block", awsFrame({ ":event-type": "contentBlockDelta", ":message-type": "event" }, "{}")],
    [
      "arguments of no call",
      eventBytes([{ contentBlockDelta: { contentBlockIndex: 7, delta: { toolUse: { input: "{" } } } }]),
    ],
    ["HTML", Buffer.from("<html>Bad gateway</html>")],
  ])("is told for %s", async (_name, bytes) => {
    await using upstream = await converse([KEYS], now, () => ({ bytes }));
    expect(await outcome(before(upstream), "nova")).toMatchObject({ error: { code: "backend_failed" } });
  });

  it("is told for complete answers without the shape of one", async () => {
    for (const body of ["", "[]", "{}", '{"output":{}}', '{"output":{"message":{"content":[{"toolUse":{}}]}}}', "{"]) {
      await using upstream = await converse([KEYS], now, () => ({ bytes: Buffer.from(body) }));
      await using stage = await front(before(upstream));
      await expect(anthropicFor(stage.url).messages.create(ask)).rejects.toMatchObject({ status: 500 });
      expect(describeError(stage.failures[0]?.error)).toContain("model backend");
    }
  });
});

describe("the event stream of Converse", () => {
  const { format } = bedrockConverse({ region: "us-east-1", credentials: KEYS });
  const whole = eventBytes(eventsOf(answered({ usage: USAGE })));

  it("is read the same, however it is cut", async () => {
    const frames = await reframed(format, whole, []);
    expect(frames.error).toBeUndefined();
    expect(frames.text).toMatch(/^event: messageStart\ndata: \{"role":"assistant","p":"abc"\}\n\n/);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), async (cuts) => {
        expect(await reframed(format, whole, cuts)).toEqual(frames);
      }),
    );
  });

  it("names no event after an exception", async () => {
    const forged = awsFrame({ ":event-type": "error", ":message-type": "event" }, "{}");
    expect(await reframed(format, Buffer.concat([forged, whole]), [])).toEqual(await reframed(format, whole, []));
  });
});

const saying = (text: string) => ({ output: { message: { role: "assistant" as const, content: [{ text }] } } });

describe("a route", () => {
  const BEGINNING = "It is seven o'clock";
  const WHOLE = `${BEGINNING} now, and time to go.`;

  it("goes on with an answer that Converse has broken off, on an upstream of another format", async () => {
    const bytes = eventBytes(eventsOf(answered(saying(BEGINNING))).slice(0, -3));
    await using upstream = await converse([KEYS], now, () => ({ bytes }));
    await using other = await cloud((_request, res) =>
      json(res, 200, { ...MESSAGE, content: [{ type: "text", text: WHOLE.slice(BEGINNING.length) }] }),
    );
    const second = relay({ format: "messages", baseUrl: `${other.url}/v1`, apiKey: "sk-2", models: ["nova"] });
    const upstreams = [{ backend: before(upstream) }, { backend: second, weight: 0 }];
    await using stage = await front(
      route({ routes: { nova: { upstreams, onBreak: "continue" } }, retry: { rounds: 0 } }),
    );
    let text = "";
    for await (const event of await anthropicFor(stage.url).messages.create({ ...ask, stream: true }))
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
    expect(text).toBe(WHOLE);
    expect(stage.records[0]?.usage?.outputTokens).toBeGreaterThan(5);
    expect(stage.records[0]?.errorCode).toBeUndefined();
  });

  it.each([
    // Claude goes on with the beginning itself, and other models are told to.
    ["sonnet", ["user", "assistant"], WHOLE.slice(BEGINNING.length)],
    ["nova", ["user", "assistant", "user"], WHOLE],
  ])("goes on by Converse with an answer of another format: %s", async (model, expected, rest) => {
    await using broken = await cloud((_request, res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      const events = [
        { type: "message_start", message: { ...MESSAGE, content: [] } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: BEGINNING } },
      ];
      res.write(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""), () =>
        res.destroy(),
      );
    });
    await using upstream = await converse([KEYS], now, () => saying(rest));
    const first = relay({ format: "messages", baseUrl: `${broken.url}/v1`, apiKey: "sk-2", models: [model] });
    const upstreams = [{ backend: first }, { backend: before(upstream), weight: 0 }];
    await using stage = await front(
      route({ routes: { [model]: { upstreams, onBreak: "continue" } }, retry: { rounds: 0 } }),
    );
    let text = "";
    for await (const event of await anthropicFor(stage.url).messages.create({ ...ask, model, stream: true }))
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
    expect(text).toBe(WHOLE);
    const turns = upstream.received[0]?.body["messages"] as { role: string }[];
    expect(turns.map(({ role }) => role)).toEqual(expected);
  });
});
