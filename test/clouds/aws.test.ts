/** Claude on Amazon Bedrock, before a mock that checks the signatures and frames its streams as AWS does; and signatures for other services. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AwsCredentialProvider,
  type AwsCredentials,
  bedrockMessages,
  type BedrockOptions,
  signAws,
} from "../../src/clouds/aws.ts";
import { describeError, type GatewayError } from "../../src/errors.ts";
import type { ChatVerbs, UpstreamResponse } from "../../src/formats/module.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { relay, type RelayBackend, type RelayOptions } from "../../src/upstreams/relay/index.ts";
import { callContext, chatRequest } from "../upstreams/relay/stage.ts";
import { awsFrame, type Bedrock, bedrock, chunk, exception, STREAM, wrongIn } from "./aws-mock.ts";
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
import { cloud, front, json, MESSAGE_EVENTS, TEXT } from "./stage.ts";

const MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const clock = manualClock();

const before = (
  upstream: Bedrock,
  options: Partial<BedrockOptions> = {},
  more: Pick<RelayOptions, "models" | "betas"> = {},
): Omit<RelayBackend, keyof ChatVerbs> & ChatVerbs =>
  relay({
    ...bedrockMessages({ region: "us-east-1", endpoint: upstream.url, credentials: KEYS, clock, ...options }),
    models: { sonnet: MODEL },
    ...more,
  });

const ask = { model: "sonnet", max_tokens: 100, messages: HELLO };

describe("Claude on Bedrock", () => {
  it("answers the official client, complete and streamed, with its counts", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    await using stage = await front(before(upstream));
    const client = anthropicFor(stage.url);
    const message = await client.messages.create(ask);
    expect([message.content, message.usage.output_tokens]).toMatchObject([[{ type: "text", text: TEXT }], 5]);
    const streamed = await client.messages.stream(ask).finalMessage();
    expect([streamed.content, streamed.usage]).toMatchObject([
      [{ type: "text", text: TEXT }],
      { input_tokens: 12, output_tokens: 5 },
    ]);
    expect(stage.records.map(({ usage }) => usage)).toMatchObject([
      { inputTokens: 12, outputTokens: 5 },
      { inputTokens: 12, outputTokens: 5 },
    ]);
    expect(upstream.received.map(({ path }) => path)).toEqual([
      `/model/${encodeURIComponent(MODEL)}/invoke`,
      `/model/${encodeURIComponent(MODEL)}/invoke-with-response-stream`,
    ]);
    const [complete, stream] = upstream.received;
    expect(complete?.body).toEqual({
      max_tokens: 100,
      messages: ask.messages,
      anthropic_version: "bedrock-2023-05-31",
    });
    expect(stream?.body).toEqual(complete?.body);
    expect(complete?.headers["anthropic-version"]).toBeUndefined();
    expect(stream?.headers["accept"]).toBe("application/vnd.amazon.eventstream");
    expect(stage.failures).toEqual([]);
  });

  it("answers clients of other formats", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    await using stage = await front(before(upstream));
    const client = openaiFor(stage.url);
    const stream = await client.chat.completions.create({ model: "sonnet", messages: ask.messages, stream: true });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    expect(text).toBe(TEXT);
    const whole = await client.chat.completions.create({ model: "sonnet", messages: ask.messages });
    expect(whole.choices[0]?.message.content).toBe(TEXT);
  });

  it("gets beta features in the body, and keeps fields that are unknown", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    await using stage = await front(before(upstream));
    await anthropicFor(stage.url).beta.messages.create({
      ...ask,
      betas: ["context-1m-2025-08-07", "b-2"],
      ...({ future_field: 1.0 } as object),
    });
    const [received] = upstream.received;
    expect(received?.body).toMatchObject({ anthropic_beta: ["context-1m-2025-08-07", "b-2"], future_field: 1 });
    expect(received?.headers["anthropic-beta"]).toBeUndefined();
  });

  it("gets no beta feature past the policy of the host", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    await using stage = await front(before(upstream, {}, { betas: ["b-2"] }));
    const smuggled = { anthropic_beta: ["context-1m-2025-08-07"] } as object;
    const { messages } = anthropicFor(stage.url).beta;
    await messages.create({ ...ask, betas: ["a-1", "b-2"], ...smuggled });
    await messages.create({ ...ask, ...smuggled });
    expect(upstream.received.map(({ body }) => body["anthropic_beta"])).toEqual([["b-2"], undefined]);
  });

  it("is charged for what it writes into its cache and reads from it", async () => {
    const usage = {
      input_tokens: 3,
      cache_creation_input_tokens: 1_000,
      cache_read_input_tokens: 20_000,
      cache_creation: { ephemeral_5m_input_tokens: 400, ephemeral_1h_input_tokens: 600 },
      output_tokens: 1,
    };
    const [start, ...others] = MESSAGE_EVENTS;
    const metrics = { inputTokenCount: 3, outputTokenCount: 5, cacheReadInputTokenCount: 20_000 };
    const events = [
      { ...start, message: { ...(start?.["message"] as object), usage } },
      ...others.slice(0, -1),
      { type: "message_stop", "amazon-bedrock-invocationMetrics": metrics },
    ];
    await using upstream = await bedrock([KEYS], () => clock.now(), { stream: Buffer.concat(events.map(chunk)) });
    await using stage = await front(before(upstream));
    const { usage: told } = await anthropicFor(stage.url).messages.stream(ask).finalMessage();
    expect(told).toEqual({ ...usage, output_tokens: 5 });
    expect(stage.records[0]).toMatchObject({
      usage: {
        inputTokens: 21_003,
        outputTokens: 5,
        cacheReadTokens: 20_000,
        cacheWriteTokens: 1_000,
        cacheWritesByTtl: { "5m": 400, "1h": 600 },
      },
      certainty: "exact",
    });
  });

  it("is asked by an API key in place of a signature", async () => {
    await using upstream = await cloud(({ headers }, res) =>
      headers["authorization"] === "Bearer bedrock-key"
        ? json(res, 200, {
            ...(MESSAGE_EVENTS[0]?.["message"] as object),
            content: [{ type: "text", text: TEXT }],
            stop_reason: "end_turn",
          })
        : json(res, 403, {}),
    );
    const options = { region: "us-east-1", endpoint: upstream.url, apiKey: () => "bedrock-key" };
    await using stage = await front(relay(bedrockMessages(options)));
    expect((await anthropicFor(stage.url).messages.create(ask)).content).toMatchObject([{ text: TEXT }]);
  });

  it("counts tokens of the whole request, with an output limit that every model has", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    await using stage = await front(before(upstream));
    const client = anthropicFor(stage.url);
    const { max_tokens: _limit, ...question } = ask;
    const thinking = { type: "enabled" as const, budget_tokens: 2_000 };
    for (const [more, expected] of [
      [{}, { max_tokens: 1 }],
      [{ thinking }, { max_tokens: 2_001, thinking }],
    ] as const) {
      expect(await client.messages.countTokens({ ...question, ...more })).toEqual({ input_tokens: 42 });
      const input = upstream.received.at(-1)?.body["input"] as { invokeModel?: { body?: string } } | undefined;
      expect(JSON.parse(Buffer.from(input?.invokeModel?.body ?? "", "base64").toString())).toEqual({
        anthropic_version: "bedrock-2023-05-31",
        messages: ask.messages,
        ...expected,
      });
    }
  });

  it.each([
    ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"],
    ["us-gov.anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-3-haiku-20240307-v1:0"],
    ["anthropic.claude-opus-4-1-20250805-v1:0", "anthropic.claude-opus-4-1-20250805-v1:0"],
    [
      "arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
      "anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
    [
      "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
      "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
    ],
  ])("counts the tokens of %s by its model, because Bedrock counts for no profiles", async (name, model) => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    const backend = before(upstream, {}, { models: { sonnet: name } });
    expect(await backend.countInputTokens(chatRequest({ model: "sonnet" }), callContext())).toBe(42);
    expect(upstream.received.map(({ path }) => path)).toEqual([`/model/${encodeURIComponent(model)}/count-tokens`]);
  });

  it.each([
    [400, "ValidationException", "The provided model doesn't support counting tokens.", undefined],
    [404, "ResourceNotFoundException", "The model is unknown.", undefined],
    [403, "AccessDeniedException", "You have no permission.", "backend_refused"],
    [429, "ThrottlingException", "Please wait.", "rate_limited"],
  ])("leaves a count to the gateway when Bedrock cannot count: %d %s", async (status, type, message, code) => {
    await using upstream = await bedrock([KEYS], () => clock.now(), { refusal: [status, type, message] });
    const count = before(upstream).countInputTokens(chatRequest({ model: "sonnet" }), callContext());
    expect(await count.catch((error: unknown) => (error as GatewayError).code)).toBe(code);
    const unknown = before(upstream).countInputTokens(chatRequest({ model: "opus" }), callContext());
    await expect(unknown).rejects.toMatchObject({ code: "model_not_found" });
  });

  it("takes ARNs as models, and no name that leads elsewhere", async () => {
    const arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5";
    await using upstream = await bedrock([KEYS], () => clock.now());
    const models = { sonnet: arn, up: "..", odd: "a b'(c)*!~+é" };
    await using stage = await front(before(upstream, {}, { models }));
    const client = anthropicFor(stage.url);
    expect((await client.messages.create(ask)).content).toMatchObject([{ text: TEXT }]);
    expect(upstream.received[0]?.path).toBe(`/model/${encodeURIComponent(arn)}/invoke`);
    await expect(client.messages.create({ ...ask, model: "up" })).rejects.toMatchObject({ status: 400 });
    expect(upstream.received).toHaveLength(1);
    // The signature covers the path as it is sent.
    expect((await client.messages.create({ ...ask, model: "odd" })).content).toMatchObject([{ text: TEXT }]);
  });

  it("says in a check what is wrong with its credentials", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    expect(await before(upstream).check()).toEqual({ ok: true, problem: undefined, models: undefined });
    const wrong = { ...KEYS, secretAccessKey: "another" };
    const { ok, problem } = await before(upstream, { credentials: wrong }).check();
    expect([ok, problem]).toEqual([
      false,
      expect.stringContaining("The upstream refuses the relay's credential or account."),
    ]);
    expect(problem).toContain("The signature is not that of [redacted]");
  });
});

describe("the session of a signature", () => {
  it("is kept, renewed before it ends, and renewed when AWS has ended it early", async () => {
    const clock = manualClock();
    const sessions = [session("one", clock.now() + 3_600_000), session("two"), session("three")];
    let asked = 0;
    const forced: unknown[] = [];
    const credentials: AwsCredentialProvider = (options) => {
      forced.push(options);
      return Promise.resolve(sessions[asked++] as AwsCredentials);
    };
    await using upstream = await bedrock(sessions.slice(0, 2), () => clock.now());
    await using stage = await front(before(upstream, { credentials, clock }));
    const client = anthropicFor(stage.url);
    const answer = async (): Promise<unknown> => (await client.messages.create(ask)).content[0];
    expect(await Promise.all([answer(), answer(), answer()])).toHaveLength(3);
    expect(asked).toBe(1);
    await clock.advance(3_600_000 - 299_000);
    await answer();
    expect(asked).toBe(2);
    await clock.advance(0);
    await answer();
    const ids = upstream.received.map(({ headers }) => /Credential=(\w+)/.exec(headers["authorization"] ?? "")?.[1]);
    expect(ids).toEqual(["ASIAone", "ASIAone", "ASIAone", "ASIAone", "ASIAtwo"]);
    // AWS ends the second session.
    upstream.known.splice(0, 2, sessions[2] as AwsCredentials);
    expect(await Promise.all([answer(), answer()])).toMatchObject([{ text: TEXT }, { text: TEXT }]);
    // The providers of AWS keep credentials themselves.
    expect(forced).toEqual([undefined, undefined, { forceRefresh: true }]);
    expect(stage.failures).toEqual([]);
  });

  it("that a provider returns again, as another object, is not sent again", async () => {
    await using upstream = await bedrock([], () => clock.now());
    await using stage = await front(before(upstream, { credentials: () => Promise.resolve(session("one")) }));
    await expect(anthropicFor(stage.url).messages.create(ask)).rejects.toMatchObject({ status: 500 });
    expect(upstream.received).toHaveLength(1);
  });

  it("that a provider does not return fails the call", async () => {
    await using upstream = await bedrock([KEYS], () => clock.now());
    for (const [credentials, words] of [
      [() => Promise.reject(new Error("No profile.")), "No profile."],
      [() => Promise.resolve({ accessKeyId: "AKID" }), "must be credentials of AWS with secretAccessKey."],
      [
        () => Promise.resolve({ ...KEYS, expiration: new Date(0) }),
        "The credentials had expired when they were returned.",
      ],
      [() => Promise.resolve({ ...KEYS, expiration: 7 }), "expiration must be a Date."],
      [() => Promise.resolve({ ...KEYS, expiration: new Date(Number.NaN) }), "expiration must be a Date."],
    ] as const) {
      await using stage = await front(before(upstream, { credentials: credentials as never }));
      await expect(anthropicFor(stage.url).messages.create(ask)).rejects.toMatchObject({ status: 503 });
      expect(describeError(stage.failures[0]?.error)).toContain(words);
    }
    expect(upstream.received).toEqual([]);
  });

  it("is refused when the clock, the secret or the region is wrong, and told without it", async () => {
    await using upstream = await bedrock([KEYS, session("one")], () => clock.now());
    for (const options of [
      { clock: manualClock(clock.now() + 600_000) },
      { credentials: { ...KEYS, secretAccessKey: "another" } },
      { region: "eu-west-1" },
      { credentials: { ...session("one"), sessionToken: "token-of-another-0123456789" } },
    ]) {
      await using stage = await front(before(upstream, options));
      await expect(anthropicFor(stage.url).messages.create(ask)).rejects.toMatchObject({ status: 500 });
      const told = describeError(stage.failures[0]?.error);
      expect(told).toContain("The upstream answered 403");
      expect(told).not.toMatch(/Signature=[\da-f]{64}|0123456789/);
    }
    expect(upstream.received).toHaveLength(4);
  });
});

describe("the signature for another service", () => {
  it("is right for a path and query as they are sent", async () => {
    const known = [{ ...KEYS, sessionToken: "a/b+c=" }];
    await using upstream = await cloud(async (request, res) => {
      const scope = { region: "eu-west-1", service: "execute-api", now: () => clock.now() };
      json(res, 200, { wrong: await wrongIn(request, scope, known) });
    });
    const sign = signAws({
      region: "eu-west-1",
      service: "execute-api",
      credentials: known[0] as AwsCredentials,
      clock,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.string({ minLength: 1 }).filter((name) => name !== "." && name !== ".."),
          { minLength: 1, maxLength: 4 },
        ),
        fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), fc.string({ maxLength: 8 }), { maxKeys: 3 }),
        fc.uint8Array({ maxLength: 300 }),
        async (path, query, body) => {
          fc.pre(path.every((name) => name.isWellFormed()));
          fc.pre(
            Object.entries(query)
              .flat()
              .every((text) => text.isWellFormed()),
          );
          const search = new URLSearchParams(query).toString();
          const url = `${upstream.url}/${path.map(encodeURIComponent).join("/")}${search && `?${search}`}`;
          const signed = await sign({ method: "POST", url, headers: {}, body, refused: undefined });
          const response = await fetch(url, { method: "POST", headers: signed?.headers as Headers, body });
          expect(await response.json()).toEqual({});
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("an error of Bedrock", () => {
  it.each(REFUSALS)("%d %s %j becomes %d for the caller", async (status, type, message, expected, words) => {
    await using upstream = await bedrock([KEYS], () => clock.now(), { refusal: [status, type, message] });
    await using stage = await front(before(upstream));
    for (const told of await errorsFor(stage.url, "sonnet"))
      expect(told).toEqual([expected, expect.stringContaining(words)]);
  });

  it.each(EXCEPTIONS)("in mid-stream (%s) ends the answer behind its text", async (type, message, code) => {
    const stream = Buffer.concat([STREAM.subarray(0, lengthOf(4)), exception(type, message)]);
    await using upstream = await bedrock([KEYS], () => clock.now(), { stream });
    const { text, error } = await outcome(before(upstream), "sonnet");
    expect([text, error]).toMatchObject(["Bonjour, 世界!", { code }]);
  });

  it("in mid-stream is an error for the official clients, behind the text", async () => {
    const stream = Buffer.concat([STREAM.subarray(0, lengthOf(4)), exception("throttlingException", "Too many.")]);
    await using upstream = await bedrock([KEYS], () => clock.now(), { stream });
    await using stage = await front(before(upstream));
    for (const [, run] of CLIENTS) {
      let text = "";
      const answer = run(stage.url, "sonnet", true, (piece) => void (text += piece));
      await expect(answer).rejects.toThrow("The model backend is busy.");
      expect(text).toBe(TEXT);
    }
    expect(stage.records.map(({ errorCode, usage }) => [errorCode, usage?.outputTokens])).toEqual(
      Array.from({ length: 4 }, () => ["rate_limited", 5]),
    );
  });

  it("without a message is told by its type", async () => {
    const empty = awsFrame({ ":exception-type": "throttlingException", ":message-type": "exception" }, "");
    await using upstream = await bedrock([KEYS], () => clock.now(), { stream: empty });
    expect(await outcome(before(upstream), "sonnet")).toMatchObject({ text: "", error: { code: "rate_limited" } });
  });

  it("that has no type of its own ends the answer, too", async () => {
    const unmodelled = awsFrame({ ":message-type": "error", ":error-code": "500", ":error-message": "Oops." }, "");
    await using upstream = await bedrock([KEYS], () => clock.now(), {
      stream: Buffer.concat([STREAM.subarray(0, lengthOf(3)), unmodelled]),
    });
    expect(await outcome(before(upstream), "sonnet")).toMatchObject({
      text: "Bonjour, ",
      error: { code: "backend_failed" },
    });
  });
});

/** The length of the first frames of the stream, in bytes. */
const lengthOf = (frames: number): number => Buffer.concat(MESSAGE_EVENTS.slice(0, frames).map(chunk)).length;

