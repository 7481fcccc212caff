/** Every value of a request reaches the model of an AI SDK provider, or a conversion reports it. */

import fc from "fast-check";
import { expect, it } from "vitest";
import type { ChatRequest } from "../../../src/index.ts";
import { encodeCall } from "../../../src/upstreams/ai-sdk/chat.ts";
import { traitsOf } from "../../../src/upstreams/ai-sdk/conversions.ts";
import { factsOf } from "../../properties/conversations/facts.ts";
import { FORMATS } from "../../properties/conversations/formats.ts";
import { fakeModel } from "./fake-models.ts";

type Key = string | number;

/** Keys that tell kinds apart, or decide how the model is called. */
const FIXED: ReadonlySet<Key> = new Set([
  "type",
  "role",
  "kind",
  "format",
  "model",
  "stream",
  "limitedByDefault",
  "maxAnswerTokens",
  "native",
]);

/** Yields each value of a request by its path, with another value for it. */
function* changes(value: unknown, at: readonly Key[] = []): Generator<readonly [at: readonly Key[], other: unknown]> {
  if (typeof value === "string") yield [at, value + value];
  else if (typeof value === "number") yield [at, value + 1];
  else if (typeof value === "boolean") yield [at, !value];
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (FIXED.has(key)) continue;
    const name = Array.isArray(value) ? Number(key) : key;
    yield* changes(inner, [...at, name]);
  }
}

function changed(value: unknown, [key, ...rest]: readonly Key[], other: unknown): unknown {
  if (key === undefined) return other;
  if (Array.isArray(value))
    return value.map((one: unknown, index) => (index === key ? changed(one, rest, other) : one));
  return { ...(value as object), [key]: changed(Reflect.get(value as object, key), rest, other) };
}

/** Lists the facts of only one of two requests, with the conversions that account for their loss. */
function differences(one: ChatRequest, other: ChatRequest): { key: string; fields: readonly string[] }[] {
  const [before, after] = [[...factsOf(one)], [...factsOf(other)]];
  const [said, meant] = [new Set(before.map(({ key }) => key)), new Set(after.map(({ key }) => key))];
  return [...before.filter(({ key }) => !meant.has(key)), ...after.filter(({ key }) => !said.has(key))];
}

/** A loss is reported by the field's own conversion, by that of a field around it, or as a part's signature. */
const isTold = (field: string, told: readonly string[]): boolean =>
  told.some((conversion) => conversion === field || field.startsWith(`${conversion}.`)) ||
  (field === "messages.reasoning" && told.includes("messages.signature"));

const PROVIDERS = ["anthropic.messages", "google.generative-ai", "openai.chat", "other.chat"];
const VERSIONS = ["v2", "v3", "v4"] as const;
const MODELS = PROVIDERS.flatMap((provider) => VERSIONS.map((version) => [provider, version] as const));

it.each(MODELS)("loses nothing in silence: %s, %s", (provider, version) => {
  const traits = traitsOf(fakeModel({ provider, version }), { "*/*": [/^https:/] });
  const encoded = (request: ChatRequest): { said: string; told: string[] } => {
    const { options, conversions } = encodeCall(request, traits, {});
    return { said: JSON.stringify(options), told: conversions.map(({ field }) => field) };
  };
  const conversation = fc.oneof(...FORMATS.map((format) => format.conversation));
  fc.assert(
    fc.property(conversation, (request) => {
      const before = encoded(request);
      for (const [at, other] of changes(request)) {
        const next = changed(request, at, other) as ChatRequest;
        const after = encoded(next);
        if (before.said !== after.said) continue;
        const told = [...before.told, ...after.told];
        const silent = differences(request, next).filter(({ fields }) => !fields.some((field) => isTold(field, told)));
        expect(silent.map(({ key }) => key)).toEqual([]);
      }
    }),
    { numRuns: 12, seed: 20_261_122 },
  );
});
