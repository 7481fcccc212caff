/** The spans and metrics of calls, by the GenAI conventions, however the calls end. */

import { createRequire } from "node:module";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { describe, expect, it } from "vitest";
import type { ModelBackend, Usage } from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import {
  counted,
  INPUT,
  MINUTE,
  never,
  PROMPT,
  readUntil,
  requestOf,
  type Send,
  type Setup,
  speaking,
  type Step,
  WORD,
} from "../pipeline/bench.ts";
import { only, watched } from "./stage.ts";

const manifest = createRequire(import.meta.url)("../../package.json") as { readonly version: string };

const listed = (...steps: readonly Step[]): ModelBackend => ({
  ...speaking(...steps),
  models: () => [{ id: "any" }],
});

/** The span of one call whose answer is read to its end. */
async function spanOf(setup: Setup, send: Send = {}): Promise<ReadableSpan> {
  const bench = watched(setup);
  await (await bench.send(send)).text();
  await bench.clock.advance(0);
  return only(bench.spans());
}

describe("a call that completes", () => {
  it.each([false, true])("has a span by the conventions (stream: %s)", async (stream) => {
    const start = { type: "start", id: "u-1", model: "any-2026", usage: { inputTokens: INPUT } } as const;
    const usage = { outputTokens: 7, cacheReadTokens: 2, cacheWriteTokens: 3, reasoningTokens: 5 };
    const backend = listed(start, WORD, { type: "finish", reason: "stop", usage });
    const span = await spanOf({ backend }, { body: { stream } });
    expect({
      name: span.name,
      kind: span.kind,
      status: span.status.code,
      scope: span.instrumentationScope,
    }).toMatchObject({
      name: "POST /v1/messages",
      kind: SpanKind.SERVER,
      status: SpanStatusCode.UNSET,
      scope: { name: "polygate", version: manifest.version },
    });
    expect(span.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": "any",
      "gen_ai.response.model": "any-2026",
      "gen_ai.usage.input_tokens": INPUT,
      "gen_ai.usage.output_tokens": 7,
      "gen_ai.usage.cache_read.input_tokens": 2,
      "gen_ai.usage.cache_write.input_tokens": 3,
      "gen_ai.usage.reasoning.output_tokens": 5,
      ...(stream && { "gen_ai.request.stream": true, "gen_ai.response.time_to_first_chunk": 0 }),
      "http.request.method": "POST",
      "http.route": "/v1/messages",
      "http.response.status_code": 200,
      "polygate.format": "messages",
      "polygate.request_id": expect.stringMatching(/^req_/) as string,
      "polygate.outcome": "completed",
      "polygate.units": INPUT + 7,
      "polygate.certainty": "exact",
    });
  });

  it("is measured: its duration, its first token, the tokens after it, and all of them", async () => {
    const bench: ReturnType<typeof watched> = watched({
      backend: {
        models: () => [{ id: "any" }],
        async *chat() {
          await bench.clock.advance(3_000);
          yield WORD;
          await bench.clock.advance(4_000);
          yield counted(5);
        },
      },
    });
    await (await bench.send({ body: { stream: true } })).text();
    await bench.clock.advance(0);
    const labels = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": "any",
    };
    expect(await bench.metrics()).toMatchObject({
      "gen_ai.server.request.duration": [
        { attributes: { ...labels, "polygate.outcome": "completed" }, value: { sum: 7, count: 1 } },
      ],
      "gen_ai.server.time_to_first_token": [{ attributes: labels, value: { sum: 3, count: 1 } }],
      "gen_ai.server.time_per_output_token": [{ attributes: labels, value: { sum: 1, count: 1 } }],
      "gen_ai.client.inference.operation.input_tokens": [{ attributes: labels, value: { sum: INPUT, count: 1 } }],
      "gen_ai.client.inference.operation.output_tokens": [{ attributes: labels, value: { sum: 5, count: 1 } }],
      "gen_ai.client.inference.usage.input_tokens": [
        { attributes: { ...labels, "gen_ai.token.modality": "unknown" }, value: INPUT },
      ],
      "gen_ai.client.inference.usage.output_tokens": [
        { attributes: { ...labels, "gen_ai.token.modality": "unknown" }, value: 5 },
      ],
      "polygate.call.units": [{ attributes: { ...labels, "polygate.certainty": "exact" }, value: INPUT + 5 }],
    });
  });

  it("counts its tokens by kind of content, and the rest as unknown", async () => {
    const usage: Partial<Usage> = {
      inputTokens: INPUT,
      outputTokens: 7,
      cacheReadTokens: 4,
      cacheWriteTokens: 3,
      reasoningTokens: 2,
      details: {
        input: [
          { modality: "text", tokens: 6 },
          { modality: "image", tokens: 3 },
          { modality: "unspecified", tokens: 1 },
        ],
        // More than the whole: an upstream may count wrongly.
        output: [{ modality: "audio", tokens: 100 }],
        cacheRead: [{ modality: "text", tokens: 3 }],
      },
    };
    const bench = watched({ backend: listed(WORD, { type: "finish", reason: "stop", usage }) });
    await (await bench.send()).text();
    await bench.clock.advance(0);
    const metrics = await bench.metrics();
    const byModality = (name: string) =>
      Object.fromEntries(
        (metrics[`gen_ai.client.inference.usage.${name}`] ?? []).map(({ attributes, value }) => [
          attributes["gen_ai.token.modality"],
          value,
        ]),
      );
    expect({
      input: byModality("input_tokens"),
      output: byModality("output_tokens"),
      read: byModality("cache_read.input_tokens"),
      written: byModality("cache_write.input_tokens"),
      reasoning: byModality("reasoning.output_tokens"),
    }).toEqual({
      input: { text: 6, image: 3, unknown: 1 },
      output: { audio: 7 },
      read: { text: 3, unknown: 1 },
      written: { unknown: 3 },
      reasoning: { unknown: 2 },
    });
  });

  it("draws pictures under the operation of its format", async () => {
    const backend = {
      models: () => [{ id: "image-model-2" }],
      async *image() {
        yield drawn(0);
        yield { type: "usage", usage: { inputTextTokens: 3, inputImageTokens: 2, outputTokens: 9 } } as const;
      },
    };
    const body = JSON.stringify({ model: "dall-e-2", prompt: "A fox.", response_format: "b64_json" });
    const span = await spanOf({ backend, imagePrice: () => 100 }, { path: "/v1/images/generations", body });
    expect(span.name).toBe("POST /v1/images/generations");
    expect(span.attributes).toMatchObject({
      "gen_ai.provider.name": "openai",
      "gen_ai.output.type": "image",
      "gen_ai.usage.input_tokens": 5,
      "gen_ai.usage.output_tokens": 9,
      "polygate.units": 100,
    });
  });

  it("is told by its route where no model answers", async () => {
    const bench = watched();
    await bench.send({ method: "GET", path: "/api/usage/token" });
    const { name, attributes } = only(bench.spans());
    expect(name).toBe("GET /api/usage/token");
    expect(Object.keys(attributes).filter((key) => key.startsWith("gen_ai."))).toEqual([]);
    expect((await bench.metrics())["gen_ai.server.request.duration"]).toBeUndefined();
  });

  it("has the attributes that the host adds", async () => {
    const bench = watched({}, { spanAttributes: ({ key }) => ({ team: key?.name }) });
    await bench.send();
    expect(only(bench.spans()).attributes).toMatchObject({ team: "one", "polygate.outcome": "completed" });
  });
});

