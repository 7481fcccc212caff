/** Every request that the chat-completions format can say, without `native`. */

import fc from "fast-check";
import type { ChatMessage, ChatRequest, JsonObject, Part, Tool, ToolChoice } from "../../src/index.ts";
import { webUrl } from "./arbitraries.ts";

const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" }),
);
const name = fc.stringMatching(/^[a-z]\w{0,11}$/);
const base64 = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64"));
const json = fc.dictionary(
  name,
  fc.oneof({ weight: 3, arbitrary: fc.jsonValue({ maxDepth: 0 }) }, fc.jsonValue({ maxDepth: 2 })),
  { maxKeys: 3 },
) as fc.Arbitrary<JsonObject>;
const viaJson = json.map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);

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
const imagePart = record(
  {
    type: kind("media"),
    kind: kind("image"),
    source: fc.oneof(
      fc.record({ type: kind("base64"), mediaType: fc.constantFrom("image/png", "image/jpeg"), data: base64 }),
      fc.record({ type: kind("url"), url: webUrl }),
    ),
  },
  { detail: fc.constantFrom("low" as const, "high" as const, "auto" as const) },
);
const audioPart = fc.record({
  type: kind("media"),
  kind: kind("audio"),
  source: fc.record({ type: kind("base64"), mediaType: fc.constantFrom("audio/mp3", "audio/wav"), data: base64 }),
});
const documentPart = record(
  {
    type: kind("document"),
    source: fc.oneof(
      fc.record({ type: kind("base64"), mediaType: fc.constantFrom("application/pdf", "text/csv"), data: base64 }),
      fc.record({ type: kind("file"), id: name }),
    ),
  },
  { title: text },
);

const user: fc.Arbitrary<Part[]> = fc.array(fc.oneof(textPart, imagePart, audioPart, documentPart), {
  minLength: 1,
  maxLength: 3,
});
const results = (ids: readonly string[]): fc.Arbitrary<Part[]> =>
  fc.tuple(
    ...ids.map((callId) =>
      fc.record({
        type: kind("tool-result"),
        callId: fc.constant(callId),
        parts: fc.array(textPart, { maxLength: 2 }),
      }),
    ),
  );

const refusal = fc.record({ type: kind("refusal"), text });
const call = (id: string): fc.Arbitrary<Part> =>
  fc.record({ type: kind("tool-call"), id: fc.constant(id), name, input: viaJson });

/** Turns of both sides in turn; the results of calls stand before what else the user says. */
const messages: fc.Arbitrary<ChatMessage[]> = fc.integer({ min: 1, max: 5 }).chain((turns) =>
  fc.tuple(
    ...Array.from({ length: turns }, (_, turn): fc.Arbitrary<ChatMessage> => {
      const ids = [`call_${turn - (turn % 2)}a`, `call_${turn - (turn % 2)}b`];
      if (turn === 0) return user.map((parts) => ({ role: "user", parts }));
      if (turn % 2 === 1) {
        const asked = ids.map((id) => id.replace(String(turn - 1), String(turn)));
        const said = fc.array(fc.oneof(textPart, refusal), { maxLength: 2 });
        return fc
          .tuple(said, ...asked.map(call))
          .map(([first, ...calls]): ChatMessage => ({ role: "assistant", parts: [...first, ...calls] }));
      }
      const answered = ids.map((id) => id.replace(String(turn), String(turn - 1)));
      return fc
        .tuple(results(answered), fc.option(user, { nil: [] }))
        .map(([told, said]): ChatMessage => ({ role: "user", parts: [...told, ...said] }));
    }),
  ),
);

type NamedTool = Exclude<Tool, { type: "code-execution" }>;

const tools: fc.Arbitrary<NamedTool[]> = fc.uniqueArray(
  record({ type: kind("function"), name, inputSchema: viaJson }, { description: text, strict: fc.boolean() }),
  { selector: (tool) => tool.name, maxLength: 4 },
);

function toolChoice(available: readonly NamedTool[]): fc.Arbitrary<ToolChoice> {
  const names = available.flatMap((tool) => tool.name ?? []);
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

export const chatRequest: fc.Arbitrary<ChatRequest> = tools.chain((available) =>
  record(
    {
      // The names of known models change what is sent.
      model: text.map((name) => `m${name}`),
      messages,
      system: fc.array(textPart, { maxLength: 2 }),
      tools: fc.constant(available),
      maxOutputTokens: fc.integer({ min: 1, max: 100_000 }),
      stopSequences: fc.array(text, { maxLength: 4 }),
      stream: fc.boolean(),
    },
    {
      ...(available.length > 0 && { toolChoice: toolChoice(available) }),
      temperature: number(0, 2),
      topP: number(0, 1),
      presencePenalty: number(-2, 2),
      frequencyPenalty: number(-2, 2),
      seed: fc.maxSafeInteger(),
      candidateCount: fc.integer({ min: 1, max: 128 }),
      logprobs: fc.record({ top: fc.integer({ min: 0, max: 20 }) }),
      responseFormat: fc.oneof(
        fc.constant({ type: "json" as const }),
        record({ type: kind("json"), name }, { schema: viaJson, strict: fc.boolean() }),
      ),
      reasoning: fc.oneof(
        fc.constant({ type: "disabled" as const }),
        fc.record({
          type: kind("adaptive"),
          effort: fc.constantFrom(
            "minimal" as const,
            "low" as const,
            "medium" as const,
            "high" as const,
            "max" as const,
          ),
        }),
      ),
      serviceTier: text,
      endUser: text,
    },
  ).chain((request) =>
    fc.constantFrom(
      request,
      { ...request, modalities: ["text" as const] },
      { ...request, modalities: ["text" as const, "audio" as const], speech: { voice: "alloy" } },
    ),
  ),
);
