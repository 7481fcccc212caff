/** Every request that the Responses format can say, without `native`. */

import fc from "fast-check";
import type { OwnInput } from "../../src/formats/responses/kept.ts";
import type { ChatMessage, ChatRequest, FunctionTool, JsonObject, Part, ToolChoice } from "../../src/index.ts";
import { webUrl } from "./arbitraries.ts";

const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" }),
);
const name = fc.stringMatching(/^[a-z]\w{0,11}$/);
const base64 = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64"));
const json = fc
  .dictionary(name, fc.oneof({ weight: 3, arbitrary: fc.jsonValue({ maxDepth: 0 }) }, fc.jsonValue({ maxDepth: 2 })), {
    maxKeys: 3,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);

/** An object of which some fields may be missing. */
const record = <Required, Optional>(
  required: { [K in keyof Required]: fc.Arbitrary<Required[K]> },
  optional: { [K in keyof Optional]: fc.Arbitrary<Optional[K]> },
): fc.Arbitrary<Required & Partial<Optional>> =>
  fc
    .tuple(fc.record(required), fc.record(optional, { requiredKeys: [] }))
    .map(([a, b]) => ({ ...a, ...b }) as Required & Partial<Optional>);

const kind = <const Word extends string>(word: Word): fc.Arbitrary<Word> => fc.constant(word);

const textPart = fc.record({ type: kind("text"), text });
const imagePart = fc.record({
  type: kind("media"),
  kind: kind("image"),
  source: fc.oneof(
    fc.record({ type: kind("base64"), mediaType: fc.constantFrom("image/png", "image/jpeg"), data: base64 }),
    fc.record({ type: kind("url"), url: webUrl }),
    fc.record({ type: kind("file"), id: name }),
  ),
  detail: fc.constantFrom("low" as const, "high" as const, "auto" as const),
});
const audioPart = fc.record({
  type: kind("media"),
  kind: kind("audio"),
  source: fc.record({ type: kind("base64"), mediaType: fc.constantFrom("audio/mp3", "audio/wav"), data: base64 }),
});
const documentPart = (...mediaTypes: readonly string[]) =>
  fc.oneof(
    fc.record({
      type: kind("document"),
      source: fc.record({
        type: kind("base64"),
        mediaType: fc.constantFrom(...mediaTypes),
        data: base64,
      }),
      title: text,
    }),
    record(
      {
        type: kind("document"),
        source: fc.oneof(fc.record({ type: kind("file"), id: name }), fc.record({ type: kind("url"), url: webUrl })),
      },
      { title: text },
    ),
  );

const user: fc.Arbitrary<Part[]> = fc.array(
  fc.oneof(textPart, imagePart, audioPart, documentPart("application/pdf", "text/csv")),
  {
    minLength: 1,
    maxLength: 3,
  },
);
const results = (ids: readonly string[]): fc.Arbitrary<Part[]> =>
  fc.tuple(
    ...ids.map((callId) =>
      fc.record({
        type: kind("tool-result"),
        callId: fc.constant(callId),
        parts: fc.array(fc.oneof({ weight: 3, arbitrary: textPart }, imagePart, documentPart("application/pdf")), {
          maxLength: 2,
        }),
      }),
    ),
  );

const refusal = fc.record({ type: kind("refusal"), text });
const sealed = fc
  .tuple(fc.oneof(fc.constant(""), text), base64)
  .map(([thought, seal]): Part => ({ type: "reasoning", text: thought, signature: seal, maker: "responses" }));
/** Reasoning that a local server shows as it is. */
const shown = text.map((thought): Part => ({ type: "reasoning", text: thought, maker: "responses" }));
/** The item of a tool that the provider runs itself. */
const hosted = text.map((query): Part => ({
  type: "provider",
  format: "responses",
  value: { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query } },
}));

const call = (id: string, custom: string | undefined): fc.Arbitrary<Part> => {
  const plain = fc.record({
    type: kind("tool-call"),
    id: fc.constant(id),
    name: name.map((it) => `f_${it}`),
    input: json,
  });
  if (custom === undefined) return plain;
  const written = text.map((input): Part => ({ type: "tool-call", id, name: custom, input: { input } }));
  return fc.oneof(plain, written);
};

