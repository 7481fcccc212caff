/** A relay keeps its secrets, and no caller can send it to another address. */

import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describeError, GatewayError, mistakeOf } from "../../../src/errors.ts";
import { pathBelow } from "../../../src/upstreams/relay/address.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { sse } from "./plain-codec.ts";
import { type RawAnswer, rawUpstream, STREAM_HEAD, whole } from "./raw-upstream.ts";
import { API_KEY, ask, callContext, chatRequest, plainRelay } from "./stage.ts";

const ANSWER = STREAM_HEAD + sse({ model: "upstream-9", text: "Hello" }, { end: true });

describe("the key of an upstream", () => {
  it("is not in what a host can print of its relay", () => {
    const relay = plainRelay("https://example.com/v1", { headers: { "x-team": "blue" } });
    const printed = inspect(relay, { depth: Infinity, showHidden: true }) + JSON.stringify(relay);
    expect(printed).not.toContain("0123456789abcdef");
  });

  it("is not in an address, nor in the error of an upstream that tells it back", async () => {
    await using upstream = await rawUpstream((socket, { head }) =>
      socket.end(whole(500, "application/json", JSON.stringify({ error: head }))),
    );
    const { error } = await ask(plainRelay(upstream.url));
    expect(upstream.requests[0]?.head.split("\r\n")[0]).not.toContain("0123456789abcdef");
    expect(upstream.requests[0]?.head).toContain(API_KEY);
    expect(describeError(error)).toContain("[redacted]");
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
  });

  it("is not in the error of a page that tells it back", async () => {
    await using upstream = await rawUpstream((socket) =>
      socket.end(whole(200, `text/html; key=${API_KEY}`, `<p>${API_KEY}</p>`)),
    );
    const { error } = await ask(plainRelay(upstream.url));
    expect(describeError(error)).toContain("<p>[redacted]</p>");
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
  });
});

