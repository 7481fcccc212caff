/** Metrics and spans of the requests of calls to upstreams. */

import { SpanKind } from "@opentelemetry/api";
import { expect, it } from "vitest";
import { GatewayError, type ModelBackend } from "../../src/index.ts";
import { aiSdk } from "../../src/upstreams/ai-sdk/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { speaking, WORD } from "../pipeline/bench.ts";
import { fakeModel } from "../upstreams/ai-sdk/fake-models.ts";
import { watched } from "./stage.ts";

const refusing: ModelBackend = {
  // oxlint-disable-next-line require-yield -- fails first
  async *chat() {
    throw new GatewayError("backend_refused", "No.", { port: "model-backend", cause: new Error("sk-secret") });
  },
};

const failing: ModelBackend = {
  // oxlint-disable-next-line require-yield -- fails first
  async *chat() {
    throw new GatewayError("backend_failed", "Down.");
  },
};

it("are counted by upstream, with the error and why the call moved on", async () => {
  const backend = route({
    routes: {
      any: {
        upstreams: [
          { backend: refusing, name: "refusing" },
          { backend: failing, name: "failing", weight: 0 },
          { backend: speaking(WORD), name: "second", weight: 0 },
        ],
      },
    },
    breaker: { failures: 1 },
  });
  const { send, metrics, spans } = watched({ backend });
  await (await send()).text();
  await (await send()).text();
  const all = await metrics();
  expect(all["polygate.upstream.attempts"]).toEqual([
    {
      attributes: { "polygate.upstream": "refusing", "error.type": "backend_refused", "polygate.moved_on": "refused" },
      value: 2,
    },
    {
      attributes: { "polygate.upstream": "failing", "error.type": "backend_failed", "polygate.moved_on": "failed" },
      value: 1,
    },
    { attributes: { "polygate.upstream": "second" }, value: 2 },
    {
      attributes: {
        "polygate.upstream": "failing",
        "error.type": "backend_unavailable",
        "polygate.moved_on": "resting",
      },
      value: 1,
    },
  ]);
  // The route was made without the observer: the gateway tells the state of its backend's breakers.
  const open = all["polygate.breaker.state"]?.filter(({ value }) => value === 1);
  expect(
    open?.map(({ attributes }) => [attributes["polygate.breaker.upstream"], attributes["polygate.breaker.state"]]),
  ).toEqual([
    ["refusing", "closed"],
    ["failing", "open"],
    ["second", "closed"],
  ]);
  const asked = spans().filter(({ kind }) => kind === SpanKind.CLIENT);
  expect(
    asked.map(({ name, attributes }) => [name, attributes["polygate.upstream"], attributes["error.type"]]),
  ).toEqual([
    ["chat any", "refusing", "backend_refused"],
    ["chat any", "failing", "backend_failed"],
    ["chat any", "second", undefined],
    ["chat any", "refusing", "backend_refused"],
    ["chat any", "second", undefined],
  ]);
  expect(JSON.stringify([all, asked.map(({ attributes, events }) => [attributes, events])])).not.toContain("sk-secret");
});

it("have the pattern of their route as a name by default, the same in metrics, spans, records and health", async () => {
  const upstreams = [failing, { backend: speaking(WORD), weight: 0 }];
  const backend = route({ routes: { any: refusing, "other-*": { upstreams } } });
  const recorded: string[] = [];
  const { send, gateway, metrics, spans } = watched({
    backend,
    onCall: ({ attempts }) => recorded.push(...attempts.map(({ upstream }) => upstream)),
  });
  for (const model of ["any", "other-1"]) await (await send({ body: { model } })).text();
  const { "polygate.upstream.attempts": attempts = [], "polygate.breaker.state": breakers = [] } = await metrics();
  const health = await gateway.health();
  const told = {
    attempts: attempts.map(({ attributes }) => attributes["polygate.upstream"]),
    breakers: new Set(breakers.map(({ attributes }) => attributes["polygate.breaker.upstream"])),
    spans: spans().flatMap(({ attributes }) => attributes["polygate.upstream"] ?? []),
    recorded,
    health: health.upstreams.map(({ upstream }) => upstream),
  };
  const names = ["any", "other-* 0", "other-* 1"];
  expect(told).toEqual({ attempts: names, breakers: new Set(names), spans: names, recorded: names, health: names });
});

it("are spans of models of the AI SDK too", async () => {
  const backend = aiSdk({ chat: { any: fakeModel({}) } });
  const { send, spans } = watched({ backend });
  await (await send()).text();
  const [asked] = spans().filter(({ kind }) => kind === SpanKind.CLIENT);
  expect(asked?.attributes).toMatchObject({
    "gen_ai.provider.name": "ai-sdk",
    "polygate.upstream": expect.any(String) as string,
  });
});

it("name the provider of each format that an upstream speaks", async () => {
  const formats = ["messages", "generate-content", "chat-completions", "responses", "images", "embeddings"];
  const { send, spans } = watched({
    backend: {
      async *chat(_request, { observeUpstream }) {
        for (const format of formats)
          observeUpstream?.({ name: "up", model: "m", modelListed: true, stream: false, format }).end({ endMs: 1 });
        yield "Hello.";
      },
    },
  });
  await (await send()).text();
  const asked = spans().filter(({ kind }) => kind === SpanKind.CLIENT);
  const providers = asked.map(({ attributes }) => attributes["gen_ai.provider.name"]);
  expect(providers).toEqual(["anthropic", "gcp.gen_ai", "openai", "openai", "openai", "openai"]);
});