/** Turns of both sides in turn; the results of calls stand before what else the user says. */
const messages = (custom: string | undefined): fc.Arbitrary<ChatMessage[]> =>
  fc.integer({ min: 1, max: 5 }).chain((turns) =>
    fc.tuple(
      ...Array.from({ length: turns }, (_, turn): fc.Arbitrary<ChatMessage> => {
        const ids = [`call_${turn - (turn % 2)}a`, `call_${turn - (turn % 2)}b`];
        if (turn === 0) return user.map((parts) => ({ role: "user", parts }));
        if (turn % 2 === 1) {
          const asked = ids.map((id) => id.replace(String(turn - 1), String(turn)));
          const thought = fc.array(fc.oneof({ weight: 3, arbitrary: sealed }, shown, hosted), { maxLength: 2 });
          const said = fc.array(fc.oneof(textPart, refusal), { maxLength: 2 });
          return fc
            .tuple(thought, said, ...asked.map((id) => call(id, custom)))
            .map(([before, first, ...calls]): ChatMessage => ({
              role: "assistant",
              parts: [...before, ...first, ...calls],
            }));
        }
        const answered = ids.map((id) => id.replace(String(turn), String(turn - 1)));
        return fc
          .tuple(results(answered), fc.option(user, { nil: [] }))
          .map(([told, said]): ChatMessage => ({ role: "user", parts: [...told, ...said] }));
      }),
    ),
  );

const tools: fc.Arbitrary<FunctionTool[]> = fc.uniqueArray(
  fc.oneof(
    {
      weight: 3,
      arbitrary: record(
        { type: kind("function"), name, inputSchema: json, strict: fc.boolean() },
        { description: text },
      ),
    },
    record(
      {
        type: kind("function"),
        name,
        inputSchema: fc.constant<JsonObject>({
          type: "object",
          properties: { input: { type: "string" } },
          required: ["input"],
          additionalProperties: false,
        }),
        custom: fc.constantFrom({}, { format: { type: "grammar", syntax: "regex", definition: "a+" } }),
      },
      { description: text },
    ),
  ),
  { selector: (tool) => tool.name, maxLength: 4 },
);

function toolChoice(available: readonly FunctionTool[]): fc.Arbitrary<ToolChoice> {
  const names = available.map((tool) => tool.name);
  const parallel = fc.boolean();
  return fc.oneof(
    fc.constant<ToolChoice>({ type: "none" }),
    record(
      { type: fc.constantFrom("auto" as const, "required" as const), parallel },
      { names: fc.uniqueArray(fc.constantFrom(...names), { minLength: 1 }) },
    ),
    fc.record({ type: kind("tool"), name: fc.constantFrom(...names), parallel }),
  );
}

const number = (min: number, max: number): fc.Arbitrary<number> =>
  // JSON has no -0.
  fc.double({ min, max, noNaN: true }).map((value) => value + 0);

/** The part of a request that came with it, for a request that continues nothing. */
export const NOTHING_BEFORE: OwnInput = {
  input: [],
  items: [],
  chain: { depth: 0, ids: [] },
  conversation: undefined,
  known: new Set(),
};

export const chatRequest: fc.Arbitrary<ChatRequest> = tools.chain((available) =>
  record(
    {
      // The names of known models change what is sent.
      model: text.map((it) => `m${it}`),
      messages: messages(available.find(({ custom }) => custom)?.name),
      system: fc.array(textPart, { maxLength: 2 }),
      tools: fc.constant(available),
      maxOutputTokens: fc.integer({ min: 16, max: 100_000 }),
      stopSequences: fc.constant([]),
      stream: fc.boolean(),
    },
    {
      ...(available.length > 0 && { toolChoice: toolChoice(available) }),
      temperature: number(0, 2),
      topP: number(0, 1),
      logprobs: fc.record({ top: fc.integer({ min: 0, max: 20 }) }),
      responseFormat: fc.oneof(
        fc.constant({ type: "json" as const }),
        fc.record({ type: kind("json"), name, schema: json, strict: fc.boolean() }),
      ),
      reasoning: fc.oneof(
        fc.constant({ type: "disabled" as const }),
        record(
          { type: kind("adaptive"), visible: fc.boolean() },
          {
            effort: fc.constantFrom(
              "minimal" as const,
              "low" as const,
              "medium" as const,
              "high" as const,
              "max" as const,
            ),
          },
        ),
      ),
      serviceTier: text,
      endUser: text,
    },
  ),
);
