/** A relay of embeddings: batches, the fields of each format, and hostile upstreams. */

import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { demoModel } from "../../../src/demo/backend.ts";
import {
  createGateway,
  type EmbeddingEvent,
  type EmbeddingRequest,
  type Gateway,
  memoryQuotaStore,
  type ModelBackend,
} from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { DEFAULT_RELAY_TIMEOUTS, relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { opened } from "../../pipeline/bench.ts";
import { head, rawUpstream, whole } from "./raw-upstream.ts";
import { API_KEY, callContext } from "./stage.ts";

type Format = "chat-completions" | "generate-content";
type Body = Record<string, unknown>;

interface Sent {
  readonly path: string;
  readonly body: Body;
  readonly headers: Headers;
  readonly signal: AbortSignal;
}

/** Answers a request, given its number from 0. */
type Script = (sent: Sent, number: number) => Response | Promise<Response>;

function scripted(format: Format, script: Script, options: Partial<RelayOptions> = {}) {
  const sent: Sent[] = [];
  const backend = relay({
    format,
    baseUrl: "http://upstream.test/v1",
    apiKey: API_KEY,
    async fetch(url, init) {
      const request = new Request(url, init);
      const body = (await request.clone().json()) as Body;
      const asked = { path: new URL(request.url).pathname, body, headers: request.headers, signal: request.signal };
      return script(asked, sent.push(asked) - 1);
    },
    ...options,
  });
  return { backend, sent };
}

const texts = (count: number): string[] => Array.from({ length: count }, (_, index) => `text ${index}`);

const requestOf = (more: Partial<EmbeddingRequest> = {}): EmbeddingRequest => ({
  model: "m",
  inputs: ["A"],
  ...more,
});

interface Outcome {
  readonly vectors: readonly (readonly number[])[];
  readonly tokens: number | undefined;
  readonly error: { readonly code?: string; readonly message?: string; readonly cause?: unknown } | undefined;
}

async function ask(backend: ModelBackend, request: EmbeddingRequest, call = callContext()): Promise<Outcome> {
  const vectors: number[][] = [];
  let tokens: number | undefined;
  let error: Outcome["error"];
  const note = (event: EmbeddingEvent): void => {
    if ("type" in event) tokens = event.usage.inputTokens;
    else vectors.push([...event]);
  };
  try {
    for await (const event of backend.embed?.(request, call) ?? []) note(event);
  } catch (thrown) {
    error = thrown as object;
  }
  return { vectors, tokens, error };
}

/** The number at the end of a text. */
const numberIn = (text: unknown): number => Number(/\d+$/.exec(String(text))?.[0]);

/** Answers as each format does: the vector of a text is its number. */
const ANSWERS: Readonly<Record<Format, Script>> = {
  "chat-completions": ({ body }) => {
    const input = body["input"] as string[];
    const data = input.map((text, index) => ({ object: "embedding", index, embedding: [numberIn(text), 0.5] }));
    return Response.json({ object: "list", data, model: "m-1", usage: { prompt_tokens: input.length } });
  },
  "generate-content": ({ body }) => {
    const requests = body["requests"] as { content: { parts: { text: string }[] } }[];
    const embeddings = requests.map(({ content }) => ({ values: [numberIn(content.parts[0]?.text), 0.5] }));
    return Response.json({ embeddings, usageMetadata: { promptTokenCount: requests.length } });
  },
};

/** Leaves the count out of every answer but the first. */
const countingOnce =
  (answer: Script): Script =>
  async (sent, number) => {
    const body = (await (await answer(sent, number)).json()) as Body;
    return Response.json(number === 0 ? body : { ...body, usage: null, usageMetadata: null });
  };

describe.each<[format: Format, path: string, most: number]>([
  ["chat-completions", "/v1/embeddings", 2_048],
  ["generate-content", "/v1/models/m:batchEmbedContents", 100],
])("an upstream of %s", (format, path, most) => {
  const answer = ANSWERS[format];

  it("gets one request for all inputs that it takes", async () => {
    const { backend, sent } = scripted(format, answer);
    const { vectors, tokens } = await ask(backend, requestOf({ inputs: texts(most) }));
    expect(sent.map((one) => one.path)).toEqual([path]);
    expect(vectors.map(([number]) => number)).toEqual(texts(most).map(numberIn));
    expect(tokens).toBe(most);
  });

  it("gets several requests for more, whose vectors come in order and whose counts are added", async () => {
    const { backend, sent } = scripted(format, answer);
    const { vectors, tokens } = await ask(backend, requestOf({ inputs: texts(most + 1) }));
    expect(sent).toHaveLength(2);
    expect(vectors.map(([number]) => number)).toEqual(texts(most + 1).map(numberIn));
    expect(tokens).toBe(most + 1);
  });

  it("gets batches of the host's size, no more at once than the host allows", async () => {
    let [running, mostAtOnce] = [0, 0];
    const waiting: (() => void)[] = [];
    const script: Script = async (sent, number) => {
      mostAtOnce = Math.max(mostAtOnce, ++running);
      // The first requests are answered last.
      if (number < 3) await new Promise<void>((resolve) => waiting.unshift(resolve));
      running--;
      return answer(sent, number);
    };
    const released: Script = (sent, number) => {
      const answered = script(sent, number);
      if (waiting.length === 3) for (const resolve of waiting.splice(0)) resolve();
      return answered;
    };
    const { backend, sent } = scripted(format, released, { embeddings: { maxInputs: 2, concurrency: 3 } });
    const { vectors } = await ask(backend, requestOf({ inputs: texts(11) }));
    expect(vectors.map(([number]) => number)).toEqual(texts(11).map(numberIn));
    expect(sent).toHaveLength(6);
    expect(mostAtOnce).toBe(3);
  });

  it("that refuses a batch has its counts of the others, which come later", async () => {
    const waiting: (() => void)[] = [];
    const script: Script = async (sent, number) => {
      if (number > 0) await new Promise<void>((resolve) => waiting.push(resolve));
      else
        setImmediate(() => {
          for (const resolve of waiting) resolve();
        });
      return number === 0 ? Response.json({ error: { message: "No." } }, { status: 400 }) : answer(sent, number);
    };
    const { backend, sent } = scripted(format, script, { embeddings: { maxInputs: 2 } });
    const { send, report } = opened({ backend: route({ routes: { m: backend } }), key: { granted: 1_000 } });
    const response = await send({
      path: "/v1/embeddings",
      body: JSON.stringify({ model: "m", input: texts(20) }),
    });
    expect([response.status, await response.text(), sent.length]).toEqual([400, expect.stringContaining("No."), 4]);
    expect(report()).toMatchObject({ used: 6, estimated: 6 });
  });

  it("that refuses a batch, and counts nothing, is charged for the others, which come later", async () => {
    const others: (() => void)[] = [];
    const script: Script = async (sent, number) => {
      if (number > 0) {
        if (number === 3) for (const resolve of others.splice(0)) setImmediate(resolve);
        return Response.json({
          ...((await (await answer(sent, number)).json()) as Body),
          usage: null,
          usageMetadata: null,
        });
      }
      await new Promise<void>((resolve) => others.push(resolve));
      return Response.json({ error: { message: "No." } }, { status: 400 });
    };
    const { backend } = scripted(format, script, { embeddings: { maxInputs: 2 } });
    const { send, report } = opened({ backend: route({ routes: { m: backend } }), key: { granted: 1_000 } });
    const { status } = await send({ path: "/v1/embeddings", body: JSON.stringify({ model: "m", input: texts(8) }) });
    // A token is a character here: six inputs of six characters.
    expect([status, report()]).toMatchObject([400, { used: 36, estimated: 36, held: 0 }]);
  });

  it.each([0, -11, 1.5, "many"])(
    "whose count of a batch is %j is charged by the estimate, and reported",
    async (wrong) => {
      const script: Script = async (sent, number) => {
        const body = (await (await answer(sent, number)).json()) as Body;
        const count = number === 0 ? 24 : wrong;
        return Response.json({ ...body, usage: { prompt_tokens: count }, usageMetadata: { promptTokenCount: count } });
      };
      const { backend } = scripted(format, script, { embeddings: { maxInputs: 2 } });
      const { send, report, failures } = opened({ backend, key: { granted: 1_000 } });
      const { status } = await send({ path: "/v1/embeddings", body: JSON.stringify({ model: "m", input: texts(6) }) });
      expect([status, report()]).toMatchObject([200, { used: 36, estimated: 36, held: 0 }]);
      expect(failures.map(({ error }) => error.message)).toEqual([expect.stringContaining("no count: inputTokens")]);
    },
  );

  it("that fails in a batch ends the others, and the vectors before it are kept", async () => {
    const clock = manualClock();
    const signals: AbortSignal[] = [];
    const script: Script = (sent, number) => {
      if (number === 0) return answer(sent, number);
      if (number === 1) return Response.json({ error: { message: "No.", code: 503 } }, { status: 503 });
      signals.push(sent.signal);
      return new Promise((_resolve, reject) => {
        sent.signal.addEventListener("abort", () => reject(new Error("Aborted.")), { once: true });
      });
    };
    const { backend } = scripted(format, script, { embeddings: { maxInputs: 1 }, clock });
    const asking = ask(backend, requestOf({ inputs: texts(8) }));
    const state = { isOver: false };
    void asking.then(() => (state.isOver = true));
    while (!state.isOver) await clock.advance(1_000);
    const { vectors, tokens, error } = await asking;
    expect(vectors).toEqual([[0, 0.5]]);
    expect(tokens).toBe(1);
    expect(error).toMatchObject({ code: "backend_unavailable" });
    expect(signals.length).toBeGreaterThan(0);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });

  it("that counts only some batches reports no count", async () => {
    const { backend } = scripted(format, countingOnce(answer), { embeddings: { maxInputs: 1 } });
    expect(await ask(backend, requestOf({ inputs: texts(3) }))).toMatchObject({ tokens: undefined, error: undefined });
  });

  it("is asked under its own name of the model", async () => {
    const { backend, sent } = scripted(format, answer, { models: { m: "own" } });
    await ask(backend, requestOf());
    expect(JSON.stringify([sent[0]?.path, sent[0]?.body])).toContain("own");
    expect((await ask(backend, requestOf({ model: "other" }))).error).toMatchObject({ code: "model_not_found" });
  });

  it.each<[name: string, body: unknown]>([
    ["no object", []],
    ["nothing", {}],
    ["too few vectors", { data: [], embeddings: [] }],
    [
      "too many vectors",
      { data: [{ embedding: [1] }, { embedding: [1] }], embeddings: [{ values: [1] }, { values: [1] }] },
    ],
    ["no vectors", { data: [{ embedding: 5 }], embeddings: [{ values: 5 }] }],
    ["half a float", { data: [{ embedding: "AAAA" }], embeddings: [{ values: "AAAA" }] }],
    ["no base64", { data: [{ embedding: "*" }], embeddings: [{}] }],
    ["null for a vector", { data: [null], embeddings: [null] }],
  ])("that answers with %s has failed", async (_name, body) => {
    const { backend } = scripted(format, () => Response.json(body));
    expect((await ask(backend, requestOf())).error).toMatchObject({ code: "backend_failed" });
  });

  it.each<[status: number, code: string]>([
    [400, "invalid_request"],
    [401, "backend_refused"],
    [404, "model_not_found"],
    [429, "rate_limited"],
    [500, "backend_failed"],
    [503, "backend_unavailable"],
  ])("that answers with %i is a %s", async (status, code) => {
    const error = { message: `The key is ${API_KEY}.`, status: "SAID", code: status };
    const { backend } = scripted(format, () => Response.json({ error }, { status }));
    const told = (await ask(backend, requestOf())).error;
    expect(told).toMatchObject({ code });
    expect(`${told?.message} ${String(told?.cause)}`).not.toContain(API_KEY);
  });

  it("whose answer is larger than the relay takes has failed", async () => {
    const { backend } = scripted(format, answer, { limits: { maxJsonItems: 10 } });
    expect((await ask(backend, requestOf({ inputs: texts(20) }))).error).toMatchObject({ code: "backend_failed" });
  });

  it("that says nothing is given up, and its connection closed", async () => {
    const clock = manualClock();
    const asked = Promise.withResolvers<void>();
    await using upstream = await rawUpstream(() => asked.resolve());
    const backend = relay({ format, baseUrl: upstream.url, clock });
    const outcome = ask(backend, requestOf());
    await asked.promise;
    await clock.advance(DEFAULT_RELAY_TIMEOUTS.completeMs);
    expect((await outcome).error).toMatchObject({ code: "deadline_exceeded" });
    await upstream.allClosed();
    await backend.close();
  });

  it("is left when the caller is gone, over all connections", async () => {
    const [hangUp, asked] = [new AbortController(), Promise.withResolvers<void>()];
    let open = 0;
    await using upstream = await rawUpstream(() => ++open === 2 && asked.resolve());
    const backend = relay({ format, baseUrl: upstream.url, embeddings: { maxInputs: 1, concurrency: 2 } });
    const outcome = ask(backend, requestOf({ inputs: texts(5) }), callContext(hangUp.signal));
    await asked.promise;
    hangUp.abort(new Error("Gone."));
    expect((await outcome).error).toBeDefined();
    await upstream.allClosed();
    await backend.close();
  });

  it("that sends a stream is refused", async () => {
    await using upstream = await rawUpstream((socket) =>
      socket.end(`${head(200, { "content-type": "text/event-stream", connection: "close" })}data: {}\n\n`),
    );
    const backend = relay({ format, baseUrl: upstream.url });
    expect((await ask(backend, requestOf())).error).toMatchObject({ code: "backend_failed" });
    await backend.close();
  });

  it("is answered over a socket", async () => {
    await using upstream = await rawUpstream(async (socket, { body }) => {
      const asked = { path: "", body: JSON.parse(body) as Body, headers: new Headers(), signal: hangless };
      socket.end(whole(200, "application/json", await (await answer(asked, 0)).text()));
    });
    const backend = relay({ format, baseUrl: upstream.url });
    expect(await ask(backend, requestOf({ inputs: ["text 3"] }))).toMatchObject({ vectors: [[3, 0.5]], tokens: 1 });
    await backend.close();
  });
});

const hangless = new AbortController().signal;

describe("an upstream of chat-completions", () => {
  it("is asked for base64, and may send its vectors in any order and as floats", async () => {
    const embedding = Buffer.from(Float32Array.of(0.25).buffer).toString("base64");
    const data = [
      { index: 1, embedding: [7] },
      { index: 0, embedding },
    ];
    const { backend, sent } = scripted("chat-completions", () => Response.json({ data }));
    expect((await ask(backend, requestOf({ inputs: ["A", "B"] }))).vectors).toEqual([[0.25], [7]]);
    expect(sent[0]?.body).toEqual({ model: "m", input: ["A", "B"], encoding_format: "base64" });
  });

  it.each([[[0, 0]], [[-1, 0]], [[0, 2]], [["0", 1]], [[0.5, 1]]])(
    "with the indexes %j has failed",
    async (indexes) => {
      const { backend } = scripted("chat-completions", () =>
        Response.json({ data: indexes.map((index) => ({ index, embedding: [1] })) }),
      );
      expect((await ask(backend, requestOf({ inputs: ["A", "B"] }))).error).toMatchObject({ code: "backend_failed" });
    },
  );

  it("with an empty account is the host's affair", async () => {
    const error = { code: "insufficient_quota", message: "Pay." };
    const { backend } = scripted("chat-completions", () => Response.json({ error }, { status: 429 }));
    expect((await ask(backend, requestOf())).error).toMatchObject({ code: "backend_refused" });
  });
});

/** A gateway before a relay before what a script answers, asked in the caller's own format. */
async function through(
  format: Format,
  path: string,
  body: object,
  script: Script = ANSWERS[format],
  options: Partial<RelayOptions> = {},
) {
  const { backend, sent } = scripted(format, script, options);
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]), onFailure: () => {} });
  const headers = { authorization: "Bearer sk-1", "content-type": "application/json" };
  const request = new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await gateway.fetch(request);
  return { response, sent, answer: (await response.json()) as Body };
}

