/** The check of an upstream: what it asks, and the sentence for each problem. */

import { describe, expect, it } from "vitest";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay, type RelayBackend, type RelayFormat, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { route, type RouteOptions } from "../../../src/upstreams/route/index.ts";
import { NOBODY, type RawAnswer, rawUpstream, whole } from "./raw-upstream.ts";
import { API_KEY } from "./stage.ts";

const json = (status: number, body: object): Buffer => whole(status, "application/json", JSON.stringify(body));

const says =
  (status: number, body: object): RawAnswer =>
  (socket) =>
    socket.end(json(status, body));

const MODELS = { object: "list", data: [{ id: "large-1" }, { id: "small-1" }] };

const CHAT = {
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "large-1",
  choices: [{ index: 0, message: { role: "assistant", content: "H" }, finish_reason: "length" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

const checked = async (answer: RawAnswer, more: Partial<RelayOptions> = {}) => {
  await using upstream = await rawUpstream(answer);
  const backend = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: API_KEY, ...more });
  const result = await backend.check();
  await backend.close();
  return { ...result, requests: upstream.requests };
};

/** Has no list of models, and answers everything else so. */
const withoutList =
  (answer: RawAnswer): RawAnswer =>
  (socket, request) =>
    request.head.startsWith("GET")
      ? socket.end(json(404, { error: { message: "Not found" } }))
      : answer(socket, request);

describe("an upstream that lists its models", () => {
  it.each<[RelayFormat, string, RegExp, object]>([
    ["chat-completions", "/v1/models", /^authorization: Bearer sk-upstream/im, MODELS],
    ["images", "/v1/models", /^authorization: Bearer sk-upstream/im, MODELS],
    ["messages", "/v1/models?limit=1000", /^anthropic-version: /im, { ...MODELS, has_more: false }],
    [
      "generate-content",
      "/v1/models?pageSize=1000",
      /^x-goog-api-key: sk-upstream/im,
      { models: [{ name: "models/large-1" }, { name: "models/small-1" }] },
    ],
  ])("is asked for them in the way of %s", async (format, path, header, body) => {
    const { ok, problem, models, requests } = await checked(says(200, body), { format, models: ["large-1"] });
    expect({ ok, problem, models }).toEqual({ ok: true, problem: undefined, models: ["large-1", "small-1"] });
    expect(requests).toHaveLength(1);
    expect(requests[0]?.head).toContain(`GET ${path} HTTP/1.1`);
    expect(requests[0]?.head).toMatch(header);
  });

  it("has to have the relay's models, under its own names", async () => {
    const { ok, problem } = await checked(says(200, MODELS), { models: { fast: "small-1", best: "large-2" } });
    expect({ ok, problem }).toEqual({
      ok: false,
      problem: 'The upstream does not list "large-2". Did you mean "large-1"? It lists large-1, small-1.',
    });
  });

  it.each<[string, (backend: RelayBackend) => RouteOptions["routes"]]>([
    ["by the name of the upstream", (backend) => ({ fast: { upstreams: [{ backend, model: "smal-1" }] } })],
    ["by its own name", (backend) => ({ "smal-1": backend })],
  ])("has to have the model of a route, %s", async (_how, routesOf) => {
    await using upstream = await rawUpstream(says(200, MODELS));
    const backend = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: API_KEY, name: "up" });
    const routes = routesOf(backend);
    const problem = 'The upstream does not list "smal-1". Did you mean "small-1"? It lists large-1, small-1.';
    await using stack = new AsyncDisposableStack();
    stack.defer(() => backend.close());
    expect(await route({ routes }).check()).toEqual([{ upstream: "up", problem }]);
    expect(await route({ routes: { "smal-*": backend, "small-1": backend } }).check()).toEqual([
      { upstream: "up", problem: undefined },
    ]);
    expect(await backend.check({ models: ["smal-1"] })).toMatchObject({ ok: false, problem });
  });

  it("lists no name that holds the relay's secret or control characters", async () => {
    const data = ["a", `b ${API_KEY}`, API_KEY.slice(3), "c\u001b[2J", "d\te"].map((id) => ({ id }));
    const { ok, problem, models } = await checked(says(200, { data }), { models: ["large-1"] });
    expect([ok, models]).toEqual([false, ["a"]]);
    expect(problem).toBe('The upstream does not list "large-1". It lists a.');
  });

  it("may have more than it lists at once", async () => {
    const { ok } = await checked(says(200, { ...MODELS, has_more: true }), { models: ["large-2"] });
    expect(ok).toBe(true);
  });
});

