/** An upstream of a route that does not have the model which the route names: the mistake is the host's, not the caller's. */

import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  createGateway,
  GatewayError,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../../src/index.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import { priceTable } from "../../../src/prices/index.ts";
import { failure, scriptedBackend } from "../../../src/testing/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { hedge, type Route, route } from "../../../src/upstreams/route/index.ts";
import { ask } from "./stage.ts";

const OWN = "secret-internal-7b";
const CALLED = "gpt-5-mini";

/** A relay whose upstream answers every request with a 404 of OpenAI about its own name of the model. */
const relayed = (format: "chat-completions" | "images"): ModelBackend =>
  relay({
    format,
    baseUrl: "https://second.example/v1",
    fetch: () =>
      Promise.resolve(
        Response.json(
          { error: { message: `The model "${OWN}" does not exist`, type: "x", param: null, code: "model_not_found" } },
          { status: 404 },
        ),
      ),
  });

/** A relay to another gateway, which lists its models. */
const nested = (format: "messages" | "generate-content" | "chat-completions" | "responses"): ModelBackend => {
  const quotas = memoryQuotaStore();
  quotas.add({ id: "outer", apiKey: "sk-outer", granted: 10_000_000 });
  const backend = scriptedBackend("Hello.", { models: ["demo-chat"] });
  const { fetch } = createGateway({ backend, quotas });
  return relay({
    format,
    baseUrl: `https://second.example/${format === "generate-content" ? "v1beta" : "v1"}`,
    apiKey: "sk-outer",
    fetch: (address, init) => fetch(new Request(address, init)),
  });
};

const lacking = (code: "model_not_found" | "model_not_allowed" = "model_not_found"): ModelBackend =>
  scriptedBackend(failure(code, `There is no model "${OWN}".`));

const resting = (): ModelBackend =>
  scriptedBackend(failure(new GatewayError("backend_overloaded", "Busy.", { retryAfterMs: 60_000 })));

const BODIES = {
  "/v1/chat/completions": { model: CALLED, messages: [{ role: "user", content: "Hello" }] },
  "/v1/embeddings": { model: CALLED, input: "Hello" },
  "/v1/images/generations": { model: "image-model-2", prompt: "A cat" },
};

type Failure = Parameters<NonNullable<GatewayOptions["onFailure"]>>[0];

interface Told {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly shouldRetry: string | null;
  readonly text: string;
  readonly record: CallRecord | undefined;
  readonly failures: readonly Failure[];
}

/** Sends a number of calls through a gateway, and returns what the last caller was told. */
async function told(
  target: Route,
  path: keyof typeof BODIES,
  calls = 1,
  pattern: string = BODIES[path].model,
): Promise<Told> {
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const quotas = memoryQuotaStore();
  quotas.add({ id: "anna", apiKey: "sk-anna", granted: 10_000_000 });
  const backend = route({ routes: { [pattern]: target }, random: () => 0, retry: { rounds: 0 } });
  const gateway = createGateway({
    backend,
    quotas,
    onCall: (record) => void records.push(record),
    onFailure: (found) => void failures.push(found),
  });
  let answer = new Response();
  for (let call = 0; call < calls; call++)
    answer = await gateway.fetch(
      new Request(`http://host${path}`, {
        method: "POST",
        headers: { authorization: "Bearer sk-anna", "content-type": "application/json" },
        body: JSON.stringify(BODIES[path]),
      }),
    );
  const text = await answer.text();
  await gateway.close();
  return {
    status: answer.status,
    retryAfter: answer.headers.get("retry-after"),
    shouldRetry: answer.headers.get("x-should-retry"),
    text,
    record: records.at(-1),
    failures,
  };
}

const SECONDS: readonly (readonly [kind: string, path: keyof typeof BODIES, second: () => ModelBackend])[] = [
  ["a relay of chats", "/v1/chat/completions", () => relayed("chat-completions")],
  ["a relay of embeddings", "/v1/embeddings", () => relayed("chat-completions")],
  ["a relay of images", "/v1/images/generations", () => relayed("images")],
  ["a gateway of messages", "/v1/chat/completions", () => nested("messages")],
  ["a gateway of generate-content", "/v1/chat/completions", () => nested("generate-content")],
  ["a gateway of chat completions", "/v1/chat/completions", () => nested("chat-completions")],
  ["a gateway of responses", "/v1/chat/completions", () => nested("responses")],
  ["a backend of chats", "/v1/chat/completions", () => lacking()],
  ["a backend of embeddings", "/v1/embeddings", () => lacking()],
  ["a backend of images", "/v1/images/generations", () => lacking()],
  ["a backend that forbids the model", "/v1/chat/completions", () => lacking("model_not_allowed")],
];

