/** Signatures in conversations on their way to an upstream of the generate-content format: only its own, and none is missing. */

import { describe, expect, it } from "vitest";
import { decodeRequest } from "../../../src/formats/generate-content/request.ts";
import { generateContentCodec } from "../../../src/formats/generate-content/upstream.ts";
import type { ChatMessage, ChatRequest, JsonObject, Part } from "../../../src/index.ts";
import { readBody } from "./read-body.ts";

const PLACEHOLDER = "skip_thought_signature_validator";
const OWN = "CiQB0e2Kb5f3yq==";

/** A seal in the gateway's wrapping. */
const wrapped = (maker: string, value: string, kind = "part"): string =>
  Buffer.from(`polygate:${maker}:${kind}::${value}`).toString("base64");
const CLAUDE = wrapped("messages", "RXFR");

const request = (messages: readonly ChatMessage[], more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "gemini-3-pro-preview",
  messages,
  system: [],
  tools: [],
  maxOutputTokens: 100,
  stopSequences: [],
  stream: false,
  ...more,
});

const user = (...parts: Part[]): ChatMessage => ({ role: "user", parts });
const model = (...parts: Part[]): ChatMessage => ({ role: "assistant", parts });
const hi: Part = { type: "text", text: "Hi" };
const call = (id: string, more: object = {}): Part => ({ type: "tool-call", id, name: "f", input: {}, ...more });
const result = (callId: string): Part => ({ type: "tool-result", callId, parts: [{ type: "json", value: {} }] });

const codec = generateContentCodec();
const encoded = (messages: readonly ChatMessage[], more: Partial<ChatRequest> = {}, using = codec) => {
  const { body, conversions } = using.encodeRequest(request(messages, more));
  return { contents: body["contents"] as unknown as Content[], fields: conversions.map(({ field }) => field) };
};

interface Content {
  readonly role: string;
  readonly parts: readonly JsonObject[];
}

/** The signatures of the calls, content by content. */
const callSignatures = (contents: readonly Content[]): unknown[][] =>
  contents
    .filter(({ role }) => role === "model")
    .map(({ parts }) => parts.filter((part) => part["functionCall"]).map((part) => part["thoughtSignature"]));

/** Two steps of the current turn, behind an earlier turn with a call. */
const LOOP: readonly ChatMessage[] = [
  user(hi),
  model(call("old")),
  user(result("old"), hi),
  model({ type: "text", text: "Done." }),
  user(hi),
  model(call("a"), call("b")),
  user(result("a"), result("b")),
  model({ type: "text", text: "On." }, call("c")),
  user(result("c")),
];

describe("a call without a signature", () => {
  it("gets the documented placeholder, the first of each step of the current turn alone", () => {
    expect(callSignatures(encoded(LOOP).contents)).toEqual([[undefined], [], [PLACEHOLDER, undefined], [PLACEHOLDER]]);
  });

  it("keeps its own signature, and loses another maker's", () => {
    const { contents, fields } = encoded([
      user(hi),
      model(call("a", { signature: OWN, maker: "generate-content" })),
      user(result("a")),
      model(call("b", { signature: "RXFR", maker: "messages" })),
      user(result("b")),
    ]);
    expect(callSignatures(contents)).toEqual([[OWN], [PLACEHOLDER]]);
    expect(fields).toContain("messages.signature.foreign");
  });

  it.each([
    ["gemini-1.5-pro", undefined],
    ["gemini-2.0-flash", undefined],
    ["gemini-2.5-pro", undefined],
    ["models/gemini-2.5-flash", undefined],
    ["gemma-3-27b-it", undefined],
    ["gemini-3-flash-preview", PLACEHOLDER],
    ["gemini-3.1-pro", PLACEHOLDER],
    ["gemini-flash-latest", PLACEHOLDER],
    ["my-own", PLACEHOLDER],
  ])("of %s gets %s", (name, placeholder) => {
    const { contents } = encoded([user(hi), model(call("a")), user(result("a"))], { model: name });
    expect(callSignatures(contents)).toEqual([[placeholder]]);
  });

  it("that a client marked with the placeholder has no signature for others", () => {
    const body = readBody({
      contents: [
        { role: "user", parts: [{ text: "Hi" }] },
        { role: "model", parts: [{ functionCall: { id: "a", name: "f" }, thoughtSignature: PLACEHOLDER }] },
      ],
    });
    const { messages } = decodeRequest(body, { model: "m", stream: false, defaultMaxOutputTokens: 1 });
    expect(messages[1]?.parts).toEqual([call("a")]);
  });
});