const FRAMES = MESSAGE_EVENTS.map(
  (event) => `event: ${event["type"] as string}\ndata: ${JSON.stringify(event)}\n\n`,
).join("");

describe("the event stream of AWS", () => {
  const { format } = bedrockMessages({ region: "us-east-1", credentials: KEYS });

  it("is read the same, however it is cut", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), async (cuts) => {
        expect(await reframed(format, STREAM, cuts)).toEqual({ text: FRAMES, error: undefined });
      }),
    ));

  it("is read byte by byte", async () => {
    const cuts = Array.from({ length: STREAM.length }, (_, at) => at);
    expect(await reframed(format, STREAM, cuts)).toEqual({ text: FRAMES, error: undefined });
  });

  it("that ends in a message, or has a wrong byte, is an error behind the frames before", () =>
    fc.assert(
      fc.asyncProperty(
        fc.nat(STREAM.length - 1),
        fc.integer({ min: 1, max: 255 }),
        fc.array(fc.nat()),
        async (at, bits, cuts) => {
          const broken = Uint8Array.from(STREAM);
          broken[at] = (broken[at] ?? 0) ^ bits;
          const whole = await reframed(format, broken, cuts);
          expect(FRAMES.startsWith(whole.text)).toBe(true);
          expect(whole.error).toBeInstanceOf(Error);
          const short = await reframed(format, STREAM.subarray(0, at), cuts);
          const isBorder = [0, 1, 2, 3, 4, 5, 6].some((frames) => lengthOf(frames) === at);
          expect([FRAMES.startsWith(short.text), short.error === undefined]).toEqual([true, isBorder]);
        },
      ),
    ));

  it("that names an impossible length is refused before its bytes have come", async () => {
    for (const [length, headersLength] of [
      [0, 0],
      [15, 0],
      [32 * 1024 ** 2, 0],
      [2 ** 32 - 1, 0],
      [1024 ** 2, 128 * 1024 + 1],
    ] as const) {
      const prelude = Buffer.alloc(8);
      prelude.writeUInt32BE(length);
      prelude.writeUInt32BE(headersLength, 4);
      expect((await reframed(format, prelude, [])).error).toMatchObject({
        code: "backend_failed",
        message: "The model backend's answer is no event stream of AWS.",
      });
    }
  });

  it("whose messages hold no JSON ends as a failure of the backend, behind the frames before", async () => {
    const event = { ":message-type": "event", ":event-type": "chunk" };
    for (const garbage of [
      awsFrame(event, "{no"),
      awsFrame(event, JSON.stringify({ bytes: "?" })),
      awsFrame({ ":message-type": "exception", ":exception-type": "throttlingException" }, "<html>"),
      chunk("{no"),
      chunk("[".repeat(1_000)),
    ]) {
      const { text, error } = await reframed(format, Buffer.concat([STREAM, garbage, STREAM]), []);
      expect([text, error]).toMatchObject([FRAMES, { code: "backend_failed" }]);
    }
  });

  it("whose exception has a long name of signs takes linear time", async () => {
    const named = exception(`a#validationException${":".repeat(32_000)}\n`, "No.");
    const before = process.cpuUsage().user;
    const { text } = await reframed(format, Buffer.concat(Array.from({ length: 8 }, () => named)), []);
    expect((process.cpuUsage().user - before) / 1_000).toBeLessThan(1_000);
    expect(text).toContain("invalid_request_error");
  });

  it("is not read on behind a broken message, nor twice", async () => {
    const response: UpstreamResponse = {
      status: 200,
      header: () => "application/vnd.amazon.eventstream",
      headers: () => new Headers(),
      read: () => Promise.resolve(Buffer.concat([STREAM, chunk("{no"), STREAM])),
      arrived: () => STREAM,
    };
    const read = format.reframe?.(response);
    expect(new TextDecoder().decode(await read?.read())).toBe(FRAMES);
    expect(read?.arrived?.()).toEqual(new Uint8Array());
    await expect(read?.read()).rejects.toMatchObject({ code: "backend_failed" });
  });

  it("keeps a frame with line breaks on one line, and skips what is no event of the format", async () => {
    const events = ['{\n"type": "ping",\r\n"a": "b"}', '{"type":7}', "[]", '{"type":"a\\nb"}'].map(chunk);
    const initial = awsFrame({ ":message-type": "event", ":event-type": "initial-response" }, "{}");
    const { text, error } = await reframed(format, Buffer.concat([initial, ...events]), []);
    expect([text, error]).toEqual(['event: ping\ndata: {"type":"ping","a":"b"}\n\n', undefined]);
  });
});

