/** Conversations through every pair of formats: the short form of `npm run trial -- conversations`. */

import { describe, expect, it } from "vitest";
import type { EncodedRequest } from "../../../src/formats/format.ts";
import type { ChatRequest } from "../../../src/index.ts";
import { factsOf } from "./facts.ts";
import { type Format, FORMATS } from "./formats.ts";
import { crossed } from "./law.ts";
import { allPairs, run } from "./pairs.ts";
import { askedIn, type Session } from "./sessions.ts";

/** A format whose codec makes a mistake. */
const withChange = (format: Format, change: (encoded: EncodedRequest) => object): Format => ({
  ...format,
  codec: {
    ...format.codec,
    encodeRequest: (given) => {
      const encoded = format.codec.encodeRequest(given);
      return { ...encoded, ...change(encoded) };
    },
  },
});

it("loses nothing that is not told, of what is asked and of what is answered", () => {
  const pairs = allPairs();
  run(pairs, { numRuns: 60 });
  expect(pairs.length).toBe(16);
  for (const { compared, refused, facts, seals } of pairs) {
    expect(compared + refused).toBe(60);
    expect(compared).toBeGreaterThan(50);
    expect(facts).toBeGreaterThan(1_000);
    expect(seals).toBeGreaterThan(100);
  }
});

it("finds what a codec loses without a word, and what it tells without losing it", () => {
  const [format] = FORMATS;
  if (!format) throw new Error("There is no format.");
  const request = format.read(
    { model: "m", max_tokens: 9, top_k: 7, messages: [{ role: "user", content: "Hi" }] },
    {
      model: "m",
      stream: false,
    },
  );
  const changed = (change: (encoded: EncodedRequest) => object): Format => withChange(format, change);
  const { native: _, ...neutral } = request;
  const asked = { request: neutral, text: "", facts: [...factsOf(neutral)] };
  expect(crossed(format, asked)).toEqual({ lost: 0, refused: false });
  const silent = changed(({ body: { top_k: _lost, ...body } }) => ({ body }));
  expect(() => crossed(silent, asked)).toThrow("Lost without a word: topK 7");
  const lying = changed(() => ({ conversions: [{ field: "seed", conversion: "dropped", why: "It is not." }] }));
  expect(() => crossed(lying, asked)).toThrow("Told to be dropped, and there: seed");
  const refused = (field: string): Format =>
    changed(() => ({ conversions: [{ field, conversion: "rejected", why: "It is not." }] }));
  expect(() => crossed(refused("cachedContent"), asked)).toThrow(
    "Told to be refused, and not asked for: cachedContent",
  );
  expect(() => crossed(refused("messages.none"), asked)).toThrow("Told to be nothing, and something: user says Hi");
  const cached = { ...asked, facts: [...factsOf({ ...neutral, cachedContent: "cachedContents/1" })] };
  expect(crossed(refused("cachedContent"), cached)).toEqual({ lost: 0, refused: true });
});

describe("a session", () => {
  const [messages, generateContent] = FORMATS as readonly [Format, Format];
  const signed = { calls: 1, isSigned: true, isStreamed: false, field: "reasoning" } as const;
  const kept: Session = {
    model: "m",
    steps: [
      { ...signed, maker: "messages", thoughts: [{ text: "Hm.", kind: "signed" }], text: undefined },
      { ...signed, maker: "generate-content", thoughts: [], text: "Hello" },
    ],
  };
  const asked = askedIn(messages, kept);
  const sealOf = (maker: string): string => asked.facts.find(({ seal }) => seal?.maker === maker)?.seal?.value ?? "";

  it("brings each maker its own seals", () => {
    expect(asked.facts.flatMap(({ seal }) => seal?.maker ?? [])).toEqual([
      "messages",
      "generate-content",
      "generate-content",
    ]);
    expect(crossed(generateContent, asked).lost).toBeGreaterThan(0);
    expect(crossed(messages, asked).lost).toBeGreaterThan(0);
  });

  it.each([
    ["is lost", "x"],
    ["is given to another", `thoughtSignature":"${sealOf("messages")}`],
    ["names its maker", 'thoughtSignature":"cG9seWdhdGU6bTpwYXJ0Ojp4'],
    ["is empty", 'thoughtSignature":"'],
  ])("fails where a seal %s", (_name, other) => {
    const own = `thoughtSignature":"${sealOf("generate-content")}`;
    const mistaken = withChange(generateContent, ({ body }) => {
      const text = JSON.stringify(body);
      expect(text).toContain(own);
      return { body: JSON.parse(text.replace(own, other.includes('"') ? other : `${other}":"`)) as object };
    });
    expect(() => crossed(mistaken, asked)).toThrow(/Lost without|Given to|Sent to/);
  });

  it("fails where a client does not get what it must send back", () => {
    const deaf: Format = { ...messages, read: (body, target) => withoutSeals(messages.read(body, target)) };
    expect(() => askedIn(deaf, kept)).toThrow("Not kept by a client of messages: reasoning sealed");
  });
});

const withoutSeals = (request: ChatRequest): ChatRequest => ({
  ...request,
  messages: request.messages.map((message) => ({
    ...message,
    parts: message.parts.map((part) => (part.type === "reasoning" ? { type: "reasoning", text: part.text } : part)),
  })),
});
