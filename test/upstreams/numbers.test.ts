/** A backend checks its host's numbers when it is made, not in the calls that they would break. */

import { describe, expect, it } from "vitest";
import { aiSdk, DEFAULT_AI_SDK_LIMITS, DEFAULT_AI_SDK_TIMEOUTS } from "../../src/upstreams/ai-sdk/index.ts";
import {
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  relay,
  type RelayFormat,
} from "../../src/upstreams/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY, route } from "../../src/upstreams/route/index.ts";
import { fakeModel } from "./ai-sdk/fake-models.ts";

const relayed = (more: object, format: RelayFormat = "messages"): unknown =>
  relay({ format, baseUrl: "https://example.com", ...more });
const SILENT = { chat: () => [] };
const routed = (more: object): unknown => route({ routes: { "*": SILENT }, ...more } as never);

const OPTIONS: readonly [option: string, defaults: object, make: (numbers: object) => unknown][] = [
  ["relay: timeouts", DEFAULT_RELAY_TIMEOUTS, (timeouts) => relayed({ timeouts })],
  ["relay: timeouts", DEFAULT_RELAY_TIMEOUTS, (timeouts) => relayed({ timeouts }, "images")],
  ["relay: limits", DEFAULT_RELAY_LIMITS, (limits) => relayed({ limits })],
  ["aiSdk: timeouts", DEFAULT_AI_SDK_TIMEOUTS, (timeouts) => aiSdk({ chat: { a: fakeModel({}) }, timeouts })],
  ["route: retry", DEFAULT_RETRY, (retry) => routed({ retry })],
  ["relay: hangUp", { drainMs: 0 }, (hangUp) => relayed({ hangUp })],
  ["aiSdk: hangUp", { drainMs: 0 }, (hangUp) => aiSdk({ chat: { a: fakeModel({}) }, hangUp: hangUp as never })],
  [
    'route: routes["*"]: hangUp',
    { drainMs: 0 },
    (hangUp) => routed({ routes: { "*": { upstreams: [SILENT], hangUp } } }),
  ],
  ["route: breaker", DEFAULT_BREAKER, (breaker) => routed({ breaker })],
];

/** Numbers that may be 0. */
const FROM_ZERO = [
  "again",
  "drainMs",
  "rounds",
  "pauseMs",
  "maxPauseMs",
  "share",
  "maxRestMs",
  "maxRememberedChars",
  "rememberedMs",
];

describe.each(OPTIONS)("%s", (option, defaults, make) => {
  const names = Object.keys(defaults);

  it.each(names)("refuse a %s that is none", (name) => {
    const zero = FROM_ZERO.includes(name) ? [] : [0];
    const fraction = name === "share" ? [] : [1.5];
    const endless = name === "failures" ? [] : [Number.POSITIVE_INFINITY];
    for (const value of [...zero, ...fraction, ...endless, -1, Number.NaN, "5"]) {
      expect(() => make({ [name]: value })).toThrow(typeof value === "number" ? RangeError : TypeError);
      expect(() => make({ [name]: value })).toThrow(`${option}.${name} must be `);
    }
  });

  it.each(names.filter((name) => name.endsWith("Ms")))("refuse a %s beyond what a timer can wait", (name) => {
    expect(() => make({ [name]: 2 ** 31 })).toThrow(`${option}.${name} must be at most 2147483647 ms`);
    expect(() => make({ [name]: 2 ** 31 - 1 })).not.toThrow();
  });

  it("refuse a name that there is not, and say those that there are", () => {
    expect(() => make({ surprise: 5 })).toThrow(TypeError);
    expect(() => make({ surprise: 5 })).toThrow(`${option}.surprise does not exist; there are ${names.join(", ")}`);
  });

  it("take 1, and the default for what is undefined", () => {
    for (const value of [1, undefined])
      expect(() => make(Object.fromEntries(names.map((name) => [name, value])))).not.toThrow();
  });
});

it("a route may have no further rounds, no pauses, and breakers that never open", () => {
  const retry = { rounds: 0, pauseMs: 0, maxPauseMs: 0, share: 0 };
  expect(() => routed({ retry, breaker: { failures: Infinity, maxRestMs: 0 } })).not.toThrow();
});

it.each(["openai", "toString", undefined])("a relay refuses the format %j, and says those that there are", (format) => {
  expect(() => relay({ format: format as never, baseUrl: "https://example.com" })).toThrow(
    `relay: format must be one of messages, generate-content, chat-completions, responses, images, not ${JSON.stringify(format)}.`,
  );
});

it("a model of the AI SDK has its documented time and room", () => {
  expect(DEFAULT_AI_SDK_TIMEOUTS).toEqual({ firstEventMs: 180_000, betweenEventsMs: 120_000, completeMs: 600_000 });
  expect(DEFAULT_AI_SDK_LIMITS).toEqual({ maxRememberedChars: 33_554_432, rememberedMs: 21_600_000 });
});