describe.each(SECONDS)("%s that lacks the model which only the route names", (_, path, second) => {
  it("is a failure of the service for the caller, and the host hears of the upstream and its model", async () => {
    const upstreams = [{ backend: second(), name: "second", model: OWN }];
    const { status, text, record, failures } = await told({ upstreams }, path);
    expect(status).toBe(500);
    expect(JSON.parse(text)).toMatchObject({ error: { code: "backend_failed" } });
    expect(text).not.toContain("secret");
    expect(record).toMatchObject({
      errorCode: "backend_refused",
      attempts: [{ upstream: "second", model: OWN, errorCode: expect.stringMatching(/^model_not_/) }],
    });
    // The host hears of it once.
    expect(failures).toHaveLength(1);
    expect(failures[0]?.upstream).toMatchObject({ name: "second", model: OWN });
    expect(failures[0]?.text).toMatch(
      new RegExp(`caused by (?:GatewayError|Error: The upstream answered 40\\d, .*): .*"${OWN}\\\\*"`),
    );
  });

  it("leaves the caller a temporary error while another upstream rests", async () => {
    const upstreams = [
      { backend: resting(), name: "first" },
      { backend: second(), name: "second", weight: 0, model: OWN },
    ];
    const { status, retryAfter, text, record } = await told({ upstreams }, path, 2);
    expect({ status, retryAfter }).toEqual({ status: 503, retryAfter: "60" });
    expect(text).not.toContain("secret");
    expect(record?.attempts).toMatchObject([
      { upstream: "first", movedOn: "resting" },
      { upstream: "second", model: OWN, errorCode: expect.stringMatching(/^model_not_/) },
    ]);
  });

  it("is passed over", async () => {
    const upstreams = [
      { backend: second(), name: "second", model: OWN },
      { backend: scriptedBackend(failure("invalid_request", "The next.")), weight: 0 },
    ];
    expect(await told({ upstreams }, path)).toMatchObject({ status: 400, text: expect.stringContaining("The next.") });
  });
});

describe("an upstream that refuses this service", () => {
  const path = "/v1/chat/completions";
  const refusing = { backend: scriptedBackend(failure("backend_refused", "No.")), name: "refusing" };
  const failing = { backend: scriptedBackend(failure("backend_overloaded", "Busy.")), name: "failing" };
  const rested = { backend: resting(), name: "rested" };

  it("lets no client retry, where it is the only one", async () => {
    expect(await told({ upstreams: [refusing] }, path)).toMatchObject({ status: 500, shouldRetry: "false" });
  });

  it.each([
    ["in front of one", [refusing, { ...failing, weight: 0 }]],
    ["behind one", [failing, { ...refusing, weight: 0 }]],
  ])("leaves the caller a temporary error %s that may answer soon", async (_where, upstreams) => {
    expect(await told({ upstreams }, path)).toMatchObject({ status: 503, shouldRetry: null });
  });

  it("leaves the caller a temporary error while another upstream rests", async () => {
    const upstreams = [rested, { ...refusing, weight: 0 }];
    expect(await told({ upstreams }, path, 2)).toMatchObject({ status: 503, retryAfter: "60", shouldRetry: null });
  });
});

it("is a failure of the service also where two upstreams may be asked at once", async () => {
  const clock = manualClock();
  const second = { backend: lacking(), model: OWN };
  const target = { upstreams: [second, second], hedge: hedge({ afterMs: 5 }) };
  const { error } = await ask(route({ routes: { [CALLED]: target }, clock }), clock, { model: CALLED, stream: true });
  expect(error).toMatchObject({ code: "backend_refused", message: "The model backend refused this service." });
});