describe("the gateway's own words about an upstream", () => {
  it.each(["sk-upstream", "upstream", "sk-answered", "credential", "SettingMistake", "sk-model"])(
    "stay where a key looks like them: %s",
    async (apiKey) => {
      await using refusing = await rawUpstream(
        answers(() => whole(401, "application/json", JSON.stringify({ error: `The key is ${apiKey}.` }))),
      );
      const refused = describeError((await ask(plainRelay(refusing.url, { apiKey }))).error);
      expect(refused).toContain("SettingMistake: The upstream refuses the relay's credential. Check its apiKey");
      expect(refused).toContain("Error: The upstream answered 401, application/json: ");
      expect(refused).toContain("The key is [redacted].");
      await using page = await rawUpstream(answers(() => whole(200, "text/html", "<p>")));
      const { error } = await ask(plainRelay(page.url, { apiKey }));
      const at = page.url.replace("/v1", "");
      expect(mistakeOf(error as GatewayError)).toContain(
        `The upstream at ${at} answers with no JSON and no event stream`,
      );
    },
  );

  it("reach the caller where the key is one of them", async () => {
    await using upstream = await rawUpstream(answers(() => whole(529, "application/json", "{}")));
    const busy = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: "sk-overloaded" });
    expect((await ask(busy)).error).toMatchObject({ message: "The model backend is overloaded." });
  });

  it("tell no key, wherever the upstream or its address repeats it", async () => {
    const key = fc
      .tuple(fc.constantFrom("", "sk-"), fc.stringMatching(/^[\w+/=.~"\\-]{16,40}$/), fc.constantFrom("", "7"))
      .map((parts) => parts.join(""));
    const body = fc.constantFrom<(key: string) => object>(
      (told) => ({ error: { message: `The upstream refuses ${told}`, type: told, code: told } }),
      (told) => ({ error: told, [told]: told }),
      (told) => ({ message: `api key ${told}` }),
    );
    const statuses = fc.constantFrom(200, 302, 400, 401, 403, 404, 429, 500, 503);
    await fc.assert(
      fc.asyncProperty(
        key,
        body,
        statuses,
        fc.constantFrom("application/json", "text/html"),
        async (told, at, status, type) => {
          const text = JSON.stringify(at(told));
          await using upstream = await rawUpstream(
            answers(() => whole(status, `${type}; key=${encodeURIComponent(told)}`, text)),
          );
          const url = `${upstream.url.replace("/v1", "")}/${encodeURIComponent(told)}/v1`;
          const { error } = await ask(plainRelay(url, { apiKey: told }), { stream: false });
          const printed = describeError(error) + inspect(error, { depth: Infinity });
          for (const spelling of [told, encodeURIComponent(told), JSON.stringify(told).slice(1, -1)])
            expect(printed).not.toContain(spelling.replace(/^sk-/, ""));
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe("the host's own headers", () => {
  it("are in no error of an upstream that tells them back, where they hold secrets", async () => {
    await using upstream = await rawUpstream((socket, { head }) =>
      socket.end(whole(500, "application/json", JSON.stringify({ error: head }))),
    );
    const headers = {
      "cf-access-client-secret": "c0ffee-c0ffee",
      "proxy-authorization": "Basic b3duZXI6aGlkZGVu",
      "x-team": "blue",
    };
    const shown = describeError((await ask(plainRelay(upstream.url, { headers }))).error);
    expect(shown).toContain("proxy-authorization: Basic [redacted]");
    expect(shown).toContain("x-team: blue");
    expect(shown).not.toMatch(/c0ffee|b3duZXI6/);
  });
});

describe("where the upstream's words are cut short", () => {
  const LONG = "x".repeat(1_005);

  it.each<[string, () => Buffer | string]>([
    ["a page", () => whole(200, "text/html", LONG + API_KEY)],
    ["an error's body", () => whole(500, "application/json", JSON.stringify({ error: LONG + API_KEY }))],
    ["an error in mid-stream", () => STREAM_HEAD + chunk({ error: { code: 500, message: LONG + API_KEY } })],
  ])("no piece of the key is left: %s", async (_name, answer) => {
    const { error } = await told(answer());
    expect(describeError(error)).toContain("xxxx");
    expect(describeError(error) + (error as Error).message).not.toContain("sk-up");
  });
});

describe("a host that shows the upstream's words", () => {
  it.each<[string, RawAnswer, string]>([
    ["of a connection that closes", (socket) => socket.destroy(), "The model backend cannot be reached."],
    ["of JSON that is none", (socket) => socket.end(STREAM_HEAD + chunk("{<")), "The model backend's answer"],
    [
      "of its own key in mid-stream",
      (socket) => socket.end(STREAM_HEAD + chunk({ error: { type: "authentication_error", message: "Account 7" } })),
      "The model backend refused this service.",
    ],
    [
      "of a refused prompt with a status about its key",
      (socket) => socket.end(whole(403, "application/json", '{"error":"Content violates usage guidelines. Team: 7"}')),
      "The model backend refuses this content by its policy.",
    ],
  ])("shows none %s", async (_name, answer, message) => {
    expect(((await told(answer)).error as Error).message).toContain(message);
  });

  it("shows those of an error in mid-stream as they are", async () => {
    const text = STREAM_HEAD + chunk({ error: { type: "rate_limit_error", message: "Come back later." } });
    expect((await told(text)).error).toMatchObject({ code: "rate_limited", message: "Come back later." });
  });
});

const chunk = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** Returns the error that a caller reads when the host shows the words of a chat-completions upstream. */
async function told(answer: RawAnswer | Buffer | string): Promise<{ error: unknown }> {
  await using upstream = await rawUpstream(typeof answer === "function" ? answer : (socket) => socket.end(answer));
  const backend = relay({
    format: "chat-completions",
    baseUrl: upstream.url,
    apiKey: API_KEY,
    showUpstreamMessages: true,
  });
  let error: unknown;
  try {
    for await (const event of backend.chat?.(chatRequest(), callContext()) ?? []) expect(event).toBeDefined();
  } catch (thrown) {
    error = thrown;
  }
  await backend.close();
  return { error };
}

describe("an upstream's options", () => {
  it.each<[string, Partial<RelayOptions> & { baseUrl?: string }]>([
    ["no URL", { baseUrl: "example.com" }],
    ["another protocol", { baseUrl: "file:///etc" }],
    ["credentials in the URL", { baseUrl: "https://user:secret-word@example.com" }],
    ["a query", { baseUrl: "https://example.com/v1?key=secret-word" }],
    ["an empty query", { baseUrl: "https://example.com/v1?" }],
    ["a fragment", { baseUrl: "https://example.com/#secret-word" }],
    ["a key that would split the headers", { apiKey: "secret-word\r\nx-evil: 1" }],
    ["an empty key", { apiKey: "" }],
    ["a header that would split", { headers: { "x-a": "secret-word\r\nx-evil: 1" } }],
    ["a header's name that is none", { headers: { "secret-word:": "1" } }],
    ["a header that is the relay's own", { headers: { "Content-Length": "5" } }],
    ["a model without a name", { models: { "": "secret-word" } }],
    ["a model without an upstream's name", { models: { mine: "" } }],
  ])("are refused at once: %s", (_name, { baseUrl = "https://example.com", ...options }) => {
    const open = () => plainRelay(baseUrl, options);
    expect(open).toThrow(TypeError);
    expect(open).toThrow(/^(?!.*secret-word)relay: /);
  });
});

describe("a model's name", () => {
  const base = { origin: "https://example.com", path: "/v1" };

  function pathOrRefusal(path: string): string | undefined {
    try {
      return pathBelow(base, path);
    } catch (error) {
      if (error instanceof GatewayError && error.code === "model_not_found") return undefined;
      throw error;
    }
  }

  it.each([
    "/..",
    "/../admin",
    "/.",
    "/a/../b",
    "//evil.com/x",
    "/%2e%2e/x",
    "/a%2E%2e/../b",
    "/a#b",
    "/a b",
    "/a\r\nx: y",
    "/ä",
    "a",
    "",
    "/a\\..\\b",
  ])("that would lead elsewhere is no model: %j", (path) => {
    expect(() => pathBelow(base, path)).toThrow(GatewayError);
  });

  it.each(["../../admin", "//evil.com", "..", "a?key=1#x", "a\r\nhost: evil.com", "%2e%2e/%2e%2e"])(
    "reaches no other path of the upstream: %j",
    async (model) => {
      await using upstream = await rawUpstream((socket) => socket.end(ANSWER));
      await ask(plainRelay(upstream.url), { model });
      const lines = upstream.requests.map(({ head }) => head.split("\r\n"));
      for (const [first = "", ...headers] of lines) {
        expect(first).toMatch(/^POST \/v1\/say\/[^/ ]* HTTP\/1\.1$/);
        expect(headers.filter((line) => /^host:/i.test(line))).toEqual([`host: ${new URL(upstream.url).host}`]);
      }
    },
  );

  it("leads to the path as it is written, or nowhere", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (model) => {
        const path = pathOrRefusal(`/models/${model}:generate`);
        if (path === undefined) return;
        const url = new URL(base.origin + path);
        expect(url.origin).toBe(base.origin);
        expect(url.pathname + url.search).toBe(`/v1/models/${model}:generate`);
      }),
    );
  });
});

describe("the host's policies", () => {
  const native = { format: "plain", body: {}, version: "2026-10-21", betas: ["one", "two"] };
  const sent = async (options: Partial<RelayOptions>): Promise<unknown> => {
    await using upstream = await rawUpstream((socket) => socket.end(ANSWER));
    await ask(plainRelay(upstream.url, options), { native });
    return JSON.parse(upstream.requests[0]?.body ?? "");
  };

  it("decide which betas and versions pass", async () => {
    expect(await sent({})).toMatchObject({ betas: ["one", "two"], version: "2026-10-21" });
    expect(await sent({ betas: "none", versions: "none" })).toMatchObject({ betas: [], version: null });
    expect(await sent({ betas: ["two"], versions: ["2023-06-01"] })).toMatchObject({ betas: ["two"], version: null });
  });

  it("give models other names, in both directions", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(ANSWER));
    const relay = plainRelay(upstream.url, { models: { fast: "upstream-9" } });
    expect(relay.models?.()).toEqual([{ id: "fast" }]);
    const { events } = await ask(relay, { model: "fast" });
    expect(JSON.parse(upstream.requests[0]?.body ?? "")).toMatchObject({ model: "upstream-9" });
    expect(events[0]).toEqual({ type: "start", model: "fast", upstreamModel: "upstream-9" });
    const shown = await ask(plainRelay(upstream.url, { models: { fast: "upstream-9" }, showUpstreamModel: true }), {
      model: "fast",
    });
    expect(shown.events[0]).toEqual({ type: "start", model: "upstream-9" });
    expect((await ask(relay, { model: "upstream-9" })).error).toMatchObject({ code: "model_not_found" });
    expect((await ask(relay, { model: "__proto__" })).error).toMatchObject({ code: "model_not_found" });
  });

  it("send the host's own headers, which win over the format's", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(ANSWER));
    await ask(plainRelay(upstream.url, { headers: { "Plain-Version": "2", "x-team": "blue" } }));
    const head = upstream.requests[0]?.head.toLowerCase() ?? "";
    expect(head.match(/^plain-version: .*$/gm)).toEqual(["plain-version: 2"]);
    expect(head).toContain("x-team: blue");
  });

  it("report what is left out, or refuse it", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(ANSWER));
    const conversions = [
      { field: "topK", conversion: "dropped", why: "There is none." },
      { field: "stopSequences", conversion: "emulated", why: "The gateway stops." },
    ] as const;
    const call = callContext();
    await ask(plainRelay(upstream.url, {}, conversions), {}, call);
    expect(call.reported).toEqual(conversions);
    const strict = await ask(plainRelay(upstream.url, { strict: true }, conversions));
    expect(strict.error).toMatchObject({ code: "failed_precondition", message: expect.stringContaining("topK") });
    const rejected = [{ field: "seed", conversion: "rejected", why: "It must not." }] as const;
    expect((await ask(plainRelay(upstream.url, {}, rejected))).error).toMatchObject({ code: "failed_precondition" });
    const nothing = [
      { field: "messages.none", conversion: "rejected", why: "Nothing is left." },
      { field: "messages.media.audio", conversion: "dropped", why: "There is no sound." },
      { field: "stopSequences", conversion: "emulated", why: "The gateway stops." },
    ] as const;
    const { error } = await ask(plainRelay(upstream.url, {}, nothing));
    // What was dropped is why nothing is left.
    expect(error).toMatchObject({ message: expect.stringContaining("Nothing is left.), messages.media.audio (") });
    expect(String(error)).not.toContain("stopSequences");
    expect(upstream.requests).toHaveLength(1);
  });
});

const answers =
  (answer: () => Buffer): RawAnswer =>
  (socket) =>
    socket.end(answer());