const BATCH = "/v1beta/models/m:batchEmbedContents";

it.each<[Format, string, object, string]>([
  ["chat-completions", "/v1/embeddings", { model: "m", input: texts(2) }, "usage"],
  [
    "generate-content",
    BATCH,
    { requests: texts(2).map((text) => ({ content: { parts: [{ text }] } })) },
    "usageMetadata",
  ],
])("an upstream's other fields of usage reach a caller of %s, with the costs of batches added", async (...row) => {
  const [format, path, body, name] = row;
  const costly: Script = async (sent, number) => {
    const answered = (await (await ANSWERS[format](sent, number)).json()) as Body;
    const usage = { ...(answered[name] as Body), cost: 0.5, currency: "EUR", split: { of: [0.25] } };
    return Response.json({ ...answered, [name]: usage });
  };
  for (const [maxInputs, cost] of [
    [2, 0.5],
    [1, 1],
  ] as const) {
    const { answer } = await through(format, path, body, costly, { embeddings: { maxInputs } });
    expect(answer[name]).toMatchObject({ cost, currency: "EUR", split: { of: [0.25] } });
  }
});

/** Answers with vectors of the lengths that are asked for. */
const sized: Script = ({ body }) => {
  const lengths = (body["requests"] as Body[]).map((each) => Number(each["outputDimensionality"]));
  return Response.json({ embeddings: lengths.map((length) => ({ values: Array.from({ length }, () => 1) })) });
};

