/** The body of a 404 for a client with a wrong base URL. */

import { describe, expect, it, vi } from "vitest";
import { createGateway, memoryQuotaStore, wrongAddress } from "../src/index.ts";
import { UNASKED } from "./pipeline/bench.ts";

const gateway = createGateway({ backend: UNASKED, quotas: memoryQuotaStore([]) });

const messageOf = (...[method, url, prefix]: (string | undefined)[]): string =>
  wrongAddress(gateway, method, url, prefix).error.message;

it("names the base URLs of the mount", () => {
  expect(wrongAddress(gateway, "GET", "/nowhere?token=sk-secret", "/ai")).toEqual({
    type: "error",
    error: {
      type: "not_found_error",
      message:
        "There is no route GET /nowhere. The base URL is the address of this server with /ai for the SDKs of Anthropic and Google, and with /ai/v1 for those of OpenAI.",
      code: "not_found",
    },
  });
  expect(messageOf("GET", "/nowhere")).toContain("the address of this server for the SDKs of Anthropic");
});

it("says that a mount must not end in a version, and names the base URLs of the right mount alone", () => {
  expect(messageOf("POST", "/ai/v1/chat/completions", "/ai/v1")).toBe(
    "There is no route POST /ai/v1/chat/completions. The gateway is mounted at /ai/v1, but its routes begin with their version: mount it at /ai. Then the base URL is the address of this server with /ai for the SDKs of Anthropic and Google, and with /ai/v1 for those of OpenAI.",
  );
  expect(messageOf("POST", "/v1/messages", "/v1")).toContain(
    ": mount it at /. Then the base URL is the address of this server for the SDKs",
  );
});

it.each([
  ["/ai/v1/chat/completions", "/ai", "/ai"],
  ["/ai/v1/messages/?beta=true", "/ai", "/ai"],
  ["/ai/v1beta/models/large:generateContent", "/ai", "/ai"],
  ["http://host/v1/messages", "", "/"],
])("blames the mount, not the client, for the right address %s under %j", (url, prefix, shown) => {
  const message = messageOf("POST", url, prefix);
  expect(message).toContain(
    ` The address is right, but this server does not pass it on to the gateway: mount the gateway at ${shown}, and write this prefix only once.`,
  );
  expect(message).not.toContain("Did you mean");
});

const asked = (url: string, prefix: string): string =>
  wrongAddress(gateway, "GET", url, prefix, { upgrade: "websocket" }).error.message;

const posted = (url: string, upgrade?: string): string =>
  wrongAddress(gateway, "POST", url, "/ai", { upgrade }).error.message;

describe("an upgrade", () => {
  it("is told the route of WebSockets that was meant", () => {
    for (const url of ["/v1/responses", "/ai/v1/v1/responses", "/response", "/ai/v1/response"])
      expect(asked(url, "/ai")).toContain("Did you mean GET /ai/v1/responses? ");
  });

  it("is told the route that the gateway declares, of any format", () => {
    expect(gateway.endpoints.flatMap(({ takesSockets, path }) => (takesSockets ? path : []))).toEqual([
      "/v1/responses",
    ]);
    const endpoints = [{ method: "POST", path: "/v1/talks", takesSockets: true }] as const;
    const { error } = wrongAddress({ endpoints }, "GET", "/talk", "/ai", { upgrade: "websocket" });
    expect(error.message).toContain("Did you mean GET /ai/v1/talks? ");
  });

  it("is told no route without WebSockets", () => {
    for (const url of ["/v1/chat/completions", "/models", "/v1/messages"])
      expect(asked(url, "/ai")).not.toContain("Did you mean");
  });

  it("to HTTP/2 is told its route, and at the right address to leave the header out", () => {
    expect(posted("/ai/chat/completions", "h2c")).toBe(posted("/ai/chat/completions"));
    expect(posted("/ai/v1/chat/completions", "h2c")).toContain(
      "The address is right, but no route takes this upgrade: send the request without the header upgrade, as HTTP/1.1.",
    );
  });
});

describe("the route that was meant", () => {
  it.each([
    ["POST", "/v1/v1/messages", "/ai/v1/messages"],
    ["POST", "/messages", "/ai/v1/messages"],
    ["POST", "/ai/messages/count_tokens", "/ai/v1/messages/count_tokens"],
    ["POST", "/v1/chat/completions", "/ai/v1/chat/completions"],
    ["POST", "https://host/ai/chat/completions?a=b", "/ai/v1/chat/completions"],
    ["POST", "/openai/v1/responses", "/ai/v1/responses"],
    ["POST", "/models/large:generateContent", "/ai/v1beta/models/large:generateContent"],
    ["POST", "/v1beta/v1beta/models/large:streamGenerateContent", "/ai/v1beta/models/large:streamGenerateContent"],
    ["GET", "/models", "/ai/v1/models"],
    ["POST", "/v1/chat/completion", "/ai/v1/chat/completions"],
    ["POST", "/chat/completions/", "/ai/v1/chat/completions"],
    ["POST", "/v1/message/count_token", "/ai/v1/messages/count_tokens"],
    ["POST", "/v1/mesages", "/ai/v1/messages"],
    ["GET", "/v1/model", "/ai/v1/models"],
  ])("of %s %s is %s", (method, url, meant) => {
    expect(messageOf(method, url, "/ai")).toContain(` Did you mean ${method} ${meant}? `);
  });

  it.each([
    ["GET", "/messages"],
    ["POST", "/"],
    ["POST", "/chat"],
    ["POST", "/v1/audio/generations"],
    ["POST", "/v1/completions"],
    ["GET", "/favicon.ico"],
    ["PUT", "/models/large:generateContent"],
    ["POST", "//"],
    [undefined, undefined],
  ])("is unknown for %s %s", (method, url) => {
    expect(messageOf(method, url, "/ai")).not.toContain("Did you mean");
  });
});