describe("the options", () => {
  it.each<[unknown, string]>([
    [{}, "bedrockMessages: region is missing; it must be a text."],
    [{ region: "us-east-1" }, "bedrockMessages: needs credentials or an apiKey, and not both."],
    [
      { region: "us-east-1", credentials: KEYS, apiKey: "a" },
      "bedrockMessages: needs credentials or an apiKey, and not both.",
    ],
    [{ region: "us/east", credentials: KEYS }, "bedrockMessages: region must be a name, such as us-east-1."],
    [{ region: "us-east-1", credentials: {} }, "bedrockMessages: credentials: accessKeyId is missing"],
    [{ region: "us-east-1", credentials: { ...KEYS, sessionToken: 7 } }, "credentials: sessionToken must be a text"],
    [
      { region: "us-east-1", credentials: KEYS, endpoint: "vpc" },
      "bedrockMessages: endpoint must be an http or https address",
    ],
    [
      { region: "us-east-1", credentials: KEYS, endpoint: "https://a.test/model/one/invoke-with-response-stream" },
      "bedrockMessages: endpoint must end before /model/one/invoke-with-response-stream.",
    ],
    [
      { region: "us-east-1", credential: KEYS },
      "bedrockMessages: credential does not exist; did you mean credentials?",
    ],
  ])("%j are refused by name", (options, words) => {
    expect(() => bedrockMessages(options as BedrockOptions)).toThrow(words);
  });

  it("have the address of the region", () => {
    const addresses = ["eu-central-1", "cn-north-1"].map(
      (region) => bedrockMessages({ region, credentials: KEYS }).baseUrl,
    );
    expect(addresses).toEqual([
      "https://bedrock-runtime.eu-central-1.amazonaws.com",
      "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
    ]);
    expect(() => signAws({ region: "us-east-1", service: "", credentials: KEYS })).toThrow(
      "signAws: service must be a name",
    );
  });
});