describe("across formats", () => {
  it("a request in OpenAI's form reaches Google's", async () => {
    const body = { model: "m", input: ["text 1", "text 2"], dimensions: 2, user: "u", extra: 1 };
    const { response, sent, answer } = await through("generate-content", "/v1/embeddings", body);
    expect(sent.map((one) => one.body)).toEqual([
      {
        requests: ["text 1", "text 2"].map((text) => ({
          model: "models/m",
          content: { role: "user", parts: [{ text }] },
          outputDimensionality: 2,
        })),
      },
    ]);
    expect(response.headers.get("polygate-dropped")).toBe("endUser, native.extra");
    expect(answer).toMatchObject({
      data: [{ embedding: [1, 0.5] }, { embedding: [2, 0.5] }],
      usage: { prompt_tokens: 2 },
    });
  });

  it("a request in Google's form reaches OpenAI's", async () => {
    const one = {
      content: { parts: [{ text: "text 1" }] },
      taskType: "CLUSTERING",
      title: "T",
      outputDimensionality: 2,
    };
    const { response, sent, answer } = await through("chat-completions", BATCH, { requests: [{ ...one, extra: 1 }] });
    expect(sent.map((each) => each.body)).toEqual([
      { model: "m", input: ["text 1"], dimensions: 2, encoding_format: "base64" },
    ]);
    expect(response.headers.get("polygate-dropped")).toBe("taskType, titles, native.requests.extra");
    expect(answer).toEqual({
      embeddings: [{ values: [1, 0.5] }],
      usageMetadata: { promptTokenCount: 1, totalTokenCount: 1 },
    });
  });

  it("a batch of requests with lengths and tasks of their own reaches Google's, and OpenAI's where the lengths are equal", async () => {
    const one = { content: { parts: [{ text: "text 1" }] }, taskType: "CLUSTERING", outputDimensionality: 2 };
    const other = { content: { parts: [{ text: "text 2" }] }, outputDimensionality: 3 };
    const google = await through("generate-content", BATCH, { requests: [one, other] }, sized);
    expect(google.sent.map(({ body }) => body["requests"])).toEqual([
      [one, other].map((each) => ({ ...each, model: "models/m" })),
    ]);
    expect(google.answer).toMatchObject({ embeddings: [{ values: [1, 1] }, { values: [1, 1, 1] }] });
    const refused = await through("chat-completions", BATCH, { requests: [one, other] });
    expect([refused.response.status, refused.sent.length]).toEqual([400, 0]);
    expect(refused.answer).toMatchObject({ error: { message: expect.stringContaining("inputDimensions") } });
    const dropped = await through("chat-completions", BATCH, {
      requests: [one, { ...other, outputDimensionality: 2 }],
    });
    expect(dropped.sent.map(({ body }) => body["dimensions"])).toEqual([2]);
    expect(dropped.response.headers.get("polygate-dropped")).toBe("taskTypes");
  });

  it("a list of tokens is refused by name where only texts are taken", async () => {
    const { response, sent, answer } = await through("generate-content", "/v1/embeddings", {
      model: "m",
      input: [[1, 2]],
    });
    expect([response.status, sent.length]).toEqual([400, 0]);
    expect(answer).toMatchObject({ error: { message: expect.stringContaining("inputs.tokens") } });
  });

  it("a picture is refused by name where only texts are taken", async () => {
    const content = { parts: [{ inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } }] };
    const { response, answer } = await through("chat-completions", "/v1beta/models/m:embedContent", { content });
    expect(response.status).toBe(400);
    expect(answer).toMatchObject({ error: { message: expect.stringContaining("inputs.media") } });
  });

  it("a strict relay refuses what it would drop", async () => {
    const body = { content: { parts: [{ text: "A" }] }, taskType: "CLUSTERING" };
    const path = "/v1beta/models/m:embedContent";
    const { response, sent } = await through("chat-completions", path, body, undefined, { strict: true });
    expect([response.status, sent.length]).toEqual([400, 0]);
  });
});