describe("a call that does not complete", () => {
  it.each<[how: string, isError: boolean, expected: object, setup: Setup, send: Send]>([
    [
      "is refused for its key",
      false,
      { type: "invalid_api_key", status: 401, outcome: "refused" },
      {},
      {
        headers: { authorization: "Bearer sk-two" },
      },
    ],
    [
      "is refused for its quota",
      false,
      { type: "quota_exhausted", status: 429, outcome: "refused" },
      {
        key: { granted: 0 },
      },
      {},
    ],
    [
      "fails",
      true,
      { type: "backend_failed", status: 500, outcome: "failed" },
      {
        backend: speaking(new Error("broken")),
      },
      {},
    ],
    [
      "breaks off",
      true,
      { type: "backend_failed", status: 200, outcome: "failed" },
      {
        backend: speaking(WORD, new Error("broken")),
      },
      { body: { stream: true } },
    ],
  ])("because it %s says why", async (_how, isError, expected, setup, send) => {
    const bench = watched(setup);
    await (await bench.send(send)).text();
    await bench.clock.advance(0);
    const { attributes, status, events } = only(bench.spans());
    expect({
      type: attributes["error.type"],
      status: attributes["http.response.status_code"],
      outcome: attributes["polygate.outcome"],
    }).toEqual(expected);
    expect(status).toEqual({ code: isError ? SpanStatusCode.ERROR : SpanStatusCode.UNSET });
    expect(events).toEqual([]);
    const duration = only((await bench.metrics())["gen_ai.server.request.duration"] ?? []);
    expect(duration.attributes).toMatchObject({ "error.type": attributes["error.type"] });
    expect((await bench.metrics())["gen_ai.server.time_to_first_token"]).toBeUndefined();
  });

  it("because its client hung up is no error of the server", async () => {
    const bench = watched({ backend: speaking(WORD, never) });
    const reader = await readUntil(WORD, await bench.send({ body: { stream: true } }));
    await reader.cancel();
    await bench.clock.advance(0);
    const { attributes, status } = only(bench.spans());
    expect(status.code).toBe(SpanStatusCode.UNSET);
    expect(attributes).toMatchObject({ "error.type": "client_closed", "polygate.outcome": "client-closed" });
    expect(attributes).toMatchObject({ "gen_ai.usage.output_tokens": 4, "polygate.certainty": "estimated" });
  });

  it("because its client was gone at once has a span too", async () => {
    const bench = watched();
    await bench.gateway.answer(requestOf(true), { onDisconnect: (listener) => listener() });
    expect(only(bench.spans()).attributes).toMatchObject({ "http.response.status_code": 499 });
  });

  it("because its deadline has passed is an error", async () => {
    const bench = watched({ backend: speaking(WORD, never), limits: { deadlineMs: MINUTE } });
    const text = bench.send({ body: { stream: true } }).then((response) => response.text());
    await bench.clock.advance(MINUTE);
    await text;
    const { attributes, status } = only(bench.spans());
    expect([attributes["polygate.outcome"], status.code]).toEqual(["deadline", SpanStatusCode.ERROR]);
  });
});