it("an id that is used again in each turn names the newest call", () => {
  const turns = ["f", "g"].flatMap((name) => [model(call("0", { name })), user(result("0"))]);
  const { contents } = encoded([user(hi), ...turns]);
  const names = contents.flatMap(({ parts }) => parts.map((part) => part["functionResponse"] as { name: string }));
  expect(names.filter(Boolean).map(({ name }) => name)).toEqual(["f", "g"]);
});

describe("reasoning of another maker", () => {
  const messages = [
    user(hi),
    model(
      { type: "reasoning", text: "Hm.", signature: "RXFR", maker: "messages" },
      { type: "redacted-reasoning", data: "c2Vj", maker: "messages" },
      { type: "reasoning", text: "So.", maker: "chat-completions" },
      { type: "reasoning", text: "", signature: "RXFR", maker: "messages" },
      { type: "text", text: "Yes.", signature: "RXFR", maker: "messages" },
      { type: "text", text: "" },
    ),
    user(hi),
  ];

  it("is left out, and nothing empty is sent", () => {
    const { contents, fields } = encoded(messages);
    expect(contents[1]).toEqual({ role: "model", parts: [{ text: "Yes." }] });
    expect(fields).toContain("messages.reasoning.foreign");
    expect(fields).toContain("messages.signature.foreign");
  });

  it("is sent as text where the host says so", () => {
    const using = generateContentCodec({ foreignReasoning: "text" });
    expect(encoded(messages, {}, using).contents[1]).toEqual({
      role: "model",
      parts: [{ text: "Hm." }, { text: "So." }, { text: "Yes." }],
    });
    const { conversions } = using.encodeRequest(request(messages));
    expect(conversions.find(({ field }) => field === "messages.reasoning.foreign")).toMatchObject({
      conversion: "approximated",
    });
  });

  it("stays where it is the format's own, or nobody's", () => {
    const own: Part = { type: "reasoning", text: "Hm.", signature: OWN, maker: "generate-content" };
    const { contents } = encoded([user(hi), model(own, { type: "reasoning", text: "So." })]);
    expect(contents[1]?.parts).toEqual([
      { text: "Hm.", thought: true, thoughtSignature: OWN },
      { text: "So.", thought: true },
    ]);
  });
});

/** Sends contents that a caller of the format has sent. */
const sent = (contents: unknown, more: Partial<ChatRequest> = {}, using = codec) => {
  const body = { contents, generationConfig: { maxOutputTokens: 100 } };
  const native = { format: "generate-content", body, betas: [] };
  const { body: wire, conversions } = using.encodeRequest(request([user(hi)], { native, ...more }));
  return { contents: wire["contents"], fields: conversions.map(({ field }) => field) };
};

