/** What embeddings cost, and what of a backend's answer is believed. */

import { describe, expect, it } from "vitest";
import {
  type EmbeddingEvent,
  type EmbeddingRequest,
  GatewayError,
  type ModelKind,
  type Price,
  type Usage,
} from "../../../src/index.ts";
import { png } from "../../formats/images/pictures.ts";
import { opened } from "../../pipeline/bench.ts";

type Embed = (request: EmbeddingRequest) => AsyncIterable<EmbeddingEvent>;

const yields = (...events: readonly unknown[]): Embed =>
  async function* () {
    yield* events as EmbeddingEvent[];
  };

const failsAfter = (...events: readonly EmbeddingEvent[]): Embed =>
  async function* () {
    yield* events;
    throw new GatewayError("backend_unavailable", "Gone.");
  };

const BODY = { model: "m", input: ["ten tokens", "ten tokens", "twenty tokens twenty"] };
/** A token is a character here. */
const TOKENS = 40;
const GRANTED = 1_000;

async function asked(embed: Embed, { body = BODY, price }: { body?: object; price?: Price } = {}) {
  const bench = opened({ backend: { embed }, key: { granted: GRANTED }, ...(price && { price }) });
  const response = await bench.send({ path: "/v1/embeddings", body: JSON.stringify(body) });
  const answer: unknown = await response.json();
  const { used, estimated } = bench.report() ?? {};
  const dropped = response.headers.get("polygate-dropped");
  return { status: response.status, dropped, answer, used, estimated, failures: bench.failures };
}

const count = (inputTokens: unknown): unknown => ({ type: "usage", usage: { inputTokens } });

/** Charges ten more for each token of a kind of content. */
const byKind: Price = ({ inputTokens, details }) => inputTokens + 10 * (details?.input?.[0]?.tokens ?? 0);

/** Returns how many times the price of the plain input is held for a part. */
async function timesHeld(part: object): Promise<number> {
  let [held, inputTokens] = [0, 0];
  const price: Price = (usage) => {
    ({ inputTokens } = usage);
    const modality = usage.details?.input?.[0]?.modality;
    if (modality === "video") throw new Error("No such price.");
    return modality === "audio" ? 100 * inputTokens : inputTokens;
  };
  const bench = opened({
    backend: { embed: yields([1]) },
    key: { granted: 1_000_000 },
    price,
    around: (store) => ({
      reserve(hold, call) {
        held = hold.atMost;
        return store.reserve(hold, call);
      },
    }),
  });
  const body = JSON.stringify({ content: { parts: [part] } });
  const { status } = await bench.send({ path: "/v1beta/models/m:embedContent", body });
  expect(status).toBe(200);
  return held / inputTokens;
}

