/** The models that are labels: those that a host names, and never the names that callers invent. */

import { expect, it } from "vitest";
import { priceCatalogue, priceTable } from "../../src/prices/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { type Setup, speaking, WORD } from "../pipeline/bench.ts";
import { type Collected, watched } from "./stage.ts";

const RICH = { granted: 1_000_000_000 };
const PRICE = { input: 1, output: 1 };

/** The models of a metric's series, in their order. */
async function labelsOf(
  { metrics }: Collected,
  name = "gen_ai.server.request.duration",
  label = "gen_ai.request.model",
): Promise<unknown[]> {
  return [...new Set(((await metrics())[name] ?? []).map(({ attributes }) => attributes[label]))];
}

/** A gateway that calls of these models were sent to. */
async function called(models: readonly string[], setup: Setup, always: readonly string[] = []) {
  const bench = watched({ key: RICH, ...setup }, { models: always });
  for (const model of models) await (await bench.send({ body: { model } })).text();
  await bench.clock.advance(0);
  return bench;
}

const upstream = (name: string) => ({ upstreams: [{ backend: speaking(WORD), name }] });
const answering = (model: string) => speaking({ type: "start", model }, WORD);

it("are the rows of a table of prices, and not the names that match its patterns", async () => {
  const prices = priceTable({ "gpt-5": PRICE, "gpt-*": PRICE, "*": PRICE });
  const bench = await called(["gpt-5", "gpt-invented", "invented", "gpt-*"], prices);
  expect(await labelsOf(bench)).toEqual(["gpt-5", "_OTHER"]);
  expect(new Set(bench.spans().map(({ name }) => name))).toEqual(new Set(["POST /v1/messages"]));
});

it("are the names of a route, and not those that match its patterns", async () => {
  const backend = route({ routes: { fast: speaking(WORD), "slow-*": speaking(WORD) } });
  const bench = await called(["fast", "slow-invented"], { backend });
  expect(await labelsOf(bench)).toEqual(["fast", "_OTHER"]);
});

it("are the rows for one upstream, once that upstream is asked", async () => {
  const prices = priceTable({ "near/large": PRICE, "near/small": PRICE, "*": PRICE });
  const backend = route({ routes: { "l*": upstream("near"), "*": upstream("far") } });
  const bench = await called(["large", "small"], { backend, ...prices });
  expect(await labelsOf(bench, "gen_ai.client.inference.duration")).toEqual(["large", "_OTHER"]);
  expect(await labelsOf(bench)).toEqual(["large", "_OTHER"]);
});

it("may be the model that answers, when the host names it too", async () => {
  const prices = priceTable({ alias: PRICE, "large-2026": PRICE });
  const known = await called(["alias"], { backend: answering("large-2026"), ...prices });
  const unknown = await called(["alias"], { backend: answering("large-2027"), ...prices });
  const label = "gen_ai.response.model";
  expect(await labelsOf(known, undefined, label)).toEqual(["large-2026"]);
  expect(await labelsOf(unknown, undefined, label)).toEqual([undefined]);
});

it("are the first 200 of a long list that are called, and always those of the option", async () => {
  const names = Array.from({ length: 300 }, (_, number) => `model-${number}`);
  const file = Object.fromEntries(
    names.map((name) => [name, { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 }]),
  );
  const { rows } = priceCatalogue(file, { date: "2026-11-28" });
  const bench = await called([...names.toReversed(), "model-0"], priceTable(rows), ["model-7"]);
  const labels = await labelsOf(bench);
  expect(labels).toHaveLength(202);
  expect(labels.slice(0, 200)).toEqual(names.toReversed().slice(0, 200));
  expect(labels.slice(200)).toEqual(["_OTHER", "model-7"]);
});

it("are those of each gateway with the observer, until it closes", async () => {
  const bench = watched({ key: RICH, ...priceTable({ one: PRICE, two: PRICE, "*": PRICE }) });
  await (await bench.send({ body: { model: "one" } })).text();
  await bench.gateway.close();
  const other = watched({ key: RICH, observer: bench.observer });
  for (const model of ["one", "two"]) await (await other.send({ body: { model } })).text();
  await other.clock.advance(0);
  expect(await labelsOf(bench)).toEqual(["one", "_OTHER"]);
});