const SINGLE = Response.json({ embedding: { values: [1, 2] } });

describe("within a format", () => {
  it("OpenAI's request keeps what nobody knows, and its encoding", async () => {
    const body = { model: "m", input: ["text 1"], encoding_format: "float", input_type: "query" };
    const { sent } = await through("chat-completions", "/v1/embeddings", body);
    expect(sent.map((one) => one.body)).toEqual([body]);
  });

  it("OpenAI's large request of plain numbers is divided, for its answer is large", async () => {
    const body = { model: "m", input: texts(1_030), encoding_format: "float" };
    const { sent, answer } = await through("chat-completions", "/v1/embeddings", body);
    expect(sent.map((one) => (one.body["input"] as unknown[]).length)).toEqual([512, 512, 6]);
    expect(sent.every((one) => one.body["encoding_format"] === "float")).toBe(true);
    expect(answer["data"]).toHaveLength(1_030);
  });

  it("Google's requests keep what nobody knows, in every batch, and name the model that was authorized", async () => {
    const requests = texts(101).map((text) => ({
      model: "models/secret",
      content: { parts: [{ text }] },
      extra: text,
    }));
    const { sent, answer } = await through("generate-content", BATCH, { model: "models/secret", other: 1, requests });
    expect(sent.map((one) => one.body)).toEqual(
      [requests.slice(0, 100), requests.slice(100)].map((part) => ({
        model: "models/m",
        other: 1,
        requests: part.map((one) => ({ ...one, model: "models/m" })),
      })),
    );
    expect(answer["embeddings"]).toHaveLength(101);
  });

  it("Google's single request keeps its method", async () => {
    const body = { model: "models/secret", content: { parts: [{ text: "A" }] }, task_type: "NEW", extra: 1 };
    const { sent, answer } = await through("generate-content", "/v1/models/m:embedContent", body, () => SINGLE.clone());
    expect(sent[0]?.path).toBe("/v1/models/m:embedContent");
    expect(sent[0]?.body).toEqual({ ...body, model: "models/m" });
    expect(answer).toMatchObject({ embedding: { values: [1, 2] } });
  });
});

