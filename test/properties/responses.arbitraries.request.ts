/** Every request that the Responses format can say, without `native`. */

import fc from "fast-check";
import type { OwnInput } from "../../src/formats/responses/kept.ts";
import type { ChatMessage, ChatRequest, FunctionTool, JsonObject, Part } from "../../src/index.ts";
import {
  audioPart,
  base64,
  conversation,
  effort,
  json,
  kind,
  name,
  number,
  record,
  refusal,
  text,
  textPart,
  toolChoice,
} from "./arbitraries.openai.ts";
import { webUrl } from "./arbitraries.ts";

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

const messages = (custom: string | undefined): fc.Arbitrary<ChatMessage[]> =>
  conversation(
    user,
    (ids) =>
      fc
        .tuple(
          fc.array(fc.oneof({ weight: 3, arbitrary: sealed }, shown, hosted), { maxLength: 2 }),
          fc.array(fc.oneof(textPart, refusal), { maxLength: 2 }),
          ...ids.map((id) => call(id, custom)),
        )
        .map(([thought, said, ...calls]) => [...thought, ...said, ...calls]),
    results,
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
      ...(available.length > 0 && { toolChoice: toolChoice(available.map((tool) => tool.name)) }),
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
            effort,
          },
        ),
      ),
      serviceTier: text,
      endUser: text,
    },
  ),
);