describe("a charge", () => {
  it("is the backend's count", async () => {
    const told = await asked(yields([1], [2], [3], count(7)));
    expect(told).toMatchObject({ status: 200, used: 7, estimated: 0, failures: [] });
    expect(told.answer).toMatchObject({ usage: { prompt_tokens: 7, total_tokens: 7 } });
  });

  it("takes the last count, wherever it stands", async () => {
    expect(await asked(yields(count(3), [1], [2], count(9), [3]))).toMatchObject({ used: 9, estimated: 0 });
  });

  it("is the estimate where the backend counts nothing", async () => {
    expect(await asked(yields([1], [2], [3]))).toMatchObject({ status: 200, used: TOKENS, estimated: TOKENS });
  });

  it("counts the tokens of lists of tokens", async () => {
    const body = { model: "m", input: [[1, 2, 3], [4]] };
    expect(await asked(yields([1], [2]), { body })).toMatchObject({ used: 4, estimated: 4 });
  });

  it.each([0, -1, 1.5, 1e12, 4_000, Number.NaN, "7", null, undefined])(
    "does not believe a count of %j",
    async (told) => {
      const outcome = await asked(yields([1], [2], [3], count(told)));
      expect(outcome).toMatchObject({ status: 200, used: TOKENS, estimated: TOKENS });
      expect(outcome.failures).toHaveLength(1);
      const { used = TOKENS, failures } = await asked(failsAfter([1], [2], count(told) as EmbeddingEvent));
      expect([used < TOKENS, failures.length]).toEqual([true, 2]);
    },
  );

  it("is made by the host's price, which sees the kind", async () => {
    const seen: [Usage, string, ModelKind][] = [];
    const price: Price = (usage, model, kind) => (seen.push([usage, model, kind]), usage.inputTokens * 2);
    expect(await asked(yields([1], [2], [3], count(7)), { price })).toMatchObject({ used: 14 });
    expect(new Set(seen.map(([, model, kind]) => `${model} ${kind}`))).toEqual(new Set(["m embedding"]));
    expect(seen.map(([{ outputTokens }]) => outputTokens).every((tokens) => tokens === 0)).toBe(true);
  });

  it("has the kinds of content that the backend counts", async () => {
    const details = [{ modality: "image", tokens: 4 }];
    const usage = { inputTokens: 7, details };
    const told = await asked(yields([1], [2], [3], { type: "usage", usage }), { price: byKind });
    expect(told).toMatchObject({ used: 47, estimated: 0, failures: [] });
  });

  it.each([1e12, 4_000, -1, 1.5, Number.NaN, "7", undefined])(
    "does not believe %j tokens of a kind",
    async (tokens) => {
      const usage = { inputTokens: 7, details: [{ modality: "image", tokens }] };
      const outcome = await asked(yields([1], [2], [3], { type: "usage", usage }), { price: byKind });
      expect(outcome).toMatchObject({ status: 200, used: TOKENS, estimated: TOKENS });
      expect(outcome.failures).toHaveLength(1);
    },
  );

  it.each([null, 3, {}, [null]])("does not believe %j as kinds of content", async (details) => {
    const outcome = await asked(yields([1], [2], [3], { type: "usage", usage: { inputTokens: 7, details } }));
    expect(outcome).toMatchObject({ status: 200, used: TOKENS, estimated: TOKENS });
    expect(outcome.failures).toHaveLength(1);
  });

  it("of a file is held at the price of the dearest kind that it may be counted as", async () => {
    expect(await timesHeld({ text: "ten tokens" })).toBe(1);
    expect(
      await timesHeld({ inlineData: { mimeType: "image/png", data: Buffer.from(png()).toString("base64") } }),
    ).toBe(100);
  });

  it("is nothing for a call that fails before its first vector", async () => {
    expect(await asked(failsAfter())).toMatchObject({ status: 503, used: 0 });
  });

  it("is for the inputs whose vectors came before a failure", async () => {
    const { status, used = 0, estimated } = await asked(failsAfter([1], [2]));
    expect([status, estimated]).toEqual([503, used]);
    expect(used).toBeGreaterThanOrEqual(TOKENS / 2);
    expect(used).toBeLessThan(TOKENS * 0.6);
  });
});

describe("an answer", () => {
  it.each([
    [2, null],
    [3, "dimensions"],
  ])(
    "of vectors of 2 numbers where %i were asked for has the header polygate-dropped: %s",
    async (dimensions, told) => {
      const { status, dropped } = await asked(yields([1, 2], [3, 4], [5, 6]), { body: { ...BODY, dimensions } });
      expect([status, dropped]).toEqual([200, told]);
    },
  );

  it("may be typed arrays", async () => {
    const told = await asked(yields(Float32Array.of(0.5, 1), Float64Array.of(2, 3), [4, 5]));
    expect(told.answer).toMatchObject({
      data: [{ embedding: [0.5, 1] }, { embedding: [2, 3] }, { embedding: [4, 5] }],
    });
  });

  it.each<[name: string, events: readonly unknown[]]>([
    ["of fewer vectors than inputs", [[1], [2]]],
    ["of more vectors than inputs", [[1], [2], [3], [4]]],
    ["of nothing", []],
    ["of an empty vector", [[], [], []]],
    ["of vectors of different lengths", [[1], [1, 2], [1]]],
    ["with NaN", [[1], [Number.NaN], [1]]],
    ["with an infinite number", [[1], [Number.POSITIVE_INFINITY], [1]]],
    ["with a number that 32 bits cannot hold", [[1], [1e39], [1]]],
    ["with a text for a number", [[1], ["2"], [1]]],
    ["with holes", [Array.from({ length: 3 }), [1], [1]]],
    ["of vectors that are too long", [Array.from({ length: 65_537 }, () => 0)]],
    ["of a sparse list without end", [Object.assign([1], { length: 2 ** 32 - 1 })]],
    ["of texts", ["one", "two", "three"]],
    ["of null", [null]],
    ["of undefined", [undefined]],
    ["of an event of no known type", [{ type: "vector", vector: [1] }]],
    ["of bytes", [Uint8Array.of(1, 2, 3)]],
  ])("%s is a failure of the backend", async (_name, events) => {
    const told = await asked(yields(...events));
    expect(told).toMatchObject({ status: 500, answer: { error: { code: "backend_failed" } } });
    expect(told.failures).toHaveLength(1);
  });

  it("that is too large all together is a failure of the backend", async () => {
    const vector = new Float32Array(65_536);
    const body = { model: "m", input: Array.from({ length: 129 }, () => "a") };
    const embed: Embed = async function* ({ inputs }) {
      for (const _ of inputs) yield vector;
    };
    expect(await asked(embed, { body })).toMatchObject({ status: 500, answer: { error: { code: "backend_failed" } } });
  });
});