const kindsOf = async (models: RelayOptions["models"] & object) =>
  (await scripted("chat-completions", ANSWERS["chat-completions"], { models }).backend.models?.())?.map(
    ({ id, kinds }) => [id, kinds],
  );

describe("the models of a relay", () => {
  it("embed where their names tell it, unless the host says otherwise", async () => {
    expect(await kindsOf(["text-embedding-3-small", "nomic-embed-text:v1.5", "gpt-5", "embedded-llama"])).toEqual([
      ["text-embedding-3-small", ["embedding"]],
      ["nomic-embed-text:v1.5", ["embedding"]],
      ["gpt-5", undefined],
      ["embedded-llama", undefined],
    ]);
    expect(await kindsOf({ near: "gemini-embedding-001" })).toEqual([["near", ["embedding"]]]);
    expect(await kindsOf([{ id: "my-embed", kinds: ["chat"] }])).toEqual([["my-embed", ["chat"]]]);
  });
});

it.each([
  ["maxInputs", 0],
  ["maxInputs", 1.5],
  ["concurrency", -1],
])("a relay of the wrong embeddings.%s is refused", (field, value) => {
  const make = () => scripted("chat-completions", ANSWERS["chat-completions"], { embeddings: { [field]: value } });
  expect(make).toThrow(new RangeError(`relay: embeddings.${field} must be a positive integer, not ${value}`));
});

