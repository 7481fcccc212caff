/** The arbitraries that the requests of both formats of OpenAI share. */

import fc from "fast-check";
import type { ChatMessage, JsonObject, Part, ToolChoice } from "../../src/index.ts";

export const text: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" }),
);
export const name: fc.Arbitrary<string> = fc.stringMatching(/^[a-z]\w{0,11}$/);
export const base64: fc.Arbitrary<string> = fc
  .uint8Array({ minLength: 1, maxLength: 9 })
  .map((bytes) => Buffer.from(bytes).toString("base64"));
export const json: fc.Arbitrary<JsonObject> = fc
  .dictionary(name, fc.oneof({ weight: 3, arbitrary: fc.jsonValue({ maxDepth: 0 }) }, fc.jsonValue({ maxDepth: 2 })), {
    maxKeys: 3,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
export const number = (min: number, max: number): fc.Arbitrary<number> =>
  // JSON has no -0.
  fc.double({ min, max, noNaN: true }).map((value) => value + 0);

/** An object of which some fields may be missing. */
export const record = <Required, Optional>(
  required: { [K in keyof Required]: fc.Arbitrary<Required[K]> },
  optional: { [K in keyof Optional]: fc.Arbitrary<Optional[K]> },
): fc.Arbitrary<Required & Partial<Optional>> =>
  fc
    .tuple(fc.record(required), fc.record(optional, { requiredKeys: [] }))
    .map(([a, b]) => ({ ...a, ...b }) as Required & Partial<Optional>);

export const kind = <const Word extends string>(word: Word): fc.Arbitrary<Word> => fc.constant(word);

export const textPart: fc.Arbitrary<Part & { type: "text" }> = fc.record({ type: kind("text"), text });
export const refusal: fc.Arbitrary<Part> = fc.record({ type: kind("refusal"), text });
export const audioPart: fc.Arbitrary<Part> = fc.record({
  type: kind("media"),
  kind: kind("audio"),
  source: fc.record({ type: kind("base64"), mediaType: fc.constantFrom("audio/mp3", "audio/wav"), data: base64 }),
});

const callsOf = (turn: number): string[] => [`call_${turn}a`, `call_${turn}b`];

/** Turns of both sides in turn; the results of two calls stand before what else the user says. */
export const conversation = (
  user: fc.Arbitrary<Part[]>,
  answer: (ids: readonly string[]) => fc.Arbitrary<Part[]>,
  results: (ids: readonly string[]) => fc.Arbitrary<Part[]>,
): fc.Arbitrary<ChatMessage[]> =>
  fc.integer({ min: 1, max: 5 }).chain((turns) =>
    fc.tuple(
      ...Array.from({ length: turns }, (_, turn): fc.Arbitrary<ChatMessage> => {
        if (turn === 0) return user.map((parts) => ({ role: "user", parts }));
        if (turn % 2 === 1) return answer(callsOf(turn)).map((parts) => ({ role: "assistant", parts }));
        return fc
          .tuple(results(callsOf(turn - 1)), fc.option(user, { nil: [] }))
          .map(([told, said]) => ({ role: "user", parts: [...told, ...said] }));
      }),
    ),
  );

export function toolChoice(names: readonly string[]): fc.Arbitrary<ToolChoice> {
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

export const effort: fc.Arbitrary<"minimal" | "low" | "medium" | "high" | "max"> = fc.constantFrom(
  "minimal",
  "low",
  "medium",
  "high",
  "max",
);