describe("a body of the format's own", () => {
  const hello = { role: "user", parts: [{ text: "Hi" }] };
  const response = { role: "user", parts: [{ functionResponse: { name: "f", response: {} } }] };
  const functionCall = { name: "f", args: {} };

  it.each<[string, unknown]>([
    ["a text", "Hi"],
    ["a content without its list", hello],
    ["texts", ["Hi", "Ho"]],
    [
      "the model's own signatures, thoughts and empty texts",
      [
        hello,
        {
          role: "model",
          parts: [{ text: "Hm.", thought: true }, { functionCall, thoughtSignature: OWN }, { functionCall }],
        },
        response,
        { role: "model", parts: [{ text: "", thoughtSignature: OWN }, { text: "" }] },
        hello,
      ],
    ],
    ["an earlier turn without signatures", [hello, { role: "model", parts: [{ functionCall }] }, response, hello]],
  ])("stays the same object: %s", (_what, contents) => {
    const { contents: passed, fields } = sent(contents);
    expect(passed).toBe(contents);
    expect(fields).toEqual([]);
  });

  it("gets the placeholder where the model demands a signature, in the caller's spelling", () => {
    const snake = { function_call: { name: "f" } };
    const contents = [hello, { role: "model", parts: [{ text: "On." }, snake, snake] }, response];
    expect(sent(contents).contents).toEqual([
      hello,
      { role: "model", parts: [{ text: "On." }, { ...snake, thought_signature: PLACEHOLDER }, snake] },
      response,
    ]);
    expect(sent(contents, { model: "gemini-2.5-pro" }).contents).toBe(contents);
  });

  it("counts the chunks of one streamed step as one", () => {
    const first = { role: "model", parts: [{ functionCall, thoughtSignature: OWN }] };
    const contents = [hello, first, { role: "model", parts: [{ functionCall }] }, response];
    expect(sent(contents).contents).toBe(contents);
  });

  it("loses the seals of other makers, and the reasoning that they seal", () => {
    const contents = [
      hello,
      { role: "model", parts: [{ text: "Two ", thought: true }] },
      { role: "model", parts: [{ text: "calls.", thought: true }] },
      { role: "model", parts: [{ text: "", thought: true, thoughtSignature: CLAUDE }] },
      {
        role: "model",
        parts: [{ text: "", thought: true, thoughtSignature: wrapped("messages", "c2Vj", "redacted") }],
      },
      {
        role: "model",
        parts: [
          { text: "On.", thoughtSignature: CLAUDE },
          { functionCall, thoughtSignature: CLAUDE },
        ],
      },
      { role: "model", parts: [{ text: "" }] },
      response,
    ];
    const { contents: passed, fields } = sent(contents);
    expect(passed).toEqual([
      hello,
      { role: "model", parts: [{ text: "On." }, { functionCall, thoughtSignature: PLACEHOLDER }] },
      response,
    ]);
    expect(fields).toEqual(["messages.reasoning.foreign", "messages.signature.foreign"]);
    const using = generateContentCodec({ foreignReasoning: "text" });
    expect(sent(contents, {}, using).contents).toEqual([
      hello,
      { role: "model", parts: [{ text: "Two " }] },
      { role: "model", parts: [{ text: "calls." }] },
      { role: "model", parts: [{ text: "On." }, { functionCall, thoughtSignature: PLACEHOLDER }] },
      response,
    ]);
  });

  it("keeps unsigned thoughts that stand before other parts", () => {
    const own = { text: "Hm.", thought: true };
    const contents = [
      hello,
      { role: "model", parts: [own, { text: "A" }, { text: "B", thought: true, thoughtSignature: CLAUDE }] },
    ];
    expect(sent(contents).contents).toEqual([hello, { role: "model", parts: [own, { text: "A" }] }]);
  });

  it("gets its own seals unwrapped, and loses empty signatures and empty thoughts", () => {
    const parts = [
      { text: "", thought: true },
      { text: "A", thoughtSignature: "" },
      { functionCall, thought_signature: wrapped("generate-content", OWN) },
    ];
    expect(sent([hello, { role: "model", parts }, response]).contents).toEqual([
      hello,
      { role: "model", parts: [{ text: "A" }, { functionCall, thought_signature: OWN }] },
      response,
    ]);
  });
});

/** The parts of a turn of the model, as a caller sends them. */
const decoded = (...parts: object[]): readonly Part[] | undefined => {
  const body = readBody({
    contents: [
      { role: "user", parts: [{ text: "Hi" }] },
      { role: "model", parts },
    ],
  });
  return decodeRequest(body, { model: "m", stream: false, defaultMaxOutputTokens: 1 }).messages[1]?.parts;
};

describe("a part that a caller sends back", () => {
  it("is encrypted reasoning, also where a client has joined it to the thought before", () => {
    const thoughtSignature = wrapped("messages", "c2Vj", "redacted");
    const redacted = { type: "redacted-reasoning", data: "c2Vj", maker: "messages" };
    expect(decoded({ text: "", thought: true, thoughtSignature })).toEqual([redacted]);
    expect(decoded({ text: "Hm.", thought: true, thoughtSignature })).toEqual([
      { type: "reasoning", text: "Hm." },
      redacted,
    ]);
  });

  it("is reasoning whose maker signs nothing", () => {
    const thoughtSignature = wrapped("chat-completions", "");
    expect(decoded({ text: "Hm.", thought: true }, { text: "", thought: true, thoughtSignature })).toEqual([
      { type: "reasoning", text: "Hm.", maker: "chat-completions" },
    ]);
  });

  it("has no signature where the signature is empty", () => {
    expect(decoded({ text: "A", thoughtSignature: "" })).toEqual([{ type: "text", text: "A" }]);
  });

  it("keeps each sealed thought apart", () => {
    const [one, two] = [wrapped("messages", "b25l"), wrapped("messages", "dHdv")];
    expect(
      decoded({ text: "A", thought: true, thoughtSignature: one }, { text: "", thought: true, thoughtSignature: two }),
    ).toEqual([
      { type: "reasoning", text: "A", signature: "b25l", maker: "messages" },
      { type: "reasoning", text: "", signature: "dHdv", maker: "messages" },
    ]);
  });
});