describe("an upstream that gets the caller's own name", () => {
  it.each([
    [CALLED, "failed"],
    ["*", "refused"],
    ["gpt-*", "refused"],
  ])("and lacks the model says so to the caller, on the route %s, and the call has %s", async (pattern, outcome) => {
    const backend = scriptedBackend(failure("model_not_found", `There is no model "${CALLED}".`));
    const { status, text, record } = await told({ upstreams: [{ backend }] }, "/v1/chat/completions", 1, pattern);
    expect(status).toBe(404);
    expect(text).toContain(CALLED);
    expect(record).toMatchObject({ outcome, errorCode: "model_not_found" });
  });

  it.each<[named: string, outcome: string, options: Partial<GatewayOptions>]>([
    ["by its exact name", "failed", priceTable({ [CALLED]: { input: 1, output: 1 } })],
    ["by a pattern", "refused", priceTable({ "gpt-*": { input: 1, output: 1 } })],
  ])("and lacks a model that the host prices %s: the call has %s", async (_named, outcome, options) => {
    const records: CallRecord[] = [];
    const gateway = createGateway({
      backend: relay({
        format: "chat-completions",
        baseUrl: "https://second.example/v1",
        fetch: async () => Response.json({ error: { message: "No.", code: "model_not_found" } }, { status: 404 }),
      }),
      quotas: memoryQuotaStore([{ apiKey: "sk-anna" }]),
      ...options,
      onCall: (record) => void records.push(record),
      onFailure: () => {},
    });
    const headers = { authorization: "Bearer sk-anna", "content-type": "application/json" };
    const body = JSON.stringify(BODIES["/v1/chat/completions"]);
    const address = "http://host/v1/chat/completions";
    const { status } = await gateway.fetch(new Request(address, { method: "POST", headers, body }));
    await gateway.close();
    expect(status).toBe(404);
    expect(records).toMatchObject([{ outcome, errorCode: "model_not_found" }]);
  });

  it("leaves a temporary error to the caller of a listed model while another upstream rests", async () => {
    const backend = scriptedBackend(failure("model_not_found", `There is no model "${CALLED}".`));
    const upstreams = [{ backend: resting() }, { backend, weight: 0 }];
    expect(await told({ upstreams }, "/v1/chat/completions", 2)).toMatchObject({ status: 503, retryAfter: "60" });
    // The name of a pattern's caller may be wrong.
    expect(await told({ upstreams }, "/v1/chat/completions", 2, "*")).toMatchObject({ status: 404 });
  });
});

describe("any other error of an upstream with its own name of the model", () => {
  const refusal = new GatewayError("invalid_request", `The model "${OWN}" takes no tools.`, {
    reason: { code: `no_tools_${OWN}` },
  });
  const spoken = async function* (this: void): AsyncGenerator<string> {
    yield "Hello";
    throw refusal;
  };

  it("names the model as the caller does", async () => {
    const backend = scriptedBackend(failure("invalid_request", `The model "${OWN}" takes no tools.`));
    const { status, text } = await told({ upstreams: [{ backend, model: OWN }] }, "/v1/chat/completions");
    expect(status).toBe(400);
    expect(text).toContain(String.raw`The model \"${CALLED}\" takes no tools.`);
  });

  it.each(["fail", "continue"] as const)("names it so after the first words, with onBreak %s", async (onBreak) => {
    const target: Route = { upstreams: [{ backend: { chat: spoken }, model: OWN }], onBreak };
    const { text, record } = await told(target, "/v1/chat/completions");
    expect(text).toContain(String.raw`The model \"${CALLED}\" takes no tools.`);
    expect(text).not.toContain("secret");
    expect(record).toMatchObject({ errorCode: "invalid_request", attempts: [{ model: OWN }] });
  });

  it("names it so where the upstream counts the input", async () => {
    const backend: ModelBackend = { chat: spoken, countInputTokens: () => Promise.reject(refusal) };
    const counting = route({ routes: { [CALLED]: { upstreams: [{ backend, model: OWN }] } } });
    const count = counting.countInputTokens?.({ model: CALLED } as never, { signal: AbortSignal.any([]) } as never);
    await expect(count).rejects.toMatchObject({ message: `The model "${CALLED}" takes no tools.`, reason: undefined });
  });
});

it("changes no word of the gateway where the upstream calls its model by such a word", async () => {
  const clock = manualClock();
  const backend = scriptedBackend(failure(new Error("It has failed.")));
  const target = { upstreams: [{ backend, model: "model" }] };
  const { error } = await ask(route({ routes: { [CALLED]: target }, clock }), clock, { model: CALLED, stream: true });
  expect(error).toMatchObject({ code: "backend_failed", message: "The model backend failed." });
});
