/** The options that describe an upstream are checked when the relay is made. */

import { describe, expect, it } from "vitest";
import type { ReasoningControl } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { codecOptions, DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../../src/upstreams/relay/options.ts";

const UPSTREAM = { format: "messages", baseUrl: "https://example.com/v1" } as const;

it.each([
  ["reasoning", '"none", "budget", "effort", "any", or a function'],
  ["foreignReasoning", '"drop", "text", "pass"'],
  ["outputLimitField", '"max_completion_tokens", "max_tokens"'],
])("a relay refuses a word for %s that it does not know, and says which words it knows", (option, words) => {
  for (const format of ["messages", "generate-content", "chat-completions", "responses", "images"] as const)
    for (const [value, shown] of [
      ["high", '"high"'],
      [null, "null"],
      [{}, "an object"],
    ] as const) {
      const make = (): unknown => relay({ ...UPSTREAM, format, [option]: value });
      expect(make).toThrow(TypeError);
      expect(make).toThrow(`relay: ${option} must be one of ${words}, not ${shown}.`);
    }
  expect(() => relay({ ...UPSTREAM, [option]: undefined })).not.toThrow();
});

it.each(["localhost:8080/v1", "127.0.0.1:8080", "ftp://localhost"])(
  "the address %s is refused with a right one",
  (baseUrl) => {
    const make = (): unknown => relay({ ...UPSTREAM, baseUrl });
    expect(make).toThrow(
      /^relay: baseUrl (?:is not a URL|must be http or https)\. Write the whole address, such as http:\/\/localhost:8080\/v1\.$/,
    );
  },
);

it("an upstream has its documented time and room", () => {
  expect(DEFAULT_RELAY_TIMEOUTS).toEqual({
    credentialMs: 10_000,
    connectMs: 10_000,
    headersMs: 60_000,
    firstEventMs: 120_000,
    betweenEventsMs: 120_000,
    completeMs: 600_000,
    socketIdleMs: 300_000,
    pictureMs: 60_000,
  });
  expect(DEFAULT_RELAY_LIMITS).toEqual({
    maxEventChars: 16_777_216,
    maxSockets: 128,
    maxCodeTurns: 8,
    maxBodyBytes: 67_108_864,
    maxPictureBytes: 26_214_400,
    maxJsonDepth: 200,
    maxJsonValues: 5_000_000,
    maxJsonKeys: 10_000,
    maxJsonItems: 3_000_000,
    maxRememberedChars: 33_554_432,
    rememberedMs: 21_600_000,
  });
});

describe("the control of a model's reasoning", () => {
  it.each<ReasoningControl>(["none", "budget", "effort", "any"])("may be %s for all models", (reasoning) => {
    expect(codecOptions({ ...UPSTREAM, reasoning }).reasoning?.("large")).toBe(reasoning);
  });

  it("may differ by model, and be left to the names that are known", () => {
    const { reasoning } = codecOptions({
      ...UPSTREAM,
      reasoning: (model) => (model === "large" ? "budget" : undefined),
    });
    expect(["large", "small"].map((model) => reasoning?.(model))).toEqual(["budget", undefined]);
    expect(codecOptions(UPSTREAM).reasoning).toBeUndefined();
  });

  it("is checked when a function returns it", () => {
    const { reasoning } = codecOptions({ ...UPSTREAM, reasoning: () => "high" as never });
    expect(() => reasoning?.("large")).toThrow(
      'relay: the result of reasoning must be one of "none", "budget", "effort", "any", not "high".',
    );
  });
});
