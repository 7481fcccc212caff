/** The record of a refused call says that the host knows its model, also before any call has had the backend list its models. */

import { describe, expect, it, vi } from "vitest";
import type { CallRecord, ModelBackend, ModelInfo } from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { opened, type Setup, speaking, WORD } from "./bench.ts";

const DRAINED: NonNullable<Setup["around"]> = () => ({
  balance: async () => ({ used: 1, available: 0, held: 0 }),
  reserve: async () => ({ refused: true, available: 0, held: 0 }),
});

const SHORT = { "content-length": "200" };
const LISTED: readonly ModelInfo[] = [{ id: "known" }];
const listing = (models: ModelBackend["models"]): ModelBackend => ({ ...speaking(WORD), ...(models && { models }) });
const relayed = relay({ baseUrl: "http://127.0.0.1:1", apiKey: "k", format: "chat-completions", models: ["known"] });
const priced = { ...priceTable({ known: { input: 1, output: 1 }, "*": { input: 1, output: 1 } }) };

const BACKENDS: readonly (readonly [name: string, setup: Setup])[] = [
  ["a backend that lists it", { backend: listing(() => LISTED) }],
  ["a backend that lists it later", { backend: listing(async () => LISTED) }],
  ["a relay with models", { backend: relayed }],
  ["a route", { backend: route({ routes: { known: { upstreams: [{ backend: relayed }] } } }) }],
  ["an exact price", { backend: speaking(WORD), ...priced }],
];

describe.each(BACKENDS)("a model known by %s", (_name, setup) => {
  it.each([
    ["is refused when quota is reserved", { around: DRAINED, limits: {} }],
    ["is refused before its body is parsed", { around: DRAINED, limits: { mediumBodyBytes: 1 } }],
    ["may not use it", { key: { granted: 1_000, models: ["another"] } }],
  ])("is that of the first call of a key that %s", async (_refused, more) => {
    const records: CallRecord[] = [];
    const { send } = opened({ ...setup, ...more, onCall: (record) => records.push(record) });
    for (const model of ["known", "made-up"]) await (await send({ body: { model }, headers: SHORT })).text();
    expect(records).toMatchObject([
      { modelAsked: "known", modelListed: true, outcome: "refused" },
      { modelAsked: "made-up", modelListed: false, outcome: "refused" },
    ]);
  });
});

it("asks a backend for its models once for refused calls, also when it fails or hangs", async () => {
  for (const list of [
    () => Promise.reject(new Error("down")),
    () => new Promise<never>(() => {}),
    (): never => {
      throw new Error("down");
    },
    () => [{ id: 7 }] as unknown as readonly ModelInfo[],
  ]) {
    const models = vi.fn<() => Promise<never> | readonly ModelInfo[]>(list);
    const records: CallRecord[] = [];
    const { send, failures, clock } = opened({
      backend: listing(models),
      around: DRAINED,
      limits: { mediumBodyBytes: 1 },
      onCall: (record) => records.push(record),
    });
    for (let at = 0; at < 3; at++) expect((await send({ headers: SHORT })).status).toBe(429);
    expect(records.map(({ modelListed }) => modelListed)).toEqual([false, false, false]);
    expect(models).toHaveBeenCalledTimes(1);
    expect([failures, clock.pending]).toEqual([[], 0]);
  }
});

it("asks a backend for no models for a caller without a valid key", async () => {
  const models = vi.fn<() => readonly ModelInfo[]>(() => LISTED);
  const records: CallRecord[] = [];
  const { send } = opened({ backend: listing(models), onCall: (record) => records.push(record) });
  const path = "/v1beta/models/known:generateContent";
  await (await send({ path, headers: { authorization: "Bearer sk-nobody" } })).text();
  expect(records).toMatchObject([{ modelAsked: "known", errorCode: "invalid_api_key" }]);
  expect(models).not.toHaveBeenCalled();
});