describe("an upstream without a list", () => {
  it("is asked for one token", async () => {
    const { ok, problem, requests } = await checked(withoutList(says(200, CHAT)), { models: { fast: "large-1" } });
    expect({ ok, problem }).toEqual({ ok: true, problem: undefined });
    expect(JSON.parse(requests[1]?.body ?? "")).toMatchObject({ model: "large-1", max_completion_tokens: 1 });
  });

  it("that does not answer either is told with both", async () => {
    const { ok, problem } = await checked(withoutList(says(404, { error: { message: "no such model" } })), {
      models: ["large-1"],
    });
    expect(ok).toBe(false);
    expect(problem).toContain(
      "The upstream answers 404 to GET /v1/models, so it lists no models, and it does not answer",
    );
    expect(problem).toContain("does not have the model large-1. Correct this name");
    expect(problem).toContain("no such model");
  });

  it("cannot be checked without the name of a model", async () => {
    const { ok, problem, requests } = await checked(withoutList(says(200, CHAT)));
    expect(ok).toBe(false);
    expect(problem).toContain("nothing else could be checked. Check the relay's baseUrl and format.");
    expect(requests).toHaveLength(1);
  });
});

describe("the problem of", () => {
  const refused = says(401, { error: { message: `Incorrect API key: ${API_KEY}` } });

  it.each<[string, RawAnswer, Partial<RelayOptions>, string]>([
    [
      "a refused key",
      refused,
      {},
      "The upstream refuses the relay's credential. Check its apiKey and headers. The upstream answered 401",
    ],
    [
      "a missing key",
      refused,
      { apiKey: undefined },
      "The upstream wants a credential. The relay's apiKey is undefined: is its environment variable set?",
    ],
    [
      "a key that only the chat refuses",
      withoutList(refused),
      { models: ["a"] },
      "The upstream refuses the relay's credential.",
    ],
    ["a failing upstream", says(500, { error: {} }), {}, "The upstream answered 500"],
    [
      "a page",
      (socket) => socket.end(whole(200, "text/html", "<html>")),
      {},
      "This is no list of models. Check the relay's baseUrl.",
    ],
    [
      "an answer that is none",
      (socket) => socket.end(whole(200, "application/json", "[")),
      {},
      "does not answer as it should",
    ],
    ["a lost connection", (socket) => socket.destroy(), {}, "cannot be reached"],
  ])("%s is said", async (_name, answer, more, words) => {
    const { ok, problem } = await checked(answer, more);
    expect(ok).toBe(false);
    expect(problem).toContain(words);
    if (more.apiKey === undefined && "apiKey" in more) return;
    expect(problem).not.toContain(API_KEY);
  });

  it("an address where nobody listens is said", async () => {
    const backend = relay({ format: "messages", baseUrl: `http://${NOBODY}` });
    expect(await backend.check()).toEqual({
      ok: false,
      problem: `The upstream at http://${NOBODY} takes no connections. Check that it runs, and the baseUrl of the relay.`,
      models: undefined,
    });
  });

  it.each([0, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("a time of %d is a RangeError", async (timeoutMs) => {
    const backend = relay({ format: "messages", baseUrl: "http://127.0.0.1:9" });
    await expect(backend.check({ timeoutMs })).rejects.toThrow(
      /^check: timeoutMs must be an integer from 1 to 2147483647, not /,
    );
  });

  it("an upstream that hangs is said after the given time", async () => {
    const clock = manualClock();
    const asked = Promise.withResolvers<void>();
    await using upstream = await rawUpstream(() => asked.resolve());
    const backend = relay({ format: "messages", baseUrl: upstream.url, clock });
    const checking = backend.check({ timeoutMs: 3_000 });
    await asked.promise;
    await clock.advance(3_000);
    expect(await checking).toMatchObject({ ok: false, problem: "The upstream did not answer within 3000 ms." });
    expect(clock.pending).toBe(0);
  });
});