describe("a route that the gateway does not have", () => {
  const chatOnly = createGateway({ backend: { async *chat() {} }, quotas: memoryQuotaStore([]) });

  it.each([
    ["POST", "/v1/audio/speech"],
    ["POST", "/v1/images/generations"],
    ["POST", "/v1/embeddings"],
    ["POST", "/v1/completions"],
    ["GET", "/v1/batches"],
    ["GET", "/v1/files/file-1"],
    ["GET", "/v1/messages/batches/one/results"],
    ["POST", "/v1beta/cachedContents"],
    ["POST", "/upload/v1beta/files"],
    ["POST", "/v1/nowhere"],
  ])("is not offered, and the address is not blamed: %s %s", (method, path) => {
    for (const prefix of ["", "/ai"])
      expect(wrongAddress(chatOnly, method, `${prefix}${path}?a=b`, prefix).error.message).toBe(
        `This gateway does not offer ${method} ${prefix}${path}.`,
      );
  });

  it.each([
    ["POST", "/v1/audio/speech", "/ai"],
    ["POST", "/v1/v1/files", ""],
    ["POST", "/audio/speech", ""],
    ["POST", "/v1/openai/files", ""],
    ["POST", "/v2/nowhere", ""],
  ])("is none for %s %s below %j, so the address is told", (method, path, prefix) => {
    const { message } = wrongAddress(chatOnly, method, path, prefix).error;
    expect(message).toContain(`There is no route ${method} ${path}.`);
    expect(message).toContain("The base URL is ");
  });
});

it.each(["/", "/ai/"])("takes the prefix %s as the mount does", (prefix) => {
  const args = ["POST", `${prefix}chat/completions`] as const;
  expect(messageOf(...args, prefix)).toBe(messageOf(...args, prefix.slice(0, -1)));
});

it("reads a path that begins with two slashes as a path", () => {
  expect(messageOf("POST", "//v1/messages")).toContain(
    "There is no route POST //v1/messages. Did you mean POST /v1/messages? ",
  );
});

it("compares only the end of a long path with the routes, because nobody limits who asks", () => {
  const split = vi.spyOn(String.prototype, "split");
  const method = messageOf("POST", `${"/x/".repeat(5_000)}v1/message`);
  const longest = Math.max(...split.mock.contexts.map((text) => String(text).length));
  split.mockRestore();
  expect(method).toContain(" Did you mean POST /v1/messages? ");
  expect(longest).toBeLessThan(1_000);
});

it("shows what a stranger sends in one line, and not at any length", () => {
  const message = messageOf("GET", `/\u202e${"a".repeat(10_000)}`, "/ai");
  expect(message.length).toBeLessThan(400);
  expect(message).not.toMatch(/[\n\u202e]/);
});

/** Names the vendor whose body a wrong address gets. */
const vendorOf = (
  ...asked: Parameters<typeof wrongAddress> extends [unknown, ...infer Rest] ? Rest : never
): string => {
  const body = wrongAddress(gateway, ...asked);
  const { message } = body.error;
  const bodies = {
    anthropic: { type: "error", error: { type: "not_found_error", message, code: "not_found" } },
    google: { error: { code: 404, message, status: "NOT_FOUND", details: [] } },
    openai: { error: { message, type: "invalid_request_error", param: null, code: "not_found" } },
  };
  return Object.entries(bodies).find(([, one]) => JSON.stringify(one) === JSON.stringify(body))?.[0] ?? "none";
};

describe("the body", () => {
  it.each([
    ["POST", "/chat/completions", "openai"],
    ["POST", "/v1/v1/responses", "openai"],
    ["POST", "/v1/chat/completion", "openai"],
    ["POST", "/v1/completions", "openai"],
    ["POST", "/openai/deployments/a/b", "openai"],
    ["POST", "/messages", "anthropic"],
    ["GET", "/v1/messages/batches", "anthropic"],
    ["POST", "/models/large:generateContent", "google"],
    ["POST", "/v1/models/large:predictLongRunning", "google"],
    ["POST", "/v1beta/cachedContents", "google"],
  ])("for %s %s is that of %s, also where the headers say something else", (method, url, vendor) => {
    expect(vendorOf(method, url, "/ai")).toBe(vendor);
    expect(vendorOf(method, url, "/ai", { "x-goog-api-key": "k", "x-api-key": "k", authorization: "k" })).toBe(vendor);
  });

  it.each([
    [{ "x-api-key": "k", authorization: "Bearer k" }, "anthropic"],
    [{ "compat-version": "1" }, "anthropic"],
    [{ "x-goog-api-key": "k" }, "google"],
    [{ authorization: "Bearer k" }, "openai"],
    [{ "api-key": "k" }, "openai"],
    [{}, "anthropic"],
  ])("for a path of several vendors is told by the key: %j", (headers, vendor) => {
    // Files are of several vendors, too.
    for (const url of ["/models", "/nowhere", "/v1/files"]) {
      expect(vendorOf("GET", url, "/openai", headers)).toBe(vendor);
      expect(vendorOf("GET", `http://host/openai${url}`, "/openai", new Headers(headers as HeadersInit))).toBe(vendor);
    }
  });

  it("is Google's for a key in the query", () => {
    expect(vendorOf("GET", "/models?key=k")).toBe("google");
  });
});
