/** Vectors survive each encoding, and requests each format: what one codec writes for an upstream, its own endpoint reads. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerCollector, base64OfFloats, decodeRequest } from "../../src/formats/embeddings/index.ts";
import type { AnswerCollector } from "../../src/formats/format.ts";
import {
  decodeEmbedAnswer,
  decodeEmbedRequest,
  embedCollector,
  encodeEmbedRequest,
} from "../../src/formats/generate-content/embed.ts";
import { decodeAnswer, encodeRequest, floatsOf } from "../../src/formats/shared/openai-embeddings.ts";
import { TASK_TYPE } from "../../src/formats/shared/schema.ts";
import type { RawJson } from "../../src/http/answer.ts";
import { fromBase64 } from "../../src/media/base64.ts";
import type { EmbeddingAnswerEvent, EmbeddingRequest, EmbeddingTask } from "../../src/model/embedding.ts";

const float = fc.float({ noNaN: true, noDefaultInfinity: true });
const double = fc.double({ noNaN: true, noDefaultInfinity: true, min: -3e38, max: 3e38 });
const text = fc.string({ minLength: 1, unit: "binary" }).filter((value) => value.isWellFormed());
const dimensions = fc.integer({ min: 1, max: 65_536 });
const optional = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(values, { nil: undefined });
const tokens = fc.array(fc.nat(), { minLength: 1, maxLength: 8 });

/** Leaves out fields without a value. */
const given = (request: object): EmbeddingRequest =>
  Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined)) as unknown as EmbeddingRequest;

const withoutNative = ({ native: _native, ...request }: EmbeddingRequest): object => request;

/** The body that a format's endpoint answers with. */
function answered(collector: AnswerCollector<EmbeddingAnswerEvent>, vectors: readonly (readonly number[])[]): string {
  collector.add({ type: "start" });
  for (const vector of vectors) collector.add({ type: "embedding", vector });
  collector.add({ type: "finish", usage: { inputTokens: 5 } });
  return (collector.body() as RawJson).text;
}

const vectorsOf = (numbers: fc.Arbitrary<number>): fc.Arbitrary<number[][]> =>
  fc
    .integer({ min: 1, max: 20 })
    .chain((length) =>
      fc.array(fc.array(numbers, { minLength: length, maxLength: length }), { minLength: 1, maxLength: 5 }),
    );

describe("base64", () => {
  it("is what the official client decodes", () => {
    fc.assert(
      fc.property(fc.array(float), (vector) => {
        const bytes = Buffer.from(base64OfFloats(vector), "base64");
        const read = Array.from(vector, (_, index) => bytes.readFloatLE(index * 4));
        expect(read).toEqual(vector);
      }),
    );
  });

  it("comes back as it was, bit by bit", () => {
    fc.assert(
      fc.property(fc.array(float, { minLength: 1 }), (vector) => {
        expect([...floatsOf(fromBase64(base64OfFloats(vector)))]).toEqual(vector);
      }),
    );
  });
});

const readAs = (encoding_format: string | undefined, vectors: number[][]) => {
  const native = { format: "embeddings", body: { encoding_format }, betas: [] };
  const body = answered(answerCollector({ model: "m", inputs: [], native }), vectors);
  return decodeAnswer(body, vectors.length);
};
const plain = ({ vectors }: { vectors: readonly ArrayLike<number>[] }): number[][] =>
  vectors.map((vector) => Array.from(vector, (number) => (Object.is(number, -0) ? 0 : number)));
const zeroed = (vectors: number[][]): number[][] => plain({ vectors });

describe("an answer", () => {
  it("of numbers comes back as it was", () => {
    fc.assert(
      fc.property(vectorsOf(double), (vectors) => {
        expect(readAs(undefined, vectors)).toMatchObject({ inputTokens: 5, model: "m" });
        expect(plain(readAs("float", vectors))).toEqual(zeroed(vectors));
        expect(plain(decodeEmbedAnswer(answered(embedCollector(true), vectors), vectors.length))).toEqual(
          zeroed(vectors),
        );
      }),
    );
  });

  it("of base64 comes back as 32-bit floats", () => {
    fc.assert(
      fc.property(vectorsOf(double), (vectors) => {
        const floats = vectors.map((vector) => vector.map(Math.fround));
        expect(plain(readAs("base64", vectors))).toEqual(zeroed(floats));
      }),
    );
  });

  it("to one content comes back as it was", () => {
    fc.assert(
      fc.property(fc.array(double, { minLength: 1 }), (vector) => {
        expect(plain(decodeEmbedAnswer(answered(embedCollector(false), [vector]), 1))).toEqual(zeroed([vector]));
      }),
    );
  });
});

describe("a request", () => {
  it("in OpenAI's form comes back as it was", () => {
    const inputs = fc.oneof(
      fc.array(text, { minLength: 1, maxLength: 5 }),
      fc.array(tokens, { minLength: 1, maxLength: 5 }),
    );
    fc.assert(
      fc.property(text, inputs, optional(dimensions), optional(fc.string()), (model, own, length, endUser) => {
        fc.pre(model.length <= 256);
        const request = given({ model, inputs: own, dimensions: length, endUser });
        const { body } = encodeRequest(request, 0, own.length);
        const sent: unknown = JSON.parse(JSON.stringify(body));
        const decoded = decodeRequest(sent);
        expect(withoutNative(decoded)).toEqual(request);
        // Natively, it is the same body again.
        expect(encodeRequest(decoded, 0, own.length).body).toEqual(sent);
      }),
    );
  });

  it("in Google's form comes back as it was", () => {
    const task = fc.constantFrom(...(Object.keys(TASK_TYPE) as EmbeddingTask[]));
    const own = fc.tuple(text, optional(fc.string()), optional(dimensions), optional(task));
    const inputs = fc.array(own, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(inputs, fc.boolean(), (own, isOne) => {
        const titles = own.map(([, title]) => title);
        const [, , length, taskType] = own[0] ?? [];
        const lengths = own.map((each) => (isOne ? length : each[2]));
        const tasks = own.map((each) => (isOne ? taskType : each[3]));
        const request = given({
          model: "m",
          inputs: own.map(([input]) => input),
          ...(new Set(lengths).size > 1 ? { inputDimensions: lengths } : { dimensions: length }),
          ...(new Set(tasks).size > 1 ? { taskTypes: tasks } : { taskType }),
          titles: titles.some((title) => title !== undefined) ? titles : undefined,
        });
        const { body } = encodeEmbedRequest(request, 0, own.length);
        const sent: unknown = JSON.parse(JSON.stringify(body));
        const decoded = decodeEmbedRequest(sent, "m", true);
        expect(withoutNative(decoded)).toEqual(request);
        expect(encodeEmbedRequest(decoded, 0, own.length).body).toEqual(sent);
      }),
    );
  });
});
