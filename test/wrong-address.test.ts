/** The body of a 404 for a client with a wrong base URL. */

import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, wrongAddress } from "../src/index.ts";
import { UNASKED } from "./pipeline/bench.ts";

const gateway = createGateway({ backend: UNASKED, quotas: memoryQuotaStore([]) });

const messageOf = (...[method, url, prefix]: (string | undefined)[]): string =>
  wrongAddress(gateway, method, url, prefix).error.message;

it("names the base URLs of the mount", () => {
  expect(wrongAddress(gateway, "GET", "/nowhere?key=sk-secret", "/ai")).toEqual({
    type: "error",
    error: {
      type: "not_found_error",
      message:
        "There is no route GET /nowhere. The base URL is the address of this server with /ai for the SDKs of Anthropic and Google, and with /ai/v1 for those of OpenAI.",
    },
  });
  expect(messageOf("GET", "/nowhere")).toContain("the address of this server for the SDKs of Anthropic");
});

it("says that a mount must not end in a version", () => {
  expect(messageOf("POST", "/ai/v1/chat/completions", "/ai/v1")).toContain(
    " The gateway is mounted at /ai/v1, but its routes begin with their version: mount it at /ai. ",
  );
  expect(messageOf("POST", "/v1/messages", "/v1")).toContain(": mount it at /. ");
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

it("shows what a stranger sends in one line, and not at any length", () => {
  const message = messageOf("GET", `/\u202e${"a".repeat(10_000)}`, "/ai");
  expect(message.length).toBeLessThan(400);
  expect(message).not.toMatch(/[\n\u202e]/);
});