const fetchOf =
  (gateway: Gateway): typeof fetch =>
  (url, init) =>
    gateway.fetch(new Request(url, init));

describe.each<Format>(["chat-completions", "generate-content"])("official clients through a relay to %s", (format) => {
  const upstream = createGateway({ backend: demoModel(), quotas: memoryQuotaStore([{ apiKey: API_KEY }]) });
  const backend = relay({
    format,
    baseUrl: `http://upstream.test/${format === "generate-content" ? "v1beta" : "v1"}`,
    apiKey: API_KEY,
    fetch: fetchOf(upstream),
  });
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
  const model = "demo-embedding";

  it("get the vectors of the upstream, to the last bit", async () => {
    const openai = (of: Gateway, apiKey: string) =>
      new OpenAI({ apiKey, baseURL: "http://gateway.test/v1", fetch: fetchOf(of) }).embeddings;
    const direct = await openai(upstream, API_KEY).create({ model, input: ["A hat", "A cat"], dimensions: 32 });
    const relayed = await openai(gateway, "sk-1").create({ model, input: ["A hat", "A cat"], dimensions: 32 });
    expect(relayed).toEqual(direct);
    const ai = new GoogleGenAI({
      apiKey: "sk-1",
      httpOptions: { baseUrl: "http://gateway.test", fetch: fetchOf(gateway) },
    });
    const contents = ["A hat", "A cat"];
    const { embeddings } = await ai.models.embedContent({ model, contents, config: { outputDimensionality: 32 } });
    expect(embeddings?.map(({ values }) => values)).toEqual(direct.data.map(({ embedding }) => embedding));
  });
});