describe("what callers send", () => {
  it("makes no series of its own: models that nobody has named are one", async () => {
    const bench = watched({ key: { granted: 1_000_000 } }, { models: ["named"] });
    for (let number = 0; number < 40; number++) await bench.send({ body: { model: `made-up-${number}` } });
    await bench.send({ body: { model: "named" } });
    await bench.clock.advance(0);
    const metrics = await bench.metrics();
    for (const name of ["gen_ai.server.request.duration", "gen_ai.server.time_to_first_token"]) {
      const models = (metrics[name] ?? []).map(({ attributes }) => attributes["gen_ai.request.model"]);
      expect([name, models]).toEqual([name, ["_OTHER", "named"]]);
    }
    expect(new Set(bench.spans().map(({ name }) => name))).toEqual(new Set(["POST /v1/messages"]));
    expect(bench.spans()[7]?.attributes["gen_ai.request.model"]).toBe("made-up-7");
  });

  it("is in no span and in no metric: neither prompt, answer nor key", async () => {
    const secret = "sk-0123456789abcdef";
    const start = { type: "start", model: `echo of ${secret}` } as const;
    const bench = watched({ backend: speaking(start, "An answer.", new Error(`${secret} ${PROMPT}`)) });
    bench.store.addSecret("one", secret);
    const headers = { authorization: `Bearer ${secret}`, "x-prompt": PROMPT };
    for (const stream of [false, true])
      await (await bench.send({ headers, body: { model: `any ${secret}`, stream } })).text();
    await bench.send({ headers, method: "GET", path: `/v1/messages/count_tokens?key=${secret}` });
    await bench.send({ headers, path: `/v1beta/models/any:generateContent?key=${secret}`, body: "{}" });
    await bench.clock.advance(0);
    const told = JSON.stringify([
      await bench.metrics(),
      bench
        .spans()
        .map(({ name, attributes, events, links, status, resource }) => [
          name,
          attributes,
          events,
          links,
          status,
          resource.attributes,
        ]),
    ]);
    expect(told).toContain("[redacted]");
    for (const hidden of ["0123456789abcdef", PROMPT, "An answer"]) expect(told).not.toContain(hidden);
  });

  it("is cut to a length that a span can hold", async () => {
    const start = { type: "start", model: "m".repeat(100_000) } as const;
    const span = await spanOf({ backend: speaking(start, WORD) });
    expect(span.attributes["gen_ai.response.model"]).toBe("m".repeat(256));
  });
});
